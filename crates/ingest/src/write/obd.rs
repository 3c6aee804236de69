//! The Open Bandit Dataset's CSV, for logs without features: it has users' categories but no numbers. Every
//! row is at position 1, and there is one affinity column per action, from which readers learn K.

use std::io::{self, Write};

use guarantor_engine::log::OutcomeKind;

use super::numbers::double;
use super::{LoggedRow, RowEncoder, WriteLayout};
use crate::time;

/// The start of 2019-11-24, in microseconds since 1970.
const FIRST_DAY: i64 = 1_574_553_600_000_000;

struct Obd {
    layout: WriteLayout,
    /// K zeros.
    affinities: String,
    line: Vec<u8>,
    rows: u64,
}

pub fn can_write(layout: &WriteLayout) -> Result<(), String> {
    super::check_outcomes("obd", layout)?;
    if layout.sets.is_some() {
        return Err(super::sets::refused("obd"));
    }
    if layout.context_ids {
        return Err(
            "obd has no context_id, which repeated interactions with a context need; use ndjson, csv, \
                    parquet or arrow_stream"
                .into(),
        );
    }
    if layout.versions {
        return Err("obd has no policy_version; use ndjson, csv, parquet or arrow_stream".into());
    }
    if layout.dim > 0 {
        return Err("the features of obd are categories of users, so numeric features cannot be written; write the log \
                    without features, or use another format"
            .into());
    }
    Ok(())
}

pub fn start(layout: &WriteLayout, to: &mut dyn Write) -> io::Result<Box<dyn RowEncoder>> {
    let names: String = (0..layout.n_actions).map(|a| format!(",user-item_affinity_{a}")).collect();
    writeln!(to, ",timestamp,item_id,position,click,propensity_score{names}")?;
    let affinities = ",0.0".repeat(layout.n_actions);
    Ok(Box::new(Obd { layout: layout.clone(), affinities, line: Vec::new(), rows: 0 }))
}

impl RowEncoder for Obd {
    fn write(&mut self, row: &LoggedRow, to: &mut dyn Write) -> io::Result<()> {
        let click = match self.layout.outcome {
            OutcomeKind::Cost => -row.outcome,
            OutcomeKind::Reward => row.outcome,
        };
        if click != 0.0 && click != 1.0 {
            let message = format!(
                "an outcome in obd is a click, 0 or 1, but row {} has {}",
                self.rows + 1,
                row.outcome
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let line = &mut self.line;
        line.clear();
        // Without times of their own, rows are a second apart, from the first day of the dataset on.
        let time = match self.layout.timestamps {
            true => row.timestamp,
            false => FIRST_DAY + 1_000_000 * self.rows as i64,
        };
        let time = time::to_text(time).replace('T', " ").replace('Z', "+00:00");
        write!(line, "{},{time},{},1,", self.rows, row.action)?;
        write!(line, "{},", u8::from(click == 1.0))?;
        double(line, row.propensity());
        line.extend(self.affinities.as_bytes());
        line.push(b'\n');
        self.rows += 1;
        to.write_all(line)
    }
}
