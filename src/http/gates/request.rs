//! The body with which a standing gate is defined.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::http::App;
use crate::http::codes::Code;
use crate::http::datasets::find_dataset;
use crate::http::problem::Problem;
use crate::store::{Allowance, GateDefinition, GateName, GateRequirements, Workspace};
use guarantor_engine::certificate::StrictJson;

/// The greatest δ that a standing gate accepts unless it is told otherwise.
const DELTA: f64 = 0.05;
/// The most members of a selector.
const MOST_MEMBERS: usize = 16;
/// The most bytes of a selector.
const MOST_SELECTOR: usize = 4 << 10;

/// A standing gate to be created or changed.
#[derive(Debug, Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = GateRequest)]
pub struct GateRequest {
    /// 1 to 64 characters from a-z, 0-9, - and _. Required to create a gate; a name cannot be changed.
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$")]
    name: Option<String>,
    /// Ask about jobs on this dataset only.
    #[schema(value_type = Option<String>, format = "uuid")]
    dataset_id: Option<String>,
    /// Ask about jobs only whose `metadata` contains these members with these values.
    #[schema(value_type = Option<Object>)]
    selector: Option<StrictJson>,
    /// The greatest δ of a certificate.
    #[schema(default = 0.05)]
    delta: Option<f64>,
    /// What a certificate must satisfy besides. `min_family_confidence` is 1 − `delta` unless it is set.
    requirements: Option<GateRequirements>,
    /// What the gate is open to although it is closed to it by default.
    allow: Option<BTreeSet<Allowance>>,
}

fn invalid(field: &str, message: impl Into<String>) -> Problem {
    Problem::field(Code::InvalidValue, field, message)
}

impl GateRequest {
    /// The name of a new gate.
    ///
    /// # Errors
    /// If it is missing or not a name.
    pub fn new_name(&self) -> Result<GateName, Problem> {
        let name = self.name.as_ref().ok_or_else(|| invalid("name", "is missing"))?;
        name.parse().map_err(|error| invalid("name", format!("{name:?} {error}")))
    }

    /// Checks that the body does not name another gate than the path.
    ///
    /// # Errors
    /// If it does.
    pub fn check_name(&self, path: &GateName) -> Result<(), Problem> {
        match &self.name {
            Some(name) if name != path.as_str() => {
                let message =
                    format!("is {name:?}, but the path names {path}; create another gate to rename it");
                Err(invalid("name", message))
            }
            _ => Ok(()),
        }
    }

    /// The definition with every default filled in.
    ///
    /// # Errors
    /// If a value is out of its range, or the dataset does not exist.
    pub async fn resolve(self, app: &App, workspace: &Workspace) -> Result<GateDefinition, Problem> {
        let selector = selector(self.selector)?;
        if self.dataset_id.is_none() && selector.is_empty() {
            let message = "send `dataset_id`, or `selector` with at least one member, so that the gate knows which \
                           jobs to ask about";
            return Err(invalid("selector", message));
        }
        let delta = self.delta.unwrap_or(DELTA);
        if !(delta > 0.0 && delta < 1.0) {
            return Err(invalid("delta", format!("{delta} is not between 0 and 1")));
        }
        let mut requirements = self.requirements.unwrap_or_default();
        if let Some((field, message)) = requirements.fault() {
            return Err(invalid(&format!("requirements.{field}"), message));
        }
        requirements.min_family_confidence.get_or_insert(1.0 - delta);
        let dataset_id = match self.dataset_id {
            Some(id) => Some(find_dataset(app, workspace, &id).await?.id),
            None => None,
        };
        Ok(GateDefinition {
            dataset_id,
            selector,
            delta,
            requirements,
            allow: self.allow.unwrap_or_default(),
        })
    }
}

fn selector(sent: Option<StrictJson>) -> Result<Map<String, Value>, Problem> {
    let selector = match sent {
        None | Some(StrictJson(Value::Null)) => return Ok(Map::new()),
        Some(StrictJson(Value::Object(selector))) => selector,
        Some(_) => return Err(invalid("selector", "must be an object of metadata members and their values")),
    };
    let bytes = serde_json::to_vec(&selector).map_err(Problem::internal)?.len();
    if selector.len() > MOST_MEMBERS || bytes > MOST_SELECTOR {
        let message = format!(
            "has {} members and {bytes} bytes; the maximum is {MOST_MEMBERS} members and {MOST_SELECTOR} bytes",
            selector.len()
        );
        return Err(invalid("selector", message));
    }
    Ok(selector)
}
