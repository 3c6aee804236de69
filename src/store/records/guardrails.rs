//! The guardrails that a gate requires.

use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// The most guardrails that a gate requires, as many as a job can have.
const MOST: usize = guarantor_engine::spec::MAX_GUARDRAILS;

/// A guardrail that a gate requires: the certificate must guarantee a loss of at most `max_loss` in `outcome`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RequiredGuardrail {
    /// The outcome of the guardrail.
    pub outcome: String,
    /// The guaranteed loss must be at most this, in units of risk as on the certificate.
    #[schema(minimum = 0, maximum = 1)]
    pub max_loss: f64,
}

/// The guardrails that a gate requires: a list, or in a query `NAME=MAX_LOSS,NAME=MAX_LOSS`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct RequiredGuardrails(pub Vec<RequiredGuardrail>);

impl RequiredGuardrails {
    /// What is wrong about them, if anything is.
    pub fn fault(&self) -> Option<String> {
        if self.0.len() > MOST {
            return Some(format!("has {} guardrails; the maximum is {MOST}", self.0.len()));
        }
        for (i, RequiredGuardrail { outcome, max_loss }) in self.0.iter().enumerate() {
            if outcome.is_empty() || outcome.len() > 300 {
                return Some("an outcome must have 1 to 300 bytes".into());
            }
            // The range does not have NaN.
            if !(0.0..=1.0).contains(max_loss) {
                return Some(format!("the max_loss {max_loss} of {outcome:?} is not in [0, 1]"));
            }
            if self.0[..i].iter().any(|other| other.outcome == *outcome) {
                return Some(format!("has two guardrails for {outcome:?}"));
            }
        }
        None
    }
}

impl<'de> Deserialize<'de> for RequiredGuardrails {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = RequiredGuardrails;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of {\"outcome\": …, \"max_loss\": …}, or NAME=MAX_LOSS,NAME=MAX_LOSS")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<RequiredGuardrails, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(RequiredGuardrails(all))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RequiredGuardrails, E> {
        let one = |part: &str| {
            let (outcome, max_loss) = part.rsplit_once('=')?;
            Some(RequiredGuardrail { outcome: outcome.into(), max_loss: max_loss.parse().ok()? })
        };
        let all: Option<Vec<RequiredGuardrail>> = text.split(',').map(one).collect();
        let wrong = || E::custom(format!("{text:?} is not NAME=MAX_LOSS,NAME=MAX_LOSS"));
        all.map(RequiredGuardrails).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(value: Value) -> Option<RequiredGuardrails> {
        serde_json::from_value(value).ok()
    }

    #[test]
    fn a_list_and_a_text_are_the_same() {
        let list = json!([{"outcome": "complaint", "max_loss": 0.01}, {"outcome": "a=b", "max_loss": 0}]);
        let read_list = read(list.clone()).unwrap();
        assert_eq!(read(json!("complaint=0.01,a=b=0")).unwrap(), read_list);
        assert_eq!(read_list.fault(), None);
        assert_eq!(read(serde_json::to_value(&read_list).unwrap()), Some(read_list));
        for bad in
            [json!(""), json!("complaint"), json!("complaint=x"), json!("a=1,,b=1"), json!(3), json!({})]
        {
            assert_eq!(read(bad.clone()), None, "{bad}");
        }
    }

    #[test]
    fn faults_are_named() {
        for bad in ["a=-0.1", "a=1.1", "a=nan", "a=inf", "=0.1", "a=0.1,a=0.2"] {
            assert!(read(json!(bad)).unwrap().fault().is_some(), "{bad}");
        }
        let many: Vec<String> = (0..9).map(|i| format!("o{i}=0")).collect();
        assert!(read(json!(many.join(","))).unwrap().fault().unwrap().contains("maximum is 8"));
    }
}
