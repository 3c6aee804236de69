//! The claims of the paper's experiments section and our own, each compared with the rows: seen or not seen,
//! with the numbers that show it.

use super::lines::{Line, Promise};
use super::rows::{Of, Row, distinct};
use super::table::{markdown, number};

/// A claim and whether the rows support it.
#[derive(Debug, Clone, PartialEq)]
pub struct PaperClaim {
    /// The claim as a sentence.
    pub text: &'static str,
    /// Whether the rows support it.
    pub seen: bool,
    /// The numbers that show it.
    pub numbers: String,
}

/// How many standard errors a promise may lie above what was measured before it counts as not kept.
const SAMPLING_ERRORS: f64 = 3.0;

/// Every claim about the figures that the rows have.
pub fn claims(rows: &[Row]) -> Vec<PaperClaim> {
    let has = |figure: u8| rows.iter().any(|r| r.figure == figure);
    let mut claims = Vec::new();
    if has(1) {
        claims.extend([nothing_from_ls(rows), lig_over_mixed_logit(rows)]);
    }
    if has(2) {
        claims.push(majority(rows));
        claims.extend(catoni_at_the_ends(rows));
        claims.extend([cbb_never_fails(rows), cbb_half_is_best(rows)]);
        claims.extend(catoni_over_cbb_0(rows));
        claims.push(best_bound_best_risk(rows));
    }
    if has(3) {
        claims.extend([more_is_better(rows), gap_closes(rows)].into_iter().flatten());
    }
    if has(4) {
        claims.push(auto_is_best(rows));
    }
    claims.extend(no_guarantee_is_broken(rows));
    claims.extend(none_on_its_own_rows(rows));
    if has(5) {
        claims.extend([related_promises(rows), related_below_logging(rows)]);
    }
    claims.iter_mut().for_each(|claim| claim.numbers = number(&claim.numbers));
    claims
}

/// The claims as a Markdown table.
pub fn table(claims: &[PaperClaim]) -> String {
    let mut cells = vec![["claim", "", "numbers"].map(String::from).to_vec()];
    let word = |seen: bool| if seen { "seen" } else { "not seen" };
    cells.extend(claims.iter().map(|c| vec![c.text.into(), word(c.seen).into(), c.numbers.clone()]));
    markdown(&cells)
}

fn of_figure(rows: &[Row], figure: u8) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |r| r.figure == figure)
}

fn of(rows: &[Row], figure: u8, line: Line) -> Of<'_> {
    Of { rows, figure, line }
}

/// (α, mean of a value) of a line.
fn means(rows: &[Row], figure: u8, line: Line, value: fn(&Row) -> f64) -> Vec<(f64, f64)> {
    let at = |alpha: f64| Some((alpha, of(rows, figure, line).summary(alpha, 1, value)?.mean));
    distinct(rows, figure, |r| r.alpha).into_iter().filter_map(at).collect()
}

fn list(values: &[(f64, f64)]) -> String {
    values.iter().map(|(alpha, v)| format!("{v:.4} (α {alpha})")).collect::<Vec<_>>().join(", ")
}

fn certifies(row: &&Row) -> bool {
    row.promised_improvement > 0.0
}

/// Pairs of rows of two lines on the same log.
fn pairs<'a>(rows: &'a [Row], figure: u8, a: Line, b: Line) -> Vec<(&'a Row, &'a Row)> {
    let same = |x: &Row, y: &Row| x.alpha == y.alpha && x.seed == y.seed && x.interactions == y.interactions;
    let partner = |x: &'a Row| Some((x, of_figure(rows, figure).find(|y| y.line == b && same(x, y))?));
    of_figure(rows, figure).filter(|r| r.line == a).filter_map(partner).collect()
}

fn nothing_from_ls(rows: &[Row]) -> PaperClaim {
    let (all, certified) = (of_figure(rows, 1).count(), of_figure(rows, 1).filter(certifies).count());
    let best = of_figure(rows, 1).map(|r| r.promised_improvement).fold(f64::NEG_INFINITY, f64::max);
    PaperClaim {
        text: "LSₙ fails at providing guaranteed improvement, for both policy classes and all scenarios",
        seen: certified == 0,
        numbers: format!("{certified} of {all} certified; the largest GI* is {best:.4}"),
    }
}

