//! Parquet and Arrow streams.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, NullArray, RecordBatch, StringArray,
    types::Int8Type,
};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use serde_json::{Value, json};

use super::logs::{self, ARROW, PARQUET, arrow_stream, lists, of_columns, rows};
use super::{Case, Rejection, bad_file, bad_row, case};

type Columns = Vec<(&'static str, ArrayRef)>;

/// A batch in both formats, both of which must be rejected in the same way.
fn twice(name: &str, columns: Columns, rejected: impl Fn(&str, &str, Vec<u8>) -> Case) -> Vec<Case> {
    let batch = of_columns(columns);
    let name = |kind: &str| format!("{kind} {name}");
    vec![
        rejected(PARQUET, &name("parquet"), logs::parquet(&batch)),
        rejected(ARROW, &name("arrow"), arrow_stream(&[batch])),
    ]
}

fn floats<const N: usize>(values: [f64; N]) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

fn ints<const N: usize>(values: [i64; N]) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(values))
}

fn texts<const N: usize>(values: [&str; N]) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}

fn of(values: Value) -> ArrayRef {
    lists(values.as_array().unwrap())
}

/// Three good rows with one column changed, or added.
fn three(name: &'static str, column: ArrayRef) -> Columns {
    let mut columns: Columns = vec![
        ("x", of(json!([[1, 2], [3, 4], [5, 6]]))),
        ("action", ints([0, 1, 2])),
        ("propensity", floats([0.5, 0.25, 0.25])),
        ("cost", floats([0.0, -1.0, -0.5])),
    ];
    match columns.iter_mut().find(|(n, _)| *n == name) {
        Some(found) => found.1 = column,
        None => columns.push((name, column)),
    }
    columns
}

pub fn both() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut row = |name: &'static str, column: ArrayRef, number: u64, field: &'static str| {
        let rejected = |kind: &str, name: &str, bytes| bad_row(kind, name, bytes, number, field);
        cases.extend(twice(&format!("{name} in row {number}"), three(name, column), rejected));
    };
    row("action", ints([0, -1, 2]), 2, "action");
    row("action", ints([0, 1, i64::MAX]), 3, "action");
    row("action", Arc::new(Int64Array::from(vec![Some(0), None, Some(1)])), 2, "action");
    row("action", floats([0.0, 1.0, 2.5]), 3, "action");
    row("cost", Arc::new(BooleanArray::from(vec![false, true, true])), 2, "cost");
    row("propensity", floats([0.5, 0.25, 0.0]), 3, "propensity");
    row("propensity", floats([0.5, -0.25, 0.5]), 2, "propensity");
    row("propensity", floats([1.5, 0.25, 0.5]), 1, "propensity");
    row("propensity", floats([0.5, f64::NAN, 0.5]), 2, "propensity");
    row("propensity", floats([0.5, f64::INFINITY, 0.5]), 2, "propensity");
    row("propensity", Arc::new(Float64Array::from(vec![None, Some(0.5), Some(0.5)])), 1, "propensity");
    row("cost", floats([0.0, 0.5, 0.0]), 2, "cost");
    row("cost", floats([0.0, 0.0, f64::NAN]), 3, "cost");
    row("cost", floats([0.0, f64::NEG_INFINITY, 0.0]), 2, "cost");
    row("reward", floats([1.0, 1.0, 1.0]), 1, "reward");
    row("x", of(json!([[1, 2], [3], [5, 6]])), 2, "x");
    row("x", of(json!([[1, 2], [3, 4], null])), 3, "x");
    row("x", of(json!([[1, 2], [3, null], [5, 6]])), 2, "x[1]");
    row("x", of(json!([[1, 2], [3, 1e39], [5, 6]])), 2, "x[1]");
    row(
        "propensities",
        of(json!([[0.5, 0.25, 0.25], [0.5, 0.25, 0.24], [0.5, 0.25, 0.25]])),
        2,
        "propensities",
    );
    row(
        "propensities",
        of(json!([[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [1.5, -0.75, 0.25]])),
        3,
        "propensities[0]",
    );
    row("propensities", of(json!([[0.5, 0.25, 0.25], [0.5, 0.5, 0.0], [0.5, 0.25, 0.25]])), 2, "propensity");
    row("event_id", texts(["a", "b", "a"]), 3, "event_id");
    row("event_id", Arc::new(StringArray::from(vec![Some("a"), None, Some("c")])), 2, "event_id");
    row("context_id", texts(["a", "a", "b"]), 2, "x");
    row("candidate.new", floats([0.5, 0.5, 1.5]), 3, "candidates.new");
    row("candidate.new", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(0.5)])), 2, "candidates");
    let mut file = |name: &str, columns: Columns| cases.extend(twice(name, columns, bad_file));
    file("with a misspelled column", three("Event-ID", ints([1, 2, 3])));
    file("whose x are integers", three("x", ints([1, 2, 3])));
    file(
        "whose actions are booleans",
        three("action", Arc::new(BooleanArray::from(vec![true, false, true]))),
    );
    file("whose actions are strings", three("action", texts(["0", "1", "2"])));
    file("whose costs are strings", three("cost", texts(["0", "-1", "0"])));
    file(
        "whose propensities are booleans",
        three("propensity", Arc::new(BooleanArray::from(vec![true, false, true]))),
    );
    file("whose event ids are floats", three("event_id", floats([1.0, 2.0, 3.0])));
    file("whose x are strings", three("x", text_lists()));
    file("whose candidates are floats", three("candidates", floats([0.5, 0.5, 0.5])));
    file(
        "without actions",
        three("cost", floats([0.0, 0.0, 0.0])).into_iter().filter(|(n, _)| *n != "action").collect(),
    );
    file("without rows", vec![("action", ints([])), ("cost", floats([])), ("propensity", floats([]))]);
    let twins =
        [three("candidate.a", floats([0.5, 0.5, 0.5])), vec![("candidate.a", floats([0.1, 0.1, 0.1]))]];
    file("with a duplicate column", twins.concat());
    cases
}

