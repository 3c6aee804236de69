//! Rows and recipes of the tests of this module.

use std::collections::BTreeMap;

use super::{FreezeRequest, Recipe};
use crate::control::unattended;
use crate::inputs::Inputs;
use crate::log::{Columns, LogSource, MemoryLog, PrecisionFinder};
use crate::numerics::kernels::noise;
use crate::spec::{Candidate, SpecContext, SpecRequest};

/// Rows with the propensities of logged actions alone. Some weights are very large or 0.
pub(crate) fn logged_columns(rows: usize, k: usize, single: bool) -> Columns {
    let [a, b, c, d] = [1, 2, 3, 4].map(|salt| noise(rows, salt));
    let written = |p: f64| if single { f64::from(p as f32) } else { p };
    let mut columns = Columns { n_actions: k, ..Columns::default() };
    let mut played = Vec::new();
    for i in 0..rows {
        let rare = if i % 97 == 5 { 1e-9 } else { 1.0 };
        columns.actions.push(((a[i] + 1.0) / 2.0 * k as f64) as u32);
        columns.propensities.push(written((0.5 + 0.4999 * b[i]) * rare));
        played.push(if i % 13 == 3 { 0.0 } else { written(0.5 + 0.5 * c[i]) });
        columns.costs.push(if i % 3 == 1 { 0.0 } else { -(0.5 + 0.5 * d[i]) });
    }
    if rows > 100 {
        columns.propensities[50] = 1.0;
        columns.propensities[51] = 1.0;
        columns.costs[52] = -1.0;
    }
    let mut finder = PrecisionFinder::default();
    finder.see_all(&columns.propensities);
    columns.precision = finder.finish();
    columns.candidate_precision = vec![columns.precision];
    columns.candidates = vec![("new".into(), played)];
    columns.timestamps = Some((0..rows as i64).map(|i| 1_000_000 + i).collect());
    columns
}

/// A recipe that was frozen on such rows.
pub(super) fn recipe_of(k: usize, single: bool) -> Recipe {
    let mut columns = logged_columns(400, k, single);
    columns.timestamps = Some((0..400).collect());
    let log = MemoryLog::new(columns).unwrap();
    let request = SpecRequest {
        candidates: Some(vec![Candidate::Logged { name: "new".into() }]),
        independent_of_log: Some(true),
        ..SpecRequest::default()
    };
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: None,
        policy: &|_| None,
        seen_rows: 0,
        caller: "test",
    };
    let spec = request.resolve(&context).unwrap();
    let policies = BTreeMap::new();
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:test",
        log_checks: None,
    };
    let request = FreezeRequest { spec: &spec, planned_rows: None, sketch: None };
    Recipe::freeze(&inputs, &request, &unattended()).unwrap()
}
