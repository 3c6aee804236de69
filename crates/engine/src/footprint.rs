//! An estimate of the memory that a job takes at its peak, from its spec and the sizes of what it reads. A job
//! that does not fit is rejected when it is submitted, because it would end the process in the middle of its
//! work. `tests/trust/footprint.rs` compares the estimate with measurements (docs/performance.md#memory-of-jobs).
//!
//! The estimate adds up what each phase of a job holds at the same time, with d = (dimensions of φ)·K parameters
//! of a learned policy: the rows; the networks of the learn side with their optimizers; the optimizer of the bound,
//! which keeps 20 pairs of vectors of length d; and the policies as they are certified and written.

mod too_large;

use serde::{Deserialize, Serialize};

use crate::learn::lbfgs;
use crate::log::ranges::BLOCKS;
use crate::log::{LogShape, chunk_contexts};
use crate::policy::{DRAWS, MAX_KNOWN, MAX_PAIRS};
use crate::rank::{MAX_CONSIDERED, MAX_HELD_OUT, MAX_HELD_OUT_NON_ZEROS, MAX_NON_ZEROS, MAX_ROWS};
use crate::refit;
use crate::spec::{
    BoundKind, Candidate, ExploreWith, JobKind, JobSpec, Looks, PolicyClass, Preset, PriorKind,
};
use crate::split::{FEW, FOLDS, LARGE, LARGE_FOLDS, NARROW, WIDE, width};

pub use too_large::{TooLarge, check_footprint};

const F32: f64 = 4.0;
const F64: f64 = 8.0;
/// The bytes of a number in JSON, of which most have 16 to 18 digits.
const JSON: f64 = 21.0;
/// φ is computed in blocks of this many bytes per thread.
const PHI: f64 = (1u64 << 24) as f64;
/// What every job takes.
const BASE: f64 = (16u64 << 20) as f64;
/// Columns grow while they are decoded, and a log that is not in order of arrival is copied once.
const DECODING: f64 = 2.5;
/// The largest number of statistics that a bound sums per action: the grids of λ and ξ.
const STATISTICS: f64 = 128.0;
/// The nodes of a LIG policy's integral, at most.
const NODES: f64 = 320.0;

/// The buffer of rows on their way to a temporary file, and the rows that are read for it.
const SPOOLING: f64 = (64u64 << 20) as f64;
/// What is held of each row that is learned from if the log is in a file: its place, action, cost and weight, and its
/// place in the folds and in the orders of trainings.
const LEARNED: f64 = 96.0;
/// The most bytes of the weights over action sets with their optimizer.
const SET_WEIGHTS: f64 = 300e6;

/// The size of a stored policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PolicySize {
    /// How many parameters it has, at most.
    pub numbers: u64,
    /// The dimensions of φ.
    pub width: usize,
    /// Whether it may be a mixed logit, or contain one.
    pub mixes_logits: bool,
}

/// What a job runs with, besides its spec and its log.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resources<'a> {
    /// The number of compute threads.
    pub threads: usize,
    /// The size up to which a log is held in memory.
    pub max_log_bytes: u64,
    /// How large the action sets of the log are, if every row has its own.
    pub sets: Option<SetSizes>,
    /// The stored logging policy of the dataset.
    pub logging_policy: Option<PolicySize>,
    /// The stored policy that is the prior.
    pub prior: Option<PolicySize>,
    /// The stored policies that are candidates.
    pub candidates: &'a [PolicySize],
}

/// The estimated memory of a job, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// The rows.
    pub log: u64,
    /// The policies that the job reads.
    pub policies: u64,
    /// The largest phase of learning, or 0.
    pub learning: u64,
    /// Computing the certificate and writing the result.
    pub certifying: u64,
}

impl Footprint {
    /// The peak: learning and certifying follow one another.
    pub fn total(&self) -> u64 {
        let phase = self.learning.max(self.certifying);
        (BASE as u64).saturating_add(self.log).saturating_add(self.policies).saturating_add(phase)
    }
}

