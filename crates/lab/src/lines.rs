//! The lines of the figures: which learner, under which bound, with which baseline.

use serde::{Deserialize, Serialize};

use super::plot::{Marker, Style};
use super::related::Principle;
use guarantor_engine::spec::{
    Baseline, BaselineKind, BoundKind, ExploreRequest, OptimizerRequest, PolicyClass, SpecRequest,
};

/// A line of a figure: a learner with its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// LS_n with mixed-logit policies.
    LsMixedLogit,
    /// LS_n with LIG policies.
    LsLig,
    /// C_n.
    Catoni,
    /// CBB with ξ = 0.
    Cbb0,
    /// CBB with ξ = −½.
    CbbHalf,
    /// The bound `log_smoothing`.
    LogSmoothing,
    /// The bound `betting`.
    Betting,
    /// The default, `auto`.
    Auto,
    /// CRM with sample-variance penalization.
    CrmSvp,
    /// Bayesian CRM.
    BayesianCrm,
}

/// What a line's promised improvement rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promise {
    /// A bound, with R(π0) taken from the test set. The paper uses the mean logged cost; rows have both.
    KnownBaseline,
    /// A bound with nothing assumed known.
    Certified,
    /// No bound, only an estimate on held-out rows.
    Estimate,
}

impl Line {
    /// The line's name in tables and legends.
    pub fn name(self) -> &'static str {
        match self {
            Line::LsMixedLogit => "LSₙ, mixed logit",
            Line::LsLig => "LSₙ, LIG",
            Line::Catoni => "Cₙ",
            Line::Cbb0 => "CBB ξ=0",
            Line::CbbHalf => "CBB ξ=−½",
            Line::LogSmoothing => "log smoothing",
            Line::Betting => "betting κ=1",
            Line::Auto => "auto",
            Line::CrmSvp => "CRM/SVP",
            Line::BayesianCrm => "Bayesian CRM",
        }
    }

    /// Color and marker. The colors are Okabe and Ito's, which color-blind readers can distinguish; the
    /// markers differ too.
    pub fn style(self) -> Style {
        let (color, marker) = match self {
            Line::LsMixedLogit => ((204, 121, 167), Marker::Down),
            Line::LsLig => ((213, 94, 0), Marker::Square),
            Line::Catoni => ((230, 159, 0), Marker::Up),
            Line::Cbb0 => ((86, 180, 233), Marker::Diamond),
            Line::CbbHalf => ((0, 114, 178), Marker::Circle),
            Line::LogSmoothing => ((204, 121, 167), Marker::Square),
            Line::Betting => ((0, 158, 115), Marker::Down),
            Line::Auto => ((213, 94, 0), Marker::Circle),
            Line::CrmSvp => ((204, 121, 167), Marker::Up),
            Line::BayesianCrm => ((230, 159, 0), Marker::Square),
        };
        Style { color, marker, dashed: false }
    }

    /// Roughly how long its job takes, relative to the others; for the progress bar only.
    pub fn weight(self) -> f64 {
        match self {
            Line::Auto | Line::CrmSvp => 4.0,
            Line::LsMixedLogit | Line::Betting | Line::BayesianCrm => 3.0,
            _ => 1.0,
        }
    }

    /// The line's learner, if it comes from the related work.
    pub fn related(self) -> Option<Principle> {
        match self {
            Line::CrmSvp => Some(Principle::SampleVariance),
            Line::BayesianCrm => Some(Principle::Bayesian),
            _ => None,
        }
    }

    /// The job as a client would send it to the service. What it leaves out takes the service's defaults,
    /// except that mixed logit has its own optimizer budget.
    pub fn request(self, promise: Promise, logging_risk: f64, seed: u64) -> SpecRequest {
        let (bound, xi) = match self {
            Line::LsMixedLogit | Line::LsLig => (BoundKind::LondonSandler, None),
            Line::Catoni => (BoundKind::Catoni, None),
            Line::Cbb0 => (BoundKind::Cbb, Some(0.0)),
            Line::CbbHalf => (BoundKind::Cbb, Some(-0.5)),
            Line::LogSmoothing => (BoundKind::LogSmoothing, None),
            Line::Betting => (BoundKind::Betting, None),
            Line::Auto | Line::CrmSvp | Line::BayesianCrm => (BoundKind::Auto, None),
        };
        let baseline = match promise {
            Promise::KnownBaseline => Baseline { kind: BaselineKind::Known, risk: Some(logging_risk) },
            Promise::Certified | Promise::Estimate => Baseline { kind: BaselineKind::Certified, risk: None },
        };
        SpecRequest {
            // The paper's policies do not explore.
            explore: Some(ExploreRequest::Share(0.0)),
            bound: Some(bound),
            xi,
            policy_class: (self == Line::LsMixedLogit).then_some(PolicyClass::MixedLogit),
            baseline: Some(baseline),
            optimizer: (self == Line::LsMixedLogit).then_some(MIXED_LOGIT),
            seed: Some(seed),
            ..SpecRequest::default()
        }
    }
}

/// A pass costs many times more for mixed logit than for LIG, so it gets 40 passes instead of the default 60.
const MIXED_LOGIT: OptimizerRequest = OptimizerRequest {
    preset: None,
    epochs: Some(40),
    learning_rate: None,
    batch_size: None,
    max_seconds: None,
};

/// The lines of a figure, and what their promises rest on.
pub fn of_figure(figure: u8) -> Vec<(Line, Promise)> {
    use Line::*;
    let all = |lines: &[Line], promise: Promise| lines.iter().map(|&l| (l, promise)).collect::<Vec<_>>();
    match figure {
        1 => all(&[LsMixedLogit, LsLig], Promise::KnownBaseline),
        2 => all(&[Catoni, Cbb0, CbbHalf], Promise::KnownBaseline),
        3 => all(&[Cbb0, CbbHalf], Promise::KnownBaseline),
        4 => all(&[Catoni, Cbb0, CbbHalf, LogSmoothing, Betting, Auto], Promise::Certified),
        5 => {
            let related = all(&[CrmSvp, BayesianCrm], Promise::Estimate);
            [related, all(&[CbbHalf, Auto], Promise::Certified)].concat()
        }
        _ => Vec::new(),
    }
}
