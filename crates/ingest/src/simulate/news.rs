//! The news world, whose rows have their own actions.

use std::io::{self, Write};

use super::days;
use crate::news;
use crate::write::{LogWriter, LoggedRow, LoggedSet, WriteLayout};

/// The expected clicks of the logging policy and of the best one.
#[derive(Debug, Clone, Copy, Default)]
pub struct NewsFound {
    /// Those of the logging policy, summed over the rows.
    pub logging: f64,
    /// Those of the best policy.
    pub best: f64,
}

/// The columns of a log of the news world. Without versions, it is what most teams have.
pub fn news_layout(versions: bool) -> WriteLayout {
    WriteLayout { timestamps: true, versions, sets: Some(news::LAYOUT), ..WriteLayout::default() }
}

/// Writes the rows of the news world, and adds up what their clicks are expected to be. `truth` gets the probability of
/// a click on every action of every row.
///
/// # Errors
/// If a row cannot be written.
pub fn write_news<W: Write, T: Write>(
    world: &mut news::News,
    rows: usize,
    retrain: usize,
    writer: &mut LogWriter<W>,
    truth: &mut Option<T>,
    found: &mut NewsFound,
) -> io::Result<()> {
    for day in days(rows, retrain) {
        if day.number > 0 {
            world.retrain();
        }
        for row in day.contexts.clone() {
            let request = world.request();
            world.learn(&request);
            let clicks = request.propensities.iter().zip(&request.clicks);
            found.logging += clicks.map(|(p, c)| p * c).sum::<f64>();
            found.best += request.clicks.iter().copied().fold(0.0, f64::max);
            writer.write(&LoggedRow {
                action: request.action,
                propensities: &request.propensities,
                outcome: request.reward,
                timestamp: day.time_of(row),
                version: &day.version,
                set: Some(LoggedSet { request: &request.request, actions: &request.actions }),
                ..LoggedRow::default()
            })?;
            if let Some(truth) = truth {
                serde_json::to_writer(&mut *truth, &request.clicks)?;
                truth.write_all(b"\n")?;
            }
        }
    }
    Ok(())
}
