//! What the caller says about outcomes: the kind, the range, and where values are cut. A log has one outcome, or
//! several with names.

use std::fmt;
use std::str::FromStr;

use guarantor_engine::log::{NamedOutcome, Outcome, OutcomeKind};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::rules::MAX_ID_BYTES;

/// The maximum number of outcomes of a log.
pub const MAX_OUTCOMES: usize = 16;
/// The range of a named outcome, unless the declaration says otherwise.
const NAMED_RANGE: (f64, f64) = (0.0, 1.0);
const EXAMPLE: &str =
    r#"{"revenue": {"kind": "reward", "min": 0, "max": 100}, "complaint": {"kind": "cost"}}"#;

/// The range of an outcome, as far as the caller states it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OutcomeRange {
    /// The smallest possible outcome.
    pub min: Option<f64>,
    /// The largest possible outcome.
    pub max: Option<f64>,
    /// A value above this one counts as this one. The range then ends here.
    pub cap: Option<f64>,
    /// A value below this one counts as this one. The range then begins here.
    pub floor: Option<f64>,
}

/// What is wrong with a stated range.
#[derive(Debug, Clone, PartialEq)]
pub struct RangeFault {
    /// `min`, `max`, `cap` or `floor`.
    pub option: &'static str,
    /// What is wrong with it and what to do.
    pub message: String,
}

impl OutcomeRange {
    /// The outcome with this range. Ends that the caller leaves out are those of `default`.
    ///
    /// # Errors
    /// The range is empty or not finite, or nothing can be cut where it ends.
    pub fn outcome(&self, kind: OutcomeKind, default: (f64, f64)) -> Result<Outcome, RangeFault> {
        let OutcomeRange { min, max, cap, floor } = *self;
        let fault = |option, message: String| Err(RangeFault { option, message });
        for (option, value) in [("min", min), ("max", max), ("cap", cap), ("floor", floor)] {
            if let Some(value) = value.filter(|value| !value.is_finite()) {
                return fault(option, format!("{value} is not a finite number"));
            }
        }
        if let (Some(max), Some(cap)) = (max, cap)
            && max < cap
        {
            let message = format!(
                "{cap} is above the largest possible outcome, {max}, so nothing can be cut there; leave one of them out"
            );
            return fault("cap", message);
        }
        if let (Some(min), Some(floor)) = (min, floor)
            && min > floor
        {
            let message = format!(
                "{floor} is below the smallest possible outcome, {min}, so nothing can be cut there; leave one of them \
                 out"
            );
            return fault("floor", message);
        }
        let (min, max) = (floor.or(min).unwrap_or(default.0), cap.or(max).unwrap_or(default.1));
        match Outcome::new(kind, min, max) {
            Some(outcome) => Ok(Outcome { cap, floor, ..outcome }),
            None => fault(
                "min",
                format!(
                    "[{min}, {max}] is not a range; the smallest possible outcome must be less than the largest, and \
                     their difference finite"
                ),
            ),
        }
    }
}

/// What the caller declares about one of several outcomes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct OutcomeDeclaration {
    /// Whether it is a cost or a reward.
    pub kind: OutcomeKind,
    /// The smallest possible outcome; 0 if it is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The largest possible outcome; 1 if it is left out. With a cap, the range ends at the cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
    /// A value above this one counts as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap: Option<f64>,
    /// A value below this one counts as this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<f64>,
}

impl From<Outcome> for OutcomeDeclaration {
    fn from(outcome: Outcome) -> Self {
        let Outcome { kind, min, max, cap, floor } = outcome;
        OutcomeDeclaration { kind, min: Some(min), max: Some(max), cap, floor }
    }
}

/// The outcomes of a log, in the order in which they are declared. The first is the primary one. Written as a JSON
/// object, or as a text that contains one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DeclaredOutcomes(pub Vec<(String, OutcomeDeclaration)>);

impl DeclaredOutcomes {
    /// The declared outcomes.
    ///
    /// # Errors
    /// The range of one of them is not valid. The message names it.
    pub fn outcomes(&self) -> Result<Vec<NamedOutcome>, String> {
        let one = |(name, declared): &(String, OutcomeDeclaration)| {
            let OutcomeDeclaration { kind, min, max, cap, floor } = *declared;
            let outcome = OutcomeRange { min, max, cap, floor }.outcome(kind, NAMED_RANGE);
            let outcome = outcome.map_err(|fault| format!("{name}.{}: {}", fault.option, fault.message))?;
            Ok(NamedOutcome { name: name.clone(), outcome })
        };
        self.0.iter().map(one).collect()
    }
}

/// The declaration of these outcomes as JSON, for commands that people copy.
pub fn declaration_of(outcomes: &[NamedOutcome]) -> String {
    let one = |named: &NamedOutcome| {
        let name = serde_json::to_string(&named.name).unwrap_or_default();
        let declared = serde_json::to_string(&OutcomeDeclaration::from(named.outcome)).unwrap_or_default();
        format!("{name}:{declared}")
    };
    format!("{{{}}}", outcomes.iter().map(one).collect::<Vec<_>>().join(","))
}

/// An example of a declaration of outcomes with these names.
pub fn example<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let outcome = Outcome::reward();
    let named = names.map(|name| NamedOutcome { name: name.to_owned(), outcome });
    declaration_of(&named.collect::<Vec<_>>())
}

