//! Claims, tables and figures from rows that are written by hand.

use guarantor_engine::spec::{Baseline, BaselineKind, BoundKind};
use guarantor_lab::claims::{PaperClaim, claims};
use guarantor_lab::lines::{Line, Promise, of_figure};
use guarantor_lab::pictures::picture;
use guarantor_lab::report;
use guarantor_lab::rows::{self, Row, Summary};
use guarantor_lab::table::tables;

const ALPHAS: [f64; 2] = [0.1, 1.0];

fn row(figure: u8, (line, promise): (Line, Promise), alpha: f64, interactions: usize, seed: u64) -> Row {
    let logging_risk = if alpha == 0.1 { -0.2 } else { -0.7 };
    let (promised_risk, gain) = match (line, alpha == 0.1, interactions) {
        (Line::LsMixedLogit, ..) => (logging_risk + 0.2, 0.1),
        (Line::LsLig, ..) => (logging_risk + 0.1, 0.1),
        (Line::Catoni, true, _) => (-0.5, 0.35),
        (Line::Cbb0, true, 1) => (-0.4, 0.3),
        (Line::CbbHalf, true, 1) => (-0.55, 0.4),
        (Line::Cbb0, true, _) => (-0.5, 0.4),
        (Line::CbbHalf, true, _) => (-0.6, 0.5),
        (Line::Catoni, false, _) => (-0.705, 0.05),
        (Line::Cbb0, false, 1) => (-0.75, 0.06),
        (Line::CbbHalf, false, 1) => (-0.77, 0.08),
        (Line::Cbb0, false, _) => (-0.77, 0.08),
        (Line::CbbHalf, false, _) => (-0.785, 0.09),
        (Line::Auto, ..) => (logging_risk - 0.4, 0.41),
        (Line::CrmSvp, ..) => (logging_risk - 0.45, 0.4),
        (Line::BayesianCrm, ..) => (logging_risk - 0.05, -0.02),
        _ => (logging_risk - 0.1, 0.2),
    };
    // A certified baseline costs something.
    let fee = if promise == Promise::Certified && line != Line::Auto { 0.01 } else { 0.0 };
    Row {
        figure,
        dataset: "small".into(),
        line,
        promise,
        alpha,
        interactions,
        seed,
        contexts: 100,
        logging_risk,
        logged_risk: logging_risk - 0.02,
        promised_risk,
        promised_improvement: logging_risk - promised_risk - fee,
        true_risk: logging_risk - gain,
        true_improvement: gain,
        test_error: 0.01,
        own_improvement: (line == Line::Auto).then_some(0.42),
        own_error: (line == Line::Auto).then_some(0.005),
        lambda: line.related().map(|principle| principle.grid()[3]),
        termination: None,
        numerical_slack: None,
        decision: None,
        seconds: 1.0,
    }
}

/// Rows for which every claim is true: two α, two seeds, m of 1 and 4.
fn good() -> Vec<Row> {
    let mut rows = Vec::new();
    for figure in 1..=5 {
        let interactions: &[usize] = if figure == 3 { &[1, 4] } else { &[1] };
        for &m in interactions {
            for of in of_figure(figure) {
                let runs = ALPHAS.iter().flat_map(|&alpha| [(alpha, 1), (alpha, 2)]);
                rows.extend(runs.map(|(alpha, seed)| row(figure, of, alpha, m, seed)));
            }
        }
    }
    rows
}

fn claim(rows: &[Row], beginning: &str) -> PaperClaim {
    let all = claims(rows);
    let found: Vec<&PaperClaim> = all.iter().filter(|c| c.text.starts_with(beginning)).collect();
    assert_eq!(found.len(), 1, "{beginning}");
    found[0].clone()
}

/// The good rows with some of them changed.
fn with(choose: impl Fn(&Row) -> bool, change: impl Fn(&mut Row)) -> Vec<Row> {
    let mut rows = good();
    let mut changed = 0;
    for row in rows.iter_mut().filter(|r| choose(r)) {
        change(row);
        changed += 1;
    }
    assert!(changed > 0);
    rows
}

fn one(figure: u8, line: Line, alpha: f64) -> impl Fn(&Row) -> bool {
    move |r| (r.figure, r.line, r.alpha, r.seed) == (figure, line, alpha, 1)
}