/// How large the action sets of a log are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SetSizes {
    /// The number of actions of all rows.
    pub actions: u64,
    /// The number of non-zeros of all requests and actions.
    pub non_zeros: u64,
    /// How many of them are those of requests.
    #[serde(default)]
    pub of_requests: u64,
}

/// About how many bytes the decoded rows of a log take; `sets` if every row has its own actions.
pub fn log_bytes(shape: &LogShape, sets: Option<SetSizes>) -> u64 {
    let capabilities = &shape.capabilities;
    // π0(·|x) of a uniform log is made up chunk by chunk.
    let stored = capabilities.full_propensities && !capabilities.uniform;
    let lists = usize::from(stored) + capabilities.candidate_propensities.len();
    let numbers = capabilities.candidates.len() + capabilities.outcomes.len().saturating_sub(1);
    if let Some(sets) = sets {
        // A position per request and action, and an index and a value per non-zero.
        let row = 80 + 8 * numbers as u64;
        let actions = sets.actions.saturating_mul(8 + 8 * lists as u64);
        let rows = shape.rows.saturating_mul(row);
        return rows.saturating_add(actions).saturating_add(sets.non_zeros.saturating_mul(8));
    }
    let row = 64 + 4 * shape.dim + 8 * shape.n_actions * lists + 8 * numbers;
    shape.rows.saturating_mul(row as u64)
}

/// Whether the rows of a log are held in memory if `max_bytes` are allowed for them. Lists of different lengths cannot
/// be allocated in advance, so they take up to twice their size while they grow.
pub fn fits_in_memory(shape: &LogShape, sets: Option<SetSizes>, max_bytes: u64) -> bool {
    let growth = if sets.is_some() { 2 } else { 1 };
    log_bytes(shape, sets).saturating_mul(growth) <= max_bytes
}

/// Whether a job reads features: not if it evaluates candidates that the log carries, of which it knows the probability
/// of the logged action alone.
pub fn needs_features(spec: &JobSpec, shape: &LogShape, logging_policy: bool) -> bool {
    let logged = |candidate: &Candidate| matches!(candidate, Candidate::Logged { .. });
    let capabilities = &shape.capabilities;
    spec.kind != JobKind::Evaluate
        || logging_policy
        || !spec.candidates.iter().all(logged)
        || !capabilities.candidate_propensities.is_empty()
        || capabilities.action_sets.is_some()
}

/// About how many bytes the rows take without their features and without what follows from their order.
fn lean_bytes(shape: &LogShape) -> u64 {
    let capabilities = &shape.capabilities;
    let stored = capabilities.full_propensities && !capabilities.uniform;
    let numbers = 2 + capabilities.candidates.len() + capabilities.outcomes.len().saturating_sub(1);
    let lists = usize::from(stored) + capabilities.candidate_propensities.len();
    shape.rows.saturating_mul((16 + 8 * (numbers + lists * shape.n_actions)) as u64)
}

/// The estimated memory of a job with this spec on a log of this shape.
pub fn footprint(spec: &JobSpec, shape: &LogShape, resources: &Resources) -> Footprint {
    let job = Job { spec, shape, resources };
    if let Some(sets) = resources.sets {
        return job.on_sets(sets);
    }
    let learned = job.learned();
    Footprint {
        log: bytes(job.rows_held()),
        policies: bytes(job.policies()),
        learning: bytes(learned.iter().map(|learned| job.learning(learned)).fold(0.0, f64::max)),
        certifying: bytes(
            learned.iter().map(|learned| job.certifying(Some(learned))).fold(job.certifying(None), f64::max),
        ),
    }
}

/// Rounds up; what is larger than any memory becomes the largest number.
fn bytes(estimate: f64) -> u64 {
    estimate.ceil() as u64
}

