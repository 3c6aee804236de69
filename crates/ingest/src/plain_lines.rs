//! Blocks of NDJSON lines read straight into columns, if all lines are objects with the same usual fields in the same
//! order. Otherwise the lines are read one by one.

use guarantor_engine::log::OutcomeKind;

use crate::plain::Cursor;
use crate::plain_columns::PlainColumns;

/// The columns of whole lines, with line numbers from 1 on, and how many lines there are.
pub fn columns(block: &[u8], line_bytes: usize) -> Option<(PlainColumns, u64)> {
    let mut reader =
        Reader { json: Cursor { rest: block }, columns: PlainColumns::default(), fields: Vec::new() };
    let mut lines = 0;
    while !reader.json.rest.is_empty() {
        lines += 1;
        let before = reader.json.rest.len();
        reader.json.space();
        if !matches!(reader.json.rest, [] | [b'\n', ..]) {
            reader.row()?;
            reader.json.space();
            reader.columns.numbers.push(lines);
        }
        let length = before - reader.json.rest.len();
        match reader.json.rest {
            [] => {}
            [b'\n', rest @ ..] => reader.json.rest = rest,
            _ => return None,
        }
        if length > line_bytes {
            return None;
        }
        if reader.columns.numbers.len() == 1 && lines == 1 {
            reader.reserve(block.len() / length + 1);
        }
    }
    Some((reader.finish()?, lines))
}

#[derive(Clone, Copy, PartialEq)]
enum Field {
    X,
    Action,
    Propensity,
    Propensities,
    Outcome(OutcomeKind),
    EventId,
    Candidates,
    Timestamp,
    Version,
}

struct Reader<'a> {
    json: Cursor<'a>,
    columns: PlainColumns,
    /// The fields of the first row in their order, each with its name as it is written, up to the colon.
    fields: Vec<(&'a [u8], Field)>,
}

