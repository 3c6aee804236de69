//! DSJSON, Vowpal Wabbit's decision-service JSON: a decision a line, as VW's joiner and Azure
//! Personalizer write them. Row numbers are line numbers.
//!
//! `a` lists the actions from 1, the chosen one first, and `p[i]` is the probability of `a[i]`, so
//! that a line has all of π0(·|x). Numbers are taken as they are; nothing is rounded or rescaled.
//! What a line cannot mean here is refused and not guessed at, with what to do about it.

use std::borrow::Cow;
use std::fmt;
use std::io::Read;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use super::IngestLimits;
use super::dsjson_context::{Context, ContextSeed};
use super::hashing::Hashing;
use super::health::Warning;
use super::line_by_line::Lines;
use super::ndjson::{set, words};
use super::row::{Fault, FormatError, Known, Notes, RawRow, Visit};
use guarantor_engine::log::{AGREEMENT_TOLERANCE, OutcomeKind, SUM_TOLERANCE};

/// Reads all lines and returns what should be known about them beyond the rows.
pub fn read(
    source: impl Read,
    hashing: Hashing,
    known: &Known,
    limits: &IngestLimits,
    visit: &mut Visit,
) -> Result<Notes, FormatError> {
    let mut lines = Lines::new(source, limits.line_bytes);
    let mut log = Log { known, actions: known.actions, pdrop: known.pdrop, dangling: 0, action_features: 0 };
    while let Some((number, line)) = lines.next()? {
        match line.and_then(|line| parse(line, hashing)).and_then(|event| log.row(event)) {
            Ok(Some(row)) => visit(number, Ok(row)),
            Ok(None) => Ok(()),
            Err(fault) => visit(number, Err(fault)),
        }
        .map_err(FormatError::Stopped)?;
    }
    Ok(Notes { actions: log.actions, warnings: log.warnings(), pdrop: log.pdrop })
}

/// The name that a row's field has in a DSJSON line.
pub fn field_name(field: &str) -> &str {
    match field.split(['[', '.']).next().unwrap_or(field) {
        "x" => "c",
        "action" => "_label_Action",
        "propensity" => "_label_probability",
        "propensities" => "p",
        "cost" | "reward" => "_label_cost",
        "event_id" => "EventId",
        _ => field,
    }
}

/// A line, as it is written.
#[derive(Default)]
struct Event {
    cost: Option<f64>,
    /// Before the joiner changed it, if it did.
    original_cost: Option<f64>,
    probability: Option<f64>,
    action: Option<i64>,
    index: Option<i64>,
    actions: Option<Vec<i64>>,
    probabilities: Option<Vec<f64>>,
    context: Option<Context>,
    event_id: Option<String>,
    pdrop: Option<f64>,
    skip: Option<bool>,
    deferred: Option<bool>,
    observations: Option<Vec<Observation>>,
    /// A reward whose decision is elsewhere.
    dangling: bool,
    /// A field that makes this another kind of event.
    other_kind: Option<Fault>,
}

#[derive(Deserialize)]
struct Observation {
    #[serde(rename = "ActionTaken")]
    action_taken: Option<bool>,
}

/// What must be the same in all lines, and what is counted.
struct Log<'a> {
    known: &'a Known,
    actions: Option<usize>,
    pdrop: Option<f64>,
    dangling: u64,
    action_features: u64,
}