/// A policy that a job may learn.
struct Learned {
    /// The dimensions of φ, and the parameters of φ itself.
    width: f64,
    phi: f64,
    /// The networks of the learn side, if there is one.
    networks: Option<Networks>,
}

struct Networks {
    folds: f64,
    /// The networks with a hidden layer, of both families.
    deep: f64,
    hidden: f64,
}

struct Job<'a> {
    spec: &'a JobSpec,
    shape: &'a LogShape,
    resources: &'a Resources<'a>,
}

impl Job<'_> {
    fn rows(&self) -> f64 {
        self.shape.rows as f64
    }

    fn p(&self) -> f64 {
        self.shape.dim as f64
    }

    fn k(&self) -> f64 {
        self.shape.n_actions as f64
    }

    fn threads(&self) -> f64 {
        self.resources.threads.max(1) as f64
    }

    /// The contexts of the largest chunk.
    fn chunk(&self) -> f64 {
        self.rows().min(chunk_contexts(self.shape.dim) as f64)
    }

    fn rows_held(&self) -> f64 {
        let Resources { sets, max_log_bytes, .. } = *self.resources;
        let decoded = log_bytes(self.shape, sets);
        // Rows that arrived together may have more features than others, and they are copied once.
        let features = sets.map_or(F32 * self.p(), |_| 4.0 * decoded as f64 / self.rows().max(1.0));
        // Lists of numbers per action are padded to the largest set.
        let padded = sets.map_or(0, |_| self.shape.capabilities.candidate_propensities.len());
        let lists = 2.0 + 2.0 * padded as f64;
        let chunk = self.chunk() * (features + lists * F64 * self.k() + 128.0);
        let reading = 2.0 * self.threads() * chunk;
        if !fits_in_memory(self.shape, sets, max_log_bytes) {
            // The log is in a file. Of the learn side, what is held is not its features.
            let learned = if sets.is_none() { LEARNED * self.learn_side() } else { 0.0 };
            // A bound keeps the norm of each context, and a few row groups are decoded at a time.
            let norms = if self.spec.kind == JobKind::Learn { F64 * self.rows() } else { 0.0 };
            let logging_policy = self.resources.logging_policy.is_some();
            let lean = match needs_features(self.spec, self.shape, logging_policy) {
                true => 0,
                false => lean_bytes(self.shape).min(max_log_bytes),
            };
            let spooling = SPOOLING.min(4.0 * decoded as f64);
            return reading + spooling + learned + norms + lean as f64;
        }
        // π0(·|x) of a stored logging policy is computed for all rows.
        let computed = match self.resources.logging_policy {
            Some(_) => 4.0 * F64 * sets.map_or(self.rows() * self.k(), |sets| sets.actions as f64),
            None => 0.0,
        };
        reading + DECODING * decoded as f64 + 8.0 * self.rows() + computed
    }

    /// A job on rows with their own actions. What is learned from is a bounded sample of the rows.
    fn on_sets(&self, sets: SetSizes) -> Footprint {
        let (rows, non_zeros) = (self.rows(), sets.non_zeros as f64);
        // Requests and logged actions, and the rows that are held out with all of their actions.
        let of_requests = sets.of_requests as f64;
        let mean_actions = (sets.actions as f64 / rows.max(1.0)).max(1.0);
        // Logged actions may have more features than others.
        let logged = of_requests + 1.25 * (non_zeros - of_requests).max(0.0) / mean_actions;
        let share = (1.1 * self.spec.fraction().unwrap_or(1.0)).min(1.0);
        let kept =
            16.0 * (share * logged).min(MAX_NON_ZEROS as f64) + 40.0 * (share * rows).min(MAX_ROWS as f64);
        let held_out = 16.0 * non_zeros.min(MAX_HELD_OUT_NON_ZEROS as f64)
            + rows.min(MAX_HELD_OUT as f64) * (F64 * 3.0 * self.k() + 64.0);
        // Features while they are counted, and then the weights, of pairs too, with all vectors of the optimizer.
        let counted = 2.0 * 64.0 * non_zeros.min(MAX_CONSIDERED as f64);
        let features = non_zeros.min(MAX_KNOWN as f64);
        let weights = 2.0 * features + (features * features).min(MAX_PAIRS as f64);
        let optimizer = (weights * F64 * 64.0).min(SET_WEIGHTS);
        let policy = (2.0 * features + (features * features).min(MAX_PAIRS as f64)) * (JSON + 2.0 * F64);
        let learning = match self.spec.kind {
            JobKind::Learn => kept + held_out + counted.max(optimizer),
            JobKind::Evaluate => 0.0,
        };
        let written = if self.spec.kind == JobKind::Learn { 2.0 * policy } else { 0.0 };
        Footprint {
            log: bytes(self.rows_held()),
            policies: bytes(self.policies()),
            learning: bytes(learning),
            certifying: bytes(self.certifying(None) + written),
        }
    }

    /// Stored policies as they are read: JSON, lists of numbers, and the matrices that are made of them.
    fn policies(&self) -> f64 {
        let resources = self.resources;
        let all = resources.candidates.iter().chain(&resources.logging_policy).chain(&resources.prior);
        let all: Vec<&PolicySize> = all.collect();
        let numbers: f64 = all.iter().map(|policy| policy.numbers as f64).sum();
        let largest = all.iter().map(|policy| policy.numbers as f64).fold(0.0, f64::max);
        let mixes = all.iter().any(|policy| policy.mixes_logits)
            || self.spec.policy_class == Some(PolicyClass::MixedLogit);
        let draws = if mixes { DRAWS as f64 * self.k() * F64 * (2.0 + self.threads()) } else { 0.0 };
        1.5 * F64 * numbers + (JSON + 2.0 * F64 * self.threads()) * largest + draws
    }

    /// The policies that learning may end with: which widths are compared depends on the number of rows of the
    /// learn side, which is not known exactly before the rows are read.
    fn learned(&self) -> Vec<Learned> {
        let Some(prior) = self.spec.prior.as_ref().filter(|_| self.spec.kind == JobKind::Learn) else {
            return Vec::new();
        };
        let fixed = |width: f64, phi: f64| vec![Learned { width, phi, networks: None }];
        let stored = match prior.kind {
            PriorKind::Split => return self.learned_on_a_side(prior.fraction.unwrap_or(0.5)),
            PriorKind::Zero => return fixed(self.p(), 0.0),
            PriorKind::LoggingPolicy => self.resources.logging_policy,
            PriorKind::Policy => self.resources.prior,
        };
        match stored {
            Some(size) => fixed(size.width as f64, size.numbers as f64),
            None => fixed(self.p(), 0.0),
        }
    }

    fn learned_on_a_side(&self, fraction: f64) -> Vec<Learned> {
        // Rows are assigned to sides by a hash or by time, so their number varies a little around its mean.
        let least = self.spec.seen_rows.map_or(0.9 * fraction * self.rows(), |seen| seen as f64);
        let (p, k) = (self.shape.dim, self.shape.n_actions);
        let mut recipes = Vec::new();
        if least < LARGE as f64 {
            let decays = if least < FEW as f64 { 2 } else { 1 };
            recipes.push(match width(self.shape.rows as usize, p, k) {
                NARROW => (FOLDS, FOLDS, NARROW),
                wide => (FOLDS, 2 * decays * FOLDS, wide),
            });
        }
        if self.shape.rows >= LARGE as u64 {
            recipes.push((LARGE_FOLDS, LARGE_FOLDS, WIDE));
        }
        let mut learned = Vec::new();
        for (folds, deep, hidden) in recipes {
            let (folds, deep, hidden) = (folds as f64, deep as f64, hidden as f64);
            let networks = || Some(Networks { folds, deep, hidden });
            // One family is kept, and its linear parts pass through units of their own.
            let kept = if deep > folds { deep / 2.0 } else { deep };
            let units = kept * hidden + self.p().min(2.0 * self.k());
            learned.push(Learned { width: self.p() + 1.0, phi: 2.0 * self.p(), networks: networks() });
            learned.push(Learned { width: units + 1.0, phi: self.p() * units, networks: networks() });
        }
        learned
    }

    /// The largest phase of learning.
    fn learning(&self, learned: &Learned) -> f64 {
        let on_a_side = learned.networks.as_ref().map_or(0.0, |networks| self.networks(networks, learned));
        // `auto` certifies the learn side's policy as it is.
        on_a_side.max(if self.spec.is_automatic() { 0.0 } else { self.minimizing(learned) })
    }

    /// Training the networks of the learn side. A training holds its weights, three vectors of Adam and two
    /// gradients; all of them may be under way at once, because a thread that waits for one starts another. The linear
    /// networks, where they started and the fits of log π0 are kept.
    fn networks(&self, networks: &Networks, learned: &Learned) -> f64 {
        let Networks { folds, deep, hidden } = *networks;
        let (p, k, rows) = (self.p(), self.k(), self.rows());
        let linear = (p + 1.0) * k;
        let weights = linear + p * hidden + hidden + hidden * k;
        let contexts = (rows / 16.0).clamp(16.0, 256.0);
        let batch = contexts * F32 * (3.0 * p + 4.0 * k + 4.0 * hidden);
        let training = |count: f64, weights: f64| count * (6.0 * F32 * weights + batch);
        let kept = 5.0 * folds * F32 * linear;
        let merged = learned.width * k * F64 + learned.phi * F32 + linear * F64;
        let combining = deep * F32 * weights + merged;
        // The scores of each recipe, of the averages that are compared, and the points of their calibration.
        let held_out = self.held_out();
        let scores = 16.0 * held_out * k * F32 + 5.0 * 24.0 * held_out;
        let norms = rows.min(2000.0) * F32 * (2.0 * p + learned.width);
        let phase = training(2.0 * folds, linear).max(training(deep, weights)).max(combining + norms);
        kept + phase + scores
    }

    /// Minimizing a bound over Gaussians.
    fn minimizing(&self, learned: &Learned) -> f64 {
        let (d, k) = (learned.width * self.k(), self.k());
        let padded = learned.width * (self.shape.n_actions.next_multiple_of(8)) as f64;
        let chunks = (self.rows() / chunk_contexts(self.shape.dim) as f64).ceil();
        let blocks = chunks.min(BLOCKS as f64) * F32 * padded;
        let vectors = match self.spec.optimizer.as_ref().map(|optimizer| optimizer.preset) {
            Some(Preset::Paper) => 12.0,
            _ => 2.0 * lbfgs::MEMORY as f64 + 10.0,
        };
        let point = d * (vectors * F64 + 3.0 * F64) + 3.0 * F32 * padded;
        let thread = self.chunk() * k * (F32 + F64) + STATISTICS * k * F64 + NODES * k * F64 + padded * F32;
        self.transformed(learned) + point + blocks + self.threads() * thread
    }

    /// About how many rows are learned from, at most.
    fn learn_side(&self) -> f64 {
        match (self.spec.seen_rows, self.spec.fraction()) {
            (_, None) => 0.0,
            (Some(seen), _) if seen > 0 => (seen as f64).min(self.rows()),
            (_, Some(fraction)) => (1.1 * fraction * self.rows() + 64.0).min(self.rows()),
        }
    }

    /// About how many of them are held out to compare scores, at most.
    fn held_out(&self) -> f64 {
        let learned = self.learn_side();
        let share = LARGE_FOLDS as f64 / 10.0;
        if 0.8 * learned >= LARGE as f64 { 1.1 * share * learned } else { self.rows() }
    }

    /// About how many rows are certified, at most.
    fn certified(&self) -> f64 {
        match (self.spec.seen_rows, self.spec.fraction()) {
            (Some(seen), _) => self.rows() - (seen as f64).min(self.rows()),
            (None, Some(fraction)) => (1.1 * (1.0 - fraction) * self.rows() + 64.0).min(self.rows()),
            (None, None) => self.rows(),
        }
    }

    /// The plays of a given policy, while they are put in the order in which they are played.
    fn plays(&self) -> f64 {
        let given = self.spec.kind == JobKind::Evaluate || self.spec.is_automatic();
        let capabilities = &self.shape.capabilities;
        let controlled = if capabilities.control_variate() { 2.0 * F32 } else { 0.0 };
        let weights = if capabilities.multiple_interactions { F64 } else { 0.0 };
        // Every number twice while the parts of the log are joined, and the blocks of two bytes.
        let rows = self.certified() * 2.0 * (F32 + controlled + weights + 2.0);
        // In order of arrival, the plays of a candidate's two claims are collected together.
        let aimed = self.spec.is_fixed()
            && self.spec.bound != BoundKind::Betting
            && self.spec.looks == Some(Looks::Once)
            && !capabilities.repeated_contexts;
        let together = self.spec.kind == JobKind::Evaluate && !aimed;
        let rows = if together { 2.0 * rows } else { rows };
        let fits = self.spec.kind == JobKind::Evaluate || !self.spec.guardrails.is_empty();
        let refits = fits && refit::possible(self.shape);
        match given {
            true => rows + if refits { refit::bytes(self.shape) } else { 0.0 },
            false => 0.0,
        }
    }

    /// The certified rows with φ in place of their features, if φ is not the identity.
    fn transformed(&self, learned: &Learned) -> f64 {
        let in_memory = fits_in_memory(self.shape, self.resources.sets, self.resources.max_log_bytes);
        if learned.phi == 0.0 || self.spec.is_automatic() || !in_memory {
            return 0.0;
        }
        let rows = self.certified();
        let capabilities = &self.shape.capabilities;
        let lists = f64::from(u8::from(capabilities.full_propensities))
            + capabilities.candidate_propensities.len() as f64;
        rows * (F32 * learned.width
            + F64 * self.k() * lists
            + F64 * (capabilities.candidates.len() + capabilities.outcomes.len()) as f64
            + 96.0)
    }

    /// Computing the certificate of a learned policy, or of candidates if there is none, and writing the result.
    fn certifying(&self, learned: Option<&Learned>) -> f64 {
        let k = self.k();
        // The weights of all candidates are checked in one pass.
        let candidates = self.resources.candidates.len() as f64;
        let lists = 8.0 + candidates;
        let thread = self.chunk() * k * F64 * lists + PHI + (STATISTICS + NODES) * k * F64;
        let checks = 64.0 * (candidates + 1.0) * 4096.0;
        let plays = self.plays();
        let Some(learned) = learned else { return self.threads() * thread + checks + plays };
        let (d, phi) = (learned.width * k, learned.phi);
        // The policy and the prior, their digests and their JSON.
        let explored = match self.spec.explore.map(|explore| explore.with) {
            Some(ExploreWith::LoggingPolicy) => {
                self.resources.logging_policy.map_or(0.0, |policy| policy.numbers as f64)
            }
            _ => 0.0,
        };
        let policies = 3.0 * F64 * d + 3.0 * F32 * phi + 2.0 * F64 * explored;
        let written = JSON * (4.0 * d + 3.0 * phi + 3.0 * explored);
        let copies = self.threads() * (2.0 * F64 * d + 2.0 * F32 * phi) + 2.0 * F64 * d;
        policies + written.max(copies + self.threads() * thread) + checks + plays + self.transformed(learned)
    }
}
