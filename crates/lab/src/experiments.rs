//! Runs the jobs of the figures through the engine's entry point, as the service does, and measures the true
//! risk of each policy on the test set. A job that several figures show is run once.

use std::collections::BTreeMap;
use std::time::Instant;

use super::lines::{Line, Promise, of_figure};
use super::related::{self, Parts, Principle};
use super::rows::Row;
use super::{Bandit, Examples, Logger, Supervised, rewards};
use guarantor_engine::baseline::mean_cost;
use guarantor_engine::certificate::{Decision, Evidence};
use guarantor_engine::control::{Control, TerminationReason};
use guarantor_engine::error::{EngineError, Result};
use guarantor_engine::log::{LogSource, Side, Span, Split};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{PolicyShape, SpecContext};
use guarantor_engine::{Finished, Inputs, run};

/// What to run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The inverse temperatures of the logging policy.
    pub alphas: Vec<f64>,
    /// The seeds, one repetition each.
    pub seeds: Vec<u64>,
    /// The figures.
    pub figures: Vec<u8>,
    /// The values of m in figure 3.
    pub interactions: Vec<usize>,
    /// Log only this many contexts.
    pub contexts: Option<usize>,
}

/// One job, even if several figures show it.
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

    /// All pairs of figure and job, in order.
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

    /// The jobs for one seed and α, sorted by the log that they need.
    fn jobs(&self) -> Vec<Job> {
        let mut jobs: Vec<Job> = self.shown().into_iter().map(|(_, job)| job).collect();
        jobs.sort();
        jobs.dedup();
        jobs
    }

    /// The total number of jobs.
    pub fn len(&self) -> usize {
        self.jobs().len() * self.alphas.len() * self.seeds.len()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Runs everything. `begin` is called before each job with the share of the work that is done. `have`
    /// gets all rows so far after each α of each seed, so that an interrupted run keeps its results.
    ///
    /// # Errors
    /// If a job fails or `have` does.
    pub fn run<E: From<EngineError>>(
        &self,
        data: &Supervised,
        control: &Control,
        begin: &dyn Fn(&str, f64),
        have: &mut dyn FnMut(&[Row]) -> Result<(), E>,
    ) -> Result<Vec<Row>, E> {
        let mut rows = Vec::new();
        let families = (self.seeds.len() * self.alphas.len()) as f64;
        let mut behind = 0.0;
        for &seed in &self.seeds {
            let logger = Logger::train(data, seed);
            for &alpha in &self.alphas {
                let begin = |job: &str, share: f64| begin(job, (behind + share) / families);
                let done = self.at(&Family { data, logger: &logger, seed, alpha }, control, &begin)?;
                let of = |(figure, job): (u8, Job)| done.get(&job).map(|row| Row { figure, ..row.clone() });
                rows.extend(self.shown().into_iter().filter_map(of));
                rows.sort_by_key(|row: &Row| row.figure);
                behind += 1.0;
                have(&rows)?;
            }
        }
        Ok(rows)
    }

    fn at(
        &self,
        family: &Family,
        control: &Control,
        begin: &dyn Fn(&str, f64),
    ) -> Result<BTreeMap<Job, Row>> {
        let Family { data, logger, seed, alpha } = *family;
        let truth = Truth::new(&logger.policy(alpha), &data.test)?;
        let jobs = self.jobs();
        let whole: f64 = jobs.iter().map(|job| job.line.weight()).sum();
        let (mut done, mut behind) = (BTreeMap::new(), 0.0);
        let mut taken: Option<Taken> = None;
        for job in jobs {
            let m = job.interactions;
            begin(&format!("seed {seed}, α = {alpha}, m = {m}: {}", job.line.name()), behind / whole);
            behind += job.line.weight();
            let taken = match taken.take().filter(|taken| taken.interactions == m) {
                Some(same) => taken.insert(same),
                None => taken.insert(Taken::new(logger.log(alpha, m, self.contexts)?, m, control)?),
            };
            let start = Instant::now();
            let promised = promise(job, taken, truth.logging_risk(), seed, control)?;
            let seconds = start.elapsed().as_secs_f64();
            let (true_improvement, test_error) = truth.improvement(&promised.policy)?;
            let own = match &promised.unseen {
                Some(split) => Some(family.own_rows(taken, *split, &promised.policy)?),
                None => None,
            };
            let row = Row {
                figure: 0,
                dataset: data.name.clone(),
                line: job.line,
                promise: job.promise,
                alpha,
                interactions: m,
                seed,
                contexts: taken.bandit.log.shape().contexts,
                logging_risk: truth.logging_risk(),
                logged_risk: taken.logged_risk,
                promised_risk: promised.risk,
                promised_improvement: promised.improvement,
                true_risk: truth.logging_risk() - true_improvement,
                true_improvement,
                test_error,
                own_improvement: own.map(|(improvement, _)| improvement),
                own_error: own.map(|(_, error)| error),
                lambda: promised.lambda,
                termination: promised.termination,
                numerical_slack: promised.numerical_slack,
                decision: promised.decision,
                seconds,
            };
            done.insert(job, row);
        }
        Ok(done)
    }
}

