//! `guarantor inspect`: the health report on a log, for a person at a terminal.

use std::io::IsTerminal;

use clap::Args;
use guarantor::store::{Dataset, FileFailed, Store, UploadError, Workspace};
use guarantor_engine::checks::TimeSlice;
use guarantor_engine::log::{
    ActionSets, FeatureSpace, Logging, NamedOutcome, Outcome, OutcomeKind, Precision, Repetitions,
};
use guarantor_ingest::{Fit, Health, IngestError, OutcomeSummary, SetSizes, WarningCode};
use serde_json::json;

use super::log_file::{InputLog, LogArgs};
use super::rejections::{rejection_as_json, show_errors};
use super::report::{ReportPage, Tone, amount, bytes, decimal, percent};
use super::{Failure, Verdict, print_text, runtime};

/// The options of `guarantor inspect`.
#[derive(Args)]
pub struct InspectArgs {
    #[command(flatten)]
    log: LogArgs,
    /// Print the service's response as JSON.
    #[arg(long)]
    json: bool,
}

/// If there are at most this many actions, each has its own line.
const ALL_ACTIONS: usize = 16;
/// If there are more, this many of the most frequent and of the least frequent have one.
const MOST: usize = 8;
const LEAST: usize = 3;
const BAR: usize = 40;

/// Reports on a log: `Yes` if there are no warnings, `No` if there are, an error if it cannot be used.
pub fn inspect(mut args: InspectArgs) -> Result<Verdict, Failure> {
    let (directory, runtime) = (tempfile::tempdir()?, runtime()?);
    runtime.block_on(args.log.find_objects())?;
    let log = args.log.log()?;
    let read = runtime.block_on(async {
        let store = Store::open(directory.path()).await?;
        log.read(&store, &Workspace::default()).await
    })?;
    match read {
        Ok(dataset) => {
            let health: Health = serde_json::from_value(dataset.content.health.clone())?;
            if args.json {
                print_text(&format!("{}\n", serde_json::to_string_pretty(&as_json(&dataset))?))?;
            } else {
                let mut page = ReportPage::new(super::colors(std::io::stdout().is_terminal()));
                show(&mut page, &log, &dataset, &health);
                print_text(page.text())?;
            }
            Ok(if health.warnings.is_empty() { Verdict::Yes } else { Verdict::No })
        }
        Err(FileFailed { file, error }) => {
            let name = log.name_of(file);
            if args.json {
                let rejection = rejection_as_json(&name, &error);
                print_text(&format!("{}\n", serde_json::to_string_pretty(&rejection)?))?;
            } else if let UploadError::Log(IngestError::Rows(rows)) = &error {
                let mut page = ReportPage::new(super::colors(std::io::stdout().is_terminal()));
                show_errors(&mut page, &name, rows);
                print_text(page.text())?;
            }
            Err(match error {
                UploadError::Log(IngestError::Rows(_)) => format!("{name}: the log cannot be used").into(),
                other => format!("{name}: {other}").into(),
            })
        }
    }
}