fn lig_over_mixed_logit(rows: &[Row]) -> PaperClaim {
    let pairs = pairs(rows, 1, Line::LsLig, Line::LsMixedLogit);
    let better = pairs.iter().filter(|(lig, mixed)| lig.promised_risk < mixed.promised_risk).count();
    let gain = |(lig, mixed): &(&Row, &Row)| mixed.promised_risk - lig.promised_risk;
    let smallest = pairs.iter().map(gain).fold(f64::INFINITY, f64::min);
    PaperClaim {
        text: "For a fixed n, LIG policies always give better results than mixed logit policies",
        seen: better == pairs.len(),
        numbers: format!("lower GR* in {better} of {} runs, by at least {smallest:.4}", pairs.len()),
    }
}

/// GI* with R(π0) as the paper estimates it.
fn over_logged(row: &Row) -> f64 {
    row.logged_risk - row.promised_risk
}

fn majority(rows: &[Row]) -> PaperClaim {
    let (all, certified) = (of_figure(rows, 2).count(), of_figure(rows, 2).filter(certifies).count());
    let over_logged = of_figure(rows, 2).filter(|r| over_logged(r) > 0.0).count();
    PaperClaim {
        text: "Contrary to LSₙ, Cₙ and CBB guarantee improvement over π0 in the majority of scenarios",
        seen: 2 * certified > all && 2 * over_logged > all,
        numbers: format!("{certified} of {all}; {over_logged} over the mean logged cost"),
    }
}

/// None if the rows have fewer than two α. Uses the mean logged cost as the baseline, as the paper does.
fn catoni_at_the_ends(rows: &[Row]) -> Option<PaperClaim> {
    let logged = means(rows, 2, Line::Catoni, over_logged);
    let test_set = means(rows, 2, Line::Catoni, |r| r.promised_improvement);
    let [first, .., last] = &logged[..] else { return None };
    Some(PaperClaim {
        text: "Cₙ gives great results when π0 is close to uniform but fails when α → 1 (FashionMNIST)",
        seen: first.1 > 0.0 && last.1 <= 0.0,
        numbers: format!(
            "GI* over the mean logged cost {}; with R(π0) from the test set {}",
            list(&logged),
            list(&test_set)
        ),
    })
}

fn cbb_never_fails(rows: &[Row]) -> PaperClaim {
    let runs: Vec<&Row> = of_figure(rows, 2).filter(|r| r.line == Line::CbbHalf).collect();
    let certified = runs.iter().copied().filter(certifies).count();
    let test_set = means(rows, 2, Line::CbbHalf, |r| r.promised_improvement);
    let logged = means(rows, 2, Line::CbbHalf, over_logged);
    PaperClaim {
        text: "CBB ξ=−½ never fails to produce guaranteed improvement",
        seen: certified == runs.len(),
        numbers: format!(
            "{certified} of {} runs; GI* with R(π0) from the test set {}; over the mean logged cost {}",
            runs.len(),
            list(&test_set),
            list(&logged)
        ),
    }
}

fn cbb_half_is_best(rows: &[Row]) -> PaperClaim {
    let count = |other: Line| {
        let pairs = pairs(rows, 2, Line::CbbHalf, other);
        let better = pairs.iter().filter(|(half, other)| half.promised_risk < other.promised_risk).count();
        (better, pairs.len())
    };
    let (over_catoni, over_0) = (count(Line::Catoni), count(Line::Cbb0));
    PaperClaim {
        text: "CBB with ξ=−½ consistently gives the best results",
        seen: over_catoni.0 == over_catoni.1 && over_0.0 == over_0.1,
        numbers: format!(
            "lower GR* than Cₙ in {} of {} runs, than ξ=0 in {} of {}",
            over_catoni.0, over_catoni.1, over_0.0, over_0.1
        ),
    }
}

/// None if there is only one α.
fn catoni_over_cbb_0(rows: &[Row]) -> Option<PaperClaim> {
    let alphas = distinct(rows, 2, |r| r.alpha);
    let [smallest, _, ..] = alphas[..] else { return None };
    let pairs: Vec<_> = pairs(rows, 2, Line::Catoni, Line::Cbb0);
    let at_smallest: Vec<_> = pairs.into_iter().filter(|(c, _)| c.alpha == smallest).collect();
    let better = at_smallest.iter().filter(|(c, cbb)| c.promised_risk < cbb.promised_risk).count();
    Some(PaperClaim {
        text: "For small α, CBB ξ=0 is always worse than Cₙ",
        seen: better == at_smallest.len(),
        numbers: format!("Cₙ is lower in {better} of {} runs at α {smallest}", at_smallest.len()),
    })
}

