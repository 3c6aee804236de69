//! The Open Bandit Dataset's CSV, for logs without features: it has users' categories and no numbers.
//! Every row stands at position 1, and as many affinity columns as there are items say K.

use std::io::{self, Write};

use super::numbers::double;
use super::{Decision, Layout};
use guarantor_engine::log::OutcomeKind;

pub struct Obd<W> {
    layout: Layout,
    /// K zeros.
    affinities: String,
    line: Vec<u8>,
    rows: u64,
    to: W,
}

impl<W: Write> Obd<W> {
    pub fn new(layout: Layout, mut to: W) -> io::Result<Self> {
        let affinities: String = (0..layout.n_actions).map(|a| format!(",user-item_affinity_{a}")).collect();
        writeln!(to, ",timestamp,item_id,position,click,propensity_score{affinities}")?;
        let affinities = ",0.0".repeat(layout.n_actions);
        Ok(Obd { layout, affinities, line: Vec::new(), rows: 0, to })
    }

    pub fn write(&mut self, row: &Decision) -> io::Result<()> {
        let click = match self.layout.outcome {
            OutcomeKind::Cost => -row.outcome,
            OutcomeKind::Reward => row.outcome,
        };
        if click != 0.0 && click != 1.0 {
            let message = format!("obd has clicks, 0 or 1, and row {} has {}", self.rows + 1, row.outcome);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let line = &mut self.line;
        line.clear();
        // Nothing reads when a row was logged; a second apart, from the day that the dataset begins.
        let seconds = self.rows % 86_400;
        let (h, m, s) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        write!(line, "{},2019-11-24 {h:02}:{m:02}:{s:02}+00:00,{},1,", self.rows, row.action)?;
        write!(line, "{},", u8::from(click == 1.0))?;
        double(line, row.propensities.get(row.action as usize).copied().unwrap_or(f64::NAN));
        line.extend(self.affinities.as_bytes());
        line.push(b'\n');
        self.rows += 1;
        self.to.write_all(line)
    }

    pub fn finish(self) -> W {
        self.to
    }
}
