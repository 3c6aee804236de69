use super::*;
use crate::log::{FeatureSpace, Sets};
use crate::policy::PolicyParams;

fn known(index: u32, weight: f64) -> KnownFeature {
    KnownFeature { index, center: 0.0, scale: 1.0, weight }
}

/// Two request features, of which one counts where it is absent, and three action features.
fn scorer() -> ActionScorer {
    ActionScorer {
        features: ActionSets {
            x: FeatureSpace::Named { dim: 1 << 24 },
            actions: FeatureSpace::List { dim: 10 },
        },
        inverse_temperature: 2.0,
        constant: -1.5,
        x: vec![known(3, 0.25), KnownFeature { index: 9_000_000, center: 2.0, scale: 0.5, weight: -1.0 }],
        actions: vec![known(0, 1.0), known(4, -0.5), known(9, 0.125)],
        pairs: Some(PairWeights { bits: None, cells: vec![1, 3], weights: vec![2.0, -4.0] }),
        hidden: Some(HiddenUnits {
            bias: vec![0.5, -10.0],
            x: vec![vec![1.0, 0.0], vec![0.0, 1.0]],
            actions: vec![vec![-1.0, 0.0], vec![0.25, 0.0], vec![0.0, 3.0]],
            output: vec![8.0, 100.0],
        }),
    }
}

/// Rows of request features and the features of each action.
type Row<'a> = (&'a [(u32, f32)], &'a [&'a [(u32, f32)]]);

fn sets(rows: &[Row]) -> Sets {
    let mut sets = Sets::default();
    for (x, actions) in rows {
        sets.x.push(x.iter().copied());
        actions.iter().for_each(|action| sets.actions.push(action.iter().copied()));
        sets.end_row();
    }
    sets
}

#[test]
fn scores_are_the_sum_of_their_terms() {
    let scorer = scorer();
    scorer.check().unwrap();
    let rows: [Row; 2] = [
        (&[(3, 2.0), (9_000_000, 4.0)], &[&[(0, 1.0)], &[(4, 2.0)], &[]]),
        (&[(77, 5.0)], &[&[(0, 1.0), (9, 4.0)], &[(5, 3.0)]]),
    ];
    let sets = sets(&rows);
    let scores = scorer.scores(sets.view()).unwrap();
    // Row 0: x = (2, (4 − 2)/2 = 1), common = −1.5 + 0.5 − 1 = −2, units before actions (0.5 + 2, −10 + 1).
    let pairs = [-4.0 * (1.0 * 1.0), 2.0 * (2.0 * 2.0), 0.0];
    let hidden = [8.0 * 1.5, 8.0 * 3.0, 8.0 * 2.5];
    let alone = [1.0, -1.0, 0.0];
    for a in 0..3 {
        let want = -2.0 + alone[a] + pairs[a] + hidden[a];
        assert!((scores.scores[(0, a)] - want).abs() < 1e-12, "{a}: {}", scores.scores[(0, a)]);
    }
    // Row 1: the first feature is absent, the second counts as −1, a feature that nobody knows counts for nothing.
    let want = [-1.5 + 1.0 + 1.0 + 0.5 + 4.0 + 8.0 * 0.0 + 100.0 * 1.0, -0.5 + 8.0 * 0.5];
    assert!((scores.scores[(1, 0)] - want[0]).abs() < 1e-12, "{}", scores.scores[(1, 0)]);
    assert!((scores.scores[(1, 1)] - want[1]).abs() < 1e-12, "{}", scores.scores[(1, 1)]);
    assert_eq!(scores.scores[(1, 2)], f64::NEG_INFINITY);
    assert!(
        scores.rounding.iter().all(|&rounding| rounding > 0.0 && rounding < 1e-10),
        "{:?}",
        scores.rounding
    );
}

#[test]
fn tables_and_searches_give_the_same_scores() {
    for bits in [None, Some(10)] {
        let mut scorer = ActionScorer { hidden: None, ..scorer() };
        scorer.actions = (0..10).map(|j| known(j, 0.1 * f64::from(j))).collect();
        scorer.x = (0..100).map(|i| known(7 * i, 0.0)).collect();
        let cells: Vec<u32> = (0..1000).filter(|cell| cell % 3 == 1).collect();
        let weights = cells.iter().map(|&cell| (cell % 17) as f32 - 8.0).collect();
        scorer.pairs = Some(PairWeights { bits, cells, weights });
        scorer.check().unwrap();
        let row: Row = (&[(7, 1.0), (70, 0.5), (693, 2.0)], &[&[(1, 1.0), (5, 2.0)], &[(9, 1.0)]]);
        let many = sets(&[row; 64]);
        let all = scorer.scores(many.view()).unwrap();
        let one = scorer.scores(sets(&[row]).view()).unwrap();
        assert_eq!(all.scores.row(63), one.scores.row(0));
        assert!(one.scores[(0, 0)] != one.scores[(0, 1)]);
    }
}

