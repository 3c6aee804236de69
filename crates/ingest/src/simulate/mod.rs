//! The rows of simulated worlds, written to any format: what `guarantor simulate` and Python's `simulate` have in common.

mod news;
mod shop;

use std::io::{self, Write};
use std::ops::Range;

use guarantor_engine::log::OutcomeKind;

use crate::toy;
use crate::write::{LogWriter, LoggedRow, WriteLayout};

pub use news::{NewsFound, news_layout, write_news};
pub use shop::{ShopFound, shop_layout, write_shop};

/// The rows of a simulated log, unless the caller chooses.
pub const ROWS: usize = 20_000;

/// The columns of a log of the toy world.
pub fn toy_layout(interactions: usize, no_features: bool, retrained: bool) -> WriteLayout {
    WriteLayout {
        dim: if no_features { 0 } else { toy::FEATURES },
        n_actions: toy::ACTIONS,
        outcome: OutcomeKind::Reward,
        context_ids: interactions > 1,
        timestamps: retrained,
        versions: retrained,
        ..WriteLayout::default()
    }
}

/// How many contexts of the toy world are logged, and how.
#[derive(Debug, Clone, Copy)]
pub struct ToyPlan {
    /// The number of contexts.
    pub contexts: usize,
    /// How often each context is logged.
    pub interactions: usize,
    /// The number of features that are written.
    pub dim: usize,
    /// How often the policy is retrained.
    pub retrain: usize,
}

/// The first day of a log whose policy is retrained daily: 2024-01-01, in microseconds since 1970.
const FIRST_DAY: i64 = 1_704_067_200_000_000;
const DAY: i64 = 86_400_000_000;

/// A day of a log.
struct Day {
    number: usize,
    /// The contexts of the day.
    contexts: Range<usize>,
    /// The policy version that logs on this day.
    version: String,
}

impl Day {
    /// When a context was logged, in microseconds since 1970.
    fn time_of(&self, context: usize) -> i64 {
        let each = DAY / self.contexts.len() as i64;
        FIRST_DAY + DAY * self.number as i64 + each * (context - self.contexts.start) as i64
    }
}

/// The days of a log whose policy is retrained this often. They have nearly the same number of contexts.
fn days(contexts: usize, retrain: usize) -> impl Iterator<Item = Day> {
    (0..=retrain).map(move |number| Day {
        number,
        contexts: contexts * number / (retrain + 1)..contexts * (number + 1) / (retrain + 1),
        version: format!("v{}", number + 1),
    })
}

/// Writes the rows of the toy world.
///
/// # Errors
/// If a row cannot be written.
pub fn write_toy<W: Write>(
    world: &mut toy::Toy,
    plan: &ToyPlan,
    writer: &mut LogWriter<W>,
) -> io::Result<()> {
    let ToyPlan { contexts, interactions, dim, retrain } = *plan;
    for day in days(contexts, retrain) {
        if day.number > 0 {
            world.retrain();
        }
        for context in day.contexts.clone() {
            let visitor = world.visitor(interactions);
            for &(action, outcome) in &visitor.interactions {
                writer.write(&LoggedRow {
                    x: &visitor.x[..dim],
                    action,
                    propensities: &visitor.propensities,
                    outcome,
                    context: context as u64,
                    timestamp: day.time_of(context),
                    version: &day.version,
                    ..LoggedRow::default()
                })?;
            }
            if retrain > 0 {
                world.learn(&visitor);
            }
        }
    }
    Ok(())
}
