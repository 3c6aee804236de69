//! NDJSON: one object per line.

use std::io::{self, Write};

use super::numbers::{double, list, single};
use super::{LoggedRow, RowEncoder, WriteLayout, sets};
use crate::time;

struct Ndjson {
    layout: WriteLayout,
    line: Vec<u8>,
}

pub fn start(layout: &WriteLayout, _to: &mut dyn Write) -> io::Result<Box<dyn RowEncoder>> {
    Ok(Box::new(Ndjson { layout: layout.clone(), line: Vec::new() }))
}

impl RowEncoder for Ndjson {
    fn write(&mut self, row: &LoggedRow, to: &mut dyn Write) -> io::Result<()> {
        let line = &mut self.line;
        line.clear();
        line.push(b'{');
        if self.layout.context_ids {
            write!(line, "\"context_id\":{},", row.context)?;
        }
        if self.layout.timestamps {
            write!(line, "\"timestamp\":\"{}\",", time::to_text(row.timestamp))?;
        }
        if self.layout.versions {
            write!(line, "\"policy_version\":\"{}\",", row.version)?;
        }
        if self.layout.dim > 0 {
            line.extend(b"\"x\":[");
            list(line, row.x, single);
            line.extend(b"],");
        }
        if let (Some(layout), Some(set)) = (&self.layout.sets, &row.set) {
            line.extend(b"\"x\":");
            sets::object(line, &layout.request, set.request);
            line.extend(b",\"actions\":[");
            sets::objects(line, &layout.action, set.actions);
            line.extend(b"],");
        }
        write!(line, "\"action\":{},\"propensities\":[", row.action)?;
        list(line, row.propensities, double);
        write!(line, "],\"{}\":", self.layout.outcome_name())?;
        double(line, row.outcome);
        line.extend(b"}\n");
        to.write_all(line)
    }
}