#[test]
fn outliers_are_clipped() {
    let scorer = ActionScorer { pairs: None, hidden: None, ..scorer() };
    let sets = sets(&[(&[], &[&[(0, 5.0)], &[(0, f32::MAX)], &[(0, -f32::MAX)]])]);
    let scores = scorer.scores(sets.view()).unwrap().scores;
    assert_eq!(scores[(0, 0)], scores[(0, 1)]);
    assert_eq!(scores[(0, 0)] - scores[(0, 2)], 10.0);
}

#[test]
fn json_keeps_every_bit() {
    let policy = PolicyParams::ActionScorer(Box::new(scorer()));
    let text = serde_json::to_string(&policy).unwrap();
    let again: PolicyParams = serde_json::from_str(&text).unwrap();
    assert_eq!(again, policy);
    assert_eq!(again.digest().unwrap(), policy.digest().unwrap());
    let unknown = text.replace("\"constant\"", "\"constants\"");
    assert!(serde_json::from_str::<PolicyParams>(&unknown).is_err());
    let short = r#"{"kind":"action_scorer","features":{"x":{"form":"none"},"actions":{"form":"list","dim":2}},
        "inverse_temperature":1.0,"actions":[{"index":1,"scale":1.0,"weight":0.5}]}"#;
    serde_json::from_str::<PolicyParams>(short).unwrap().check().unwrap();
}

#[test]
fn faults_name_their_field() {
    let change = |change: fn(&mut ActionScorer)| {
        let mut changed = scorer();
        change(&mut changed);
        changed.check().map_err(|error| error.field).err().unwrap_or_default()
    };
    assert_eq!(change(|_| {}), "");
    assert_eq!(change(|s| s.inverse_temperature = f64::NAN), "inverse_temperature");
    assert_eq!(change(|s| s.constant = f64::INFINITY), "constant");
    assert_eq!(change(|s| s.x.swap(0, 1)), "x");
    assert_eq!(change(|s| s.actions[2].index = 4), "actions");
    assert_eq!(change(|s| s.actions[2].index = 10), "actions[2].index");
    assert_eq!(change(|s| s.features.x = FeatureSpace::None), "x[0].index");
    assert_eq!(change(|s| s.x[1].center = f32::NAN), "x[1].center");
    assert_eq!(change(|s| s.x[1].scale = 0.0), "x[1].scale");
    assert_eq!(change(|s| s.x[0].weight = 1e30), "x[0].weight");
    assert_eq!(change(|s| s.pairs.as_mut().unwrap().cells = vec![3, 1]), "pairs.cells");
    assert_eq!(change(|s| s.pairs.as_mut().unwrap().cells = vec![1, 6]), "pairs.cells");
    assert_eq!(change(|s| s.pairs.as_mut().unwrap().weights = vec![1.0]), "pairs.weights");
    assert_eq!(change(|s| s.pairs.as_mut().unwrap().weights[1] = f32::NAN), "pairs.weights[1]");
    assert_eq!(change(|s| s.pairs.as_mut().unwrap().bits = Some(0)), "pairs.bits");
    assert_eq!(change(|s| s.pairs.as_mut().unwrap().bits = Some(21)), "pairs.bits");
    assert_eq!(change(|s| s.hidden.as_mut().unwrap().bias = Vec::new()), "hidden.bias");
    assert_eq!(change(|s| s.hidden.as_mut().unwrap().bias = vec![0.0; 257]), "hidden.bias");
    assert_eq!(change(|s| s.hidden.as_mut().unwrap().output.push(1.0)), "hidden.output");
    assert_eq!(change(|s| s.hidden.as_mut().unwrap().x[1].clear()), "hidden.x");
    assert_eq!(change(|s| drop(s.hidden.as_mut().unwrap().actions.pop())), "hidden.actions");
    assert_eq!(change(|s| s.hidden.as_mut().unwrap().actions[0][1] = f32::NAN), "hidden");
    assert_eq!(
        change(|s| {
            s.features.actions = FeatureSpace::List { dim: 1 << 20 };
            s.actions = (0..(MAX_PAIRS / 2 + 1) as u32).map(|j| known(j, 0.0)).collect();
        }),
        "actions"
    );
    assert_eq!(
        change(|s| {
            s.features.actions = FeatureSpace::List { dim: 1 << 20 };
            s.actions = (0..MAX_KNOWN as u32).map(|j| known(j, 0.0)).collect();
            s.x = (0..9).map(|i| known(i, 0.0)).collect();
        }),
        "pairs.bits"
    );
}

#[test]
fn buckets_are_those_that_are_documented() {
    assert_eq!(
        [pair_bucket(0, 0, 20), pair_bucket(1, 0, 20), pair_bucket(0, 1, 20)],
        [0xe220a, 0x0, 0x910a2]
    );
    let pairs = (0..100).flat_map(|x| (0..100).map(move |a| pair_bucket(x, a, 18)));
    let used: std::collections::BTreeSet<u32> = pairs.collect();
    assert!(used.len() > 9700, "{}", used.len());
}
