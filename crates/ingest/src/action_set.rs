//! The actions of a row that has its own, as a format delivers them.

use std::collections::HashMap;

use guarantor_engine::log::{FeatureSpace, MAX_HASH_DIMS, Sparse};

use crate::IngestLimits;
use crate::features::Features;
use crate::hashing::Hashing;
use crate::row::RowFault;
use crate::rules::{MAX_ID_BYTES, wrong_id};

/// The most actions of a row that has its own. Numbers that have one value per action are padded to the largest set
/// of the log where jobs compute with them, so one large set would make every row large.
pub const MAX_SET_ACTIONS: usize = 1024;

/// How action sets are read.
#[derive(Debug, Clone, Copy)]
pub struct SetRules {
    /// The dimensions of named features.
    pub hashing: Hashing,
    /// The most numbers of a list of features.
    pub dim: usize,
    /// The most features of a row that are not 0.
    pub non_zeros: usize,
}

impl SetRules {
    /// The rules of a log whose named features get this many dimensions, or else as many as possible.
    pub fn new(limits: &IngestLimits, dims: Option<usize>) -> Self {
        SetRules {
            hashing: Hashing { dims: dims.unwrap_or(MAX_HASH_DIMS).min(MAX_HASH_DIMS) },
            dim: limits.dim,
            non_zeros: limits.row_non_zeros,
        }
    }
}

/// How the features of a row's actions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Form {
    /// They have none.
    #[default]
    None,
    /// Lists of this many numbers.
    List(usize),
    /// Names, in this many dimensions.
    Named(usize),
}

impl Form {
    /// The features of a log that starts with a row of this form.
    pub fn space(self) -> FeatureSpace {
        // Numbers of features are limited to far less than 2³².
        match self {
            Form::None | Form::List(0) | Form::Named(0) => FeatureSpace::None,
            Form::List(dim) => FeatureSpace::List { dim: dim as u32 },
            Form::Named(dim) => FeatureSpace::Named { dim: dim as u32 },
        }
    }
}

/// The actions of a row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RawSet {
    /// The features of each action.
    pub actions: Sparse,
    /// How they are written.
    pub form: Form,
    /// The id of each action; empty if they have none.
    pub ids: Vec<String>,
}

impl RawSet {
    /// The number of actions.
    pub fn len(&self) -> usize {
        self.actions.len()
    }
}

/// Reads the actions of a row one by one.
#[derive(Debug)]
pub struct SetBuilder {
    pub rules: SetRules,
    /// What the list of actions is called in the file.
    name: &'static str,
    set: RawSet,
}

impl SetBuilder {
    pub fn new(name: &'static str, rules: SetRules) -> Self {
        SetBuilder { rules, name, set: RawSet::default() }
    }

    /// The number of actions so far.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    /// The number of features so far that are not 0.
    pub fn non_zeros(&self) -> usize {
        self.set.actions.non_zeros()
    }

    /// What the next action is called, or a part of it.
    pub fn place(&self, part: &str) -> String {
        format!("{}[{}]{part}", self.name, self.len())
    }

    /// Adds an action with named features. `part` is where in the action they are.
    pub fn named(&mut self, features: &mut Features, id: Option<String>, part: &str) -> Result<(), RowFault> {
        // An id beside features is one of them. An id beside `x` is only a name, unless there is nothing else to learn
        // about the action from.
        if let Some(id) = id.as_ref().filter(|_| part.is_empty() || !features.described()) {
            let before = features.enter("id");
            features.text(id);
            features.leave(before);
        }
        if let Some((path, why)) = features.fault() {
            return Err(RowFault::new(self.place(&format!("{part}.{path}")), why));
        }
        let form = if features.described() { Form::Named(self.rules.hashing.dims) } else { Form::None };
        self.add(form, id, part, features.hashed(self.rules.hashing))
    }

    /// Adds an action with a list of features.
    pub fn list(&mut self, numbers: &[f64], id: Option<String>, part: &str) -> Result<(), RowFault> {
        let (n, most) = (numbers.len(), self.rules.dim);
        if n > most {
            return Err(RowFault::new(self.place(part), format!("has {n} numbers; the maximum is {most}")));
        }
        if let Some(j) = numbers.iter().position(|&value| !(value as f32).is_finite()) {
            let message = format!("{:e} is not a finite single-precision number", numbers[j]);
            return Err(RowFault::new(self.place(&format!("{part}[{j}]")), message));
        }
        let used = numbers.iter().filter(|&&value| value != 0.0).count();
        if self.non_zeros() + used > self.rules.non_zeros {
            let message = format!(
                "has one feature too many: a row has at most {} that are not 0",
                self.rules.non_zeros
            );
            return Err(RowFault::new(self.place(part), message));
        }
        let features = (0..).zip(numbers.iter().map(|&value| value as f32));
        self.add(Form::List(n), id, part, features)
    }

    fn add(
        &mut self,
        form: Form,
        id: Option<String>,
        part: &str,
        features: impl Iterator<Item = (u32, f32)>,
    ) -> Result<(), RowFault> {
        self.check_id(&id)?;
        self.set.form = self.merged(form).map_err(|why| RowFault::new(self.place(part), why))?;
        let at = self.len();
        self.set.actions.push(features);
        if !self.set.actions.vector(at).values.iter().all(|value| value.is_finite()) {
            let message = "has features of one dimension whose sum is not a finite single-precision number";
            return Err(RowFault::new(format!("{}[{at}]{part}", self.name), message));
        }
        self.set.ids.extend(id);
        Ok(())
    }

    fn check_id(&self, id: &Option<String>) -> Result<(), RowFault> {
        let field = || self.place(".id");
        let first = self.name;
        match id {
            Some(id) if id.is_empty() || id.len() > MAX_ID_BYTES => Err(wrong_id(&field())),
            Some(_) if self.set.ids.len() < self.len() => Err(RowFault::new(
                field(),
                format!("is present, but {first}[0] has no id; give all actions one"),
            )),
            None if !self.set.ids.is_empty() => Err(RowFault::new(
                field(),
                format!("is missing, but {first}[0] has an id; give all actions one"),
            )),
            _ => Ok(()),
        }
    }

    /// The form of the row with one more action.
    fn merged(&self, next: Form) -> Result<Form, String> {
        let first = self.name;
        let next = if next == Form::List(0) { Form::None } else { next };
        match (self.set.form, next) {
            _ if self.len() == 0 => Ok(next),
            (so_far, next) if so_far == next => Ok(next),
            (Form::None, Form::Named(dims)) | (Form::Named(dims), Form::None) => Ok(Form::Named(dims)),
            (Form::List(n), Form::List(m)) => Err(format!("has {m} numbers, but {first}[0] has {n}")),
            (Form::List(n), Form::Named(_)) => Err(format!(
                "has named features, but {first}[0] is a list of {n} numbers; write all actions alike"
            )),
            (Form::List(n), Form::None) => {
                Err(format!("has no features, but {first}[0] is a list of {n} numbers"))
            }
            (_, _) => Err(format!("is a list of numbers, but {first}[0] is not; write all actions alike")),
        }
    }

    /// The actions.
    pub fn finish(mut self) -> Result<RawSet, RowFault> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for (a, id) in self.set.ids.iter().enumerate() {
            if let Some(first) = seen.insert(id, a) {
                let message = format!("duplicate id {id:?} (first in {}[{first}])", self.name);
                return Err(RowFault::new(format!("{}[{a}].id", self.name), message));
            }
        }
        if self.set.form == Form::Named(0) {
            self.set.form = Form::None;
        }
        Ok(self.set)
    }
}
