//! DSJSON: one decision per line, with features that are named by their index. The reader takes a name that
//! is a number for that dimension, so with `hash_dims` = p the features read back unchanged.

use std::io::{self, Write};

use guarantor_engine::log::OutcomeKind;

use super::numbers::{double, list, single};
use super::{LoggedRow, RowEncoder, WriteLayout, sets};
use crate::time;

struct Dsjson {
    layout: WriteLayout,
    /// `_multi` of K actions without features.
    multi: String,
    line: Vec<u8>,
}

pub fn can_write(layout: &WriteLayout) -> Result<(), String> {
    super::check_outcomes("dsjson", layout)?;
    if layout.context_ids {
        return Err(
            "dsjson has no context_id, which repeated interactions with a context need; use ndjson, csv, \
                    parquet or arrow_stream"
                .into(),
        );
    }
    if layout.versions {
        return Err("dsjson has no policy_version; use ndjson, csv, parquet or arrow_stream".into());
    }
    Ok(())
}

pub fn start(layout: &WriteLayout, _to: &mut dyn Write) -> io::Result<Box<dyn RowEncoder>> {
    let multi = format!("\"_multi\":[{}]", vec!["{}"; layout.n_actions].join(","));
    Ok(Box::new(Dsjson { layout: layout.clone(), multi, line: Vec::new() }))
}

impl RowEncoder for Dsjson {
    fn write(&mut self, row: &LoggedRow, to: &mut dyn Write) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        let cost = match self.layout.outcome {
            OutcomeKind::Cost => row.outcome,
            OutcomeKind::Reward => -row.outcome,
        };
        let chosen = row.propensity();
        line.push(b'{');
        if self.layout.timestamps {
            write!(line, "\"Timestamp\":\"{}\",", time::to_text(row.timestamp))?;
        }
        line.extend(b"\"_label_cost\":");
        double(line, cost);
        line.extend(b",\"_label_probability\":");
        double(line, chosen);
        write!(line, ",\"_label_Action\":{},\"_labelIndex\":{}", row.action + 1, row.action)?;
        // Actions are numbered from 1 and the chosen one is first; p has the same order.
        let others = || (0..row.propensities.len() as u32).filter(|&a| a != row.action);
        let actions: Vec<f64> = others().map(|a| f64::from(a + 1)).collect();
        write!(line, ",\"a\":[{}", row.action + 1)?;
        follow(line, &actions);
        line.extend(b"],\"p\":[");
        double(line, chosen);
        follow(line, &others().map(|a| row.propensities[a as usize]).collect::<Vec<f64>>());
        line.extend(b"],\"c\":{");
        for (j, &value) in row.x.iter().enumerate().filter(|(_, value)| **value != 0.0) {
            write!(line, "\"{j}\":")?;
            single(line, value);
            line.push(b',');
        }
        match (&self.layout.sets, &row.set) {
            (Some(layout), Some(set)) => {
                sets::member(line, &layout.request, set.request);
                line.extend(b",\"_multi\":[");
                sets::objects(line, &layout.action, set.actions);
                line.push(b']');
            }
            _ => line.extend(self.multi.as_bytes()),
        }
        line.extend(b"}}\n");
        to.write_all(line)
    }
}

/// Appends numbers, each preceded by a comma.
fn follow(line: &mut Vec<u8>, values: &[f64]) {
    if !values.is_empty() {
        line.push(b',');
        list(line, values, double);
    }
}
