//! Learning on logs of rare clicks, logged by a peaked policy: does `auto` deploy where an oracle does?

use std::collections::BTreeMap;

use guarantor_engine::certificate::Decision;
use guarantor_engine::control::unattended;
use guarantor_engine::error::{EngineError, Result};
use guarantor_engine::log::{Columns, Logging, MemoryLog};
use guarantor_engine::numerics::random::standard_normal;
use guarantor_engine::policy::{FeatureMap, PolicyParams, pick};
use guarantor_engine::spec::{Candidate, ExploreRequest, SpecRequest};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{DELTA, FIRST_SEED, Failure, Headline, Section, Settings, mean};
use crate::table::{markdown, number};
use crate::trial::{Trial, evaluation};

const FEATURES: usize = 6;
const ROWS: usize = 40_000;
const QUICK_ROWS: usize = 4_000;
const SEEDS: u64 = 3;
/// Contexts on which true improvements are measured.
const TRUTH: usize = 20_000;

/// K and the reward of a typical action, which is below 1/K.
const WORLDS: [(usize, f64); 6] = [(5, 0.04), (5, 0.1), (10, 0.03), (10, 0.05), (20, 0.02), (20, 0.03)];

/// A click on action a has the probability σ(base + x·θ_a).
struct ClickWorld {
    k: usize,
    base: f64,
    /// θ, and the taste of the logging policy: one row per feature.
    theta: Vec<Vec<f64>>,
    taste: Vec<Vec<f64>>,
}

impl ClickWorld {
    fn new(k: usize, level: f64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let scale = 0.9 / (FEATURES as f64).sqrt();
        let mut table = |scale: f64| -> Vec<Vec<f64>> {
            (0..FEATURES).map(|_| (0..k).map(|_| scale * standard_normal(&mut rng)).collect()).collect()
        };
        let (theta, other) = (table(scale), table(scale));
        // The logging policy knows some of it.
        let mixed = |(t, o): (&Vec<f64>, &Vec<f64>)| t.iter().zip(o).map(|(t, o)| 0.3 * t + o).collect();
        let taste = theta.iter().zip(&other).map(mixed).collect();
        ClickWorld { k, base: (level / (1.0 - level)).ln(), theta, taste }
    }

    fn score(table: &[Vec<f64>], x: &[f64], a: usize) -> f64 {
        x.iter().zip(table).map(|(x, row)| x * row[a]).sum()
    }

    fn reward(&self, x: &[f64], a: usize) -> f64 {
        1.0 / (1.0 + (-(self.base + Self::score(&self.theta, x, a))).exp())
    }

    /// A peaked softmax with 5 % of exploration.
    fn logging(&self, x: &[f64]) -> Vec<f64> {
        let exps: Vec<f64> = (0..self.k).map(|a| (4.0 * Self::score(&self.taste, x, a)).exp()).collect();
        let total: f64 = exps.iter().sum();
        exps.iter().map(|e| 0.05 / self.k as f64 + 0.95 * e / total).collect()
    }

    /// The best policy, which is linear: it plays the largest x·θ_a.
    fn oracle(&self) -> PolicyParams {
        let (mean, features) = (self.theta.clone(), FeatureMap::default());
        PolicyParams::Softmax { mean, inverse_temperature: 100.0, features }
    }

    fn context(rng: &mut ChaCha8Rng) -> Vec<f64> {
        // Policies see features in single precision.
        (0..FEATURES).map(|_| f64::from(standard_normal(rng) as f32)).collect()
    }

    fn log(&self, rows: usize, seed: u64) -> Result<MemoryLog> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut columns = Columns {
            n_actions: self.k,
            dim: FEATURES,
            full: Some(Vec::new()),
            logging: Logging::Fixed,
            ..Columns::default()
        };
        for _ in 0..rows {
            let x = Self::context(&mut rng);
            let pi = self.logging(&x);
            let action = pick(pi.iter().copied(), rng.random());
            columns.x.extend(x.iter().map(|&v| v as f32));
            columns.actions.push(action as u32);
            columns.costs.push(-f64::from(u8::from(rng.random::<f64>() < self.reward(&x, action))));
            columns.propensities.push(pi[action]);
            columns.full.iter_mut().for_each(|full| full.extend(&pi));
        }
        MemoryLog::new(columns)
    }

    /// The improvement of a policy over the logging policy, on contexts of its own.
    fn improvement(&self, policy: &PolicyParams, seed: u64) -> Result<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(7);
        let contexts: Vec<Vec<f64>> = (0..TRUTH).map(|_| Self::context(&mut rng)).collect();
        let flat: Vec<f32> = contexts.iter().flatten().map(|&v| v as f32).collect();
        let x = ndarray::Array2::from_shape_vec((TRUTH, FEATURES), flat).expect("rows × features");
        let pi = policy.propensities(x.view())?;
        Ok(mean(contexts.iter().enumerate().map(|(i, x)| {
            let logging = self.logging(x);
            (0..self.k).map(|a| (pi[(i, a)] - logging[a]) * self.reward(x, a)).sum::<f64>()
        })))
    }
}