#[test]
fn every_claim_is_seen_if_it_is_true() {
    let all = claims(&good());
    assert_eq!(all.len(), 15);
    for claim in all {
        assert!(claim.seen, "{claim:?}");
    }
}

#[test]
fn no_claim_is_seen_if_it_is_false() {
    let related = |r: &Row| r.promise == Promise::Estimate;
    let cases: Vec<(&str, Vec<Row>)> = vec![
        ("LSₙ fails", with(one(1, Line::LsLig, 1.0), |r| r.promised_improvement = 0.001)),
        ("For a fixed n, LIG", with(one(1, Line::LsMixedLogit, 1.0), |r| r.promised_risk = -0.61)),
        (
            "Contrary to LSₙ",
            with(|r| r.figure == 2 && r.line != Line::Catoni, |r| r.promised_improvement = 0.0),
        ),
        // It certifies at both ends over the mean logged cost, or at neither.
        ("Cₙ gives great", with(|r| r.figure == 2 && r.alpha == 1.0, |r| r.logged_risk = -0.7)),
        ("Cₙ gives great", with(|r| r.figure == 2, |r| r.logged_risk = -0.75)),
        ("CBB ξ=−½ never", with(one(2, Line::CbbHalf, 1.0), |r| r.promised_improvement = -0.001)),
        ("CBB with ξ=−½", with(one(2, Line::Catoni, 0.1), |r| r.promised_risk = -0.551)),
        ("CBB with ξ=−½", with(one(2, Line::Cbb0, 1.0), |r| r.promised_risk = -0.771)),
        ("For small α", with(one(2, Line::Cbb0, 0.1), |r| r.promised_risk = -0.501)),
        ("The bounds with the best", with(one(2, Line::Catoni, 1.0), |r| r.true_risk = -0.9)),
        (
            "Increasing m",
            with(|r| r.interactions == 4 && r.line == Line::Cbb0, |r| r.true_improvement = 0.01),
        ),
        ("Increasing m", with(|r| r.interactions == 4, |r| r.promised_improvement = 0.01)),
        ("m reduces", with(|r| r.interactions == 4 && r.line == Line::Cbb0, |r| r.promised_risk = -0.3)),
        ("m reduces", with(|r| r.interactions == 4 && r.line == Line::Cbb0, |r| r.promised_risk = -0.9)),
        ("Beyond the paper: `auto`", with(one(4, Line::Betting, 0.1), |r| r.promised_improvement = 0.401)),
        ("No guaranteed", with(one(4, Line::Catoni, 0.1), |r| r.true_improvement = 0.25)),
        ("Nor does it", with(one(4, Line::Auto, 0.1), |r| r.own_improvement = Some(0.38))),
        ("Objectives with a tuned λ", with(related, |r| r.promised_improvement = r.true_improvement + 0.029)),
        ("Optimizing them", with(related, |r| r.true_improvement = 0.0)),
    ];
    for (beginning, rows) in cases {
        let claim = claim(&rows, beginning);
        assert!(!claim.seen, "{claim:?}");
    }
}

#[test]
fn promises_have_one_rule_and_jobs_count_once() {
    // 8 jobs in figure 1, 12 in 2, 8 more in 3, 24 in 4; figure 5 shows 8 of these again.
    let numbers = |rows: &[Row], beginning: &str| claim(rows, beginning).numbers;
    let shown = numbers(&good(), "No guaranteed");
    assert!(shown.starts_with("0 of 52 by more than 3 standard errors; 0 by any amount"), "{shown}");
    // The rows of one job in both figures are changed, and one job counts as broken.
    let broken =
        with(|r| r.line == Line::Auto && r.alpha == 1.0 && r.seed == 2, |r| r.true_improvement = 0.36);
    let shown = numbers(&broken, "No guaranteed");
    assert_eq!(
        shown,
        "1 of 52 by more than 3 standard errors; 1 by any amount, the worst by 0.0400 (4.0 standard errors)"
    );
    // 0.45 for 0.4 is 5 standard errors, 0.05 for −0.02 is 7.
    let shown = numbers(&good(), "Objectives");
    assert_eq!(
        shown,
        "8 of 8 by more than 3 standard errors; 8 by any amount, the worst by 0.0700 (7.0 standard errors)"
    );
    // Within three standard errors an estimate counts as kept, as a guarantee does.
    let near = with(|r| r.line == Line::CrmSvp, |r| r.true_improvement = 0.425);
    let shown = numbers(&near, "Objectives");
    assert!(shown.starts_with("4 of 8 by more than 3 standard errors; 8 by any amount"), "{shown}");
    assert_eq!(
        numbers(&good(), "Nor does it").split(';').next(),
        Some("0 of 4 by more than 3 standard errors")
    );
}