fn best_bound_best_risk(rows: &[Row]) -> PaperClaim {
    let (mut runs, mut agree, mut worst) = (0, 0, 0.0f64);
    for alpha in distinct(rows, 2, |r| r.alpha) {
        for seed in distinct(rows, 2, |r| r.seed as f64) {
            let here: Vec<&Row> =
                of_figure(rows, 2).filter(|r| r.alpha == alpha && r.seed as f64 == seed).collect();
            let least =
                |value: fn(&Row) -> f64| here.iter().copied().min_by(|a, b| value(a).total_cmp(&value(b)));
            if let (Some(bound), Some(truth)) = (least(|r| r.promised_risk), least(|r| r.true_risk)) {
                runs += 1;
                agree += usize::from(bound.line == truth.line);
                worst = worst.max(bound.true_risk - truth.true_risk);
            }
        }
    }
    PaperClaim {
        text: "The bounds with the best GR* reliably give the best R(π*)",
        seen: agree == runs,
        numbers: format!("in {agree} of {runs} runs; otherwise the loss is at most {worst:.4}"),
    }
}

/// Compares the means over seeds of figure 3 at each m with those at the next.
fn more_is_better(rows: &[Row]) -> Option<PaperClaim> {
    let interactions = distinct(rows, 3, |r| r.interactions as f64);
    let (mut steps, mut guaranteed, mut truly) = (0, 0, 0);
    for line in [Line::Cbb0, Line::CbbHalf] {
        for alpha in distinct(rows, 3, |r| r.alpha) {
            let at = |m: f64, value: fn(&Row) -> f64| of(rows, 3, line).summary(alpha, m as usize, value);
            for step in interactions.windows(2) {
                let rises = |value: fn(&Row) -> f64| matches!((at(step[0], value), at(step[1], value)), (Some(a), Some(b)) if b.mean > a.mean);
                steps += 1;
                guaranteed += usize::from(rises(|r| r.promised_improvement));
                truly += usize::from(rises(|r| r.true_improvement));
            }
        }
    }
    (steps > 0).then(|| PaperClaim {
        text: "Increasing m consistently gives better guarantees and better policies",
        seen: guaranteed == steps && truly == steps,
        numbers: format!("GI* rises in {guaranteed} of {steps} steps of m, the true improvement in {truly}"),
    })
}

fn gap_closes(rows: &[Row]) -> Option<PaperClaim> {
    let interactions = distinct(rows, 3, |r| r.interactions as f64);
    let alphas = distinct(rows, 3, |r| r.alpha);
    let [least, .., most] = interactions[..] else { return None };
    let (least, most) = (least as usize, most as usize);
    let gap = |alpha: f64, m: usize| {
        let of = |line| of(rows, 3, line).summary(alpha, m, |r| r.promised_risk).map_or(f64::NAN, |s| s.mean);
        of(Line::Cbb0) - of(Line::CbbHalf)
    };
    let closes = alphas.iter().filter(|&&a| gap(a, most) < gap(a, least)).count();
    let remains = alphas.iter().filter(|&&a| gap(a, most) > 0.0).count();
    let numbers = |m: usize| list(&alphas.iter().map(|&a| (a, gap(a, m))).collect::<Vec<_>>());
    Some(PaperClaim {
        text: "m reduces the gap between ξ=0 and ξ=−½, and ξ=−½ still gives the best results",
        seen: closes == alphas.len() && remains == alphas.len(),
        numbers: format!("gap in GR* at m {least}: {}; at m {most}: {}", numbers(least), numbers(most)),
    })
}

