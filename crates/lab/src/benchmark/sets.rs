//! Learning on logs whose rows have their own actions: the simulated news site, with a fixed logging policy and with one
//! that is retrained on its own log.

use std::ops::Range;

use guarantor_engine::control::unattended;
use guarantor_engine::error::{EngineError, Result};
use guarantor_engine::log::{
    ActionSets, Columns, FeatureSpace, MAX_HASH_DIMS, MemoryLog, Outcome, Sets, Span,
};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{ExploreRequest, SpecRequest};
use guarantor_ingest::news::News;

use super::{DELTA, FIRST_SEED, Failure, Headline, Section, Settings, mean};
use crate::table::{markdown, number};
use crate::trial::Trial;

const WORLDS: u64 = 6;
const ROWS: [usize; 3] = [10_000, 40_000, 200_000];
/// Retrained logs: how many, and of which size.
const RETRAINED: (u64, usize) = (100, 10_000);
const QUICK: (u64, usize) = (2, 2_000);

const SPACE: FeatureSpace = FeatureSpace::Named { dim: MAX_HASH_DIMS as u32 };

/// A simulated log with its truth.
struct Simulated {
    log: MemoryLog,
    /// The probability of a click on every action of every row, and the logging policy's.
    clicks: Vec<Vec<f64>>,
    logging: Vec<f64>,
}

fn simulated(world: u64, seed: u64, rows: usize, retrain: usize) -> Result<Simulated> {
    let mut news = News::new(world, seed);
    let (mut sets, mut full) = (Sets::default(), Vec::new());
    let (mut clicks, mut logging) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
    let set_features = ActionSets { x: SPACE, actions: SPACE };
    let mut columns = Columns { set_features, outcome: Outcome::default(), ..Columns::default() };
    for row in 0..rows {
        if retrain > 0 && row > 0 && row.is_multiple_of(rows.div_ceil(retrain + 1)) {
            news.retrain();
        }
        let request = news.request();
        news.learn(&request);
        request.push_into(&mut sets, set_features);
        columns.actions.push(request.action);
        columns.costs.push(-request.reward);
        columns.propensities.push(request.propensities[request.action as usize]);
        logging.push(request.propensities.iter().zip(&request.clicks).map(|(p, c)| p * c).sum());
        full.extend(request.propensities);
        clicks.push(request.clicks);
    }
    columns.n_actions = sets.largest();
    (columns.sets, columns.full) = (Some(sets), Some(full));
    Ok(Simulated { log: MemoryLog::new(columns)?, clicks, logging })
}

impl Simulated {
    /// The mean improvement of a policy over the logging policies that were in place at some rows.
    fn improvement(&self, policy: &PolicyParams, rows: Range<usize>) -> Result<f64> {
        use guarantor_engine::log::LogSource;
        let mut sum = 0.0;
        for index in 0..self.log.chunks() {
            let chunk = self.log.chunk(index)?;
            let pi = policy.propensities(chunk.situations())?;
            for (c, pi) in pi.rows().into_iter().enumerate() {
                let row = chunk.arrivals[c] as usize;
                if rows.contains(&row) {
                    let played: f64 = self.clicks[row].iter().zip(pi).map(|(c, p)| c * p).sum();
                    sum += played - self.logging[row];
                }
            }
        }
        Ok(sum / rows.len() as f64)
    }

    /// What the best policy gains over the logging policy.
    fn ceiling(&self) -> f64 {
        let best = |clicks: &Vec<f64>| clicks.iter().copied().fold(0.0, f64::max);
        mean(self.clicks.iter().zip(&self.logging).map(|(clicks, logging)| best(clicks) - logging))
    }
}

/// What was certified for the learned policy, and what is true on the certified rows.
struct LogResult {
    certified: f64,
    truth: f64,
    ceiling: f64,
}

fn one(world: u64, seed: u64, rows: usize, retrain: usize) -> Result<LogResult> {
    let simulated = simulated(world, seed, rows, retrain)?;
    let trial = Trial::simulated(&simulated.log, &format!("news {world} {rows} {retrain}"), seed)?;
    let explore = Some(ExploreRequest::Share(0.0));
    let request = SpecRequest { delta: Some(DELTA), explore, ..SpecRequest::default() };
    let finished = trial.run(&request, &unattended())?;
    let missing = || EngineError::Log("the evidence has no policy".into());
    let policy = finished.evidence.policy().ok_or_else(missing)?;
    let first = match finished.certificate.certified.as_ref().map(|certified| &certified.span) {
        Some(Span::Time { first_certified_row, .. }) => *first_certified_row as usize,
        _ => 0,
    };
    Ok(LogResult {
        certified: finished.certificate.guaranteed_improvement,
        truth: simulated.improvement(policy, first..rows)?,
        ceiling: simulated.ceiling(),
    })
}

/// Runs the part.
pub fn run(settings: &Settings, progress: &(dyn Fn(&str) + Sync)) -> Result<Section, Failure> {
    let worlds = FIRST_SEED..FIRST_SEED + if settings.quick { 1 } else { WORLDS };
    let sizes = if settings.quick { &[QUICK.1][..] } else { &ROWS[..] };
    let head = [
        "requests",
        "guaranteed",
        "true",
        "ceiling",
        "guaranteed share of the ceiling",
        "guaranteed above true",
    ];
    let mut cells = vec![head.map(String::from).to_vec()];
    let mut shares = Vec::new();
    let mut line = |name: String, logs: &[LogResult]| {
        let show = |of: &dyn Fn(&LogResult) -> f64| number(&format!("{:.4}", mean(logs.iter().map(of))));
        let share = mean(logs.iter().map(|log| log.certified / log.ceiling));
        shares.push(share);
        let above = logs.iter().filter(|log| log.certified > log.truth).count();
        cells.push(vec![
            name,
            show(&|log| log.certified),
            show(&|log| log.truth),
            show(&|log| log.ceiling),
            number(&format!("{share:.2}")),
            format!("{above} of {}", logs.len()),
        ]);
    };
    for &rows in sizes {
        let mut logs = Vec::new();
        for world in worlds.clone() {
            logs.push(one(world, FIRST_SEED, rows, 0)?);
            progress(&format!("sets: world {world}, {rows} requests"));
        }
        line(rows.to_string(), &logs);
    }
    let (count, rows) = if settings.quick { QUICK } else { RETRAINED };
    let mut logs = Vec::new();
    for seed in FIRST_SEED..FIRST_SEED + count {
        logs.push(one(seed, seed, rows, 1)?);
    }
    progress("sets: retrained");
    line(format!("{rows}, retrained after half"), &logs);
    let text = format!(
        "The news site of `guarantor simulate --dataset news`: every request has 3 to 15 articles with features of their \
         own. `auto` learns on the first half and certifies on the rest, with no option but \
         `explore: 0`; δ = {DELTA}. The ceiling is what the best possible policy gains over the logging policy. Worlds \
         {} to {}, seed {FIRST_SEED}; the retrained logs have a world and a seed each.\n\n{}\n\
         docs/performance.md compares with Vowpal Wabbit on the same logs.\n",
        worlds.start,
        worlds.end - 1,
        markdown(&cells)
    );
    let at = |i: usize| shares.get(i).copied().unwrap_or(0.0);
    Ok(Section {
        heading: "Learning over action sets".into(),
        text,
        headlines: vec![Headline {
            what: format!(
                "action sets: guaranteed share of the ceiling at {} requests",
                sizes[sizes.len() / 2]
            ),
            value: format!("{:.2}", at(sizes.len() / 2)),
            compared: "1: the best possible policy, known".into(),
        }],
        figures: Vec::new(),
    })
}