fn text_lists() -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for _ in 0..3 {
        lists.values().append_value("1");
        lists.append(true);
    }
    Arc::new(lists.finish())
}

pub fn parquet() -> Vec<Case> {
    let good = logs::written(PARQUET, &rows(50, true));
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let end = good.len();
    let mut cases: Vec<Case> = [0, 3, 4, 8, 12, end / 4, end / 2, end - 100, end - 8, end - 4, end - 1]
        .map(|n| bad_file(PARQUET, &format!("parquet cut at {n} of {end}"), &good[..n]))
        .into();
    cases.extend([
        bad_file(PARQUET, "parquet without its first half", &good[end / 2..]),
        bad_file(PARQUET, "parquet with bytes after it", [&good[..], b"x"].concat()),
        bad_file(PARQUET, "parquet with only its magic bytes", "PAR1PAR1"),
        bad_file(PARQUET, "parquet without an index", "PAR1\0\0\0\0PAR1"),
        bad_file(PARQUET, "parquet that is encrypted", with(end - 4, b"PARE")),
        bad_file(PARQUET, "parquet whose index is longer than it", with(end - 8, &u32::MAX.to_le_bytes())),
        bad_file(
            PARQUET,
            "parquet whose index is one byte longer",
            with(end - 8, &(index_size(&good) + 1).to_le_bytes()),
        ),
        bad_file(
            PARQUET,
            "parquet whose index is zeros",
            with(end - 8 - index_size(&good) as usize, &vec![0; index_size(&good) as usize]),
        ),
        bad_file(
            PARQUET,
            "parquet whose index is ones",
            with(end - 8 - index_size(&good) as usize, &vec![0xff; index_size(&good) as usize]),
        ),
        bad_file(PARQUET, "parquet whose first page is zeros", with(4, &[0; 64])),
        bad_file(PARQUET, "parquet with a deeply nested schema", deep_schema()),
        bad_file(PARQUET, "parquet whose schema has two billion columns", wide_schema()),
        bad_file(PARQUET, "csv in place of parquet", "action,cost\n1,0\n"),
        bad_file(PARQUET, "parquet whose gzip data is longer than its header says", understated()),
        case(PARQUET, "parquet of one number repeated two million times", bomb(), Rejection::Expands),
    ]);
    cases
}

fn index_size(file: &[u8]) -> u32 {
    u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap())
}

/// An index in Thrift's compact protocol around a schema of these elements.
fn index(elements: &[Vec<u8>]) -> Vec<u8> {
    // version = 1, then a list of structs whose length is a varint.
    let mut index = vec![0x15, 0x02, 0x19, 0xfc];
    let mut n = elements.len();
    while n >= 0x80 {
        index.push(n as u8 | 0x80);
        n >>= 7;
    }
    index.push(n as u8);
    index.extend(elements.concat());
    // num_rows = 0, no row groups.
    index.extend([0x16, 0x00, 0x19, 0x0c, 0x00]);
    let mut file = b"PAR1".to_vec();
    file.extend(&index);
    file.extend((index.len() as u32).to_le_bytes());
    file.extend(b"PAR1");
    file
}

/// Groups inside each other, deep enough to use up a thread's stack.
fn deep_schema() -> Vec<u8> {
    // repetition_type = required, name = "a", num_children = 1.
    let group = vec![0x35, 0x00, 0x18, 0x01, b'a', 0x15, 0x02, 0x00];
    let leaf = vec![0x15, 0x02, 0x25, 0x00, 0x18, 0x01, b'a', 0x00];
    let mut elements = vec![group; 90_000];
    elements.push(leaf);
    index(&elements)
}

/// A root that claims more children than there is memory for.
fn wide_schema() -> Vec<u8> {
    index(&[vec![0x48, 0x01, b'a', 0x15, 0xfe, 0xff, 0xff, 0xff, 0x0f, 0x00]])
}

