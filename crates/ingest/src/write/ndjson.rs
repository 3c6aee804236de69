//! NDJSON: one object per line.

use std::io::{self, Write};

use guarantor_engine::log::NamedOutcome;

use super::numbers::{double, list, single};
use super::{LoggedRow, RowEncoder, WriteLayout, sets};
use crate::time;

struct Ndjson {
    layout: WriteLayout,
    /// The name of each outcome as JSON, with what stands before it.
    outcomes: Vec<String>,
    line: Vec<u8>,
}

pub fn start(layout: &WriteLayout, _to: &mut dyn Write) -> io::Result<Box<dyn RowEncoder>> {
    let name = |(i, named): (usize, &NamedOutcome)| {
        let before = if i == 0 { "\"outcomes\":{" } else { "," };
        Ok(format!("{before}{}:", serde_json::to_string(&named.name)?))
    };
    let outcomes = match layout.outcomes.is_empty() {
        true => vec![format!("\"{}\":", layout.outcome_name())],
        false => layout.outcomes.iter().enumerate().map(name).collect::<io::Result<_>>()?,
    };
    Ok(Box::new(Ndjson { layout: layout.clone(), outcomes, line: Vec::new() }))
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
        line.extend(b"],");
        for (name, &value) in self.outcomes.iter().zip(row.outcomes(&self.layout)) {
            line.extend(name.as_bytes());
            double(line, value);
        }
        line.extend(if self.layout.outcomes.is_empty() { &b"}\n"[..] } else { b"}}\n" });
        to.write_all(line)
    }
}
