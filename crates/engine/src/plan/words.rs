//! The wording of a plan.

use super::{Outlook, Plan, Route};

/// The plan as a sentence. `seen` says whether it comes from rows, and not from what the caller expects.
pub fn message(plan: &Plan, outlook: Outlook, seen: bool) -> String {
    let min = plan.min_improvement;
    match outlook {
        Outlook::Promised => promised(plan, seen),
        Outlook::Deterministic => {
            "No number of rows will do: the log always plays one action. Let the logging policy explore, then log anew."
                .into()
        }
        Outlook::CheckFailed => {
            "No number of rows will do while a check fails. Correct the log, then certify again.".into()
        }
        Outlook::SamePolicy => {
            "No number of rows will do: the policy plays what the logging policy plays, so there is nothing to gain."
                .into()
        }
        Outlook::NoBetter => format!(
            "No number of rows will do if the estimate is right: it is not above the required improvement of {min}."
        ),
        Outlook::TooFewEffective(effective) => format!(
            "Nothing can be promised yet: what these rows say about the policy rests on about {effective:.1} rows. Log \
             more, or let the logging policy explore more where the policy plays differently."
        ),
        Outlook::NotInSight => format!(
            "No number of rows can be promised: the estimate is too close to the required improvement of {min}, or too \
             uncertain. Certify again once the log has grown."
        ),
        Outlook::Guaranteed => {
            "More rows are not what is missing: the required improvement is guaranteed already.".into()
        }
    }
}

/// The plan of a job with guardrails as a sentence.
pub fn together(plan: &Plan) -> String {
    format!("{} The number covers every guardrail.", promised(plan, true))
}

/// What to say if it is a guardrail for which nothing can be promised.
pub fn guarded(outcome: &str) -> String {
    format!(
        "No number of rows can be promised: the estimated loss in {outcome} is above its limit, too close to it, or too \
         uncertain."
    )
}

fn promised(plan: &Plan, seen: bool) -> String {
    let power = (100.0 * plan.power).round();
    let rows = plan.rows.unwrap_or_default();
    let (more, of) = match (seen, plan.sooner) {
        (false, _) => ("", ""),
        (true, Some(Route::Pooled)) => {
            ("more ", ", certified together with the rows so far (looks = anytime),")
        }
        (true, _) => ("more ", ", certified on their own,"),
    };
    let from = if seen { "if these rows are typical" } else { "if the numbers are as stated" };
    let mut text = format!(
        "{rows} {more}rows{of} would certify an improvement above {} with probability {power}% {from}.",
        plan.min_improvement
    );
    if let Some(best) = plan.exploration.iter().min_by_key(|explored| explored.rows) {
        text.push_str(&format!(
            " If the logging policy played uniformly with probability {}, about {} fresh rows would do.",
            best.share, best.rows
        ));
    }
    text
}