#[test]
fn claims_about_a_range_need_two_values() {
    let rows: Vec<Row> = good().into_iter().filter(|r| r.alpha == 0.1 && r.interactions == 1).collect();
    let texts: Vec<&str> = claims(&rows).iter().map(|c| c.text).collect();
    assert_eq!(texts.len(), 11, "{texts:?}");
    for absent in ["Cₙ gives great", "For small α", "Increasing m", "m reduces"] {
        assert!(!texts.iter().any(|text| text.starts_with(absent)), "{absent}");
    }
    let none: Vec<Row> = good().into_iter().filter(|r| r.promise == Promise::Estimate).collect();
    assert_eq!(claims(&none).len(), 2, "no guarantee among them");
}

#[test]
fn both_baselines_are_shown() {
    let shown = claim(&good(), "Cₙ gives great").numbers;
    assert_eq!(
        shown,
        "GI* over the mean logged cost 0.2800 (α 0.1), −0.0150 (α 1); \
         with R(π0) from the test set 0.3000 (α 0.1), 0.0050 (α 1)"
    );
    let shown = claim(&good(), "CBB ξ=−½ never").numbers;
    assert!(
        shown.contains("0.0700 (α 1)") && shown.contains("over the mean logged cost 0.3300 (α 0.1)"),
        "{shown}"
    );
    assert_eq!(claim(&good(), "Contrary").numbers, "12 of 12; 10 over the mean logged cost");
}

#[test]
fn a_summary_is_a_mean_with_the_samples_deviation() {
    let of = |values: &[f64]| Summary::of(values.iter().copied());
    assert_eq!(of(&[]), None);
    assert_eq!(of(&[0.5]), Some(Summary { mean: 0.5, deviation: 0.0, count: 1 }));
    assert_eq!(of(&[1.0, 2.0, 3.0]), Some(Summary { mean: 2.0, deviation: 1.0, count: 3 }));
}

#[test]
fn tables_have_mean_and_deviation_in_their_cells() {
    let apart = with(one(1, Line::LsLig, 1.0), |r| r.promised_risk = -0.4);
    let want = "\
## Figure 1. LSₙ, with mixed logit and with LIG policies

| guaranteed risk GR*     |          α = 0.1 |            α = 1 |
|-------------------------|-----------------:|-----------------:|
| R(π0), test set         | −0.2000 ± 0.0000 | −0.7000 ± 0.0000 |
| R(π0), mean logged cost | −0.2200 ± 0.0000 | −0.7200 ± 0.0000 |
| LSₙ, mixed logit        |  0.0000 ± 0.0000 | −0.5000 ± 0.0000 |
| LSₙ, LIG                | −0.1000 ± 0.0000 | −0.5000 ± 0.1414 |
";
    assert!(tables(&apart, 1).starts_with(want), "{}", tables(&apart, 1));
    let once: Vec<Row> = good().into_iter().filter(|r| r.seed == 1).collect();
    let text = tables(&once, 3);
    assert!(text.contains("| CBB ξ=−½, m = 4            |  0.4000 | 0.0850 |"), "{text}");
    let text = tables(&once, 2);
    assert!(text.contains("| Cₙ                            |  0.2800 | −0.0150 |"), "{text}");
}

