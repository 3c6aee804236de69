//! Times of the engine: `cargo bench -p guarantor-engine --bench engine`. Compare numbers within one run only, because machines are
//! noisy. docs/performance.md has the results.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion};
use guarantor_engine::bound::{Bound, Cbb, Sample};
use guarantor_engine::control::unattended;
use guarantor_engine::learn::bound_learner::{Gaussian, Learner, LearningProblem};
use guarantor_engine::log::{Columns, LogSource, Logging, MemoryLog, Repetitions};
use guarantor_engine::measure::{Statistics, Subject, measure};
use guarantor_engine::numerics::matrix::add_product;
use guarantor_engine::numerics::product::{add_narrow_gradient, narrow_scores, pad, padded};
use guarantor_engine::policy::PolicyParams;
use guarantor_engine::spec::{PolicyClass, SpecContext, SpecRequest};
use guarantor_engine::{Inputs, run};
use ndarray::Array2;
use ndarray::linalg::general_mat_mul;
use rayon::prelude::*;

/// A log with uniform propensities and costs that depend on the first feature.
fn synthetic(n: usize, p: usize, k: usize) -> MemoryLog {
    let mut state = 1u64;
    let mut unit = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let x: Vec<f32> = (0..n * p).map(|_| unit() / (p as f32).sqrt()).collect();
    let actions: Vec<u32> = (0..n).map(|_| (unit() * k as f32) as u32).collect();
    let good = |i: usize| (x[i * p] * (p as f32).sqrt() * k as f32) as u32 == actions[i];
    let costs = (0..n).map(|i| if good(i) { -1.0 } else { 0.0 }).collect();
    let full = Some(vec![1.0 / k as f64; n * k]);
    let propensities = vec![1.0 / k as f64; n];
    MemoryLog::new(Columns {
        n_actions: k,
        dim: p,
        x,
        actions,
        costs,
        propensities,
        full,
        logging: Logging::Fixed,
        repetitions: Repetitions::Designed,
        ..Columns::default()
    })
    .expect("a valid log")
}

/// Both products by ndarray's general product, chunk by chunk.
fn general_products(log: &MemoryLog, mean: &Array2<f32>) -> f32 {
    let fold = |mut gradient: Array2<f32>, index: usize| {
        let chunk = log.chunk(index).expect("in memory");
        let mut scores = Array2::<f32>::zeros((chunk.contexts(), mean.ncols()));
        general_mat_mul(1.0, &chunk.x, mean, 0.0, &mut scores);
        general_mat_mul(1.0, &chunk.x.t(), &scores, 1.0, &mut gradient);
        gradient
    };
    let parts = (0..log.chunks()).into_par_iter().fold(|| Array2::zeros(mean.dim()), fold);
    parts.map(|g| g[(0, 0)]).sum()
}

/// Both products by the kernels that learning uses.
fn narrow_products(log: &MemoryLog, mean: &Array2<f32>) -> f32 {
    let (width, mean) = (padded(mean.ncols()), pad(mean.view()));
    let fold = |mut gradient: Vec<f32>, index: usize| {
        let chunk = log.chunk(index).expect("in memory");
        let x = chunk.x.as_slice().expect("row-major");
        let mut scores = vec![0.0; chunk.contexts() * width];
        narrow_scores(x, &mean, width, &mut scores);
        add_narrow_gradient(x, &scores, width, &mut gradient);
        gradient
    };
    let parts = (0..log.chunks()).into_par_iter().fold(|| vec![0.0f32; mean.len()], fold);
    parts.map(|g| g[0]).sum()
}

