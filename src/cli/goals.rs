//! What a policy must achieve, as arguments: the objective, its required improvement, and guardrails. They become
//! fields of the spec.

use clap::Args;
use serde_json::{Map, Value, json};

use super::Failure;

/// The objective and the guardrails.
#[derive(Args)]
pub struct GoalArgs {
    /// The outcome that must improve, if the log's outcomes have names [default: the first one].
    #[arg(long, value_name = "OUTCOME")]
    objective: Option<String>,
    /// An outcome that must not get worse by more than MAX_LOSS, such as complaint=0.01 in the paper's units or
    /// complaint=0.5:outcome in its own. Can be repeated.
    #[arg(long, value_name = "OUTCOME=MAX_LOSS")]
    guardrail: Vec<String>,
    /// The improvement that must be exceeded, such as 0.01 in the paper's units or 0.5:outcome in those of the
    /// objective.
    #[arg(long, value_name = "AMOUNT")]
    min_improvement: Option<String>,
}

impl GoalArgs {
    /// Adds the arguments to a spec.
    ///
    /// # Errors
    /// If one cannot be read, or the spec has the field already.
    pub fn add_to(&self, spec: &mut Value) -> Result<(), Failure> {
        let mut fields = Map::new();
        if let Some(objective) = &self.objective {
            fields.insert("objective".into(), json!(objective));
        }
        if let Some(text) = &self.min_improvement {
            fields.insert("min_improvement".into(), amount("--min-improvement", text)?);
        }
        if !self.guardrail.is_empty() {
            let all: Result<Vec<Value>, Failure> =
                self.guardrail.iter().map(|text| guardrail(text)).collect();
            fields.insert("guardrails".into(), Value::Array(all?));
        }
        let Value::Object(spec) = spec else { return Err("the spec is not a JSON object".into()) };
        for (name, value) in fields {
            if spec.insert(name.clone(), value).is_some() {
                let flag = if name == "guardrails" { "guardrail".into() } else { name.replace('_', "-") };
                return Err(format!("the spec has {name} already; remove it there, or --{flag} here").into());
            }
        }
        Ok(())
    }
}

fn guardrail(text: &str) -> Result<Value, Failure> {
    let (outcome, max_loss) = text
        .rsplit_once('=')
        .ok_or_else(|| format!("--guardrail {text}: expected OUTCOME=MAX_LOSS, such as complaint=0.01"))?;
    Ok(json!({"outcome": outcome, "max_loss": amount("--guardrail", max_loss)?}))
}

/// A number, or a number with its unit after a colon.
fn amount(flag: &str, text: &str) -> Result<Value, Failure> {
    let (number, unit) = match text.split_once(':') {
        Some((number, unit)) => (number, Some(unit)),
        None => (text, None),
    };
    let wrong = || format!("{flag}: {text:?} is not a number, such as 0.01, 0.01:paper or 0.5:outcome");
    let value: f64 = number.parse().map_err(|_| wrong())?;
    match unit {
        _ if !value.is_finite() => Err(wrong().into()),
        None => Ok(json!(value)),
        Some("paper" | "outcome") => Ok(json!({"value": value, "unit": unit})),
        Some(_) => Err(wrong().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_fields() {
        let args = GoalArgs {
            objective: Some("revenue".into()),
            guardrail: vec!["complaint=0.01".into(), "a=b=2:outcome".into()],
            min_improvement: Some("0.5:outcome".into()),
        };
        let mut spec = json!({"delta": 0.1});
        args.add_to(&mut spec).unwrap();
        let guardrails = json!([{"outcome": "complaint", "max_loss": 0.01},
                                {"outcome": "a=b", "max_loss": {"value": 2.0, "unit": "outcome"}}]);
        assert_eq!(spec["guardrails"], guardrails);
        assert_eq!(spec["min_improvement"], json!({"value": 0.5, "unit": "outcome"}));
        assert_eq!((&spec["objective"], &spec["delta"]), (&json!("revenue"), &json!(0.1)));
        let again = args.add_to(&mut spec).unwrap_err().to_string();
        assert!(again.contains("already"), "{again}");
    }

    #[test]
    fn what_is_no_amount_is_an_error() {
        for bad in ["", "x", "1:dollars", "nan", "inf", "1:", ":outcome"] {
            assert!(amount("--min-improvement", bad).is_err(), "{bad}");
        }
        assert!(guardrail("complaint").is_err());
    }
}
