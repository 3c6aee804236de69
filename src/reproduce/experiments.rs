//! Runs the figures' jobs through the engine's one door, as the service does, and measures on the test
//! set what each policy really does. A job that several figures show is run once.

use std::collections::BTreeMap;
use std::time::Instant;

use super::lines::{Line, Promise, of_figure};
use super::related;
use super::rows::Row;
use super::{Bandit, Examples, Logger, Supervised, rewards};
use crate::engine::certificate::Decision;
use crate::engine::control::Control;
use crate::engine::error::{EngineError, Result};
use crate::engine::log::LogSource;
use crate::engine::policy::PolicyParams;
use crate::engine::spec::{PolicyShape, SpecContext};
use crate::engine::{Inputs, run};

#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    pub alphas: Vec<f64>,
    pub seeds: Vec<u64>,
    pub figures: Vec<u8>,
    /// m of figure 3.
    pub interactions: Vec<usize>,
    /// Log only so many contexts.
    pub contexts: Option<usize>,
}

/// One job, whichever figures show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    interactions: usize,
    line: Line,
    promise: Promise,
}

impl Plan {
    fn interactions_of(&self, figure: u8) -> &[usize] {
        if figure == 3 { &self.interactions } else { &[1] }
    }

    /// (figure, job) for all figures, in their order.
    fn shown(&self) -> Vec<(u8, Job)> {
        let mut shown = Vec::new();
        for &figure in &self.figures {
            for &interactions in self.interactions_of(figure) {
                let jobs = of_figure(figure).into_iter();
                shown.extend(jobs.map(|(line, promise)| (figure, Job { interactions, line, promise })));
            }
        }
        shown
    }

    /// The jobs of one log family (a seed, an α), by the log that they need.
    fn jobs(&self) -> Vec<Job> {
        let mut jobs: Vec<Job> = self.shown().into_iter().map(|(_, job)| job).collect();
        jobs.sort();
        jobs.dedup();
        jobs
    }

    /// How many jobs there are in all.
    pub fn len(&self) -> usize {
        self.jobs().len() * self.alphas.len() * self.seeds.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs everything. `begin` is told of each job before it starts.
    pub fn run(&self, data: &Supervised, control: &Control, begin: &dyn Fn(&str)) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for &seed in &self.seeds {
            let logger = Logger::train(data, seed);
            for &alpha in &self.alphas {
                let done = self.at(data, &logger, (seed, alpha), control, begin)?;
                let of = |(figure, job): (u8, Job)| done.get(&job).map(|row| Row { figure, ..row.clone() });
                rows.extend(self.shown().into_iter().filter_map(of));
            }
        }
        rows.sort_by_key(|row| row.figure);
        Ok(rows)
    }

    fn at(
        &self,
        data: &Supervised,
        logger: &Logger,
        (seed, alpha): (u64, f64),
        control: &Control,
        begin: &dyn Fn(&str),
    ) -> Result<BTreeMap<Job, Row>> {
        let truth = Truth::new(&logger.policy(alpha), &data.test)?;
        let mut done = BTreeMap::new();
        let mut bandit: Option<(usize, Bandit)> = None;
        for job in self.jobs() {
            let m = job.interactions;
            begin(&format!("seed {seed}, α = {alpha}, m = {m}: {}", job.line.name()));
            let bandit = match bandit.take().filter(|(of, _)| *of == m) {
                Some(same) => bandit.insert(same),
                None => bandit.insert((m, logger.log(alpha, m, self.contexts)?)),
            };
            let start = Instant::now();
            let promised = promise(job, &bandit.1, truth.logging_risk(), seed, control)?;
            let seconds = start.elapsed().as_secs_f64();
            let (true_improvement, test_error) = truth.improvement(&promised.policy)?;
            let row = Row {
                figure: 0,
                dataset: data.name.clone(),
                line: job.line,
                promise: job.promise,
                alpha,
                interactions: m,
                seed,
                contexts: bandit.1.log.shape().contexts,
                logging_risk: truth.logging_risk(),
                promised_risk: promised.risk,
                promised_improvement: promised.improvement,
                true_risk: truth.logging_risk() - true_improvement,
                true_improvement,
                test_error,
                decision: promised.decision,
                seconds,
            };
            done.insert(job, row);
        }
        Ok(done)
    }
}

struct Promised {
    policy: PolicyParams,
    risk: f64,
    improvement: f64,
    decision: Option<Decision>,
}

fn promise(job: Job, bandit: &Bandit, logging_risk: f64, seed: u64, control: &Control) -> Result<Promised> {
    let Bandit { log, logging_policy } = bandit;
    if let Some(principle) = job.line.related() {
        let tau = 1.0 / log.shape().n_actions as f64;
        let chosen = related::learn(principle, log, logging_policy, tau, seed, control)?;
        return Ok(Promised {
            policy: chosen.policy,
            risk: chosen.promised_risk,
            improvement: chosen.logged_risk - chosen.promised_risk,
            decision: None,
        });
    }
    let shape = PolicyShape {
        kind: logging_policy.kind(),
        n_actions: logging_policy.n_actions(),
        dim: logging_policy.dim(),
    };
    let context = SpecContext { shape: log.shape(), logging_policy: Some(shape), policy: &|_| None };
    let spec = job.line.request(job.promise, logging_risk, seed).resolve(&context)?;
    let inputs = Inputs {
        log,
        logging_policy: Some(logging_policy),
        policies: &BTreeMap::new(),
        dataset_version: 1,
        dataset_digest: "",
    };
    let finished = run(&spec, &inputs, control)?;
    let missing = || EngineError::Log("the certificate came without its policy".into());
    Ok(Promised {
        risk: finished.certificate.guaranteed_risk,
        improvement: finished.certificate.guaranteed_improvement,
        decision: Some(finished.certificate.decision),
        policy: finished.evidence.policy.ok_or_else(missing)?,
    })
}

/// The test set, and what π0 does on each of its examples.
struct Truth<'a> {
    test: &'a Examples,
    logging: Vec<f64>,
}

impl<'a> Truth<'a> {
    fn new(logging_policy: &PolicyParams, test: &'a Examples) -> Result<Self> {
        Ok(Truth { test, logging: rewards(logging_policy, test)? })
    }

    fn logging_risk(&self) -> f64 {
        -self.logging.iter().sum::<f64>() / self.logging.len() as f64
    }

    /// R(π0) − R(π), and its standard error: examples are paired, so that it is the difference's own.
    fn improvement(&self, policy: &PolicyParams) -> Result<(f64, f64)> {
        let n = self.logging.len() as f64;
        let gains: Vec<f64> =
            rewards(policy, self.test)?.iter().zip(&self.logging).map(|(new, old)| new - old).collect();
        let mean = gains.iter().sum::<f64>() / n;
        let squares: f64 = gains.iter().map(|g| (g - mean) * (g - mean)).sum();
        Ok((mean, (squares / (n * (n - 1.0).max(1.0))).sqrt()))
    }
}
