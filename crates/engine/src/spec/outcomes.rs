//! The objective of a job, its guardrails, and amounts in the paper's units or in those of an outcome
//! (docs/math.md#guardrails).

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::ranges::{self, Range};
use super::{Checked, SpecRequest, within};
use crate::error::{SpecCode, SpecError};
use crate::log::{LogShape, Outcome};

/// The most guardrails of a job. Each takes a share of δ.
pub const MAX_GUARDRAILS: usize = 8;

/// The unit of an amount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// The paper's: the outcome's range is 1.
    Paper,
    /// The outcome's own.
    Outcome,
}

/// An amount of an outcome with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AmountInUnit {
    /// The amount. A positive number is an improvement, or a loss, whatever the outcome's kind.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

/// An improvement or a loss as the caller sends it: a number in the paper's units, or a value with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum Amount {
    /// In the paper's units.
    Paper(f64),
    /// With its unit.
    InUnit(AmountInUnit),
}

impl From<f64> for Amount {
    fn from(value: f64) -> Self {
        Amount::Paper(value)
    }
}

/// Written by hand, so that a wrong member is named.
impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;

        impl<'de> Visitor<'de> for Reader {
            type Value = Amount;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a number, or {\"value\": …, \"unit\": \"paper\" or \"outcome\"}")
            }

            fn visit_f64<E>(self, value: f64) -> Result<Amount, E> {
                Ok(Amount::Paper(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Amount, E> {
                Ok(Amount::Paper(value as f64))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Amount, E> {
                Ok(Amount::Paper(value as f64))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Amount, A::Error> {
                AmountInUnit::deserialize(MapAccessDeserializer::new(map)).map(Amount::InUnit)
            }
        }

        deserializer.deserialize_any(Reader)
    }
}

impl Amount {
    /// The amount in the paper's units, if it is in its range there.
    pub(super) fn to_paper(self, field: &str, outcome: &Outcome, range: Range) -> Checked<f64> {
        let value = match self {
            Amount::Paper(value) => return within(field, value, range),
            Amount::InUnit(AmountInUnit { value, unit: Unit::Paper }) => {
                return within(&format!("{field}.value"), value, range);
            }
            Amount::InUnit(AmountInUnit { value, unit: Unit::Outcome }) => value,
        };
        let paper = outcome.improvement_from_user(value);
        if range.contains(paper) {
            return Ok(paper + 0.0);
        }
        let message = format!(
            "{} in the outcome's units is {} of its range from {} to {}, and that is not in {range}",
            ranges::text(value),
            ranges::text(paper),
            ranges::text(outcome.min),
            ranges::text(outcome.max)
        );
        Err(SpecError::new(SpecCode::InvalidValue, format!("{field}.value"), message))
    }
}

/// A guardrail as the caller sends it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GuardrailRequest {
    /// The outcome that must not get much worse.
    pub outcome: String,
    /// The most that the policy may lose in this outcome, compared with the logging policy: 0 or more.
    pub max_loss: Amount,
}

/// A guardrail, resolved: `deploy` needs a guarantee that the policy loses at most `max_loss` in `outcome`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Guardrail {
    /// The outcome that must not get much worse.
    pub outcome: String,
    /// The most that the policy may lose in it, in the paper's units.
    pub max_loss: f64,
}

/// The outcome with this name.
fn named<'a>(shape: &'a LogShape, field: &str, name: &str) -> Checked<&'a Outcome> {
    let outcomes = &shape.capabilities.outcomes;
    if let Some(found) = outcomes.iter().find(|named| named.name == name) {
        return Ok(&found.outcome);
    }
    if outcomes.is_empty() {
        let message = "the dataset has one outcome without a name; upload the log with named `outcomes`, or \
                       leave this out";
        return Err(SpecError::new(SpecCode::OutcomesNotNamed, field, message));
    }
    let known: Vec<&str> = outcomes.iter().map(|named| named.name.as_str()).collect();
    let message = format!("the dataset has no outcome {name:?}; its outcomes are: {}", known.join(", "));
    Err(SpecError::new(SpecCode::UnknownOutcome, field, message))
}

impl SpecRequest {
    /// The objective and its outcome. If the log's outcomes have no names, the objective has none.
    pub(super) fn resolve_objective(&self, shape: &LogShape) -> Checked<(Option<String>, Outcome)> {
        match (&self.objective, shape.capabilities.outcomes.first()) {
            (Some(name), _) => Ok((Some(name.clone()), *named(shape, "objective", name)?)),
            (None, Some(primary)) => Ok((Some(primary.name.clone()), primary.outcome)),
            (None, None) => Ok((None, shape.outcome)),
        }
    }

    pub(super) fn resolve_min_improvement(&self, objective: &Outcome) -> Checked<f64> {
        let sent = self.min_improvement.unwrap_or(Amount::Paper(0.0));
        sent.to_paper("min_improvement", objective, ranges::MIN_IMPROVEMENT)
    }

    /// The guardrails, in the order of the log's outcomes, so that equal specs have equal digests.
    pub(super) fn resolve_guardrails(
        &self,
        objective: Option<&str>,
        shape: &LogShape,
    ) -> Checked<Vec<Guardrail>> {
        let sent = self.guardrails.as_deref().unwrap_or_default();
        if sent.len() > MAX_GUARDRAILS {
            let message = format!("there are {}; the maximum is {MAX_GUARDRAILS}", sent.len());
            return Err(SpecError::new(SpecCode::TooManyGuardrails, "guardrails", message));
        }
        let mut all: Vec<Guardrail> = Vec::with_capacity(sent.len());
        for (i, GuardrailRequest { outcome: name, max_loss }) in sent.iter().enumerate() {
            let field = format!("guardrails[{i}].outcome");
            let outcome = named(shape, &field, name)?;
            if objective == Some(name.as_str()) {
                let message = format!(
                    "{name:?} is the objective, which must improve anyway; use min_improvement, or set `objective` \
                     to another outcome"
                );
                return Err(SpecError::new(SpecCode::GuardrailIsObjective, field, message));
            }
            if all.iter().any(|other| other.outcome == *name) {
                let message = format!("{name:?} has a guardrail already; send one with the smaller max_loss");
                return Err(SpecError::new(SpecCode::GuardrailRepeated, field, message));
            }
            let max_loss =
                max_loss.to_paper(&format!("guardrails[{i}].max_loss"), outcome, ranges::MAX_LOSS)?;
            all.push(Guardrail { outcome: name.clone(), max_loss });
        }
        let place = |name: &str| shape.capabilities.outcomes.iter().position(|named| named.name == name);
        all.sort_by_key(|guardrail| place(&guardrail.outcome));
        Ok(all)
    }
}