/// What the logs of one seed and α share.
struct Family<'a> {
    data: &'a Supervised,
    logger: &'a Logger,
    seed: u64,
    alpha: f64,
}

impl Family<'_> {
    /// The true improvement on the contexts of the bound, and its standard error.
    fn own_rows(&self, taken: &Taken, split: Split, policy: &PolicyParams) -> Result<(f64, f64)> {
        let n = taken.bandit.log.shape().contexts as usize;
        let own: Vec<usize> = (0..n).filter(|&i| split.side(i as u64) == Side::Certify).collect();
        Truth::new(&taken.bandit.logging_policy, &self.logger.examples(&own))?.improvement(policy)
    }
}

/// A log, with what its jobs share.
struct Taken {
    bandit: Bandit,
    interactions: usize,
    logged_risk: f64,
    parts: Option<Parts>,
}

impl Taken {
    fn new(bandit: Bandit, interactions: usize, control: &Control) -> Result<Self> {
        let logged_risk = mean_cost(&bandit.log, control)?;
        Ok(Taken { bandit, interactions, logged_risk, parts: None })
    }
}

struct Promised {
    policy: PolicyParams,
    risk: f64,
    improvement: f64,
    decision: Option<Decision>,
    lambda: Option<f64>,
    termination: Option<TerminationReason>,
    numerical_slack: Option<f64>,
    /// The split, if the policy did not learn from its certify side.
    unseen: Option<Split>,
}

fn promise(job: Job, taken: &mut Taken, logging_risk: f64, seed: u64, control: &Control) -> Result<Promised> {
    match job.line.related() {
        Some(principle) => estimate(principle, taken, seed, control),
        None => certify(job, &taken.bandit, logging_risk, seed, control),
    }
}

fn estimate(principle: Principle, taken: &mut Taken, seed: u64, control: &Control) -> Result<Promised> {
    let Bandit { log, logging_policy } = &taken.bandit;
    let parts = match taken.parts.take() {
        Some(parts) => taken.parts.insert(parts),
        None => taken.parts.insert(Parts::new(log, seed, control)?),
    };
    let tau = 1.0 / log.shape().n_actions as f64;
    let chosen = related::learn(principle, parts, logging_policy, tau, control)?;
    Ok(Promised {
        policy: chosen.policy,
        risk: chosen.promised_risk,
        improvement: chosen.logged_risk - chosen.promised_risk,
        decision: None,
        lambda: Some(chosen.lambda),
        termination: None,
        numerical_slack: None,
        unseen: None,
    })
}

fn certify(job: Job, bandit: &Bandit, logging_risk: f64, seed: u64, control: &Control) -> Result<Promised> {
    let Bandit { log, logging_policy } = bandit;
    let shape = PolicyShape::of(logging_policy);
    let context = SpecContext {
        shape: log.shape(),
        logging_policy: Some(shape),
        policy: &|_| None,
        seen_rows: 0,
        caller: "nobody",
    };
    let spec = job.line.request(job.promise, logging_risk, seed).resolve(&context)?;
    let inputs = Inputs {
        log,
        logging_policy: Some(logging_policy),
        policies: &BTreeMap::new(),
        dataset_version: 1,
        dataset_digest: "",
        log_checks: None,
    };
    let Finished { certificate, evidence } = run(&spec, &inputs, control)?;
    let unseen = matches!(evidence, Evidence::Auto(_));
    let learning = certificate.learning;
    let missing = || EngineError::Log("the evidence has no policy".into());
    Ok(Promised {
        risk: certificate.guaranteed_risk,
        improvement: certificate.guaranteed_improvement,
        decision: Some(certificate.decision),
        lambda: None,
        termination: learning.as_ref().map(|l| l.termination),
        numerical_slack: Some(certificate.numerical_slack),
        unseen: match learning.and_then(|l| l.split) {
            Some(Span::Hash(split)) if unseen => Some(split),
            _ => None,
        },
        policy: evidence.policy().cloned().ok_or_else(missing)?,
    })
}

/// Examples with their true labels, and the expected reward of π0 on each of them.
struct Truth<'a> {
    examples: &'a Examples,
    logging: Vec<f64>,
}

impl<'a> Truth<'a> {
    fn new(logging_policy: &PolicyParams, examples: &'a Examples) -> Result<Self> {
        Ok(Truth { examples, logging: rewards(logging_policy, examples)? })
    }

    fn logging_risk(&self) -> f64 {
        -self.logging.iter().sum::<f64>() / self.logging.len() as f64
    }

    /// R(π0) − R(π) and its standard error, computed from the paired differences.
    fn improvement(&self, policy: &PolicyParams) -> Result<(f64, f64)> {
        let n = self.logging.len() as f64;
        let gains: Vec<f64> =
            rewards(policy, self.examples)?.iter().zip(&self.logging).map(|(new, old)| new - old).collect();
        let mean = gains.iter().sum::<f64>() / n;
        let squares: f64 = gains.iter().map(|g| (g - mean) * (g - mean)).sum();
        Ok((mean, (squares / (n * (n - 1.0).max(1.0))).sqrt()))
    }
}
