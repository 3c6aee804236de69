//! DSJSON, Vowpal Wabbit's decision-service JSON: one decision per line, as VW's joiner and Azure
//! Personalizer write them. Row numbers are line numbers.
//!
//! `a` lists the actions from 1, the chosen one first, and `p[i]` is the probability of `a[i]`, so a line has
//! all of π0(·|x). Numbers are taken as they are; nothing is rounded or rescaled. A line whose meaning is
//! unclear is rejected with advice instead of being guessed at.
//!
//! `Timestamp` is the time of a row. `VWState.m`, the id of the model, is not taken for a policy version: a learner
//! that exports a model every few minutes would leave its last version almost no rows to be compared on.

use serde::Deserialize;
use serde::de::{IgnoredAny, MapAccess};

use guarantor_engine::log::{AGREEMENT_TOLERANCE, OutcomeKind, disagrees, is_probability};

use crate::decompress::Decoded;
use crate::dsjson_context::{ContextSeed, EventContext};
use crate::hashing::Hashing;
use crate::json::{self, JsonObject, duplicate, set, set_as};
use crate::lines::each_line;
use crate::ndjson::WrittenTime;
use crate::row::{FormatError, Notes, RawRow, ReadContext, RowFault, Visit};
use crate::warning::{Warning, WarningCode};

/// Reads all lines, and returns notes about the file besides its rows.
pub fn read(source: &mut Decoded, context: &ReadContext, visit: &mut Visit) -> Result<Notes, FormatError> {
    let mut log = Log {
        outcome: context.outcome,
        actions: context.actions,
        pdrop: context.pdrop,
        timestamps: context.timestamps.unwrap_or(true),
        dangling: 0,
        action_features: 0,
    };
    // Not on several threads: a short line may become a row of many hashed features, and blocks of such
    // rows would fill the memory.
    each_line(source, &context.limits, |number, line| {
        let event =
            line.and_then(|line| json::parse(line, Event { hashing: context.hashing, ..Event::default() }));
        match event.and_then(|event| log.row(event)).transpose() {
            Some(row) => visit(number, row).map_err(FormatError::Stopped),
            None => Ok(()),
        }
    })?;
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
        "timestamp" => "Timestamp",
        _ => field,
    }
}

/// The members of a line.
#[derive(Default)]
struct Event {
    hashing: Hashing,
    cost: Option<f64>,
    /// The cost before the joiner changed it, if it did.
    original_cost: Option<f64>,
    probability: Option<f64>,
    action: Option<i64>,
    index: Option<i64>,
    actions: Option<Vec<i64>>,
    probabilities: Option<Vec<f64>>,
    context: Option<EventContext>,
    event_id: Option<String>,
    /// Only decisions need a valid one.
    timestamp: Option<Result<i64, String>>,
    pdrop: Option<f64>,
    skip: Option<bool>,
    deferred: Option<bool>,
    observations: Option<Vec<Observation>>,
    /// Whether this is a reward whose decision is in another line or file.
    dangling: bool,
    /// The fault of a member that shows that this is another kind of event.
    other_kind: Option<RowFault>,
}

impl JsonObject for Event {
    const EXPECTED: &'static str = "a decision as a DSJSON object";

    fn member<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "_label_cost" => set(&mut self.cost, map),
            "_original_label_cost" => set(&mut self.original_cost, map),
            "_label_probability" => set(&mut self.probability, map),
            "_label_Action" => set(&mut self.action, map),
            "_labelIndex" => set(&mut self.index, map),
            "a" | "_a" => set(&mut self.actions, map),
            "p" | "_p" => set(&mut self.probabilities, map),
            "pdrop" => set(&mut self.pdrop, map),
            "EventId" => set(&mut self.event_id, map),
            "Timestamp" => set_as(&mut self.timestamp, map, |time: WrittenTime| time.0),
            "_skipLearn" => set(&mut self.skip, map),
            "DeferredAction" => set(&mut self.deferred, map),
            "o" => set(&mut self.observations, map),
            "RewardValue" => {
                self.dangling = true;
                map.next_value::<IgnoredAny>().map(drop)
            }
            "c" if self.context.is_some() => Err(duplicate()),
            "c" => {
                self.context = Some(map.next_value_seed(ContextSeed { hashing: self.hashing })?);
                Ok(())
            }
            other => {
                map.next_value::<IgnoredAny>()?;
                if let Some(fault) = other_kind(other) {
                    self.other_kind.get_or_insert(fault);
                }
                Ok(())
            }
        }
    }
}

