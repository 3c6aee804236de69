//! Guarantees and times on FashionMNIST: `cargo bench -p guarantor-lab --bench fashion`. The environment variables
//! `ALPHA`, `JOB` and `SEED` select a part, and `VERIFY` verifies the certificates too.

#[path = "common/fashion.rs"]
mod fashion;

use std::collections::BTreeMap;
use std::time::Instant;

use guarantor_engine::control::unattended;
use guarantor_engine::log::LogSource;
use guarantor_engine::spec::{
    Baseline, BaselineKind, BoundKind, ExploreRequest, PolicyShape, SpecContext, SpecRequest,
};
use guarantor_engine::{Inputs, run, verify};

/// CPU seconds of this process. On a busy machine they say more than wall-clock time.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|v| v.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn main() {
    let seed: u64 = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(0);
    let data = fashion::Fashion::load();
    println!("alpha job            GR        GI        true GI   seconds");
    for (alpha, ceiling) in [("0.1", 0.614), ("0.5", 0.186), ("1.0", 0.082)] {
        let log = data.log(alpha, 57_000);
        let logging = data.logging_policy(alpha.parse().unwrap());
        let r0 = data.test_risk(&logging);
        let shape = PolicyShape::of(&logging);
        let context = SpecContext {
            shape: log.shape(),
            logging_policy: Some(shape),
            policy: &|_| None,
            seen_rows: 0,
            caller: "nobody",
        };
        let inputs = Inputs {
            log: &log,
            logging_policy: Some(&logging),
            policies: &BTreeMap::new(),
            dataset_version: 1,
            dataset_digest: "sha256:fashion",
            log_checks: None,
        };
        if std::env::var("ALPHA").is_ok_and(|a| a != alpha) {
            continue;
        }
        for (name, bound, baseline) in [
            ("cbb", BoundKind::Cbb, BaselineKind::PointEstimate),
            ("auto", BoundKind::Auto, BaselineKind::Certified),
        ] {
            if std::env::var("JOB").is_ok_and(|j| j != name) {
                continue;
            }
            let request = SpecRequest {
                explore: Some(ExploreRequest::Share(0.0)),
                bound: Some(bound),
                baseline: Some(Baseline { kind: baseline, risk: None }),
                seed: Some(seed),
                ..SpecRequest::default()
            };
            let spec = request.resolve(&context).unwrap();
            let (start, cpu) = (Instant::now(), cpu_seconds());
            let finished = run(&spec, &inputs, &unattended()).unwrap();
            let (seconds, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
            let policy = finished.evidence.policy().unwrap();
            let c = &finished.certificate;
            let truth = r0 - data.test_risk(policy);
            println!(
                "{alpha:5} {name:14} {:.6} {:.6} {truth:.4}    {seconds:.2} (cpu {cpu:.2})  ({:.1} % of the ceiling) {:?}",
                c.guaranteed_risk,
                c.guaranteed_improvement,
                100.0 * c.guaranteed_improvement / ceiling,
                c.learning.as_ref().map(|l| (l.termination, l.iterations, l.choices.clone())),
            );
            for b in &c.bounds {
                println!(
                    "      {} {:.6} delta {:.4} slack {:.1e} used {} lambda {:?} kl {:?}",
                    b.event, b.value, b.delta, b.terms.numerical_slack, b.used, b.terms.lambda, b.terms.kl
                );
            }
            if std::env::var("VERIFY").is_ok() {
                let start = Instant::now();
                let v = verify(
                    c,
                    guarantor_engine::verify::Wording::Compared,
                    &finished.evidence,
                    &inputs,
                    &unattended(),
                )
                .unwrap();
                println!("      verify {} in {:.2} s", v.valid, start.elapsed().as_secs_f64());
            }
        }
    }
}