impl Log<'_> {
    /// None where the line is no decision and may be passed over.
    fn row(&mut self, event: Event) -> Result<Option<RawRow<'static>>, Fault> {
        if event.dangling && event.cost.is_none() && event.actions.is_none() {
            self.dangling += 1;
            return Ok(None);
        }
        check_kind(&event)?;
        let cost = event.cost.ok_or_else(|| {
            Fault::new("_label_cost", "is missing; an event without an outcome has the default one, often 0")
        })?;
        if let Some(original) =
            event.original_cost.filter(|original| (original - cost).abs() > AGREEMENT_TOLERANCE)
        {
            let message = format!(
                "is {original} but _label_cost is {cost}: the outcome was replaced, as in apprentice mode, where the \
                 action that was shown is not the first of a; such a log says nothing about the policy in it"
            );
            return Err(Fault::new("_original_label_cost", message));
        }
        let pdrop = self.pdrop(event.pdrop.unwrap_or(0.0))?;
        let context = event.context.ok_or_else(|| Fault::new("c", "is missing"))?;
        let actions = event.actions.ok_or_else(|| Fault::new("a", "is missing"))?;
        let listed = event.probabilities.ok_or_else(|| Fault::new("p", "is missing"))?;
        self.count_actions(&actions, &listed, context.actions)?;
        let propensities = permuted(&actions, &listed)?;
        check_chosen(event.action, event.index, actions[0])?;
        let propensity = chosen_probability(event.probability, listed[0], pdrop)?;
        self.actions = Some(actions.len());
        self.pdrop = Some(pdrop);
        self.action_features += u64::from(context.action_features);
        let (cost, reward) = match self.known.outcome {
            OutcomeKind::Cost => (Some(cost), None),
            OutcomeKind::Reward => (None, Some(-cost)),
        };
        Ok(Some(RawRow {
            x: (!context.x.is_empty()).then(|| context.x.into()),
            action: Some(actions[0] - 1),
            propensity,
            propensities: Some(propensities.into()),
            cost,
            reward,
            event_id: event.event_id,
            ..RawRow::default()
        }))
    }

    /// Lines that were dropped at one rate leave a smaller log of the same decisions; at several
    /// rates they leave a log of other ones.
    fn pdrop(&self, here: f64) -> Result<f64, Fault> {
        if !(0.0..1.0).contains(&here) {
            return Err(Fault::new("pdrop", format!("{here} is not in [0, 1)")));
        }
        match self.pdrop {
            Some(before) if (before - here).abs() > AGREEMENT_TOLERANCE => {
                let message = format!(
                    "is {here}, in the rows before {before}; thin the log to one rate: keep each line with \
                     probability (1 - the largest pdrop) / (1 - its own), and write the largest into all"
                );
                Err(Fault::new("pdrop", message))
            }
            _ => Ok(here),
        }
    }

    fn count_actions(&self, a: &[i64], p: &[f64], multi: Option<usize>) -> Result<(), Fault> {
        let k = a.len();
        if p.len() != k {
            return Err(Fault::new("p", format!("has {} numbers where a has {k} actions", p.len())));
        }
        if let Some(multi) = multi.filter(|&multi| multi != k) {
            return Err(Fault::new("c._multi", format!("has {multi} actions where a has {k}")));
        }
        match self.actions {
            Some(before) if before != k => {
                let message = format!(
                    "has {k} actions where there are {before}; policies choose from one set of actions, so \
                     upload the events with each number of actions as a dataset of their own"
                );
                Err(Fault::new("a", message))
            }
            _ if k == 0 => Err(Fault::new("a", "is empty")),
            _ => Ok(()),
        }
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |code: &str, message| warnings.push(Warning { code: code.into(), message });
        if self.dangling > 0 {
            warn(
                "dangling_rewards",
                format!(
                    "{} lines are rewards of decisions that are not in this file; they were passed over",
                    self.dangling
                ),
            );
        }
        if self.action_features > 0 {
            warn(
                "action_features_not_used",
                format!(
                    "{} rows describe their actions in _multi; policies here see the shared features of c \
                     only, and know an action by its place in the list",
                    self.action_features
                ),
            );
        }
        if let Some(pdrop) = self.pdrop.filter(|&pdrop| pdrop > 0.0) {
            warn(
                "rows_dropped_upstream",
                format!(
                    "pdrop says that {:.0} % of the decisions were dropped before they were logged; the rest \
                     stand for all only if nothing but a coin decided which",
                    100.0 * pdrop
                ),
            );
        }
        warnings
    }
}

/// Whether it is a decision between listed actions, with an outcome.
fn check_kind(event: &Event) -> Result<(), Fault> {
    if let Some(fault) = &event.other_kind {
        return Err(fault.clone());
    }
    if event.context.as_ref().is_some_and(|c| c.slots) {
        return Err(several_decisions("c._slots"));
    }
    let inactive = "was deferred and never activated, so it has no outcome; take such lines out, if whether an event \
                    is activated cannot depend on the action that was chosen";
    if event.skip == Some(true) {
        return Err(Fault::new("_skipLearn", format!("is true: the event {inactive}")));
    }
    let activated = event.observations.iter().flatten().any(|o| o.action_taken == Some(true));
    if event.deferred == Some(true) && !activated {
        return Err(Fault::new(
            "DeferredAction",
            format!("is true and no observation in o took it: the event {inactive}"),
        ));
    }
    Ok(())
}

fn several_decisions(field: &str) -> Fault {
    Fault::new(
        field,
        "is a slate or conditional event, several decisions in one line; write a line for each slot, with its own \
         _label_cost, a and p, and upload each slot's lines as a dataset of their own",
    )
}

fn continuous(field: &str) -> Fault {
    Fault::new(
        field,
        "is a continuous action, and guarantees here are for finitely many; cut its range into bins, log the \
         bin as the action and the probability of each bin in p",
    )
}

