//! DSJSON: a decision a line, features named by their index. The reader gives a name that is a number
//! that dimension, so that with `hash_dims` = p they come back as they were.

use std::io::{self, Write};

use super::numbers::{double, list, single};
use super::{Decision, Layout};
use guarantor_engine::log::OutcomeKind;

pub struct Dsjson<W> {
    layout: Layout,
    /// `_multi` of K actions without features of their own.
    multi: String,
    line: Vec<u8>,
    to: W,
}

impl<W: Write> Dsjson<W> {
    pub fn new(layout: Layout, to: W) -> Self {
        let multi = format!("\"_multi\":[{}]", vec!["{}"; layout.n_actions].join(","));
        Dsjson { layout, multi, line: Vec::new(), to }
    }

    pub fn write(&mut self, row: &Decision) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        let cost = match self.layout.outcome {
            OutcomeKind::Cost => row.outcome,
            OutcomeKind::Reward => -row.outcome,
        };
        let chosen = row.propensities.get(row.action as usize).copied().unwrap_or(f64::NAN);
        line.extend(b"{\"_label_cost\":");
        double(line, cost);
        line.extend(b",\"_label_probability\":");
        double(line, chosen);
        write!(line, ",\"_label_Action\":{},\"_labelIndex\":{}", row.action + 1, row.action)?;
        // Actions count from 1, the chosen one first; p has their order.
        let others = || (0..self.layout.n_actions as u32).filter(|&a| a != row.action);
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
        line.extend(self.multi.as_bytes());
        line.extend(b"}}\n");
        self.to.write_all(line)
    }

    pub fn finish(self) -> W {
        self.to
    }
}

fn follow(line: &mut Vec<u8>, values: &[f64]) {
    if !values.is_empty() {
        line.push(b',');
        list(line, values, double);
    }
}
