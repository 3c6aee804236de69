//! NDJSON: an object a line.

use std::io::{self, Write};

use super::numbers::{double, list, single};
use super::{Decision, Layout};

pub struct Ndjson<W> {
    layout: Layout,
    line: Vec<u8>,
    to: W,
}

impl<W: Write> Ndjson<W> {
    pub fn new(layout: Layout, to: W) -> Self {
        Ndjson { layout, line: Vec::new(), to }
    }

    pub fn write(&mut self, row: &Decision) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        line.push(b'{');
        if self.layout.context_ids {
            write!(line, "\"context_id\":{},", row.context)?;
        }
        if self.layout.dim > 0 {
            line.extend(b"\"x\":[");
            list(line, row.x, single);
            line.extend(b"],");
        }
        write!(line, "\"action\":{},\"propensities\":[", row.action)?;
        list(line, row.propensities, double);
        write!(line, "],\"{}\":", self.layout.outcome_name())?;
        double(line, row.outcome);
        line.extend(b"}\n");
        self.to.write_all(line)
    }

    pub fn finish(self) -> W {
        self.to
    }
}
