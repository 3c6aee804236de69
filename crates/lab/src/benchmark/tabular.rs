//! Labelled tables as CSV: the last column is the label, the others are numbers or categories.

use std::collections::BTreeSet;
use std::path::Path;

use ndarray::Array2;

use super::Failure;

/// A labelled table.
pub struct Table {
    /// The file's name without its extension.
    pub name: String,
    /// The features: numbers as they are, categories as one column per value.
    pub x: Array2<f32>,
    /// The labels, numbered in the order of their names.
    pub labels: Vec<usize>,
    /// The number of labels.
    pub n_actions: usize,
}

/// Whether a cell has no value.
fn missing(cell: &str) -> bool {
    matches!(cell, "" | "?" | "NA" | "NaN" | "nan")
}

/// Reads a table. Missing values are 0, as numbers and as categories.
///
/// # Errors
/// If the file cannot be read, or has no features, no rows or one label only.
pub fn read(path: &Path) -> Result<Table, Failure> {
    let named = |message: &dyn std::fmt::Display| format!("{}: {message}", path.display());
    let mut reader = csv::Reader::from_path(path).map_err(|error| named(&error))?;
    let columns = reader.headers().map_err(|error| named(&error))?.len();
    let records: Vec<Vec<String>> = reader
        .records()
        .map(|record| Ok(record?.iter().map(|cell| cell.trim().to_string()).collect()))
        .collect::<Result<_, csv::Error>>()
        .map_err(|error| named(&error))?;
    if columns < 2 || records.is_empty() {
        return Err(
            named(&"a table needs a header, at least one feature and the label last, and rows").into()
        );
    }
    let names: BTreeSet<&str> = records.iter().map(|record| record[columns - 1].as_str()).collect();
    if names.len() < 2 {
        return Err(named(&"the last column is the label, and all rows have the same one").into());
    }
    let names: Vec<&str> = names.into_iter().collect();
    let label = |record: &Vec<String>| names.binary_search(&record[columns - 1].as_str()).unwrap_or(0);
    let mut features: Vec<Vec<f32>> = Vec::new();
    for c in 0..columns - 1 {
        let cells = || records.iter().map(|record| record[c].as_str());
        if cells().all(|cell| missing(cell) || cell.parse::<f32>().is_ok_and(f32::is_finite)) {
            features.push(
                cells().map(|cell| if missing(cell) { 0.0 } else { cell.parse().unwrap_or(0.0) }).collect(),
            );
            continue;
        }
        let values: BTreeSet<&str> = cells().filter(|cell| !missing(cell)).collect();
        features.extend(
            values.iter().map(|value| cells().map(|cell| f32::from(u8::from(cell == *value))).collect()),
        );
    }
    let x = Array2::from_shape_fn((records.len(), features.len()), |(i, j)| features[j][i]);
    Ok(Table {
        name: path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned()),
        labels: records.iter().map(label).collect(),
        n_actions: names.len(),
        x,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_and_categories_become_columns() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("small.csv");
        std::fs::write(&path, "a,b,class\n\n1.5,red,yes\n?,blue,no\n2, red ,yes\n").unwrap();
        let table = read(&path).unwrap();
        assert_eq!((table.name.as_str(), table.n_actions), ("small", 2));
        assert_eq!(table.labels, [1, 0, 1]);
        assert_eq!(table.x, ndarray::array![[1.5, 0.0, 1.0], [0.0, 1.0, 0.0], [2.0, 0.0, 1.0]]);
        std::fs::write(&path, "a,class\n1,x\n2,x\n").unwrap();
        assert!(read(&path).err().unwrap().to_string().contains("same one"));
    }
}
