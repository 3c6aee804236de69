//! The contexts that a stored policy is asked about: lists of features for a policy with fixed actions, and action
//! lists for one that plays over the actions that it is given.

use std::fmt;

use axum::body::Bytes;
use ndarray::Array2;
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{
    AdditionalProperties, ArrayBuilder, ObjectBuilder, OneOfBuilder, Schema, Type,
};

use super::App;
use super::codes::Code;
use super::datasets::limits;
use super::problem::Problem;
use crate::store::{PolicyId, StoredPolicy, Workspace};
use guarantor_engine::EngineError;
use guarantor_engine::log::{Contexts, Sets};
use guarantor_engine::policy::{ActionScorer, DRAWS, PolicyParams};
use guarantor_ingest::{AskedSets, ContextFault, ContextLimits, contexts_of};

/// The maximum of contexts × K per request. A short request can ask for many pairs, and each takes memory.
const MOST_PAIRS: usize = 1 << 21;

/// The maximum of features of all action lists of a request that are not 0.
const MOST_NON_ZEROS: usize = 1 << 22;

/// The maximum of multiplications per request: a few seconds. A policy with a wide hidden layer reaches it with few
/// contexts.
const MOST_WORK: usize = 1 << 33;

/// The maximum of bytes for the random draws of a mixed logit, which are needed even for one context.
const MOST_DRAWN: usize = 256 << 20;

/// A context as it was sent.
#[derive(Debug)]
pub enum Context {
    /// The features of a context for a policy with fixed actions.
    List(Vec<f64>),
    /// An object. It is read once it is known what the policy reads.
    Object,
}

impl<'de> Deserialize<'de> for Context {
    fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
        struct ContextVisitor;
        impl<'de> Visitor<'de> for ContextVisitor {
            type Value = Context;

            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("a sequence of numbers, or an object with actions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Context, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(items)).map(Context::List)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Context, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Context::Object)
            }
        }
        json.deserialize_any(ContextVisitor)
    }
}

impl utoipa::PartialSchema for Context {
    fn schema() -> RefOr<Schema> {
        let numbers = || ArrayBuilder::new().items(ObjectBuilder::new().schema_type(Type::Number));
        let named = || {
            ObjectBuilder::new()
                .schema_type(Type::Object)
                .additional_properties(Some(AdditionalProperties::FreeForm(true)))
        };
        let features = || OneOfBuilder::new().item(numbers()).item(named());
        let list = numbers().description(Some("For a policy with fixed actions: p numbers"));
        let object = ObjectBuilder::new()
            .schema_type(Type::Object)
            .description(Some("For a policy that plays over the actions that it is given"))
            .property(
                "x",
                features().description(Some("The features of the request: a list of numbers, or names and values")),
            )
            .property(
                "actions",
                ArrayBuilder::new().items(features()).description(Some(
                    "One entry per available action: a list of numbers, names and values, or an object with `id` and `x`",
                )),
            )
            .required("actions")
            .additional_properties(Some(AdditionalProperties::FreeForm(false)));
        OneOfBuilder::new().item(list).item(object).into()
    }
}

impl utoipa::ToSchema for Context {}

/// Contexts that fit their policy.
pub enum Asked {
    /// Rows × p.
    Fixed(Array2<f32>),
    /// With their actions.
    Sets(AskedSets),
}

impl Asked {
    /// The contexts as policies see them.
    pub fn view(&self) -> Contexts<'_> {
        match self {
            Asked::Fixed(x) => x.view().into(),
            Asked::Sets(asked) => asked.sets.view().into(),
        }
    }

    /// How many actions context `i` has, if it has its own.
    pub fn size(&self, i: usize) -> Option<usize> {
        match self {
            Asked::Fixed(_) => None,
            Asked::Sets(asked) => Some(asked.sets.size(i)),
        }
    }

    /// The id of an action, if it was given one.
    pub fn id(&self, i: usize, action: usize) -> Option<String> {
        match self {
            Asked::Fixed(_) => None,
            Asked::Sets(asked) => asked.ids.get(i)?.get(action).cloned(),
        }
    }
}

/// What `work` computes with a policy and the contexts that it is asked about, and these contexts.
pub async fn decide<T: Send + 'static>(
    app: &App,
    workspace: &Workspace,
    id: PolicyId,
    (contexts, body): (Vec<Context>, Bytes),
    work: impl FnOnce(&PolicyParams, Contexts) -> Result<T, EngineError> + Send + 'static,
) -> Result<(T, Asked), Problem> {
    let policy = app.store.repository().policy(workspace, id).await?;
    if policy.n_actions > 0 {
        let x = matrix(&policy, contexts)?;
        let params = app.policies.params(&app.store, &policy).await?;
        check_work(&params, x.nrows())?;
        let asked = Asked::Fixed(x);
        let computed = app.compute(workspace, move || (work(&params, asked.view()), asked)).await?;
        return Ok((computed.0.map_err(unfit)?, computed.1));
    }
    let params = app.policies.params(&app.store, &policy).await?;
    let limits = ContextLimits { row: limits(&app.config), actions: MOST_PAIRS, non_zeros: MOST_NON_ZEROS };
    let compute = move || {
        let asked = contexts_of(&body, params.set_features(), &limits).map_err(faulty)?;
        check_set_work(&params, &asked.sets)?;
        let asked = Asked::Sets(asked);
        Ok::<_, Problem>((work(&params, asked.view()).map_err(unfit)?, asked))
    };
    app.compute(workspace, compute).await?
}