/// One log.
struct LogResult {
    oracle: (f64, bool),
    auto: (f64, bool),
    truth: f64,
    best: f64,
}

fn one(world: &ClickWorld, name: &str, rows: usize, seed: u64) -> Result<LogResult> {
    let (control, log) = (unattended(), world.log(rows, seed)?);
    let policies = BTreeMap::from([("oracle".to_string(), world.oracle())]);
    let trial = Trial { policies: &policies, ..Trial::simulated(&log, name, seed)? };
    let oracle = evaluation(vec![Candidate::Policy { policy_id: "oracle".into() }]);
    let learn = SpecRequest { explore: Some(ExploreRequest::Share(0.0)), ..SpecRequest::default() };
    let run = |request: SpecRequest| trial.run(&SpecRequest { delta: Some(DELTA), ..request }, &control);
    let (oracle, auto) = (run(oracle)?.certificate, run(learn)?);
    let missing = || EngineError::Log("the evidence has no policy".into());
    let says = |improvement: f64, decision: Decision| (improvement, decision == Decision::Deploy);
    Ok(LogResult {
        oracle: says(oracle.guaranteed_improvement, oracle.decision),
        auto: says(auto.certificate.guaranteed_improvement, auto.certificate.decision),
        truth: world.improvement(auto.evidence.policy().ok_or_else(missing)?, seed)?,
        best: world.improvement(&policies["oracle"], seed)?,
    })
}

/// Runs the part.
pub fn run(settings: &Settings, progress: &(dyn Fn(&str) + Sync)) -> Result<Section, Failure> {
    let (rows, seeds) = if settings.quick { (QUICK_ROWS, 1) } else { (ROWS, SEEDS) };
    let worlds = if settings.quick { &WORLDS[2..3] } else { &WORLDS[..] };
    let head = [
        "world",
        "oracle deploys",
        "`auto` deploys",
        "guaranteed, oracle",
        "guaranteed, `auto`",
        "true, `auto`",
        "true, oracle",
    ];
    let mut cells = vec![head.map(String::from).to_vec()];
    let (mut where_it_does, mut followed, mut wrong) = (0, 0, 0);
    for (w, &(k, level)) in worlds.iter().enumerate() {
        let world = ClickWorld::new(k, level, FIRST_SEED + w as u64);
        let name = format!("K = {k}, rewards around {level}");
        let mut logs = Vec::new();
        for seed in FIRST_SEED..FIRST_SEED + seeds {
            logs.push(one(&world, &name, rows, seed)?);
        }
        let count = |of: &dyn Fn(&LogResult) -> bool| logs.iter().filter(|log| of(log)).count();
        let (oracle, auto) = (count(&|log| log.oracle.1), count(&|log| log.auto.1));
        // A world counts if most of its logs do.
        let most = |count: usize| 2 * count > logs.len();
        where_it_does += usize::from(most(oracle));
        followed += usize::from(most(oracle) && most(auto));
        wrong += count(&|log| log.auto.0 > log.truth + 0.002);
        let show = |of: &dyn Fn(&LogResult) -> f64| number(&format!("{:.4}", mean(logs.iter().map(of))));
        cells.push(vec![
            name.clone(),
            format!("{oracle} of {}", logs.len()),
            format!("{auto} of {}", logs.len()),
            show(&|log| log.oracle.0),
            show(&|log| log.auto.0),
            show(&|log| log.truth),
            show(&|log| log.best),
        ]);
        progress(&format!("clicks: {name}"));
    }
    let text = format!(
        "Clicks are rare, σ(b + x·θ_a) with {FEATURES} features, and a peaked policy that knows some of it logged {rows} \
         decisions, 5 % of them at random. The oracle is the best policy of the world, which is linear as those that `auto` \
         learns, certified as a given policy on all rows. Seeds {FIRST_SEED} to {}; δ = {DELTA}, `explore: 0`, \
         `logging=fixed`. `auto` must learn the policy from a part of the same rows.\n\n{}\nThe guaranteed improvement \
         exceeds the true one (known to about 0.001) by more than 0.002 in {wrong} logs.\n",
        FIRST_SEED + seeds - 1,
        markdown(&cells)
    );
    Ok(Section {
        heading: "Learning on logs of rare clicks".into(),
        text,
        headlines: vec![Headline {
            what: "click-like worlds: deploys in most logs where an oracle does".into(),
            value: format!("{followed} of {where_it_does}"),
            compared: "the oracle knows the best policy".into(),
        }],
        figures: Vec::new(),
    })
}
