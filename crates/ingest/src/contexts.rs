//! Requests with their available actions, as a stored policy is asked about them: `x` and `actions` of a row, read by
//! the same code, and nothing else.

use std::fmt;

use guarantor_engine::log::{ActionSets, FeatureSpace, MAX_HASH_DIMS, Sets};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::IngestLimits;
use crate::action_set::{Form, MAX_SET_ACTIONS, RawSet, SetBuilder, SetRules};
use crate::features::Features;
use crate::hashing::Hashing;
use crate::json::{self, JsonObject, Name, Stop, duplicate};
use crate::ndjson_actions::{ActionsSeed, Request, RequestSeed};
use crate::row::{NamedFeatures, RowFault};

/// The limits of one body with contexts.
#[derive(Debug, Clone)]
pub struct ContextLimits {
    /// The limits of each context, which are those of a row.
    pub row: IngestLimits,
    /// The most actions of all contexts together, each counted with as many as the largest set has.
    pub actions: usize,
    /// The most features of all contexts together that are not 0.
    pub non_zeros: usize,
}

/// The contexts of a body.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AskedSets {
    /// The actions of each context and the features.
    pub sets: Sets,
    /// The ids of each context's actions; empty if they have none.
    pub ids: Vec<Vec<String>>,
}

/// Why the contexts of a body cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextFault {
    /// The field, such as `contexts[3].actions[2].x`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
    /// Whether there is just too much of it.
    pub too_large: bool,
}

/// Reads the member `contexts` of a JSON object, and ignores its other members. `features` are those that the policy
/// reads; `None` if it reads none, whatever they are.
///
/// # Errors
/// The first field that is wrong.
pub fn contexts_of(
    body: &[u8],
    features: Option<ActionSets>,
    limits: &ContextLimits,
) -> Result<AskedSets, ContextFault> {
    let object =
        Body { features, limits, asked: AskedSets::default(), stop: None, too_large: false, largest: 0 };
    let mut too_large = false;
    let read = json::parse(body, Watched { body: object, too_large: &mut too_large });
    match read {
        Ok(watched) => Ok(watched.body.asked),
        Err(RowFault { field, message }) => Err(ContextFault { field, message, too_large }),
    }
}

struct Body<'a> {
    features: Option<ActionSets>,
    limits: &'a ContextLimits,
    asked: AskedSets,
    stop: Option<Stop>,
    too_large: bool,
    /// The number of actions of the largest context so far.
    largest: usize,
}

/// A body that says whether it was too large, even if it could not be read.
struct Watched<'a, 'b> {
    body: Body<'a>,
    too_large: &'b mut bool,
}

impl JsonObject for Watched<'_, '_> {
    const EXPECTED: &'static str = "an object with contexts";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "contexts" => map.next_value_seed(&mut self.body),
            _ => map.next_value::<IgnoredAny>().map(drop),
        }
    }

    fn stop(&mut self) -> Option<Stop> {
        *self.too_large = self.body.too_large;
        self.body.stop.take()
    }
}

impl<'de> DeserializeSeed<'de> for &mut Body<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for &mut Body<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a list of contexts")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        loop {
            let at = self.asked.sets.rows();
            match items.next_element_seed(OneContext(self)) {
                Ok(Some(())) => {}
                Ok(None) => return Ok(()),
                Err(error) => {
                    let context = format!("contexts[{at}]");
                    self.stop = Some(match self.stop.take() {
                        Some(stop) if stop.field.is_empty() => Stop { field: context, ..stop },
                        Some(stop) => Stop { field: format!("{context}.{}", stop.field), ..stop },
                        None => Stop::at(context),
                    });
                    return Err(error);
                }
            }
        }
    }
}

impl Body<'_> {
    fn rules(&self, space: impl Fn(ActionSets) -> FeatureSpace) -> SetRules {
        let dims = self.features.map(space).map_or(MAX_HASH_DIMS, FeatureSpace::dim);
        let limits = &self.limits.row;
        SetRules { hashing: Hashing { dims }, dim: limits.dim, non_zeros: limits.row_non_zeros }
    }

    fn fail<E: Error>(&mut self, field: impl Into<String>, message: impl Into<String>) -> E {
        self.stop = Some(Stop { field: field.into(), message: Some(message.into()) });
        E::custom("the context cannot be used")
    }

    /// Adds a context that was read.
    fn add<E: Error>(&mut self, x: Given, set: RawSet) -> Result<(), E> {
        let n = set.len();
        if n == 0 || n > MAX_SET_ACTIONS {
            let message = format!("has {n} actions; a context has 1 to {MAX_SET_ACTIONS}");
            return Err(self.fail("actions", message));
        }
        if let Some(features) = self.features {
            let forms =
                [("x", x.form(), features.x, true), ("actions[0]", set.form, features.actions, false)];
            for (field, here, read, of_request) in forms {
                if let Some(message) = misfit(here, read, of_request) {
                    return Err(self.fail(field, message));
                }
            }
        }
        let sets = &mut self.asked.sets;
        match x {
            Given::List(numbers) => sets.x.push((0..).zip(numbers)),
            Given::Named(named) => sets.x.push(named.pairs),
            Given::Nothing => sets.x.push([]),
        }
        let summed = sets.x.vector(sets.x.len() - 1).values.iter().all(|value| value.is_finite());
        sets.actions.extend_from(&set.actions, 0..n);
        sets.end_row();
        self.asked.ids.push(set.ids);
        if !summed {
            let message = "has features of one dimension whose sum is not a finite single-precision number";
            self.asked.sets.truncate(self.asked.sets.rows() - 1);
            return Err(self.fail("x", message));
        }
        self.check_size()
    }

    fn check_size<E: Error>(&mut self) -> Result<(), E> {
        let (sets, limits) = (&self.asked.sets, self.limits);
        let rows = sets.rows();
        // A pass over all contexts for each of them would be quadratic.
        self.largest = self.largest.max(rows.checked_sub(1).map_or(0, |last| sets.size(last)));
        let largest = self.largest;
        let non_zeros = sets.x.non_zeros() + sets.actions.non_zeros();
        let message = if rows.saturating_mul(largest) > limits.actions {
            let most = limits.actions / largest.max(1);
            format!(
                "is one too many: with up to {largest} actions each, the maximum is {most} contexts per request"
            )
        } else if non_zeros > limits.non_zeros {
            let most = limits.non_zeros;
            format!("is one too many: all contexts together have at most {most} features that are not 0")
        } else {
            return Ok(());
        };
        self.too_large = true;
        self.asked.sets.truncate(rows - 1);
        Err(self.fail("", message))
    }
}

