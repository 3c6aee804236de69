//! FashionMNIST figures (DESIGN.md "What to beat"): `cargo bench --bench fashion`.

#[path = "common/fashion.rs"]
mod fashion;

use std::time::Instant;

use guarantor::engine::bound::{Bound, Cbb, Sample};
use guarantor::engine::control::unattended;
use guarantor::engine::learn::bound_learner::{Gaussian, Problem, minimise};
use guarantor::engine::log::LogSource;
use guarantor::engine::measure::{Statistics, Subject, measure};
use guarantor::engine::spec::{Optimizer, PolicyClass, Preset};

fn main() {
    let data = fashion::Fashion::load();
    for alpha in ["0.1", "0.5", "1.0"] {
        let log = data.log(alpha, 57_000);
        let logging = data.logging_policy(alpha.parse().unwrap());
        println!("alpha {alpha}: R(pi0) test {:.4}", data.test_risk(&logging));
        let (mean, scale) = logging.gaussian(1.0).unwrap();
        let prior = Gaussian { mean, scale };
        let sample = Sample { rows: log.shape().rows, contexts: log.shape().contexts };
        let bound = Cbb::new(sample, vec![1], 0.1, -0.5, 0.05);
        for epochs in [10, 60] {
            let start = Instant::now();
            let optimizer = Optimizer {
                preset: Preset::Fast,
                epochs: Some(epochs),
                learning_rate: None,
                batch_size: None,
                max_seconds: None,
            };
            let problem = Problem {
                log: &log,
                bound: &bound,
                class: PolicyClass::Lig,
                prior: &prior,
                kl_weight: 1.0,
                seed: 0,
            };
            let learned = minimise(&problem, &optimizer, &unattended()).unwrap();
            let t1 = start.elapsed().as_secs_f64();
            let policy = learned.gaussian.policy(PolicyClass::Lig);
            let dynamic: &dyn Bound = &bound;
            let m = measure(&log, Subject::Policy(&policy), None, &dynamic as &dyn Statistics, &unattended())
                .unwrap();
            let v = bound.value_and_gradient(&m.statistics, learned.gaussian.kl(&prior));
            println!(
                "  epochs {epochs}: {:.5} ({:.5}) kl {:.2} sigma {:.4} {:?} it {} learn {:.2}s cert {:.2}s test {:.4}",
                v.value,
                learned.value,
                learned.gaussian.kl(&prior),
                learned.gaussian.scale,
                learned.termination,
                learned.iterations,
                t1,
                start.elapsed().as_secs_f64() - t1,
                data.test_risk(&policy)
            );
        }
    }
}