fn show(page: &mut ReportPage, log: &InputLog, dataset: &Dataset, health: &Health) {
    let content = &dataset.content;
    page.title(&format!("{}  {}", log.name_of(None), formats(log)));
    page.pair("rows", &amount(content.rows as f64));
    if content.contexts < content.rows {
        page.pair(
            "contexts",
            &format!("{}, some of them logged repeatedly", amount(content.contexts as f64)),
        );
    }
    let sets = content.capabilities.action_sets.zip(health.action_sets.as_ref());
    match sets {
        Some((features, sizes)) => action_sets(page, features, sizes),
        None => {
            page.pair("actions", &amount(content.n_actions as f64));
            let features = if content.dim == 0 {
                "none, so there is nothing to learn from".into()
            } else {
                amount(content.dim as f64)
            };
            page.pair("features", &features);
        }
    }
    let outcome = &content.outcome;
    let kind = outcome_name(outcome);
    if content.capabilities.outcomes.is_empty() {
        let cut = health.outcomes.first().and_then(|summary| cut_of(outcome, summary)).unwrap_or_default();
        page.pair("outcome", &format!("{kind} in [{}, {}]{cut}", outcome.min, outcome.max));
    }
    page.pair("logging", logging(dataset.logging));
    if content.contexts < content.rows {
        page.pair("repetitions", repetitions(dataset.repetitions));
    }
    let full = content.capabilities.full_propensities;
    let uniform = content.capabilities.uniform;
    page.pair(
        "propensities",
        match (uniform, full) {
            (true, _) if sets.is_some() => "the same for all actions of a row",
            (true, _) => "1/K, the same for all actions",
            (_, true) => "of all actions",
            _ => "of the logged action only",
        },
    );
    page.pair("propensity digits", &digits(content.capabilities.precision));
    if let Some(last) = &content.capabilities.last_version {
        let (n, rows) = (amount(last.versions as f64), amount(last.rows as f64));
        page.pair("policy versions", &format!("{n}, the last is {:?} with {rows} rows", last.name));
    }
    page.pair("order of arrival", if content.capabilities.timestamps { "by timestamp" } else { "by row" });
    if !content.capabilities.candidates.is_empty() {
        page.pair("candidates", &content.capabilities.candidates.join(", "));
    }
    page.line(&format!("  {}", content.digest));
    outcomes(page, &content.capabilities.outcomes, health);
    exploration(page, health, content.rows as f64);
    fit(page, health);
    checks(page, health);
    drift(page, health, outcome);
    let what = if sets.is_some() { "each position" } else { "each action" };
    actions(page, what, &health.action_counts);
    warnings(page, health);
}

/// The sizes and the features of action sets.
fn action_sets(page: &mut ReportPage, features: ActionSets, sizes: &SetSizes) {
    let (least, most) = (amount(sizes.least_actions as f64), amount(sizes.most_actions as f64));
    let size = if least == most {
        most
    } else {
        format!("{least} to {most}, on average {:.1},", sizes.mean_actions)
    };
    page.pair("actions", &format!("{size} in each row"));
    page.pair("request features", &feature_space(features.x, sizes.mean_request_features));
    page.pair("action features", &feature_space(features.actions, sizes.mean_action_features));
}

fn feature_space(space: FeatureSpace, mean: f64) -> String {
    match space {
        FeatureSpace::None => "none".into(),
        FeatureSpace::List { dim } => format!("lists of {}, on average {mean:.1} not 0", amount(dim.into())),
        FeatureSpace::Named { dim } => {
            format!("named, on average {mean:.1} not 0, hashed into {} dimensions", amount(dim.into()))
        }
    }
}

/// The outcomes, if they have names.
fn outcomes(page: &mut ReportPage, named: &[NamedOutcome], health: &Health) {
    if named.is_empty() {
        return;
    }
    page.heading("The outcomes, the primary one first");
    for (NamedOutcome { name, outcome }, summary) in named.iter().zip(&health.outcomes) {
        let (kind, cut) = (outcome_name(outcome), cut_of(outcome, summary).unwrap_or_default());
        let range = format!("{kind} in [{}, {}]{cut}", outcome.min, outcome.max);
        let seen = format!(
            "mean {}, from {} to {}",
            decimal(summary.mean),
            decimal(summary.min),
            decimal(summary.max)
        );
        page.pair(name, &format!("{range}; {seen}"));
    }
}

/// In how many rows an outcome was cut, if it is to be cut.
fn cut_of(outcome: &Outcome, summary: &OutcomeSummary) -> Option<String> {
    outcome.cuts().map(|cuts| format!(": {cuts} ({} of the rows)", percent(summary.cut_share)))
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome.kind {
        OutcomeKind::Cost => "cost",
        OutcomeKind::Reward => "reward",
    }
}

/// The formats of the files, and their size if it is known.
fn formats(log: &InputLog) -> String {
    let mut titles: Vec<&str> = log.files.iter().map(|(_, format)| format.format.title()).collect();
    titles.dedup();
    match log.bytes() {
        Some(size) => format!("{}, {}", titles.join(" and "), bytes(size)),
        None => titles.join(" and "),
    }
}

fn exploration(page: &mut ReportPage, health: &Health, rows: f64) {
    page.heading("How much the deployed policy explored");
    page.pair("smallest propensity", &decimal(health.min_propensity));
    page.pair("largest weight", &format!("{} (1 / smallest propensity)", amount(health.max_weight)));
    let worth = health.effective_sample_size;
    page.pair("effective rows", &format!("{} ({} of all rows)", amount(worth), percent(worth / rows)));
    page.pair("no choice on", &format!("{} of the rows", percent(health.near_deterministic_share)));
}

