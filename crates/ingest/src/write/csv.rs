//! CSV: a header, then a row a line. All cells are numbers, so none needs quotes.

use std::io::{self, Write};

use super::numbers::{double, list, single};
use super::{Decision, Layout};

pub struct Csv<W> {
    layout: Layout,
    line: Vec<u8>,
    to: W,
}

impl<W: Write> Csv<W> {
    pub fn new(layout: Layout, mut to: W) -> io::Result<Self> {
        let mut names: Vec<String> = Vec::new();
        names.extend(layout.context_ids.then(|| "context_id".into()));
        names.extend((0..layout.dim).map(|j| format!("x{j}")));
        names.push("action".into());
        names.extend((0..layout.n_actions).map(|a| format!("p{a}")));
        names.push(layout.outcome_name().into());
        writeln!(to, "{}", names.join(","))?;
        Ok(Csv { layout, line: Vec::new(), to })
    }

    pub fn write(&mut self, row: &Decision) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        if self.layout.context_ids {
            write!(line, "{},", row.context)?;
        }
        if self.layout.dim > 0 {
            list(line, row.x, single);
            line.push(b',');
        }
        write!(line, "{},", row.action)?;
        list(line, row.propensities, double);
        line.push(b',');
        double(line, row.outcome);
        line.push(b'\n');
        self.to.write_all(line)
    }

    pub fn finish(self) -> W {
        self.to
    }
}
