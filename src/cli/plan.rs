//! `guarantor plan`: how many rows would certify an improvement, before any log exists.

use clap::Args;
use guarantor_engine::certify::plan_before;
use guarantor_engine::log::{Logging, OutcomeKind};
use guarantor_engine::plan::{Plan, PlanOutcome, PlanRequest, PlanUnit};
use guarantor_engine::spec::JobKind;

use super::report::{ReportPage, amount, decimal};
use super::{Failure, Verdict, print_text};

/// The arguments of `guarantor plan`: the fields of POST /v1/plans.
#[derive(Args)]
pub struct PlanArgs {
    /// The improvement that the policy is expected to have.
    #[arg(long)]
    improvement: f64,
    /// The improvement that must be exceeded for `deploy` [default: 0].
    #[arg(long)]
    min_improvement: Option<f64>,
    /// The unit of the two improvements: paper (shares of the outcome's range) or outcome [default: paper].
    #[arg(long, value_parser = unit)]
    unit: Option<PlanUnit>,
    /// Whether less (cost) or more (reward) of the outcome is better [default: reward].
    #[arg(long, value_parser = outcome_kind)]
    outcome: Option<OutcomeKind>,
    /// The smallest possible outcome [default: 0].
    #[arg(long, allow_negative_numbers = true)]
    outcome_min: Option<f64>,
    /// The largest possible outcome [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    outcome_max: Option<f64>,
    /// The mean outcome under the logging policy.
    #[arg(long, allow_negative_numbers = true)]
    outcome_mean: Option<f64>,
    /// The standard deviation of the outcome.
    #[arg(long)]
    outcome_spread: Option<f64>,
    /// The number of actions; not needed with --propensities.
    #[arg(long, value_name = "K")]
    n_actions: Option<u64>,
    /// How often the logging policy plays each action, separated by commas.
    #[arg(long, value_delimiter = ',', conflicts_with = "exploration")]
    propensities: Option<Vec<f64>>,
    /// How often the logging policy plays uniformly at random, and otherwise one action [default: 1].
    #[arg(long)]
    exploration: Option<f64>,
    /// In what share of the decisions the policy plays another action than the logging policy's usual one [default: 1].
    #[arg(long)]
    changed: Option<f64>,
    /// Rows will carry the probabilities of all actions.
    #[arg(long)]
    full_propensities: bool,
    /// learn or evaluate [default: evaluate].
    #[arg(long, value_parser = kind)]
    kind: Option<JobKind>,
    /// Share of the rows that are learned from, for --kind learn [default: 0.6].
    #[arg(long)]
    fraction: Option<f64>,
    /// The number of candidates that share δ, for --kind evaluate [default: 1].
    #[arg(long)]
    candidates: Option<u64>,
    /// The probability, at most, that the certificate is wrong [default: 0.05].
    #[arg(long)]
    delta: Option<f64>,
    /// The probability with which the rows should certify [default: 0.8].
    #[arg(long)]
    power: Option<f64>,
    /// fixed or adaptive [default: adaptive].
    #[arg(long, value_parser = logging)]
    logging: Option<Logging>,
    /// The traffic, from which days are computed.
    #[arg(long)]
    rows_per_day: Option<f64>,
    /// Print the plan as JSON.
    #[arg(long)]
    json: bool,
}

/// Reads a value by its name in JSON.
fn named<T: serde::de::DeserializeOwned>(text: &str, names: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|_| format!("expected {names}"))
}

fn unit(text: &str) -> Result<PlanUnit, String> {
    named(text, "paper or outcome")
}

fn outcome_kind(text: &str) -> Result<OutcomeKind, String> {
    named(text, "cost or reward")
}

fn kind(text: &str) -> Result<JobKind, String> {
    named(text, "learn or evaluate")
}

fn logging(text: &str) -> Result<Logging, String> {
    named(text, "fixed or adaptive")
}

/// Prints the plan. The verdict is whether one is possible.
pub fn plan(args: PlanArgs) -> Result<Verdict, Failure> {
    let json = args.json;
    let plan = plan_before(&request(args))?;
    if json {
        print_text(&format!("{}\n", serde_json::to_string_pretty(&plan)?))?;
    } else {
        let mut page = ReportPage::new(false);
        page.hanging("", &plan.message);
        show(&mut page, &plan);
        print_text(page.text())?;
    }
    Ok(if plan.possible { Verdict::Yes } else { Verdict::No })
}

fn request(args: PlanArgs) -> PlanRequest {
    let stated = args.outcome.is_some() || args.outcome_min.is_some() || args.outcome_max.is_some();
    let outcome = PlanOutcome {
        kind: args.outcome.unwrap_or(OutcomeKind::Reward),
        min: args.outcome_min.unwrap_or(0.0),
        max: args.outcome_max.unwrap_or(1.0),
    };
    PlanRequest {
        improvement: Some(args.improvement),
        min_improvement: args.min_improvement,
        unit: args.unit,
        outcome: stated.then_some(outcome),
        outcome_mean: args.outcome_mean,
        outcome_spread: args.outcome_spread,
        n_actions: args.n_actions,
        propensities: args.propensities,
        exploration: args.exploration,
        changed: args.changed,
        full_propensities: args.full_propensities.then_some(true),
        kind: args.kind,
        fraction: args.fraction,
        candidates: args.candidates,
        delta: args.delta,
        power: args.power,
        logging: args.logging,
        rows_per_day: args.rows_per_day,
    }
}

/// Writes the numbers of a plan.
pub fn show(page: &mut ReportPage, plan: &Plan) {
    let mut line = |label: &str, value: &str| page.hanging(&format!("{label:<22}  "), value);
    let days =
        |days: Option<f64>| days.map_or(String::new(), |days| format!(", about {} days", decimal(days)));
    for (label, way) in [("fresh rows", plan.fresh), ("more rows, pooled", plan.pooled)] {
        if let Some(way) = way {
            line(label, &format!("{}{}", amount(way.rows as f64), days(way.days)));
        }
    }
    for explored in &plan.exploration {
        let value = format!(
            "{} fresh rows if the log played uniformly with probability {}",
            amount(explored.rows as f64),
            explored.share
        );
        line("with more exploration", &value);
    }
}