fn fit(page: &mut ReportPage, health: &Health) {
    page.heading("Whether the propensities fit the actions");
    let mean = &health.inverse_propensity_mean;
    let line = format!("{}, expected {}{}", decimal(mean.observed), decimal(mean.expected), distance(mean));
    page.verdict("mean of 1/propensity", &line, mean.ok);
    match &health.worst_action_count {
        Some(worst) => {
            let (seen, expected) = (amount(worst.fit.observed), decimal(worst.fit.expected));
            let line =
                format!("action {}: {seen} rows, expected {expected}{}", worst.action, distance(&worst.fit));
            page.verdict("worst action count", &line, worst.fit.ok);
        }
        None => page.pair("worst action count", "not known without the propensities of all actions"),
    }
}

fn logging(logging: Logging) -> &'static str {
    match logging {
        Logging::Fixed => "fixed: you state that one policy logged every row",
        Logging::Adaptive => "adaptive: policies and traffic may have changed",
    }
}

fn repetitions(repetitions: Repetitions) -> &'static str {
    match repetitions {
        Repetitions::Decisions => "decisions: every row counts as one of its own",
        Repetitions::Designed => "designed: you state that nothing observed decided their number",
    }
}

fn digits(precision: Precision) -> String {
    let kind = if precision.single { "single precision" } else { "double precision" };
    match precision.decimals {
        Some(1) => format!("at most 1 decimal, {kind}"),
        Some(decimals) => format!("at most {decimals} decimals, {kind}"),
        None => kind.into(),
    }
}

fn checks(page: &mut ReportPage, health: &Health) {
    page.heading("Whether the log meets the assumptions");
    for check in &health.checks {
        let name = match &check.subject {
            Some(subject) => format!("{} {subject}", check.name.name()),
            None => check.name.name().into(),
        };
        if check.ok.is_none() {
            page.pair(&name, &check.message);
            continue;
        }
        let evidence = decimal(check.evidence);
        let line = format!("evidence {evidence} against it, the limit is {}", amount(1.0 / check.level));
        page.verdict(&name, &line, check.ok);
    }
}

/// How outcomes and propensities change over time.
fn drift(page: &mut ReportPage, health: &Health, outcome: &Outcome) {
    let Some(drift) = health.drift.as_ref().filter(|drift| drift.slices.len() > 1) else { return };
    page.heading("How the log changes over time");
    let mean = |of: &dyn Fn(&TimeSlice) -> f64| {
        let shown: Vec<String> = drift.slices.iter().map(|slice| format!("{:.3}", of(slice))).collect();
        shown.join(" ")
    };
    // In the units of the log, as everything else here.
    let kind = outcome_name(outcome);
    page.hanging(&format!("  {:<17}", format!("mean {kind}")), &mean(&|s| outcome.risk_to_user(s.mean_cost)));
    page.hanging("  mean propensity  ", &mean(&|slice| slice.mean_propensity));
    let change = drift.change.as_ref().filter(|change| change.significant);
    match change {
        Some(change) => {
            let (seen, usual) = (decimal(change.observed), decimal(change.expected));
            let (from, to) = (amount(change.from_row as f64), amount(change.to_row as f64));
            page.hanging(
                "  change           ",
                &format!("{}: {seen} in rows {from} to {to}, {usual} in all rows", change.statistic),
            );
        }
        None if drift.change.is_none() => page.pair("change", "not tested"),
        None => page.pair("change", "none that cannot be chance"),
    }
}

/// The deviation in standard errors.
fn distance(fit: &Fit) -> String {
    fit.z.map_or(String::new(), |z| format!(" (z = {z:.1})"))
}

