//! A certificate for a person at a terminal.

use guarantor_engine::certificate::{
    CandidateResult, Certificate, CertifiedRows, Exploration, GuardrailResult,
};
use guarantor_engine::checks::{CheckResult, CheckScope};
use guarantor_engine::log::Span;

use super::plan;
use super::report::{ReportPage, amount, decimal, percent};

/// Writes what the certificate says, what it rests on, and why it decided so.
pub fn show(page: &mut ReportPage, certificate: &Certificate) {
    page.line(&certificate.statement);
    let mut line = |label: &str, value: &str| page.hanging(&format!("{label:<22}  "), value);
    line("decision", certificate.decision.name());
    let units = &certificate.user_units;
    let both = |paper: f64, own: f64| format!("{paper:.6} ({} in its units)", decimal(own));
    if let Some(objective) = &certificate.objective {
        line("objective", objective);
    }
    let improvement = both(certificate.guaranteed_improvement, units.guaranteed_improvement);
    line("guaranteed improvement", &improvement);
    if let Some(required) = units.min_improvement {
        line("required improvement", &both(certificate.min_improvement, required));
    }
    line("guaranteed risk", &both(certificate.guaranteed_risk, units.guaranteed_outcome));
    line("baseline risk", &both(certificate.baseline_risk.estimate, units.baseline_outcome));
    for guardrail in &certificate.guardrails {
        line(&format!("guardrail {}", guardrail.outcome), &guarded(guardrail));
    }
    for result in &certificate.candidates {
        line(&format!("candidate {}", result.candidate), &candidate(result));
    }
    line("confidence", &certificate.confidence.to_string());
    if let Some(logging) = certificate.dataset.logging {
        line("logging", logging.name());
    }
    if let Some(certified) = &certificate.certified {
        line("certified rows", &certified_rows(certified, certificate.dataset.rows));
    }
    if let Some(exploration) = &certificate.exploration {
        line("exploration", &explored(exploration));
    }
    let named = |ok: Option<bool>| -> Vec<String> {
        certificate.checks.iter().filter(|check| check.ok == ok).map(name).collect()
    };
    for (label, ok) in [("checks passed", Some(true)), ("checks failed", Some(false))] {
        let names = named(ok);
        if !names.is_empty() {
            line(label, &names.join(", "));
        }
    }
    for check in certificate.checks.iter().filter(|check| check.ok.is_none()) {
        line("check skipped", &format!("{}: {}", name(check), check.message));
    }
    for attestation in &certificate.attestations {
        line("attested", attestation);
    }
    line("digest", &certificate.digest);
    if let Some(breakdown) = &certificate.breakdown {
        line("estimated improvement", &format!("{:.6}", breakdown.estimate));
        for step in &breakdown.steps {
            // Slack is there in every certificate, and is nothing to read about.
            if step.change.abs() >= 5e-7 {
                line(&format!("  {}", step.name), &format!("{:+.6}  {}", step.change, step.what));
            }
        }
        line("  guaranteed", &format!("{:.6}", breakdown.guaranteed));
    }
    for reason in &certificate.reasons {
        page.hanging("- ", &reason.message);
    }
    // What a failed check found is a reason already, unless it was accepted or another part of it came first.
    for check in certificate.checks.iter().filter(|check| check.failed()) {
        if certificate.reasons.iter().all(|reason| reason.message != check.message) {
            page.hanging("- ", &format!("{}: {}", name(check), check.message));
        }
    }
    if let Some(plan) = &certificate.plan {
        page.hanging("- ", &plan.message);
        plan::show(page, plan);
    }
}

/// The check, what it is about, and on which rows.
fn name(check: &CheckResult) -> String {
    let scope = match check.scope {
        CheckScope::Log => "all rows",
        CheckScope::CertifiedRows => "certified rows",
    };
    match &check.subject {
        Some(subject) => format!("{} of {subject} ({scope})", check.name.name()),
        None => format!("{} ({scope})", check.name.name()),
    }
}

/// What is guaranteed about a guardrail.
fn guarded(guardrail: &GuardrailResult) -> String {
    let units = &guardrail.user_units;
    format!(
        "{}: loss at most {:.6} ({} in its units), limit {} ({}), estimate {:.6} ({})",
        if guardrail.ok { "holds" } else { "not guaranteed" },
        guardrail.guaranteed_loss,
        decimal(units.guaranteed_loss),
        guardrail.max_loss,
        decimal(units.max_loss),
        guardrail.estimated_loss,
        decimal(units.estimated_loss),
    )
}

/// What is guaranteed about a candidate.
fn candidate(result: &CandidateResult) -> String {
    let own = match &result.user_units {
        Some(units) => format!(" ({} in its units)", decimal(units.guaranteed_improvement)),
        None => String::new(),
    };
    let broken: Vec<&str> =
        result.guardrails.iter().filter(|g| !g.ok).map(|guardrail| guardrail.outcome.as_str()).collect();
    let broken = match broken.is_empty() {
        true => String::new(),
        false => format!("; not guaranteed: {}", broken.join(", ")),
    };
    format!("{}: improvement {:.6}{own}{broken}", result.decision.name(), result.guaranteed_improvement)
}

fn certified_rows(certified: &CertifiedRows, all: u64) -> String {
    let (rows, all) = (amount(certified.rows as f64), amount(all as f64));
    match &certified.span {
        Span::Hash(_) if rows == all => format!("all {all}"),
        Span::Hash(_) => format!("{rows} of {all}"),
        Span::Time { first_certified_row, policy_version } => {
            let from = amount((first_certified_row + 1) as f64);
            let version = match policy_version {
                Some(version) => format!(", of policy version {version:?}"),
                None => String::new(),
            };
            format!("{rows} of {all}, from row {from} in order of arrival on{version}")
        }
    }
}

fn explored(exploration: &Exploration) -> String {
    let share = percent(exploration.explore.share);
    format!("{share}, which costs {} (estimated); {}", decimal(exploration.estimated_cost), exploration.note)
}
