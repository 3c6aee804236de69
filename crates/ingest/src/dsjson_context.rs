//! The context `c` of a DSJSON line: the features of the request, and of the actions in `_multi`. How values become
//! features is in `features.rs`.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::action_set::{RawSet, SetBuilder, SetRules};
use crate::features::{Features, IdValue, Value};
use crate::json::{Name, Stop};
use crate::row::RowFault;

/// What is read from `c`.
pub struct EventContext {
    /// The features of the request.
    pub x: Features,
    /// The actions that `_multi` describes, if it is present.
    pub actions: Option<Box<RawSet>>,
    /// Whether `_multi` has a feature of any action.
    pub action_features: bool,
    /// Whether the event contains several decisions.
    pub slots: bool,
}

/// Reads `c`.
pub struct ContextSeed<'a> {
    pub rules: SetRules,
    /// Where reading stopped.
    pub stop: &'a mut Option<Stop>,
}

impl<'de> DeserializeSeed<'de> for ContextSeed<'_> {
    type Value = EventContext;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<EventContext, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ContextSeed<'_> {
    type Value = EventContext;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object of features")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EventContext, A::Error> {
        let ContextSeed { rules, stop } = self;
        let x = Features::new(rules.non_zeros);
        let mut context = EventContext { x, actions: None, action_features: false, slots: false };
        while let Some(Name(name)) = map.next_key::<Name>()? {
            match &*name {
                "_multi" if context.actions.is_some() => {
                    return Err(A::Error::custom("_multi occurs twice"));
                }
                "_multi" => {
                    let mut builder = SetBuilder::new("c._multi", rules);
                    let actions = Actions { builder: &mut builder, stop: &mut *stop };
                    context.action_features = map.next_value_seed(actions)?;
                    let set = builder.finish().map_err(|fault| stopped(stop, fault))?;
                    context.actions = Some(Box::new(set));
                }
                "_slots" => {
                    context.slots = true;
                    map.next_value::<IgnoredAny>()?;
                }
                name => context.x.member(name, &mut map)?,
            }
        }
        Ok(context)
    }
}

/// The error of actions that can be read but not used.
fn stopped<E: Error>(stop: &mut Option<Stop>, fault: RowFault) -> E {
    *stop = Some(Stop { field: fault.field, message: Some(fault.message) });
    E::custom("the actions cannot be used")
}

/// Reads `_multi`, and returns whether any action has a feature.
struct Actions<'a> {
    builder: &'a mut SetBuilder,
    stop: &'a mut Option<Stop>,
}

impl<'de> DeserializeSeed<'de> for Actions<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Actions<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("_multi as an array of objects, one per action")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<bool, A::Error> {
        let Actions { builder, stop } = self;
        let mut features = Features::new(builder.rules.non_zeros);
        let mut any = false;
        while items.next_element_seed(Action(&mut features))?.is_some() {
            any |= features.described();
            builder.named(&mut features, None, "").map_err(|fault| stopped(stop, fault))?;
            features.clear(builder.non_zeros());
        }
        Ok(any)
    }
}

/// The features of an action.
struct Action<'a>(&'a mut Features);

impl<'de> DeserializeSeed<'de> for Action<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Action<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("an object with the features of an action")
    }

    /// As an entry of `actions` in NDJSON and in requests for decisions: `id` is a name, and an object `x` has all
    /// features. Otherwise a policy would be served other features than those that it learned from.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut in_x, mut beside) = (false, false);
        while let Some(Name(name)) = map.next_key::<Name>()? {
            match &*name {
                "id" => map.next_value_seed(IdValue(self.0))?,
                "x" => match map.next_value_seed(X(self.0))? {
                    true => in_x = true,
                    false => beside = true,
                },
                name => {
                    beside |= !name.starts_with('_') || name == "_text";
                    self.0.member(name, &mut map)?;
                }
            }
        }
        if in_x && beside {
            let before = self.0.enter("x");
            self.0.stop("is an object beside other features; write all features into x, or rename it".into());
            self.0.leave(before);
        }
        Ok(())
    }
}

/// The member `x` of an action: whether it is an object, which has the features of the action.
struct X<'a>(&'a mut Features);

impl X<'_> {
    fn feature(self, add: impl FnOnce(&mut Features)) -> bool {
        let before = self.0.enter("x");
        add(self.0);
        self.0.leave(before);
        false
    }
}

impl<'de> DeserializeSeed<'de> for X<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<bool, D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for X<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a feature or an object with features")
    }

    fn visit_bool<E>(self, value: bool) -> Result<bool, E> {
        Ok(self.feature(|to| to.truth(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<bool, E> {
        Ok(self.feature(|to| to.number(value as f64)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<bool, E> {
        Ok(self.feature(|to| to.number(value as f64)))
    }

    fn visit_f64<E>(self, value: f64) -> Result<bool, E> {
        Ok(self.feature(|to| to.number(value)))
    }

    fn visit_str<E>(self, text: &str) -> Result<bool, E> {
        Ok(self.feature(|to| to.text(text)))
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<bool, A::Error> {
        let before = self.0.enter("x");
        Value { to: &mut *self.0, index: None }.visit_seq(items)?;
        self.0.leave(before);
        Ok(false)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<bool, A::Error> {
        Value { to: self.0, index: None }.visit_map(map).map(|()| true)
    }
}
