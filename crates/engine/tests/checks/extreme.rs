//! No input makes the checks panic, and numbers that overflow or are not numbers never pass.

use guarantor_engine::checks::{
    CandidatePlan, CandidateWeight, CheckName, CheckPlan, CheckResult, CheckRow, CheckScope, ChecksBuilder,
    Repetition, Rounding,
};
use proptest::prelude::*;

fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..=1.0f64,
        1 => Just(0.0),
        1 => Just(1.0),
        1 => Just(5e-324),
        1 => Just(1e-200),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(-1.0),
        1 => Just(f64::MAX),
    ]
}

type Drawn = (u32, f64, f64, Vec<f64>, f64, Option<u64>, bool);

fn rows() -> impl Strategy<Value = Vec<Drawn>> {
    let action = prop_oneof![9 => 0..4u32, 1 => Just(u32::MAX)];
    let m = proptest::option::of(prop_oneof![1..20u64, Just(u64::MAX)]);
    let full = proptest::collection::vec(number(), 3..5);
    proptest::collection::vec(
        (action, number().prop_map(|c| -c), number(), full, number(), m, any::<bool>()),
        0..60,
    )
}

fn run(plan: &CheckPlan, rows: &[Drawn], all: bool) -> Vec<CheckResult> {
    let mut builder = ChecksBuilder::new(plan.clone());
    let mut merged = ChecksBuilder::new(plan.clone());
    for (i, (action, cost, propensity, full, played, m, first)) in rows.iter().enumerate() {
        let candidate = [CandidateWeight { played: *played, all: all.then_some(full.as_slice()) }];
        builder.row(&CheckRow {
            action: *action,
            cost: *cost,
            propensity: *propensity,
            full: Some(full),
            n_actions: None,
            candidates: &candidate,
            repetition: m.map(|interactions| Repetition { interactions }),
            counts_for_drift: *first,
        });
        if i % 13 == 12 {
            merged.merge(std::mem::replace(&mut builder, ChecksBuilder::new(plan.clone())));
        }
    }
    merged.merge(builder);
    merged.drift();
    merged.finish(CheckScope::CertifiedRows)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, rng_seed: proptest::test_runner::RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn nothing_panics(
        rows in rows(), full in any::<bool>(), declared in any::<bool>(), all in any::<bool>(),
        k in 0..6usize, absolute in number(), relative in number(), stated in number(),
    ) {
        let rounding = Rounding { absolute, digits: relative, relative };
        let plan = CheckPlan {
            n_actions: k, actions_declared: declared, full, rounding,
            candidates: vec![CandidatePlan { label: "c".into(), rounding }],
            known_baseline: Some(-stated), fixed: true, designed: true, ..CheckPlan::default()
        };
        for result in run(&plan, &rows, all) {
            prop_assert!(result.evidence >= 0.0 && result.evidence <= 1e300, "{:?}", result);
            prop_assert!(result.observed.is_finite() && result.expected.is_finite());
            let written = serde_json::to_string(&result).unwrap();
            let read: CheckResult = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(read.ok, result.ok);
        }
    }
}

fn plan(full: bool) -> CheckPlan {
    CheckPlan { n_actions: 2, actions_declared: true, full, ..CheckPlan::default() }
}

fn one(plan: CheckPlan, row: CheckRow) -> Vec<CheckResult> {
    let mut builder = ChecksBuilder::new(plan);
    let half = [0.5, 0.5];
    for i in 0..1000 {
        builder.row(&CheckRow {
            action: i % 2,
            cost: -0.5,
            propensity: 0.5,
            full: Some(&half),
            n_actions: None,
            candidates: &[],
            repetition: None,
            counts_for_drift: true,
        });
    }
    builder.row(&row);
    builder.finish(CheckScope::Log)
}

const ROW: CheckRow = CheckRow {
    action: 0,
    cost: -0.5,
    propensity: 0.5,
    full: None,
    n_actions: None,
    candidates: &[],
    repetition: None,
    counts_for_drift: true,
};

/// An action with a probability of 5e-324 does not happen.
#[test]
fn an_impossible_action_fails() {
    let all = [5e-324, 1.0];
    for full in [true, false] {
        let row = CheckRow { propensity: 5e-324, full: Some(&all), ..ROW };
        let results = one(plan(full), row);
        let failed = results.iter().any(|r| r.name == CheckName::Propensities && r.failed());
        assert!(failed, "{full}: {results:?}");
    }
}

#[test]
fn rows_out_of_range_fail_every_check() {
    let (nan, half) = ([f64::NAN, 0.5], [0.5, 0.5]);
    let rows = [
        CheckRow { full: Some(&nan), ..ROW },
        CheckRow { cost: f64::NAN, full: Some(&half), ..ROW },
        CheckRow { cost: 0.1, full: Some(&half), ..ROW },
        CheckRow { action: 2, full: Some(&half), ..ROW },
        CheckRow { full: Some(&half[..1]), ..ROW },
        CheckRow { full: None, ..ROW },
    ];
    for row in rows {
        let results = one(plan(true), row);
        assert!(
            results.iter().all(|r| r.failed() && r.message.contains("in 1 of the rows")),
            "{row:?}: {results:?}"
        );
    }
    assert!(one(plan(true), CheckRow { full: Some(&half), ..ROW }).iter().all(|r| !r.failed()));
}

/// If K was not declared and only logged propensities are known, a rare action that has not been seen yet would make
/// K too small. What can be tested is that 1/p of the first k actions has a mean of at most k.
#[test]
fn a_log_with_an_unknown_number_of_actions_is_tested_by_its_first_actions() {
    // The third action has the probability 0.02 and has not been seen.
    let mut builder = ChecksBuilder::new(CheckPlan::default());
    (0..100u32).for_each(|i| builder.row(&CheckRow { action: i % 2, propensity: 0.49, ..ROW }));
    assert!(builder.finish(CheckScope::Log).iter().all(|result| result.ok == Some(true)));
    let mut builder = ChecksBuilder::new(CheckPlan::default());
    for i in 0..20_000u32 {
        builder.row(&CheckRow { action: i % 2, propensity: 0.45, ..ROW });
    }
    let results = builder.finish(CheckScope::Log);
    assert_eq!(
        results.iter().map(|r| r.name).collect::<Vec<_>>(),
        [CheckName::Propensities, CheckName::ActionCounts]
    );
    assert!(results[0].failed(), "1/0.45 is above 2: {results:?}");
    assert!(results[1].failed(), "0.5/0.45 is above 1 for both actions: {results:?}");
}

#[test]
fn names_are_those_of_json() {
    for name in CheckName::ALL {
        assert_eq!(serde_json::to_value(name).unwrap(), name.name());
        assert_eq!(CheckName::from_name(name.name()), Some(name));
    }
    assert_eq!(CheckName::from_name("other"), None);
}
