//! The files of the published evaluation cases: cases.csv and rows.parquet.

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int16Type, UInt8Type};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde::Deserialize;

use super::Failure;

/// One published case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Case {
    /// Its number.
    pub case: usize,
    /// The dataset behind it.
    pub dataset: String,
    /// The probability with which a reward is flipped.
    pub noise: f64,
    /// The temperature of the target policy.
    pub target_temperature: f64,
    /// The temperature of the logging policy.
    pub logging_temperature: f64,
    /// K.
    pub n_actions: usize,
    /// The number of rows.
    pub rows: usize,
    /// The target's expected reward.
    pub true_value: f64,
    /// Published relative radius of logarithmic smoothing.
    pub published_ls: f64,
    /// Of implicit exploration.
    pub published_ix: f64,
    /// Of the second-moment bound.
    pub published_second_moment: f64,
    /// Of empirical Bernstein.
    pub published_empirical_bernstein: f64,
    /// Of ESLB.
    pub published_eslb: f64,
}

/// The rows of one case.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows {
    /// The label of each row's example.
    pub labels: Vec<usize>,
    /// The logged action.
    pub actions: Vec<usize>,
    /// The reward.
    pub rewards: Vec<f64>,
}

/// Reads the cases with their rows.
///
/// # Errors
/// If a file cannot be read, or the two do not fit together.
pub fn load(directory: &Path) -> Result<Vec<(Case, Rows)>, Failure> {
    let path = directory.join("cases.csv");
    let named = |error: csv::Error| format!("{}: {error}", path.display());
    let mut reader = csv::Reader::from_path(&path).map_err(named)?;
    let cases: Vec<Case> = reader.deserialize().collect::<Result<_, _>>().map_err(named)?;
    if let Some((i, case)) = cases.iter().enumerate().find(|(i, case)| case.case != *i) {
        return Err(format!("{}: case {} is in the place of case {i}", path.display(), case.case).into());
    }
    let path = directory.join("rows.parquet");
    let rows = rows(&path, cases.len()).map_err(|error| format!("{}: {error}", path.display()))?;
    for (case, rows) in cases.iter().zip(&rows) {
        let in_range = |values: &[usize]| values.iter().all(|&value| value < case.n_actions);
        if rows.actions.len() != case.rows || !in_range(&rows.labels) || !in_range(&rows.actions) {
            let message = format!(
                "case {} has {} rows of {} and labels and actions below {}; download both files again",
                case.case,
                rows.actions.len(),
                case.rows,
                case.n_actions
            );
            return Err(format!("{}: {message}", path.display()).into());
        }
    }
    Ok(cases.into_iter().zip(rows).collect())
}

fn rows(path: &Path, cases: usize) -> Result<Vec<Rows>, Failure> {
    let mut all = vec![Rows::default(); cases];
    for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(path)?)?.build()? {
        let batch = batch?;
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| format!("no column {name}"));
        let bytes = |name: &str| -> Result<Vec<u8>, Failure> {
            let column = column(name)?.as_primitive_opt::<UInt8Type>();
            Ok(column.ok_or_else(|| format!("the column {name} is not uint8"))?.values().to_vec())
        };
        let case = column("case")?.as_primitive_opt::<Int16Type>().ok_or("the column case is not int16")?;
        let (labels, actions, rewards) = (bytes("label")?, bytes("action")?, bytes("reward")?);
        for (i, &case) in case.values().iter().enumerate() {
            let rows = usize::try_from(case).ok().and_then(|case| all.get_mut(case));
            let rows = rows.ok_or_else(|| format!("case {case} is not in cases.csv"))?;
            rows.labels.push(labels[i].into());
            rows.actions.push(actions[i].into());
            rows.rewards.push(f64::from(rewards[i].min(1)));
        }
    }
    Ok(all)
}
