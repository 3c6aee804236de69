//! NUS-WIDE as the Mulan library publishes it, in a small part of ARFF: `@attribute` lines, `@data`, then one
//! example per line with the image's name, p numbers, and K labels of 0 or 1, separated by commas. Any other
//! line is rejected with an error that names it.

use std::path::Path;

use ndarray::Array2;

use super::dataset::{Examples, Labels, normalize};
use super::files::{LoadError, for_each_line};

/// A file of examples with `p` features and `k` labels.
pub fn examples(path: &Path, p: usize, k: usize) -> Result<Examples, LoadError> {
    let (mut x, mut labels) = (Vec::new(), Labels::default());
    let (mut attributes, mut in_data) = (0, false);
    for_each_line(path, |_, line| {
        let line = line.trim();
        if line.is_empty() || line.starts_with('%') {
            return Ok(());
        }
        if in_data {
            labels.push(&example(line, p, k, &mut x)?);
            return Ok(());
        }
        let word = line.split_ascii_whitespace().next().unwrap_or("").to_ascii_lowercase();
        match word.as_str() {
            "@relation" => Ok(()),
            "@attribute" => {
                attributes += 1;
                Ok(())
            }
            "@data" if attributes == 1 + p + k => {
                in_data = true;
                Ok(())
            }
            "@data" => {
                Err(format!("has {attributes} attributes; expected a name, {p} features and {k} labels"))
            }
            _ => Err("is not @relation, @attribute or @data".into()),
        }
    })?;
    let n = labels.len();
    if n == 0 {
        return Err(LoadError::malformed(path, "has no examples"));
    }
    let mut x = Array2::from_shape_vec((n, p), x).expect("p numbers per example");
    normalize(&mut x);
    Ok(Examples { x, labels })
}

/// The labels of a line. Appends its features to `x`.
fn example(line: &str, p: usize, k: usize, x: &mut Vec<f32>) -> Result<Vec<u32>, String> {
    let fields: Vec<&str> = line.split(',').map(str::trim).collect();
    if fields.len() != 1 + p + k {
        return Err(format!("has {} fields; expected a name, {p} features and {k} labels", fields.len()));
    }
    for field in &fields[1..=p] {
        let value = field.parse::<f32>().ok().filter(|v| v.is_finite());
        x.push(value.ok_or_else(|| format!("{field:?} is not a finite number"))?);
    }
    let mut labels = Vec::new();
    for (label, field) in (0..).zip(&fields[1 + p..]) {
        match *field {
            "1" => labels.push(label),
            "0" => {}
            other => return Err(format!("{other:?} is neither 0 nor 1")),
        }
    }
    Ok(labels)
}
