//! The Open Bandit Dataset's CSV, for logs without features: it has users' categories but no numbers. Every
//! row is at position 1, and there is one affinity column per action, from which readers learn K.

use std::io::{self, Write};

use guarantor_engine::log::OutcomeKind;

use super::numbers::double;
use super::{LoggedRow, RowEncoder, WriteLayout};

struct Obd {
    layout: WriteLayout,
    /// K zeros.
    affinities: String,
    line: Vec<u8>,
    rows: u64,
}

pub fn can_write(layout: &WriteLayout) -> Result<(), String> {
    if layout.context_ids {
        return Err(
            "obd has no context_id, which repeated interactions with a context need; use ndjson, csv, \
                    parquet or arrow_stream"
                .into(),
        );
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
        // Nothing reads the time of a row. Rows are a second apart, from the first day of the dataset on.
        let seconds = self.rows % 86_400;
        let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(line, "{},2019-11-24 {h:02}:{m:02}:{s:02}+00:00,{},1,", self.rows, row.action)?;
        write!(line, "{},", u8::from(click == 1.0))?;
        double(line, row.propensity());
        line.extend(self.affinities.as_bytes());
        line.push(b'\n');
        self.rows += 1;
        to.write_all(line)
    }
}