fn auto_is_best(rows: &[Row]) -> PaperClaim {
    let others = [Line::Catoni, Line::Cbb0, Line::CbbHalf, Line::LogSmoothing, Line::Betting];
    let pairs: Vec<_> = others.iter().flat_map(|&other| pairs(rows, 4, Line::Auto, other)).collect();
    let better =
        pairs.iter().filter(|(auto, other)| auto.promised_improvement > other.promised_improvement).count();
    let means = means(rows, 4, Line::Auto, |r| r.promised_improvement);
    PaperClaim {
        text: "Beyond the paper: `auto` guarantees more than every other line at every α, nothing assumed known",
        seen: better == pairs.len(),
        numbers: format!("in {better} of {} comparisons; its GI* {}", pairs.len(), list(&means)),
    }
}

/// A promise and the measured value, with the standard error of the measurement.
struct Kept {
    promised: f64,
    measured: f64,
    error: f64,
}

impl Kept {
    fn on_test_set(row: &Row) -> Self {
        Kept { promised: row.promised_improvement, measured: row.true_improvement, error: row.test_error }
    }

    fn on_own_rows(row: &Row) -> Option<Self> {
        let (measured, error) = (row.own_improvement?, row.own_error?);
        Some(Kept { promised: row.promised_improvement, measured, error })
    }

    fn excess(&self) -> f64 {
        self.promised - self.measured
    }

    fn errors(&self) -> f64 {
        self.excess() / self.error
    }
}

/// How many promises were not kept, and a text with this number and the worst case. The rule is the same for
/// all.
fn not_kept(promises: &[Kept]) -> (usize, String) {
    let broken = promises.iter().filter(|kept| kept.errors() > SAMPLING_ERRORS).count();
    let above = promises.iter().filter(|kept| kept.excess() > 0.0).count();
    let worst = promises.iter().max_by(|a, b| a.errors().total_cmp(&b.errors()));
    let worst = worst.map_or(String::new(), |kept| {
        format!(", the worst by {:.4} ({:.1} standard errors)", kept.excess(), kept.errors())
    });
    let numbers = format!(
        "{broken} of {} by more than {SAMPLING_ERRORS} standard errors; {above} by any amount{worst}",
        promises.len()
    );
    (broken, numbers)
}

/// Each job once, even if several figures show it.
fn jobs(rows: &[Row], wanted: fn(&Row) -> bool) -> Vec<&Row> {
    let mut seen = std::collections::BTreeSet::new();
    let key = |r: &Row| (r.line, r.promise, r.alpha.to_bits(), r.interactions, r.seed);
    rows.iter().filter(|r| wanted(r) && seen.insert(key(r))).collect()
}

fn no_guarantee_is_broken(rows: &[Row]) -> Option<PaperClaim> {
    let guarantees = jobs(rows, |r| r.promise != Promise::Estimate);
    let kept: Vec<Kept> = guarantees.into_iter().map(Kept::on_test_set).collect();
    let (broken, numbers) = not_kept(&kept);
    (!kept.is_empty()).then_some(PaperClaim {
        text: "No guaranteed improvement exceeds the true one beyond the test set's sampling error",
        seen: broken == 0,
        numbers,
    })
}

fn none_on_its_own_rows(rows: &[Row]) -> Option<PaperClaim> {
    let kept: Vec<Kept> = jobs(rows, |_| true).into_iter().filter_map(Kept::on_own_rows).collect();
    let (broken, numbers) = not_kept(&kept);
    (!kept.is_empty()).then_some(PaperClaim {
        text: "Nor does it exceed the true one on the bound's own rows, which `auto` did not learn from",
        seen: broken == 0,
        numbers,
    })
}

fn related_promises(rows: &[Row]) -> PaperClaim {
    let related = jobs(rows, |r| r.promise == Promise::Estimate);
    let (broken, numbers) = not_kept(&related.into_iter().map(Kept::on_test_set).collect::<Vec<_>>());
    PaperClaim {
        text: "Objectives with a tuned λ do not necessarily cover the true risk",
        seen: broken > 0,
        numbers,
    }
}

fn related_below_logging(rows: &[Row]) -> PaperClaim {
    let related = jobs(rows, |r| r.promise == Promise::Estimate);
    let worse = related.iter().filter(|r| r.true_improvement < 0.0).count();
    let least = related.iter().map(|r| r.true_improvement).fold(f64::INFINITY, f64::min);
    PaperClaim {
        text: "Optimizing them can lead to policies worse than π0",
        seen: worse > 0,
        numbers: format!("{worse} of {}; the smallest true improvement is {least:.4}", related.len()),
    }
}