#[derive(Deserialize)]
struct Observation {
    #[serde(rename = "ActionTaken")]
    action_taken: Option<bool>,
}

/// What must be the same in all lines, and what is counted.
struct Log {
    outcome: OutcomeKind,
    actions: Option<usize>,
    pdrop: Option<f64>,
    /// Whether rows get their times.
    timestamps: bool,
    dangling: u64,
    action_features: u64,
}

impl Log {
    /// `None` if the line is not a decision and can be skipped.
    fn row(&mut self, event: Event) -> Result<Option<RawRow<'static>>, RowFault> {
        if event.dangling && event.cost.is_none() && event.actions.is_none() {
            self.dangling += 1;
            return Ok(None);
        }
        check_kind(&event)?;
        let cost = event.cost.ok_or_else(|| {
            RowFault::new(
                "_label_cost",
                "is missing; write the default outcome, often 0, for an event without one",
            )
        })?;
        if let Some(original) =
            event.original_cost.filter(|original| (original - cost).abs() > AGREEMENT_TOLERANCE)
        {
            let message = format!(
                "is {original}, but _label_cost is {cost}: the outcome was replaced, as in apprentice mode, in which \
                 the first action of a is not the one that was shown; such a log says nothing about its policy"
            );
            return Err(RowFault::new("_original_label_cost", message));
        }
        let pdrop = self.pdrop(event.pdrop.unwrap_or(0.0))?;
        let context = event.context.ok_or_else(|| RowFault::new("c", "is missing"))?;
        let actions = event.actions.ok_or_else(|| RowFault::new("a", "is missing"))?;
        let listed = event.probabilities.ok_or_else(|| RowFault::new("p", "is missing"))?;
        self.count_actions(&actions, &listed, context.actions)?;
        let propensities = permuted(&actions, &listed)?;
        check_chosen(event.action, event.index, actions[0])?;
        let propensity = chosen_probability(event.probability, listed[0], pdrop)?;
        // A log that was started without times goes on without them.
        let timestamp = event.timestamp.filter(|_| self.timestamps).transpose();
        let timestamp = timestamp.map_err(|message| RowFault::new("Timestamp", message))?;
        self.actions = Some(actions.len());
        self.pdrop = Some(pdrop);
        self.action_features += u64::from(context.action_features);
        let (cost, reward) = match self.outcome {
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
            timestamp,
            ..RawRow::default()
        }))
    }

    /// If all lines are dropped at one rate, the log is a smaller sample of the same decisions. With several
    /// rates, it is a biased sample.
    fn pdrop(&self, here: f64) -> Result<f64, RowFault> {
        if !(0.0..1.0).contains(&here) {
            return Err(RowFault::new("pdrop", format!("{here} is not in [0, 1)")));
        }
        match self.pdrop {
            Some(before) if (before - here).abs() > AGREEMENT_TOLERANCE => {
                let message = format!(
                    "is {here}, but {before} in earlier rows; thin the log to one rate: keep each line with \
                     probability (1 - the largest pdrop) / (1 - its own), and write the largest into all lines"
                );
                Err(RowFault::new("pdrop", message))
            }
            _ => Ok(here),
        }
    }

    fn count_actions(&self, a: &[i64], p: &[f64], multi: Option<usize>) -> Result<(), RowFault> {
        let k = a.len();
        if p.len() != k {
            return Err(RowFault::new("p", format!("has {} numbers, but a has {k} actions", p.len())));
        }
        if let Some(multi) = multi.filter(|&multi| multi != k) {
            return Err(RowFault::new("c._multi", format!("has {multi} actions, but a has {k}")));
        }
        match self.actions {
            Some(before) if before != k => {
                let message = format!(
                    "has {k} actions, but there are {before}; policies choose from one set of actions, so \
                     upload the events with each number of actions as a separate dataset"
                );
                Err(RowFault::new("a", message))
            }
            _ if k == 0 => Err(RowFault::new("a", "is empty")),
            _ => Ok(()),
        }
    }

    fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        let mut warn = |code, message| warnings.push(Warning { code, message });
        if self.dangling > 0 {
            warn(
                WarningCode::DanglingRewards,
                format!(
                    "{} lines are rewards of decisions that are not in this file; they were skipped",
                    self.dangling
                ),
            );
        }
        if self.action_features > 0 {
            warn(
                WarningCode::ActionFeaturesNotUsed,
                format!(
                    "{} rows describe their actions in _multi; policies use only the shared features of c and \
                     identify an action by its position in the list",
                    self.action_features
                ),
            );
        }
        if let Some(pdrop) = self.pdrop.filter(|&pdrop| pdrop > 0.0) {
            warn(
                WarningCode::RowsDroppedUpstream,
                format!(
                    "according to pdrop, {:.0}% of the decisions were dropped before they were logged; the rest \
                     represent all of them only if they were dropped at random",
                    100.0 * pdrop
                ),
            );
        }
        warnings
    }
}