impl FromStr for DeclaredOutcomes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let declared: Result<InOrder, _> = serde_json::from_str(text);
        declared.map(|declared| declared.0).map_err(|error| format!("{error}; for example {EXAMPLE}"))
    }
}

impl<'de> Deserialize<'de> for DeclaredOutcomes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = DeclaredOutcomes;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a JSON object with the outcomes")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<DeclaredOutcomes, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<DeclaredOutcomes, A::Error> {
                InOrder::deserialize(MapAccessDeserializer::new(map)).map(|declared| declared.0)
            }
        }
        from.deserialize_any(Either)
    }
}

/// A JSON object whose members keep their order.
struct InOrder(DeclaredOutcomes);

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = InOrder;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object with the names of outcomes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InOrder, A::Error> {
                let mut all: Vec<(String, OutcomeDeclaration)> = Vec::new();
                while let Some(name) = map.next_key::<String>()? {
                    check_name(&name, &all).map_err(A::Error::custom)?;
                    let declared = map.next_value::<OutcomeDeclaration>();
                    let declared = declared.map_err(|error| A::Error::custom(format!("{name}: {error}")))?;
                    all.push((name, declared));
                }
                match all.is_empty() {
                    true => Err(A::Error::custom("declares no outcome")),
                    false => Ok(InOrder(DeclaredOutcomes(all))),
                }
            }
        }
        json.deserialize_map(Members)
    }
}

/// Checks the name of the next outcome.
fn check_name(name: &str, before: &[(String, OutcomeDeclaration)]) -> Result<(), String> {
    if name.is_empty() || name.len() > MAX_ID_BYTES {
        let shown: String = name.chars().take(60).collect();
        return Err(format!("{shown:?} is not a valid name; names have 1 to {MAX_ID_BYTES} bytes"));
    }
    if before.iter().any(|(other, _)| other == name) {
        return Err(format!("the outcome {name:?} is declared twice"));
    }
    match before.len() >= MAX_OUTCOMES {
        true => Err(format!("declares more than {MAX_OUTCOMES} outcomes, which is the maximum")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_text_and_ranges_have_defaults() {
        let text = r#"{"z": {"kind": "reward", "min": -5, "max": 100, "cap": 80}, "a": {"kind": "cost"}}"#;
        let declared: DeclaredOutcomes = text.parse().unwrap();
        let outcomes = declared.outcomes().unwrap();
        let names: Vec<&str> = outcomes.iter().map(|named| named.name.as_str()).collect();
        assert_eq!(names, ["z", "a"]);
        let (z, a) = (outcomes[0].outcome, outcomes[1].outcome);
        assert_eq!((z.min, z.max, z.cap, z.floor), (-5.0, 80.0, Some(80.0), None));
        assert_eq!((a.kind, a.min, a.max, a.cap), (OutcomeKind::Cost, 0.0, 1.0, None));
        // As JSON and as a text in JSON, and back.
        for json in [text.to_owned(), serde_json::to_string(text).unwrap(), declaration_of(&outcomes)] {
            let read: DeclaredOutcomes = serde_json::from_str(&json).unwrap();
            assert_eq!(read.outcomes().unwrap(), outcomes);
        }
    }

    #[test]
    fn bad_declarations_say_what_is_wrong() {
        let many: Vec<String> = (0..17).map(|i| format!(r#""o{i}":{{"kind":"cost"}}"#)).collect();
        let many = format!("{{{}}}", many.join(","));
        let long = format!(r#"{{"{}":{{"kind":"cost"}}}}"#, "n".repeat(MAX_ID_BYTES + 1));
        for (text, words) in [
            ("", "EOF"),
            ("[]", "expected an object with the names of outcomes"),
            ("{}", "declares no outcome"),
            (r#"{"a": 1}"#, "a: invalid type"),
            (r#"{"a": {}}"#, "missing field `kind`"),
            (r#"{"a": {"kind": "gain"}}"#, "unknown variant `gain`"),
            (r#"{"a": {"kind": "cost", "maximum": 1}}"#, "unknown field `maximum`"),
            (r#"{"a": {"kind": "cost"}, "a": {"kind": "cost"}}"#, "\"a\" is declared twice"),
            (r#"{"": {"kind": "cost"}}"#, "is not a valid name"),
            (many.as_str(), "more than 16 outcomes"),
            (long.as_str(), "is not a valid name"),
        ] {
            let error = text.parse::<DeclaredOutcomes>().unwrap_err();
            assert!(error.contains(words) && error.contains("for example {"), "{text}: {error}");
        }
        for (text, words) in [
            (r#"{"a": {"kind": "cost", "min": 1}}"#, "a.min: [1, 1] is not a range"),
            (r#"{"a": {"kind": "cost", "max": 2, "cap": 3}}"#, "a.cap: 3 is above"),
            (r#"{"a": {"kind": "cost", "min": 0, "floor": -1}}"#, "a.floor: -1 is below"),
            (r#"{"a": {"kind": "cost", "min": -1e308, "max": 1e308}}"#, "a.min: "),
        ] {
            let error = text.parse::<DeclaredOutcomes>().unwrap().outcomes().unwrap_err();
            assert!(error.starts_with(words), "{text}: {error}");
        }
        let infinite = OutcomeRange { cap: Some(f64::INFINITY), ..OutcomeRange::default() };
        assert_eq!(infinite.outcome(OutcomeKind::Cost, (0.0, 1.0)).unwrap_err().option, "cap");
    }
}