fn actions(page: &mut ReportPage, what: &str, counts: &[u64]) {
    page.heading(&format!("How often {what} was taken"));
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let width = amount(most as f64).len();
    let line = |page: &mut ReportPage, action: usize| {
        let count = counts[action];
        let bar = bar(count as f64 / most as f64);
        page.line(&format!("  {action:>5}  {:>width$}  {bar}", amount(count as f64)));
    };
    if counts.len() <= ALL_ACTIONS {
        (0..counts.len()).for_each(|action| line(page, action));
        return;
    }
    let mut order: Vec<usize> = (0..counts.len()).collect();
    order.sort_by_key(|&action| std::cmp::Reverse(counts[action]));
    let (top, rest) = order.split_at(MOST);
    let (middle, bottom) = rest.split_at(rest.len() - LEAST);
    top.iter().for_each(|&action| line(page, action));
    if let (Some(&first), Some(&last)) = (middle.first(), middle.last()) {
        let (high, low) = (amount(counts[first] as f64), amount(counts[last] as f64));
        let range = if high == low { high } else { format!("{low} to {high}") };
        page.line(&format!("      …  {} actions with {range} rows each", middle.len()));
    }
    bottom.iter().for_each(|&action| line(page, action));
}

/// A bar drawn in eighths of a character, so that small differences show.
fn bar(share: f64) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share * BAR as f64 * 8.0).round() as usize;
    // Even a single row is visible.
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn warnings(page: &mut ReportPage, health: &Health) {
    match health.warnings.len() {
        0 => page.heading("Nothing to fix"),
        1 => page.heading("One thing to look at"),
        n => page.heading(&format!("{n} things to look at")),
    }
    for warning in &health.warnings {
        page.toned(Tone::Warning, &format!("  ! {}", warning.code));
        page.hanging("    ", &sentence(&warning.message));
        page.hanging("    → ", advice(warning.code));
    }
}

fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}

/// What to do about a warning.
fn advice(code: WarningCode) -> &'static str {
    match code {
        WarningCode::PropensitiesDoNotFit | WarningCode::ActionCountsDoNotFit => {
            "Log the probability that the sampler used when it drew the action, for every decision. Look for rows \
             that were filtered, joined or dropped after the draw."
        }
        WarningCode::CandidateWeightsDoNotFit => {
            "Log the probability with which the candidate would have taken the logged action, not its confidence in its \
             own choice."
        }
        WarningCode::LogDrifts => {
            "Upload with logging=adaptive, which holds although policies and traffic change."
        }
        WarningCode::RepetitionsDoNotFit => {
            "Upload with repetitions=decisions, which holds although users come back because of what they saw."
        }
        WarningCode::PropensitiesLookRounded => {
            "Log all digits of the probability that was drawn with, for example as a double."
        }
        WarningCode::RowsOutOfOrder => "Nothing, if the timestamps are those of the decisions.",
        WarningCode::NearDeterministic => {
            "Let the deployed policy explore a little in every decision, at least 1%."
        }
        WarningCode::LowEffectiveSampleSize => {
            "Raise the smallest propensities, or log for longer; until then guarantees will be loose."
        }
        WarningCode::ActionsNeverLogged => {
            "Give every action a positive probability, or leave retired actions out of K."
        }
        WarningCode::DanglingRewards => {
            "Nothing, if the decisions are outside the time window; otherwise join the logs again."
        }
        WarningCode::ActionFeaturesNotUsed => {
            "To learn from them, upload the log as a new dataset that starts with a row whose actions have features."
        }
        WarningCode::ActionsWithoutFeatures => "Log what is known about each action, or at least an id.",
        WarningCode::OutcomesCut => {
            "Nothing, if the cut outcome is what you want to improve; otherwise upload with a wider cap or floor."
        }
        WarningCode::ColumnsIgnored => "Nothing, if none of them was meant to be a field of the log.",
        WarningCode::RowsDroppedUpstream => "Make sure that nothing was dropped because of its outcome.",
    }
}

fn as_json(dataset: &Dataset) -> serde_json::Value {
    let content = &dataset.content;
    json!({
        "valid": true,
        "rows": content.rows,
        "contexts": content.contexts,
        "n_actions": content.n_actions,
        "dim": content.dim,
        "outcome": content.outcome,
        "outcomes": content.capabilities.outcomes,
        "digest": content.digest,
        "logging": dataset.logging,
        "repetitions": dataset.repetitions,
        "exact_propensities": dataset.exact_propensities,
        "capabilities": content.capabilities,
        "health": content.health,
    })
}
