//! Logs of one policy, attested as such.

use guarantor_engine::spec::Looks;
use rand_chacha::ChaCha8Rng;

use super::jobs::{
    FORMS, Form, Look, certificate, claims, evaluating, first_rows, in_form, later_certificate,
};
use super::nulls::{self, Null};
use super::{DELTAS, LOGS};
use crate::arrivals::stream::Truth;
use crate::harness::{Claim, Tally, assert_valid, simulate};

/// The claims on one log, in each form and at each δ.
fn all_claims(null: &Null, contexts: u64, forms: &[Form], rng: &mut ChaCha8Rng) -> Vec<Claim> {
    let (columns, stored) = (null.draw(contexts, rng), null.stored());
    let mut all = Vec::new();
    for &form in forms {
        let log = in_form(form, columns.clone(), &stored);
        for delta in DELTAS {
            let request = evaluating(form, stored.keys(), delta, Looks::Once, rng);
            let certificate = certificate(&request, &log, &stored);
            all.extend(claims(form, &[Look { certificate, truths: null.truths() }]));
        }
    }
    all
}

/// Tallies of logs with this many contexts.
pub fn tallies(null: &Null, contexts: u64, forms: &[Form], seed: u64) -> Vec<Tally> {
    println!("{contexts} contexts:");
    simulate(LOGS, seed + contexts, |rng| all_claims(null, contexts, forms, rng))
}

/// Every form at every size would take too long.
fn forms(contexts: u64) -> &'static [Form] {
    match contexts {
        ..100 => &FORMS,
        100..300 => &[Form::Logged, Form::Stored],
        300..1000 => &[Form::Logged, Form::LoggedFull],
        1000.. => &[Form::Logged],
    }
}

fn holds(null: &Null, sizes: &[u64], seed: u64) {
    let all: Vec<Tally> = sizes.iter().flat_map(|&n| tallies(null, n, forms(n), seed)).collect();
    assert_valid(&all);
}

#[test]
fn rare_rewards_hold() {
    holds(&nulls::rare_rewards(), &[30, 100, 1000], 20_000);
}

#[test]
fn heavy_weights_hold() {
    holds(&nulls::heavy_weights(), &[30, 100, 1000], 21_000);
}

#[test]
fn heteroscedastic_costs_hold() {
    holds(&nulls::heteroscedastic(), &[30, 100, 1000], 22_000);
}

#[test]
fn equal_costs_hold() {
    holds(&nulls::equal_costs(), &[30, 100], 23_000);
}

#[test]
fn logs_without_any_reward_hold() {
    holds(&nulls::no_rewards(), &[30], 24_000);
}

#[test]
fn continuous_costs_hold() {
    holds(&nulls::continuous(), &[30, 300], 25_000);
}

#[test]
fn the_logging_policy_itself_holds() {
    holds(&nulls::same_policy(), &[30, 100], 26_000);
}

#[test]
fn missing_support_holds() {
    holds(&nulls::missing_support(), &[30, 100], 27_000);
}

#[test]
fn rare_losses_hold() {
    holds(&nulls::rare_losses(), &[30, 100, 1000], 28_000);
}

#[test]
fn rare_wins_hold() {
    holds(&nulls::rare_wins(), &[30, 100, 1000], 29_000);
}

#[test]
fn designed_repetitions_hold() {
    holds(&nulls::repetitions(), &[30], 30_000);
    holds(&nulls::few_repetitions(), &[30], 31_000);
}

/// Looks at a growing log with `looks: anytime`: all of them hold together.
#[test]
fn looks_at_any_time_hold_together() {
    let sizes = [20, 60, 180];
    let worlds = [
        (nulls::heavy_weights(), vec![Form::Logged]),
        (nulls::rare_losses(), vec![Form::Logged]),
        (nulls::easy(), vec![Form::Logged, Form::Stored]),
    ];
    for ((null, forms), seed) in worlds.iter().zip(32_000..) {
        assert_valid(&simulate(LOGS, seed, |rng| {
            let (columns, stored) = (null.draw(sizes[2] as u64, rng), null.stored());
            let mut all = Vec::new();
            for &form in forms {
                let log = |&rows: &usize| in_form(form, first_rows(&columns, rows), &stored);
                let logs: Vec<_> = sizes.iter().map(log).collect();
                for delta in DELTAS {
                    let request = evaluating(form, stored.keys(), delta, Looks::Anytime, rng);
                    let look = |log| Look {
                        certificate: certificate(&request, log, &stored),
                        truths: null.truths(),
                    };
                    all.extend(claims(form, &logs.iter().map(look).collect::<Vec<_>>()));
                }
            }
            all
        }));
    }
}

/// A team looks again at fresh rows until it may deploy. Every look holds at its own δ.
#[test]
fn looks_at_fresh_rows_hold_each() {
    let (null, form) = (nulls::rare_wins(), Form::Logged);
    let names = ["first look", "second look", "third look", "fourth look"];
    let step = 80;
    assert_valid(&simulate(LOGS, 32_800, |rng| {
        let (columns, stored) = (null.draw((names.len() * step) as u64, rng), null.stored());
        let mut all = Vec::new();
        for delta in DELTAS {
            let request = evaluating(form, stored.keys(), delta, Looks::Once, rng);
            let mut deployed = false;
            for (i, name) in names.into_iter().enumerate() {
                // Looks after the one that said deploy do not take place.
                let mut excess = f64::NEG_INFINITY;
                if !deployed {
                    let log = in_form(form, first_rows(&columns, (i + 1) * step), &stored);
                    let certificate = later_certificate(&request, &log, &stored, (i * step) as u64);
                    let rows = certificate.certified.as_ref().expect("the certified rows").rows;
                    assert!(rows <= step as u64, "only fresh rows are certified");
                    deployed = certificate.guaranteed_improvement > 0.0;
                    let look = Look { certificate, truths: null.truths() };
                    excess = claims(form, &[look]).pop().expect("the joint claim").truth;
                }
                all.push(Claim::that_none_exceeds(name, [excess.max(-1.0)]).at(delta));
            }
        }
        all
    }));
}

/// The claims are those of the certificate: each is violated if its own truth is worse than what was guaranteed.
#[test]
fn a_worse_truth_is_caught() {
    let (null, form) = (nulls::easy(), Form::Logged);
    let tallies = simulate(30, 32_900, |rng| {
        let stored = null.stored();
        let log = in_form(form, null.draw(100, rng), &stored);
        let certificate = certificate(&evaluating(form, stored.keys(), 0.2, Looks::Once, rng), &log, &stored);
        let (risk, improvement) = (certificate.guaranteed_risk, certificate.guaranteed_improvement);
        let at = |risk: f64, improvement: f64| {
            let truths = vec![Truth { risk, improvement }];
            claims(form, &[Look { certificate: certificate.clone(), truths }])
        };
        [at(risk, improvement - 0.01), at(risk + 0.01, improvement)].into_iter().flatten().collect()
    });
    let violated: Vec<bool> = tallies.iter().map(|tally| tally.violations == tally.trials).collect();
    assert_eq!(violated, [true, false, true, false, true, true], "improvement, risk and joint, twice");
}