/// π0 in the order of the actions.
fn permuted(a: &[i64], p: &[f64]) -> Result<Vec<f64>, Fault> {
    let mut full = vec![f64::NAN; a.len()];
    for (i, (&action, &value)) in a.iter().zip(p).enumerate() {
        if !(0.0..=1.0 + SUM_TOLERANCE).contains(&value) {
            return Err(Fault::new(format!("p[{i}]"), format!("{value} is not a probability")));
        }
        let place = usize::try_from(action).ok().and_then(|action| full.get_mut(action.checked_sub(1)?));
        match place {
            Some(place) if place.is_nan() => *place = value,
            Some(_) => return Err(Fault::new(format!("a[{i}]"), format!("{action} is there twice"))),
            None => {
                let message = format!("{action} is not in [1, {}]; actions count from 1", a.len());
                return Err(Fault::new(format!("a[{i}]"), message));
            }
        }
    }
    if p.first().is_some_and(|&chosen| chosen <= 0.0) {
        return Err(Fault::new("p[0]", "is 0 for the action that was taken"));
    }
    Ok(full)
}

fn check_chosen(action: Option<i64>, index: Option<i64>, first: i64) -> Result<(), Fault> {
    if let Some(action) = action.filter(|&action| action != first) {
        let message = format!("is {action} but the chosen action, the first of a, is {first}");
        return Err(Fault::new("_label_Action", message));
    }
    if let Some(index) = index.filter(|&index| index != first - 1) {
        let message =
            format!("is {index} but the chosen action, the first of a, is {first}: index {}", first - 1);
        return Err(Fault::new("_labelIndex", message));
    }
    Ok(())
}

/// VW's joiner writes p[0], or p[0] times the probability that the line was not dropped. The policy
/// chose with p[0].
fn chosen_probability(label: Option<f64>, first: f64, pdrop: f64) -> Result<Option<f64>, Fault> {
    let Some(label) = label else { return Ok(None) };
    let near = |value: f64| (value - label).abs() <= AGREEMENT_TOLERANCE * label.abs();
    if near(first) {
        Ok(Some(label))
    } else if pdrop > 0.0 && near(first * (1.0 - pdrop)) {
        Ok(None)
    } else {
        Err(Fault::new("_label_probability", format!("is {label} but p[0] is {first}")))
    }
}

fn parse(line: &[u8], hashing: Hashing) -> Result<Event, Fault> {
    let mut field = String::from("row");
    let mut json = serde_json::Deserializer::from_slice(line);
    let event = EventSeed { field: &mut field, hashing }.deserialize(&mut json);
    let event = event.and_then(|event| json.end().map(|()| event));
    event.map_err(|error| Fault::new(field, words(&error)))
}

/// Deserializes a line and leaves behind the name of the field that it was at.
struct EventSeed<'a> {
    field: &'a mut String,
    hashing: Hashing,
}

impl<'de> DeserializeSeed<'de> for EventSeed<'_> {
    type Value = Event;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Event, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventSeed<'_> {
    type Value = Event;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a decision as a DSJSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let mut event = Event::default();
        while let Some(key) = map.next_key::<Cow<'de, str>>()? {
            self.field.clear();
            self.field.push_str(&key);
            match &*key {
                "_label_cost" => set(&mut event.cost, &mut map)?,
                "_original_label_cost" => set(&mut event.original_cost, &mut map)?,
                "_label_probability" => set(&mut event.probability, &mut map)?,
                "_label_Action" => set(&mut event.action, &mut map)?,
                "_labelIndex" => set(&mut event.index, &mut map)?,
                "a" | "_a" => set(&mut event.actions, &mut map)?,
                "p" | "_p" => set(&mut event.probabilities, &mut map)?,
                "pdrop" => set(&mut event.pdrop, &mut map)?,
                "EventId" => set(&mut event.event_id, &mut map)?,
                "_skipLearn" => set(&mut event.skip, &mut map)?,
                "DeferredAction" => set(&mut event.deferred, &mut map)?,
                "o" => set(&mut event.observations, &mut map)?,
                "RewardValue" => {
                    event.dangling = true;
                    map.next_value::<IgnoredAny>()?;
                }
                "c" if event.context.is_some() => return Err(A::Error::custom("is there twice")),
                "c" => event.context = Some(map.next_value_seed(ContextSeed { hashing: self.hashing })?),
                other => {
                    map.next_value::<IgnoredAny>()?;
                    if let Some(fault) = other_kind(other) {
                        event.other_kind.get_or_insert(fault);
                    }
                }
            }
        }
        self.field.clear();
        self.field.push_str("row");
        Ok(event)
    }
}

/// Fields that are not read, and say that the line is something else than a decision between listed
/// actions. All others are not read because they say nothing about the decision.
fn other_kind(field: &str) -> Option<Fault> {
    match field {
        "_outcomes" => Some(several_decisions(field)),
        "_label_ca" | "pdf" => Some(continuous(field)),
        _ if field.starts_with("_label") => {
            Some(Fault::new(field, "is not a label of a decision between listed actions"))
        }
        _ => None,
    }
}
