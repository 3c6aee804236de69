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

use crate::action_set::SetRules;
use crate::decompress::Decoded;
use crate::dsjson_context::{ContextSeed, EventContext};
use crate::errors::IngestError;
use crate::json::{self, JsonObject, Stop, duplicate, set, set_as};
use crate::lines::each_parsed;
use crate::ndjson::WrittenTime;
use crate::row::{FormatError, NamedFeatures, Notes, RawRow, ReadContext, RowFault, Visit};
use crate::warning::{Warning, WarningCode};

/// Reads all lines, and returns notes about the file besides its rows.
pub fn read(source: &mut Decoded, context: &ReadContext, visit: &mut Visit) -> Result<Notes, FormatError> {
    let mut sets = context.sets;
    if context.bare {
        // A log that was started without features goes on without them.
        sets.hashing.dims = 0;
    }
    let mut log = Log {
        outcome: context.outcome,
        dims: context.hashing.dims,
        sets,
        has_sets: context.has_sets,
        actions: context.actions,
        pdrop: context.pdrop,
        timestamps: context.timestamps.unwrap_or(true),
        dangling: 0,
        ignored_features: 0,
    };
    let parse = |line: &[u8]| json::parse(line, Event::new(sets));
    each_parsed(source, &context.limits, &parse, &mut |number, event: Result<Event, RowFault>| {
        let row = event.and_then(|event| log.row(event));
        if log.has_sets == Some(false) {
            check_dims(log.dims, context.limits.dim).map_err(FormatError::Stopped)?;
        }
        match row.transpose() {
            Some(row) => visit.row(number, row).map_err(FormatError::Stopped),
            None => Ok(()),
        }
    })?;
    let actions = log.actions.filter(|_| log.has_sets == Some(false));
    Ok(Notes { actions, warnings: log.warnings(), pdrop: log.pdrop })
}

/// The name that a row's field has in a DSJSON line.
pub fn field_name(field: &str) -> &str {
    match field.split(['[', '.']).next().unwrap_or(field) {
        "x" => "c",
        "actions" => "c._multi",
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
    sets: Option<SetRules>,
    stop: Option<Stop>,
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

impl Event {
    fn new(sets: SetRules) -> Self {
        Event { sets: Some(sets), ..Event::default() }
    }
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
                let Some(rules) = self.sets else { return Err(duplicate()) };
                self.context = Some(map.next_value_seed(ContextSeed { rules, stop: &mut self.stop })?);
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

    fn stop(&mut self) -> Option<Stop> {
        self.stop.take()
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
    /// The dimensions of hashed features, if all rows have the same actions.
    dims: usize,
    sets: SetRules,
    /// Whether rows have their own actions. The first row decides.
    has_sets: Option<bool>,
    actions: Option<usize>,
    pdrop: Option<f64>,
    /// Whether rows get their times.
    timestamps: bool,
    dangling: u64,
    /// Rows with features of actions that are not used.
    ignored_features: u64,
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
        let has_sets = self.has_sets.unwrap_or(context.action_features);
        self.count_actions(&actions, &listed, context.actions.as_ref().map(|set| set.len()), has_sets)?;
        let propensities = permuted(&actions, &listed)?;
        check_chosen(event.action, event.index, actions[0])?;
        let propensity = chosen_probability(event.probability, listed[0], pdrop)?;
        // A log that was started without times goes on without them.
        let timestamp = event.timestamp.filter(|_| self.timestamps).transpose();
        let timestamp = timestamp.map_err(|message| RowFault::new("Timestamp", message))?;
        let with_features = self.features(context, has_sets)?;
        self.has_sets = Some(has_sets);
        self.actions = Some(actions.len());
        self.pdrop = Some(pdrop);
        let (cost, reward) = match self.outcome {
            OutcomeKind::Cost => (Some(cost), None),
            OutcomeKind::Reward => (None, Some(-cost)),
        };
        Ok(Some(RawRow {
            action: Some(actions[0] - 1),
            propensity,
            propensities: Some(propensities.into()),
            cost,
            reward,
            event_id: event.event_id,
            timestamp,
            ..with_features
        }))
    }

    /// A row with the features of `c` and nothing else.
    fn features(&mut self, context: EventContext, has_sets: bool) -> Result<RawRow<'static>, RowFault> {
        if has_sets {
            let missing = || RowFault::new("c._multi", "is missing, but earlier rows have it");
            let named = NamedFeatures::of(&context.x, "c", self.sets.hashing)?;
            // Without dimensions there are no features.
            let named = Some(named).filter(|named| named.dims > 0);
            let ignored = context.action_features && self.sets.hashing.dims == 0;
            self.ignored_features += u64::from(ignored);
            let set = context.actions.ok_or_else(missing)?;
            return Ok(RawRow { named, set: Some(set), ..RawRow::default() });
        }
        self.ignored_features += u64::from(context.action_features);
        let mut x = vec![0.0; self.dims];
        context.x.add_to(&mut x);
        if let Some((path, why)) = context.x.fault().filter(|_| self.dims > 0) {
            return Err(RowFault::new(format!("c.{path}"), why));
        }
        Ok(RawRow { x: (!x.is_empty()).then(|| x.into()), ..RawRow::default() })
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

    fn count_actions(
        &self,
        a: &[i64],
        p: &[f64],
        multi: Option<usize>,
        has_sets: bool,
    ) -> Result<(), RowFault> {
        let k = a.len();
        if p.len() != k {
            return Err(RowFault::new("p", format!("has {} numbers, but a has {k} actions", p.len())));
        }
        if let Some(multi) = multi.filter(|&multi| multi != k) {
            return Err(RowFault::new("c._multi", format!("has {multi} actions, but a has {k}")));
        }
        match self.actions.filter(|_| !has_sets) {
            Some(before) if before != k => {
                let message = format!(
                    "has {k} actions, but there are {before}, and nothing tells them apart but their positions; \
                     describe the actions of every event in c._multi, with at least one feature in the first event, \
                     or upload the events with each number of actions as a separate dataset"
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
        if self.ignored_features > 0 {
            let why = match self.has_sets {
                Some(true) => "hash_dims is 0, which leaves all features out",
                _ => {
                    "the first row has no features of actions, so policies use only the shared features of c and \
                     identify an action by its position in the list; upload the log as a new dataset that starts with \
                     a row whose actions have features"
                }
            };
            warn(
                WarningCode::ActionFeaturesNotUsed,
                format!(
                    "{} rows describe their actions in _multi, which is not used: {why}",
                    self.ignored_features
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

/// Checks the number of features of rows that all have the same actions: each row has all of them.
fn check_dims(dims: usize, most: usize) -> Result<(), IngestError> {
    if dims <= most {
        return Ok(());
    }
    let message =
        format!("makes {dims} features; the maximum is {most}, because the actions have no features");
    Err(IngestError::Option { field: "hash_dims", message })
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
