//! Multi-label text: one example per line, `label,label index:value index:value …`. A line that begins with
//! a space is an example without labels.
//!
//! There are two dialects, distinguished by the first line. Files of the Extreme Classification Repository
//! begin with `n p K` and count features from 0. Files in svmlight format (LIBSVM's pages) have no such line
//! and count features from 1. Labels count from 0 in both. Indices ascend within a line. A line that does not
//! fit is rejected with an error that names it.

use std::path::Path;

use ndarray::Array2;

use super::dataset::{Examples, Labels, PaperDataset, normalize};
use super::files::{LoadError, Shelf, for_each_line};

/// Reads one file each for training and test, or one file of all examples with two files of indices.
pub fn load(shelf: &Shelf, which: PaperDataset) -> Result<(Examples, Examples), LoadError> {
    let (p, k) = (which.dim(), which.n_actions());
    let (all, train, test): (&[&str], &[&str], &[&str]) = match which {
        PaperDataset::Mediamill => (
            &["Mediamill_data.txt", "mediamill_data.txt"],
            &["train-exp1.svm", "mediamill_train.txt"],
            &["test-exp1.svm", "mediamill_test.txt"],
        ),
        _ => (
            &["nus-wide-128_data.txt"],
            &["nus-wide-128_train.txt", "nus-wide-128_train.svm"],
            &["nus-wide-128_test.txt", "nus-wide-128_test.svm"],
        ),
    };
    let Ok(all) = shelf.find(all) else {
        let missing = |error: LoadError| error.or(all);
        let (train, test) = (shelf.find(train).map_err(missing)?, shelf.find(test)?);
        return Ok((examples(&train, p, k)?, examples(&test, p, k)?));
    };
    let stem = if which == PaperDataset::Mediamill { "mediamill" } else { "nus-wide-128" };
    let split = |part: &str| shelf.find(&[&format!("{stem}_{part}Split.txt")]);
    let (train, test) = (split("tr")?, split("tst")?);
    let all = examples(&all, p, k)?;
    let mut taken = vec![false; all.len()];
    let train = indices(&train, &mut taken)?;
    let test = indices(&test, &mut taken)?;
    Ok((all.select(&train), all.select(&test)))
}

/// A file of examples with `p` features and `k` labels.
fn examples(path: &Path, p: usize, k: usize) -> Result<Examples, LoadError> {
    let (mut x, mut labels) = (Vec::new(), Labels::default());
    let (mut first_index, mut announced) = (1, None);
    for_each_line(path, |number, line| {
        if let Some(header) = header(line).filter(|_| number == 1) {
            let [n, features, actions] = header;
            if (features, actions) != (p, k) {
                return Err(format!("has {features} features and {actions} labels; expected {p} and {k}"));
            }
            (first_index, announced) = (0, Some(n));
            return Ok(());
        }
        let start = x.len();
        x.resize(start + p, 0.0);
        labels.push(&example(line, first_index, k, &mut x[start..])?);
        Ok(())
    })?;
    let n = labels.len();
    if n == 0 {
        return Err(LoadError::malformed(path, "has no examples"));
    }
    if let Some(announced) = announced.filter(|&announced| announced != n) {
        let message = format!("has {n} examples, but its first line says {announced}");
        return Err(LoadError::malformed(path, message));
    }
    let mut x = Array2::from_shape_vec((n, p), x).expect("p numbers per example");
    normalize(&mut x);
    Ok(Examples { x, labels })
}

/// The numbers of a line `n p K`; None for any other line.
fn header(line: &str) -> Option<[usize; 3]> {
    let mut numbers = line.split_ascii_whitespace().map(|word| word.parse().ok());
    let header = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(header)
}

/// The labels of a line, ascending. Writes its features into `x`.
fn example(line: &str, first_index: usize, k: usize, x: &mut [f32]) -> Result<Vec<u32>, String> {
    let mut words = line.split_ascii_whitespace().peekable();
    let mut labels = match words.next_if(|word| !word.contains(':')) {
        Some(_) if line.starts_with(char::is_whitespace) => {
            return Err("begins with a space, so it has no labels, but index:value does not follow".into());
        }
        Some(word) => labels(word, k)?,
        None => Vec::new(),
    };
    labels.sort_unstable();
    if let Some(pair) = labels.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("duplicate label {}", pair[0]));
    }
    let mut before = None;
    for word in words {
        let (index, value) = word.split_once(':').ok_or_else(|| format!("{word:?} is not index:value"))?;
        let index: usize = index.parse().map_err(|_| format!("{index:?} is not a feature index"))?;
        let last = x.len() - 1 + first_index;
        if index < first_index || index > last {
            return Err(format!("feature {index} is not in [{first_index}, {last}]"));
        }
        if let Some(before) = before.filter(|&before| index <= before) {
            return Err(format!("feature {index} follows {before}; indices must ascend"));
        }
        let number: f32 = value.parse().map_err(|_| format!("{value:?} is not a number"))?;
        if !number.is_finite() {
            return Err(format!("feature {index} is {value}, which is not finite"));
        }
        x[index - first_index] = number;
        before = Some(index);
    }
    Ok(labels)
}

fn labels(word: &str, k: usize) -> Result<Vec<u32>, String> {
    let label = |text: &str| match text.parse::<u32>() {
        Ok(label) if (label as usize) < k => Ok(label),
        Ok(label) => Err(format!("label {label} is not below {k}")),
        Err(_) => Err(format!("{text:?} is not a label")),
    };
    word.split(',').map(label).collect()
}

/// The examples that a split file lists in its first column, counted from 1. No example may be listed twice.
fn indices(path: &Path, taken: &mut [bool]) -> Result<Vec<usize>, LoadError> {
    let mut order = Vec::new();
    for_each_line(path, |_, line| {
        let word = line.split_ascii_whitespace().next().unwrap_or_default();
        let n = taken.len();
        let at = word.parse::<usize>().ok().filter(|at| (1..=n).contains(at));
        let at = at.ok_or_else(|| format!("{word:?} is not an example number from 1 to {n}"))? - 1;
        if std::mem::replace(&mut taken[at], true) {
            return Err(format!("example {} is already in the split", at + 1));
        }
        order.push(at);
        Ok(())
    })?;
    match order.is_empty() {
        true => Err(LoadError::malformed(path, "has no examples")),
        false => Ok(order),
    }
}