fn faulty(fault: ContextFault) -> Problem {
    let code = if fault.too_large { Code::TooLarge } else { Code::InvalidContexts };
    Problem::field(code, fault.field, fault.message)
}

/// The contexts as a matrix that fits a policy with fixed actions.
fn matrix(policy: &StoredPolicy, contexts: Vec<Context>) -> Result<Array2<f32>, Problem> {
    let (n, k, p) = (contexts.len(), policy.n_actions, policy.dim);
    if n.saturating_mul(k) > MOST_PAIRS {
        let most = MOST_PAIRS / k.max(1);
        let message =
            format!("{n} contexts; the maximum for a policy with {k} actions is {most} per request");
        return Err(Problem::field(Code::TooLarge, "contexts", message));
    }
    let mut numbers = Vec::with_capacity(n.saturating_mul(p));
    for (i, context) in contexts.into_iter().enumerate() {
        let Context::List(x) = context else {
            let message =
                format!("is an object, but the policy has {k} fixed actions; send a list of {p} numbers");
            return Err(Problem::field(Code::InvalidContexts, format!("contexts[{i}]"), message));
        };
        if x.len() != p {
            let message = format!("has {} numbers, but the policy has {p} features", x.len());
            return Err(Problem::field(Code::InvalidContexts, format!("contexts[{i}]"), message));
        }
        if let Some(j) = x.iter().position(|v| !(*v as f32).is_finite()) {
            let message = "is too large for a 32-bit float";
            return Err(Problem::field(Code::InvalidContexts, format!("contexts[{i}][{j}]"), message));
        }
        numbers.extend(x.iter().map(|v| *v as f32));
    }
    Array2::from_shape_vec((n, p), numbers).map_err(Problem::internal)
}

/// Rejects requests that would take too long or too much memory, before anything is computed.
fn check_work(params: &PolicyParams, contexts: usize) -> Result<(), Problem> {
    let each = params.work();
    if contexts.saturating_mul(each) > MOST_WORK {
        let most = MOST_WORK / each.max(1);
        let message = format!(
            "{contexts} contexts; the maximum for this policy is {most} per request, because each takes {each} \
             multiplications"
        );
        return Err(Problem::field(Code::TooLarge, "contexts", message));
    }
    // The draws, a copy while they are made, and the softmax of each.
    let drawn = params.n_actions().saturating_mul(3 * std::mem::size_of::<f64>() * DRAWS);
    if params.mixes_logits() && drawn > MOST_DRAWN {
        let most = MOST_DRAWN / (3 * std::mem::size_of::<f64>() * DRAWS);
        let detail = format!(
            "The policy is a mixed logit with {} actions; the propensities of mixed logits are computed for at most \
             {most} actions.",
            params.n_actions()
        );
        return Err(Problem::new(Code::TooLarge, detail));
    }
    Ok(())
}

/// The same for action lists: a scorer multiplies every feature of a request with every feature of each action.
fn check_set_work(params: &PolicyParams, sets: &Sets) -> Result<(), Problem> {
    let (base, with) = params.parts();
    let parts = [Some(base), with.map(|(_, with)| with)];
    let work: usize = parts
        .into_iter()
        .flatten()
        .map(|part| if let PolicyParams::ActionScorer(scorer) = part { scorer_work(scorer, sets) } else { 0 })
        .fold(0, usize::saturating_add);
    if work > MOST_WORK {
        let message = format!(
            "take {work} multiplications together, and the maximum is {MOST_WORK}; ask about fewer contexts at once"
        );
        return Err(Problem::field(Code::TooLarge, "contexts", message));
    }
    Ok(())
}

/// About how many multiplications the scores of all actions take.
fn scorer_work(scorer: &ActionScorer, sets: &Sets) -> usize {
    // Features that count even where they are absent.
    let always = |known: &[guarantor_engine::policy::KnownFeature]| {
        known.iter().filter(|feature| feature.center != 0.0).count()
    };
    let (always_x, always_actions) = (always(&scorer.x), always(&scorer.actions));
    let units = scorer.hidden.as_ref().map_or(0, |hidden| hidden.bias.len());
    let mut work = 0usize;
    for i in 0..sets.rows() {
        let x = sets.x.vector(i).indices.len() + always_x;
        for a in sets.actions_of(i) {
            let action = sets.actions.vector(a).indices.len() + always_actions;
            let pairs = if scorer.pairs.is_some() { x.saturating_mul(action) } else { 0 };
            work = work.saturating_add(pairs).saturating_add((units + 1).saturating_mul(x + action));
        }
    }
    work
}

/// The policy was checked when it was stored, so if the arithmetic fails, the contexts are the cause.
fn unfit(error: EngineError) -> Problem {
    match error {
        EngineError::Numerical(why) => {
            let message =
                format!("the policy's propensities cannot be computed ({why}); the numbers are too large");
            Problem::field(Code::InvalidContexts, "contexts", message)
        }
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerical_failures_are_blamed_on_the_contexts() {
        let problem = unfit(EngineError::Numerical("propensities sum to NaN".into()));
        assert_eq!(problem.code, Code::InvalidContexts);
        assert_eq!(unfit(EngineError::Cancelled).code, Code::Internal);
    }
}