/// `x` of a context.
enum Given {
    List(Vec<f32>),
    Named(NamedFeatures),
    Nothing,
}

impl Given {
    fn form(&self) -> Form {
        match self {
            Given::List(numbers) => Form::List(numbers.len()),
            Given::Named(named) => Form::Named(named.dims),
            Given::Nothing => Form::None,
        }
    }
}

/// What is wrong with features of this form, if the policy reads others.
fn misfit(here: Form, read: FeatureSpace, of_request: bool) -> Option<String> {
    let what = if of_request { "requests" } else { "actions" };
    Some(match (here.space(), read) {
        (here, read) if here == read => return None,
        // An action without any features among others that have some.
        (FeatureSpace::None, FeatureSpace::Named { .. }) if !of_request => return None,
        (FeatureSpace::List { dim }, FeatureSpace::List { dim: read }) => {
            format!("has {dim} numbers, but the policy reads {read}")
        }
        // A policy whose log had no names in one of the two places gives them no dimensions.
        (FeatureSpace::None, FeatureSpace::None) => return None,
        (_, FeatureSpace::None) => {
            format!("has features, but the policy reads none of {what}; leave them out")
        }
        (FeatureSpace::None, _) => format!("is missing, but the policy reads features of {what}"),
        (FeatureSpace::List { .. }, _) => "is a list of numbers, but the policy reads named features".into(),
        (_, FeatureSpace::List { dim }) => {
            format!("has named features, but the policy reads lists of {dim} numbers")
        }
        (_, FeatureSpace::Named { .. }) => return None,
    })
}

/// Reads one context.
struct OneContext<'a, 'b>(&'a mut Body<'b>);

impl<'de> DeserializeSeed<'de> for OneContext<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for OneContext<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with actions, and x if requests have features")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        let message = "is a list, but the policy plays over the actions that it is given; send an object with actions, \
                       and x if requests have features";
        Err(self.0.fail("", message))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let body = self.0;
        let (mut x, mut set) = (None, None);
        while let Some(Name(name)) = map.next_key::<Name>()? {
            let read = match &*name {
                "x" if x.is_some() => Err(duplicate()),
                "actions" if set.is_some() => Err(duplicate()),
                "x" => request(body, &mut map).map(|read| x = Some(read)),
                "actions" => actions(body, &mut map).map(|read| set = Some(read)),
                _ => Err(A::Error::custom("is not a field of a context; the fields are x and actions")),
            };
            if let Err(error) = read {
                body.stop.get_or_insert_with(|| Stop::at(name.into()));
                return Err(error);
            }
        }
        match set.flatten() {
            Some(set) => body.add(x.unwrap_or(Given::Nothing), set),
            None => Err(body.fail("actions", "is missing; it is a list with one entry per available action")),
        }
    }
}

fn request<'de, A: MapAccess<'de>>(body: &mut Body, map: &mut A) -> Result<Given, A::Error> {
    let rules = body.rules(|features| features.x);
    let mut features = Features::new(rules.non_zeros);
    match map.next_value_seed(RequestSeed { features: &mut features })? {
        Request::List(numbers) => {
            if let Some(j) = numbers.iter().position(|&value| !(value as f32).is_finite()) {
                let message = format!("{} is not a finite single-precision number", numbers[j]);
                return Err(body.fail(format!("x[{j}]"), message));
            }
            Ok(Given::List(numbers.into_iter().map(|value| value as f32).collect()))
        }
        Request::Named => match NamedFeatures::of(&features, "x", rules.hashing) {
            Ok(named) => Ok(Given::Named(named)),
            Err(fault) => Err(body.fail(fault.field, fault.message)),
        },
        Request::Nothing => Ok(Given::Nothing),
    }
}

fn actions<'de, A: MapAccess<'de>>(body: &mut Body, map: &mut A) -> Result<Option<RawSet>, A::Error> {
    let mut builder = SetBuilder::new("actions", body.rules(|features| features.actions));
    match map.next_value_seed(ActionsSeed { builder: &mut builder, stop: &mut body.stop })? {
        true => builder.finish().map(Some).map_err(|fault| body.fail(fault.field, fault.message)),
        false => Ok(None),
    }
}