/// Checks that the line is a decision between listed actions with an outcome.
fn check_kind(event: &Event) -> Result<(), RowFault> {
    if let Some(fault) = &event.other_kind {
        return Err(fault.clone());
    }
    if event.context.as_ref().is_some_and(|c| c.slots) {
        return Err(several_decisions("c._slots"));
    }
    let inactive = "was deferred and never activated, so it has no outcome; remove such lines if activation cannot \
                    depend on the chosen action";
    if event.skip == Some(true) {
        return Err(RowFault::new("_skipLearn", format!("is true: the event {inactive}")));
    }
    let activated = event.observations.iter().flatten().any(|o| o.action_taken == Some(true));
    if event.deferred == Some(true) && !activated {
        return Err(RowFault::new(
            "DeferredAction",
            format!("is true, but no observation in o has ActionTaken: the event {inactive}"),
        ));
    }
    Ok(())
}

fn several_decisions(field: &str) -> RowFault {
    RowFault::new(
        field,
        "is a slate or conditional event, which has several decisions in one line; write one line per slot, with \
         its own _label_cost, a and p, and upload the lines of each slot as a separate dataset",
    )
}

fn continuous(field: &str) -> RowFault {
    RowFault::new(
        field,
        "is a continuous action, but the number of actions must be finite; divide its range into bins, and log \
         the bin as the action and the probability of each bin in p",
    )
}

/// π0(·|x) in the order of the actions.
fn permuted(a: &[i64], p: &[f64]) -> Result<Vec<f64>, RowFault> {
    let mut full = vec![f64::NAN; a.len()];
    for (i, (&action, &value)) in a.iter().zip(p).enumerate() {
        if !is_probability(value) {
            return Err(RowFault::new(format!("p[{i}]"), format!("{value} is not a probability")));
        }
        let place = usize::try_from(action).ok().and_then(|action| full.get_mut(action.checked_sub(1)?));
        match place {
            Some(place) if place.is_nan() => *place = value,
            Some(_) => return Err(RowFault::new(format!("a[{i}]"), format!("duplicate action {action}"))),
            None => {
                let message = format!("{action} is not in [1, {}]; actions are numbered from 1", a.len());
                return Err(RowFault::new(format!("a[{i}]"), message));
            }
        }
    }
    if p.first().is_some_and(|&chosen| chosen <= 0.0) {
        return Err(RowFault::new("p[0]", "is 0 for the chosen action"));
    }
    Ok(full)
}

fn check_chosen(action: Option<i64>, index: Option<i64>, first: i64) -> Result<(), RowFault> {
    if let Some(action) = action.filter(|&action| action != first) {
        let message = format!("is {action}, but the chosen action, the first of a, is {first}");
        return Err(RowFault::new("_label_Action", message));
    }
    if let Some(index) = index.filter(|&index| index != first - 1) {
        let message = format!(
            "is {index}, but the chosen action, the first of a, is {first}, which is index {}",
            first - 1
        );
        return Err(RowFault::new("_labelIndex", message));
    }
    Ok(())
}

/// The propensity of the chosen action, if the line has it. VW's joiner writes p[0], or p[0] times the
/// probability that the line was not dropped. The policy chose with p[0].
fn chosen_probability(label: Option<f64>, first: f64, pdrop: f64) -> Result<Option<f64>, RowFault> {
    let Some(label) = label else { return Ok(None) };
    if !disagrees(label, first) {
        Ok(Some(label))
    } else if pdrop > 0.0 && !disagrees(label, first * (1.0 - pdrop)) {
        Ok(None)
    } else {
        Err(RowFault::new("_label_probability", format!("is {label}, but p[0] is {first}")))
    }
}

/// Members that show that the line is not a decision between listed actions. All other members are ignored
/// because they say nothing about the decision.
fn other_kind(field: &str) -> Option<RowFault> {
    match field {
        "_outcomes" => Some(several_decisions(field)),
        "_label_ca" | "pdf" => Some(continuous(field)),
        _ if field.starts_with("_label") => {
            Some(RowFault::new(field, "is not a label of a decision between listed actions"))
        }
        _ => None,
    }
}
