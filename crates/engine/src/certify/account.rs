//! The claims of a certificate that is being computed, with their shares of δ, and what they guarantee.

use super::breakdown::Records;
use super::shares::{Shares, objective_delta};
use crate::baseline;
use crate::certificate::{About, BaselineRisk, BoundRecord, DeltaShare, GuardrailResult, what_holds};
use crate::claims::PolicyQuantity;
use crate::control::Control;
use crate::error::{EngineError, Result};
use crate::log::LogSource;
use crate::spec::{BaselineKind, JobSpec};

/// What the claims about one policy guarantee, numerical slack included.
#[derive(Debug, Clone, Copy)]
pub struct Guarantee {
    /// Upper bound on R(π).
    pub risk: f64,
    /// Lower bound on R(π0) − R(π).
    pub improvement: f64,
    /// The slack that was taken off.
    pub slack: f64,
}

/// A bound on a risk that is further below −1 than this is not rounding.
const IMPOSSIBLE: f64 = 1e-9;

/// A claim of the account.
#[derive(Clone, Copy)]
struct Entry(usize);

/// The claims about one policy, and what they guarantee together.
pub struct PolicyClaims {
    risk: Entry,
    improvement: Option<Entry>,
    guarded: Vec<Entry>,
    pub guarantee: Guarantee,
    /// The results of the guardrails, in the order of the spec.
    pub guardrails: Vec<GuardrailResult>,
}

/// The claims of a certificate that is being computed.
pub struct Account {
    pub records: Vec<BoundRecord>,
    pub shares: Vec<DeltaShare>,
    pub baseline: BaselineRisk,
}

impl Account {
    /// An account whose baseline is this mean cost, without a bound on it.
    pub fn of_mean(spec: &JobSpec, mean: f64) -> Account {
        let baseline = BaselineRisk { kind: spec.baseline.kind, estimate: mean, lower_bound: None };
        Account { records: Vec::new(), shares: Vec::new(), baseline }
    }

    /// Opens the account with the baseline, and with the bound on it if the spec needs one
    /// (docs/math.md#baseline).
    ///
    /// `log` are the rows on which π0 is measured: all rows of a fixed log, and otherwise the certified ones.
    pub fn open(spec: &JobSpec, log: &dyn LogSource, control: &Control) -> Result<Account> {
        let mean = baseline::mean_cost(log, control)?;
        let mut account = Account::of_mean(spec, mean);
        match spec.baseline.kind {
            BaselineKind::Known => {
                let missing = || EngineError::Log("the risk of the known baseline is missing".into());
                account.baseline.estimate = spec.baseline.risk.ok_or_else(missing)?;
            }
            BaselineKind::Certified if !spec.bounds_improvement() => {
                let bound = baseline::certify(spec, log, mean, 0.5 * objective_delta(spec), control)?;
                account.baseline.lower_bound = Some(bound.value - bound.terms.numerical_slack);
                account.enter(About::LoggingPolicy, bound);
            }
            BaselineKind::Certified | BaselineKind::PointEstimate => {}
        }
        Ok(account)
    }

    fn enter(&mut self, about: About, record: BoundRecord) -> Entry {
        let what = what_holds(about, record.quantity, record.outcome.as_deref());
        self.shares.push(DeltaShare { event: record.event.clone(), share: record.delta, what });
        self.records.push(record);
        Entry(self.records.len() - 1)
    }

    /// Sets aside a share of δ for other numbers of actions, if any is.
    pub fn set_aside(&mut self, share: f64) {
        if share > 0.0 {
            let what =
                "the number of actions was read off the rows, and another one would have been certified too";
            self.shares.push(DeltaShare { event: "unstated_actions".into(), share, what: what.into() });
        }
    }

    /// Enters the claims about one policy, each with its share of `delta`: the improvement and the risk,
    /// or the risk alone. `bound` computes one of them.
    pub fn claim(
        &mut self,
        spec: &JobSpec,
        about: About,
        shares: Shares,
        delta: f64,
        bound: impl Fn(PolicyQuantity, f64) -> Result<BoundRecord>,
    ) -> Result<PolicyClaims> {
        let (risk, improvement) = if spec.bounds_improvement() {
            let improvement =
                self.enter(about, bound(PolicyQuantity::Improvement, shares.improvement * delta)?);
            (self.enter(about, bound(PolicyQuantity::Risk, shares.risk * delta)?), Some(improvement))
        } else {
            (self.enter(about, bound(PolicyQuantity::Risk, shares.risk_alone * delta)?), None)
        };
        let guarantee = self.guarantee(risk, improvement);
        Ok(PolicyClaims { risk, improvement, guarded: Vec::new(), guarantee, guardrails: Vec::new() })
    }

    /// Enters the claim of a guardrail about the policy of `claims`.
    pub fn guard(
        &mut self,
        claims: &mut PolicyClaims,
        about: About,
        record: BoundRecord,
        result: GuardrailResult,
    ) {
        claims.guarded.push(self.enter(about, record));
        claims.guardrails.push(result);
    }

    /// The risk from one claim, and the improvement from another or from the risk and the baseline.
    fn guarantee(&self, risk: Entry, improvement: Option<Entry>) -> Guarantee {
        let of = |Entry(i): Entry| (self.records[i].value, self.records[i].terms.numerical_slack);
        let (risk, risk_slack) = of(risk);
        let bound = risk + risk_slack;
        // A risk is never below −1 or above 0, whatever a bound says. `clamp` keeps NaN.
        let risk = bound.clamp(-1.0, 0.0);
        let (improvement, slack) = match improvement.map(of) {
            Some((value, slack)) => (-(value + slack), slack.max(risk_slack)),
            None => (self.baseline.lower_bound.unwrap_or(self.baseline.estimate) - risk, risk_slack),
        };
        // A bound below −1 shows that an assumption does not hold, like an improvement of more than 1.
        let impossible = -1.0 - bound;
        let improvement =
            if impossible > IMPOSSIBLE { improvement.max(1.0 + impossible) } else { improvement };
        Guarantee { risk, improvement, slack }
    }

    /// The claims about one policy, and the baseline.
    pub fn records_of(&self, claims: &PolicyClaims) -> Records<'_> {
        let of = |Entry(i): Entry| &self.records[i];
        Records { risk: of(claims.risk), improvement: claims.improvement.map(of), baseline: &self.baseline }
    }

    /// Marks the claims that the certificate's results rest on.
    pub fn rest_on(&mut self, claims: &PolicyClaims) {
        let own = claims.improvement.iter().chain([&claims.risk]).chain(&claims.guarded);
        for Entry(i) in own {
            self.records[*i].used = true;
        }
    }
}