/// A page whose header states half of its decompressed size.
fn understated() -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::GZIP(Default::default()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .build();
    let batch = of_columns(vec![
        ("action", Arc::new(Int64Array::from_value(1, 5000))),
        ("propensity", Arc::new(Float64Array::from_value(0.5, 5000))),
        ("cost", Arc::new(Float64Array::from_value(0.0, 5000))),
    ]);
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    let mut file = writer.into_inner().unwrap();
    // The first page: its type, then its length, three bytes of a zigzag varint.
    assert_eq!(file[4..7], [0x15, 0x00, 0x15]);
    let varint = |n: u32| [(2 * n) as u8 | 0x80, ((2 * n) >> 7) as u8 | 0x80, ((2 * n) >> 14) as u8];
    file[7..10].copy_from_slice(&varint(20_000));
    file
}

/// A small file that expands to many copies of one number.
fn bomb() -> Vec<u8> {
    let n = 2_000_000;
    let columns: Columns = vec![
        ("action", Arc::new(Int64Array::from_value(1, n))),
        ("propensity", Arc::new(Float64Array::from_value(0.5, n))),
        ("cost", Arc::new(Float64Array::from_value(0.0, n))),
    ];
    logs::parquet(&of_columns(columns))
}

pub fn arrow() -> Vec<Case> {
    let good = logs::written(ARROW, &rows(50, true));
    let end = good.len();
    let schema = 8 + u32::from_le_bytes(good[4..8].try_into().unwrap()) as usize;
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let mut cases: Vec<Case> =
        [0, 2, 4, 8, schema / 2, schema, schema + 4, schema + 8, end / 2, end - 9, end - 8, end - 4, end - 1]
            .map(|n| bad_file(ARROW, &format!("arrow cut at {n} of {end}"), &good[..n]))
            .into();
    let dictionary: DictionaryArray<Int8Type> = vec!["a", "b", "a"].into_iter().collect();
    let nothing = of_columns(three("event_id", Arc::new(NullArray::new(3))));
    let numbers = of_columns(three("action", Arc::new(dictionary)));
    cases.extend([
        bad_file(ARROW, "arrow with bytes after it", [&good[..], b"x"].concat()),
        bad_file(ARROW, "arrow twice", [&good[..], &good[..]].concat()),
        bad_file(ARROW, "arrow without its schema", &good[schema..]),
        bad_file(ARROW, "arrow with its schema twice", [&good[..schema], &good[..]].concat()),
        bad_file(ARROW, "arrow with only a schema", [&good[..schema], &good[end - 8..]].concat()),
        bad_file(ARROW, "arrow with only an end marker", &good[end - 8..]),
        bad_file(ARROW, "arrow file in place of a stream", [b"ARROW1\0\0", &good[..]].concat()),
        bad_file(ARROW, "arrow of 0xff bytes", vec![0xff; 4096]),
        bad_file(ARROW, "arrow of zero bytes", vec![0; 4096]),
        bad_file(ARROW, "arrow whose schema claims 4 GB", with(4, &u32::MAX.to_le_bytes())),
        bad_file(ARROW, "arrow whose schema claims 2 GB", with(4, &i32::MAX.to_le_bytes())),
        bad_file(ARROW, "arrow whose schema is zeros", with(8, &vec![0; schema - 8])),
        bad_file(ARROW, "arrow whose batch claims another length", with(schema + 4, &8u32.to_le_bytes())),
        bad_file(ARROW, "arrow whose body length is i64::MAX", body_length(&good, schema, i64::MAX)),
        bad_file(ARROW, "arrow whose body length is negative", body_length(&good, schema, -8)),
        bad_file(ARROW, "arrow whose body is empty", body_length(&good, schema, 0)),
        bad_file(ARROW, "arrow with a null column", arrow_stream(&[nothing])),
        bad_file(ARROW, "arrow with actions that are names", arrow_stream(&[numbers])),
        bad_file(ARROW, "ndjson in place of arrow", "{\"action\":1}\n"),
        bad_row(ARROW, "arrow, second batch", second_batch(), 4, "action"),
    ]);
    cases
}

/// The stream with a different length for the body of its first batch, everywhere the description states it.
fn body_length(stream: &[u8], schema: usize, length: i64) -> Vec<u8> {
    let size = u32::from_le_bytes(stream[schema + 4..schema + 8].try_into().unwrap()) as usize;
    let message = arrow_ipc::root_as_message(&stream[schema + 8..schema + 8 + size]).unwrap();
    let was = message.bodyLength().to_le_bytes();
    let found = stream[schema..].windows(8).position(|window| window == was).unwrap() + schema;
    let mut changed = stream.to_vec();
    changed[found..found + 8].copy_from_slice(&length.to_le_bytes());
    changed
}

fn second_batch() -> Vec<u8> {
    let batches: Vec<RecordBatch> =
        [[0, 1, 2], [-1, 1, 2]].map(|actions| of_columns(three("action", ints(actions)))).into();
    arrow_stream(&batches)
}