fn passes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cbb");
    for (n, p, k) in [(57_000, 784, 10), (57_000, 784, 100), (57_000, 392, 10), (28_500, 784, 10)] {
        let log = synthetic(n, p, k);
        let sample = Sample { rows: n as u64, contexts: n as u64 };
        let bound = Cbb::new(sample, vec![1], 1.0 / k as f64, -0.5, 0.05);
        let prior = Gaussian { mean: Array2::zeros((p, k)), scale: 1.0 };
        let problem =
            LearningProblem { log: &log, bound: &bound, class: PolicyClass::Lig, prior: &prior, seed: 0 };
        let control = unattended();
        let learner = Learner::new(&problem, &control).expect("a learner");
        let (point, held) = (learner.start(), bound.held(30));
        let mean = Array2::<f32>::from_elem((p, k), 0.01);
        let name = format!("n={n} p={p} K={k}");
        group.bench_function(BenchmarkId::new("general products", &name), |b| {
            b.iter(|| black_box(general_products(&log, &mean)))
        });
        group.bench_function(BenchmarkId::new("narrow products", &name), |b| {
            b.iter(|| black_box(narrow_products(&log, &mean)))
        });
        group.bench_function(BenchmarkId::new("value and gradient", &name), |b| {
            b.iter(|| black_box(learner.pass(&*held, &point)))
        });
        if (p, k) == (784, 10) {
            let mean = vec![vec![0.01; k]; p];
            let policy = PolicyParams::Lig { mean, scale: 1.0, features: Default::default() };
            let dynamic: &dyn Bound = &bound;
            let statistics: &dyn Statistics = &dynamic;
            group.bench_function(BenchmarkId::new("f64 statistics of a certificate", &name), |b| {
                b.iter(|| black_box(measure(&log, Subject::Policy(&policy), None, statistics, &control)))
            });
        }
    }
    group.finish();
}

/// The products of a hidden layer and of its training, by ndarray and by the kernel with the same bits on every CPU.
fn hidden_layers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("hidden layer");
    for (n, p, h) in [(1024, 784, 128), (128, 784, 128), (128, 129, 10), (64, 10, 32)] {
        let (x, weights) = (Array2::<f32>::from_elem((n, p), 0.3), Array2::<f32>::from_elem((p, h), 0.01));
        let (mut scores, mut gradient) = (Array2::<f32>::zeros((n, h)), Array2::<f32>::zeros((p, h)));
        let d = scores.clone();
        let name = format!("n={n} p={p} h={h}");
        group.bench_function(BenchmarkId::new("forward, general", &name), |b| {
            b.iter(|| general_mat_mul(1.0, &x, &weights, 0.0, &mut scores))
        });
        group.bench_function(BenchmarkId::new("forward, ours", &name), |b| {
            b.iter(|| add_product(x.view(), weights.view(), scores.as_slice_mut().expect("standard"), h))
        });
        group.bench_function(BenchmarkId::new("gradient, general", &name), |b| {
            b.iter(|| general_mat_mul(1.0, &x.t(), &d, 1.0, &mut gradient))
        });
        group.bench_function(BenchmarkId::new("gradient, ours", &name), |b| {
            b.iter(|| add_product(x.t(), d.view(), gradient.as_slice_mut().expect("standard"), h))
        });
    }
    group.finish();
}

fn small_jobs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("auto");
    for n in [1_000, 10_000] {
        let log = synthetic(n, 10, 4);
        let context = SpecContext {
            shape: log.shape(),
            logging_policy: None,
            policy: &|_| None,
            seen_rows: 0,
            caller: "nobody",
        };
        let spec = SpecRequest::default().resolve(&context).expect("a valid spec");
        let policies = BTreeMap::new();
        let inputs = Inputs {
            log: &log,
            logging_policy: None,
            policies: &policies,
            dataset_version: 1,
            dataset_digest: "sha256:synthetic",
            log_checks: None,
        };
        group.bench_function(format!("job of {n} rows"), |b| {
            b.iter(|| black_box(run(&spec, &inputs, &unattended())))
        });
    }
    group.finish();
}

fn main() {
    let mut criterion =
        Criterion::default().sample_size(10).measurement_time(Duration::from_secs(4)).configure_from_args();
    passes(&mut criterion);
    hidden_layers(&mut criterion);
    small_jobs(&mut criterion);
    criterion.final_summary();
}