#[test]
fn figure_4_has_the_bounds_own_rows_and_figure_5_the_chosen_lambda() {
    let refined = with(one(4, Line::Auto, 1.0), |r| (r.own_improvement, r.own_error) = (None, None));
    let text = tables(&refined, 4);
    for line in [
        "| `auto`: α | seed | guaranteed | true, the bound's own rows |  true, test set |",
        "| 0.1       |    1 |     0.4000 |            0.4200 ± 0.0050 | 0.4100 ± 0.0100 |",
        "| 1         |    1 |     0.4000 |            learned on them | 0.4100 ± 0.0100 |",
        "| 1         |    2 |     0.4000 |            0.4200 ± 0.0050 | 0.4100 ± 0.0100 |",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let text = tables(&with(one(5, Line::BayesianCrm, 1.0), |r| r.lambda = Some(1e-9)), 5);
    for line in [
        "| CRM/SVP                            |     10, 10 |      10, 10 |",
        "| Bayesian CRM                       | 1e-6, 1e-6 | 1e-9*, 1e-6 |",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_picture_draws_means_and_their_bands() {
    let apart = with(one(2, Line::CbbHalf, 1.0), |r| r.promised_improvement = 0.05);
    let figure = picture(&apart, 2).unwrap();
    assert_eq!((figure.panels.len(), figure.columns), (3, 3));
    assert!(figure.caption[0].contains("mean over 2 seeds"), "{:?}", figure.caption);
    let risk = &figure.panels[0];
    assert_eq!(risk.series[0].label, "R(π0), the logging policy");
    assert_eq!(
        risk.series[0].points.iter().map(|p| (p.x, p.mean)).collect::<Vec<_>>(),
        [(0.1, -0.2), (1.0, -0.7)]
    );
    let improvement = &figure.panels[2].series;
    assert_eq!(improvement.len(), 3);
    let half = improvement.iter().find(|s| s.label == "CBB ξ=−½").unwrap();
    let last = half.points[1];
    let (mean, deviation) = (0.06, 0.02 / 2f64.sqrt());
    for (drawn, want) in [(last.mean, mean), (last.low, mean - deviation), (last.high, mean + deviation)] {
        assert!((drawn - want).abs() < 1e-12, "{last:?}");
    }
    // Figure 4's shares: over what `auto` truly gains, cut off below.
    let poor = with(
        |r| r.figure == 4 && r.line == Line::Catoni && r.alpha == 1.0,
        |r| r.promised_improvement = -9.0,
    );
    let share = picture(&poor, 4).unwrap().panels.remove(2);
    let of = |name: &str| share.series.iter().find(|s| s.label == name).unwrap().points[1].mean;
    assert!(share.percent && (of("auto") - 0.4 / 0.41).abs() < 1e-12, "{share:?}");
    assert_eq!(of("Cₙ"), -0.1);
    // Figure 3: m on the axis, α across.
    let figure = picture(&good(), 3).unwrap();
    let titles: Vec<&str> = figure.panels.iter().map(|p| p.title.as_str()).collect();
    assert_eq!(titles[..2], ["Guaranteed improvement GI*, α = 0.1", "Guaranteed improvement GI*, α = 1"]);
    assert_eq!(figure.panels[0].series[0].points.iter().map(|p| p.x).collect::<Vec<_>>(), [0.0, 2.0]);
    assert!(picture(&[], 1).is_none());
}

#[test]
fn a_line_requests_its_bound() {
    let half = Line::CbbHalf.request(Promise::KnownBaseline, -0.7, 3);
    assert_eq!((half.bound, half.xi, half.seed), (Some(BoundKind::Cbb), Some(-0.5), Some(3)));
    assert_eq!(half.baseline, Some(Baseline { kind: BaselineKind::Known, risk: Some(-0.7) }));
    let zero = Line::Cbb0.request(Promise::Certified, -0.7, 3);
    assert_eq!((zero.bound, zero.xi), (Some(BoundKind::Cbb), Some(0.0)));
    assert_eq!(zero.baseline, Some(Baseline { kind: BaselineKind::Certified, risk: None }));
}

/// docs/reproduction.md shows what `guarantor-lab reproduce --out docs/reproduction` wrote, line for line.
#[test]
fn the_documented_tables_are_those_of_the_documented_rows() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let rows = rows::read(&docs.join("reproduction/results.csv")).unwrap();
    let tables = std::fs::read_to_string(docs.join("reproduction/tables.md")).unwrap();
    assert_eq!(report::text(&rows), tables, "tables.md does not match results.csv");
    let document = std::fs::read_to_string(docs.join("reproduction.md")).unwrap();
    let shown: std::collections::HashSet<&str> = document.lines().collect();
    for line in tables.lines().filter(|line| line.starts_with('|')) {
        assert!(shown.contains(line), "docs/reproduction.md lacks {line}");
    }
}