impl Reader<'_> {
    fn row(&mut self) -> Option<()> {
        self.json.token(b'{')?;
        if self.fields.is_empty() {
            return self.first_row();
        }
        for i in 0..self.fields.len() {
            let (name, field) = self.fields[i];
            match self.json.rest.strip_prefix(name) {
                Some(rest) => self.json.rest = rest,
                None if self.name()? == field => {}
                None => return None,
            }
            self.value(field)?;
            let last = i + 1 == self.fields.len();
            if self.json.goes_on(b'}')? == last {
                return None;
            }
        }
        Some(())
    }

    fn first_row(&mut self) -> Option<()> {
        loop {
            let before = self.json.rest;
            let field = self.name()?;
            let written = &before[..before.len() - self.json.rest.len()];
            let is_outcome = |field: Field| matches!(field, Field::Outcome(_));
            if self
                .fields
                .iter()
                .any(|&(_, other)| other == field || (is_outcome(other) && is_outcome(field)))
            {
                return None;
            }
            self.fields.push((written, field));
            self.value(field)?;
            if !self.json.goes_on(b'}')? {
                return Some(());
            }
        }
    }

    fn name(&mut self) -> Option<Field> {
        let name = self.json.text()?;
        self.json.token(b':')?;
        Some(match name {
            "x" => Field::X,
            "action" => Field::Action,
            "propensity" => Field::Propensity,
            "propensities" => Field::Propensities,
            "cost" => Field::Outcome(OutcomeKind::Cost),
            "reward" => Field::Outcome(OutcomeKind::Reward),
            "event_id" => Field::EventId,
            "candidates" => Field::Candidates,
            "timestamp" => Field::Timestamp,
            "policy_version" => Field::Version,
            _ => return None,
        })
    }

    fn value(&mut self, field: Field) -> Option<()> {
        let Reader { json, columns, .. } = self;
        let PlainColumns { numbers, layout, rows, outcome, has_propensity } = columns;
        let first = numbers.is_empty();
        match field {
            Field::X => {
                // `+ 0.0` turns −0 into 0: they are the same number and must have the same representation.
                let count = json.each_number(|value| rows.x.push(value as f32 + 0.0))?;
                layout.dim = if first { count } else { layout.dim };
                return (count == layout.dim).then_some(());
            }
            Field::Propensities => {
                let count = json.each_number(|value| rows.full.push(value))?;
                layout.full = if first { Some(count) } else { layout.full };
                return (Some(count) == layout.full).then_some(());
            }
            Field::Action => rows.actions.push(json.integer()?.parse().ok()?),
            Field::Propensity => {
                *has_propensity = true;
                rows.propensities.push(json.number()?);
            }
            Field::Outcome(kind) => {
                *outcome = Some(kind);
                rows.costs.push(json.number()?);
            }
            Field::EventId => {
                layout.event_ids = true;
                rows.event_ids.push(json.id()?);
            }
            Field::Timestamp => {
                layout.timestamps = true;
                rows.timestamps.push(json.time()?);
            }
            Field::Version => {
                layout.versions = true;
                rows.versions.push(json.id()?);
            }
            Field::Candidates => return self.candidates(first),
        }
        Some(())
    }

    /// The candidates of a row, whose names are those of the first row in the same order.
    fn candidates(&mut self, first: bool) -> Option<()> {
        let Reader { json, columns: PlainColumns { layout, rows, .. }, .. } = self;
        json.token(b'{')?;
        let mut at = 0;
        loop {
            let name = json.text()?;
            json.token(b':')?;
            if first {
                if layout.candidates.iter().any(|other| other == name) {
                    return None;
                }
                layout.candidates.push(name.into());
                rows.candidates.push(Vec::new());
            }
            if layout.candidates.get(at)? != name {
                return None;
            }
            rows.candidates[at].push(json.number()?);
            at += 1;
            if !json.goes_on(b'}')? {
                return (at == layout.candidates.len()).then_some(());
            }
        }
    }

    /// Makes room for about so many rows like the first one.
    fn reserve(&mut self, rows: usize) {
        let PlainColumns { numbers, layout, rows: to, has_propensity, .. } = &mut self.columns;
        numbers.reserve(rows);
        to.x.reserve(rows * layout.dim);
        to.full.reserve(rows * layout.full.unwrap_or(0));
        to.actions.reserve(rows);
        to.costs.reserve(rows);
        to.propensities.reserve(if *has_propensity { rows } else { 0 });
        to.timestamps.reserve(if layout.timestamps { rows } else { 0 });
    }

    /// The columns, if the rows have what every row must have.
    fn finish(self) -> Option<PlainColumns> {
        let mut columns = self.columns;
        if columns.numbers.is_empty() {
            return Some(columns);
        }
        let mut named: Vec<_> =
            std::mem::take(&mut columns.layout.candidates).into_iter().zip(columns.rows.candidates).collect();
        named.sort_by(|(one, _), (other, _)| one.cmp(other));
        (columns.layout.candidates, columns.rows.candidates) = named.into_iter().unzip();
        let has_action = self.fields.iter().any(|&(_, field)| field == Field::Action);
        (has_action && columns.outcome.is_some()).then_some(columns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        r#"{"x":[1,-0.0],"action":2,"propensity":0.25,"reward":1,"candidates":{"b":0.5,"a":1}}"#;

    #[test]
    fn plain_lines_become_columns() {
        let block = format!("{LINE}\n\n  {}\r\n{LINE}", LINE.replace(':', ": ").replace(',', " ,"));
        let (columns, lines) = columns(block.as_bytes(), 1000).unwrap();
        assert_eq!((lines, &columns.numbers[..]), (4, &[1, 3, 4][..]));
        assert_eq!((columns.layout.dim, columns.layout.full), (2, None));
        assert_eq!(
            columns.rows.x.iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
            [0x3f80_0000, 0].repeat(3)
        );
        assert_eq!((&columns.rows.actions[..], &columns.rows.costs[..]), (&[2; 3][..], &[1.0; 3][..]));
        assert_eq!(columns.layout.candidates, ["a", "b"]);
        assert_eq!(columns.rows.candidates, [[1.0; 3], [0.5; 3]]);
        assert_eq!((columns.outcome, columns.has_propensity), (Some(OutcomeKind::Reward), true));
    }

    #[test]
    fn anything_unusual_is_left_to_the_reader_of_lines() {
        assert!(columns(LINE.as_bytes(), LINE.len()).is_some());
        assert!(columns(LINE.as_bytes(), LINE.len() - 1).is_none());
        for (from, to) in [
            ("\"x\":[1,-0.0],", "\"x\":[1,-0.0],\"x\":[1,-0.0],"),
            ("\"action\":2,", ""),
            ("\"action\":2,", "\"action\":2.0,"),
            ("\"action\":2,", "\"action\":-2,"),
            ("\"action\":2,", "\"action\":4294967296,"),
            ("\"reward\":1,", ""),
            ("\"reward\":1,", "\"reward\":1,\"cost\":1,"),
            ("\"reward\":1,", "\"reward\":null,"),
            ("\"reward\":1,", "\"reward\":1,\"context_id\":1,"),
            ("\"reward\":1,", "\"reward\":1,\"other\":1,"),
            ("\"a\":1", "\"b\":1"),
            ("[1,-0.0]", "[1,-0.0"),
            ("}}", "}} x"),
            ("}}", "},}"),
            ("}}", "}\n}"),
        ] {
            let line = LINE.replace(from, to);
            assert_ne!(line, LINE);
            assert!(columns(line.as_bytes(), 1000).is_none(), "{line}");
            // Also if it is not the first one.
            assert!(columns(format!("{LINE}\n{line}").as_bytes(), 1000).is_none(), "{line}");
        }
        for line in [LINE.replace("[1,", "["), LINE.replace("\"b\":0.5,", ""), LINE.replace("0.25", "1e-7,")]
        {
            assert!(columns(format!("{LINE}\n{line}").as_bytes(), 1000).is_none(), "{line}");
        }
    }
}
