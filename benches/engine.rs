//! One value-and-gradient pass of CBB against its two matrix products, timed in the same run.

use guarantor::engine::bound::{Bound, Cbb, Sample};
use guarantor::engine::control::unattended;
use guarantor::engine::learn::bound_learner::{Gaussian, Learner, Problem};
use guarantor::engine::log::{Columns, LogSource, MemoryLog};
use guarantor::engine::spec::PolicyClass;
use ndarray::Array2;
use ndarray::linalg::general_mat_mul;
use rayon::prelude::*;
use std::time::Instant;

fn synthetic(n: usize, p: usize, k: usize) -> MemoryLog {
    let mut state = 1u64;
    let mut unit = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    let x: Vec<f32> = (0..n * p).map(|_| unit() / (p as f32).sqrt()).collect();
    let actions: Vec<u32> = (0..n).map(|_| (unit() * k as f32) as u32).collect();
    let costs = (0..n).map(|_| if unit() < 0.3 { -1.0 } else { 0.0 }).collect();
    MemoryLog::new(Columns {
        n_actions: k,
        dim: p,
        x,
        actions,
        costs,
        propensities: vec![1.0 / k as f64; n],
        full: Some(vec![1.0 / k as f64; n * k]),
        ..Columns::default()
    })
    .unwrap()
}

fn products(log: &MemoryLog, mean: &Array2<f32>) -> f32 {
    let parts: Vec<Array2<f32>> = (0..log.chunks())
        .into_par_iter()
        .fold(
            || Array2::<f32>::zeros(mean.dim()),
            |mut g, i| {
                let chunk = log.chunk(i).unwrap();
                let mut s = Array2::<f32>::zeros((chunk.contexts(), mean.ncols()));
                general_mat_mul(1.0, &chunk.x, mean, 0.0, &mut s);
                general_mat_mul(1.0, &chunk.x.t(), &s, 1.0, &mut g);
                g
            },
        )
        .collect();
    parts.iter().map(|p| p[(0, 0)]).sum()
}

fn main() {
    let threads: usize = std::env::var("THREADS").ok().and_then(|v| v.parse().ok()).unwrap_or(2);
    rayon::ThreadPoolBuilder::new().num_threads(threads).build_global().unwrap();
    for (n, p, k) in [(57_000, 784, 10), (57_000, 784, 100), (57_000, 392, 10), (28_500, 784, 10)] {
        let log = synthetic(n, p, k);
        let sample = Sample { rows: n as u64, contexts: n as u64 };
        let bound = Cbb::new(sample, vec![1], 1.0 / k as f64, -0.5, 0.05);
        let prior = Gaussian { mean: Array2::zeros((p, k)), scale: 1.0 };
        let problem = Problem {
            log: &log,
            bound: &bound,
            class: PolicyClass::Lig,
            prior: &prior,
            kl_weight: 1.0,
            seed: 0,
        };
        let control = unattended();
        let learner = Learner::new(&problem, &control).unwrap();
        let point = learner.start();
        let held = bound.held(30);
        let mean = Array2::<f32>::from_elem((p, k), 0.01);
        let (mut a, mut b) = (f64::MAX, f64::MAX);
        for _ in 0..7 {
            let t = Instant::now();
            std::hint::black_box(products(&log, &mean));
            a = a.min(t.elapsed().as_secs_f64());
            let t = Instant::now();
            std::hint::black_box(learner.pass(&*held, &point).unwrap());
            b = b.min(t.elapsed().as_secs_f64());
        }
        println!("n {n} p {p} k {k}: products {:.1} ms, pass {:.1} ms, ratio {:.2}", a * 1e3, b * 1e3, b / a);
    }
}
