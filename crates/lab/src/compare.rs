//! Every bound of the engine on one log and one candidate, side by side.

use guarantor_engine::certificate::Decision;
use guarantor_engine::control::Control;
use guarantor_engine::error::{EngineError, Result};
use guarantor_engine::measure::Subject;
use guarantor_engine::span::{Certified, span_of};
use guarantor_engine::spec::{BoundKind, Candidate, SpecRequest};
use serde::Serialize;

use crate::normal::{Estimates, estimates, quantile};
use crate::table::{markdown, number};
use crate::trial::{Trial, evaluation};

/// The bounds, in the order in which they are shown.
pub const BOUNDS: [BoundKind; 7] = [
    BoundKind::Auto,
    BoundKind::Betting,
    BoundKind::LogSmoothing,
    BoundKind::Ix,
    BoundKind::Cbb,
    BoundKind::Catoni,
    BoundKind::LondonSandler,
];

/// What one bound says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Guaranteed {
    /// Upper bound on the risk.
    pub risk: f64,
    /// Lower bound on the improvement over the logging policy.
    pub improvement: f64,
    /// The estimated improvement minus the guaranteed one.
    pub width: f64,
    /// What a certificate with this bound says.
    pub decision: Decision,
}

/// One line of the comparison.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Line {
    /// The bound's name.
    pub bound: &'static str,
    /// Its numbers, if the log supports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guaranteed: Option<Guaranteed>,
    /// Why it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}

/// The normal interval at the same level.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Normal {
    /// Its upper end for the risk.
    pub risk: f64,
    /// Its lower end for the improvement.
    pub improvement: f64,
    /// The estimated improvement minus its lower end.
    pub width: f64,
    /// A reminder for readers of the JSON.
    pub note: &'static str,
}

/// All bounds on one log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// The candidate, as certificates name it.
    pub candidate: String,
    /// Certified rows.
    pub rows: u64,
    /// Certified contexts.
    pub contexts: u64,
    /// δ of every line.
    pub delta: f64,
    /// The importance-weighted estimates.
    pub estimated: Estimates,
    /// One line per bound.
    pub bounds: Vec<Line>,
    /// For comparison.
    pub normal: Normal,
}

const NO_GUARANTEE: &str = "no finite-sample guarantee";

/// Certifies the candidate with every bound, each with its own certificate at δ.
///
/// # Errors
/// If the candidate does not exist, or the log cannot be read.
pub fn compare(trial: &Trial, candidate: &Candidate, delta: f64, control: &Control) -> Result<Comparison> {
    let request = |bound: BoundKind| SpecRequest {
        bound: Some(bound),
        delta: Some(delta),
        ..evaluation(vec![candidate.clone()])
    };
    let spec = trial.resolve(&request(BoundKind::Betting))?;
    let inputs = trial.inputs();
    let certified = Certified::new(&span_of(&spec, &inputs), &inputs)?;
    let subject = match candidate {
        Candidate::Policy { policy_id } => {
            let missing = || EngineError::Log(format!("policy {policy_id} is missing"));
            Subject::Policy(trial.policies.get(policy_id).ok_or_else(missing)?)
        }
        Candidate::Logged { name } => {
            let place = trial.log.shape().capabilities.candidates.iter().position(|other| other == name);
            let missing = || EngineError::Log(format!("the log has no candidate {name}"));
            Subject::Logged(place.ok_or_else(missing)?)
        }
    };
    let estimated = estimates(&certified, subject, control)?;
    let line = |bound: BoundKind| -> Result<Line> {
        let (guaranteed, left_out) = match trial.run(&request(bound), control) {
            Ok(finished) => {
                let c = finished.certificate;
                let width = estimated.improvement.mean - c.guaranteed_improvement;
                let (risk, improvement) = (c.guaranteed_risk, c.guaranteed_improvement);
                (Some(Guaranteed { risk, improvement, width, decision: c.decision }), None)
            }
            Err(EngineError::Spec(error)) => (None, Some(error.message)),
            Err(error) => return Err(error),
        };
        Ok(Line { bound: bound.name(), guaranteed, left_out })
    };
    let reach = quantile(1.0 - delta);
    let shape = guarantor_engine::log::LogSource::shape(&certified);
    let width = reach * estimated.improvement.standard_error;
    Ok(Comparison {
        candidate: candidate.label(),
        rows: shape.rows,
        contexts: shape.contexts,
        delta,
        estimated,
        bounds: BOUNDS.into_iter().map(line).collect::<Result<_>>()?,
        normal: Normal {
            risk: estimated.risk.mean + reach * estimated.risk.standard_error,
            improvement: estimated.improvement.mean - width,
            width,
            note: NO_GUARANTEE,
        },
    })
}

impl Comparison {
    /// The comparison as text for a terminal.
    pub fn text(&self) -> String {
        let show = |value: f64| number(&format!("{value:.6}"));
        let head =
            ["bound", "guaranteed risk", "guaranteed improvement", "width", "times normal", "decision"];
        let mut cells = vec![head.map(String::from).to_vec()];
        let line = |name: &str, risk: f64, improvement: f64, width: f64, decision: &str| {
            let times =
                if self.normal.width > 0.0 { format!("{:.2}", width / self.normal.width) } else { "".into() };
            vec![name.into(), show(risk), show(improvement), show(width), times, decision.into()]
        };
        for bound in &self.bounds {
            if let Some(g) = &bound.guaranteed {
                let decision = if g.decision == Decision::Deploy { "deploy" } else { "keep" };
                cells.push(line(bound.bound, g.risk, g.improvement, g.width, decision));
            }
        }
        let n = &self.normal;
        cells.push(line(&format!("normal interval ({NO_GUARANTEE})"), n.risk, n.improvement, n.width, ""));
        let mut text = format!(
            "{}: {} certified rows, {} contexts, δ = {}\nestimated risk {}, estimated improvement {} ± {}\n\n{}",
            self.candidate,
            self.rows,
            self.contexts,
            self.delta,
            show(self.estimated.risk.mean),
            show(self.estimated.improvement.mean),
            show(self.estimated.improvement.standard_error),
            markdown(&cells)
        );
        for bound in &self.bounds {
            if let Some(why) = &bound.left_out {
                text += &format!("\n{} is left out: {why}", bound.bound);
            }
        }
        if self.bounds.iter().any(|bound| bound.left_out.is_some()) {
            text += "\n";
        }
        text += "\nEach line is a certificate of its own at δ. Choosing the narrowest of them after the fact is not \
                 covered: name the bound before you look.\n";
        text
    }
}
