//! Action sets in Parquet files and Arrow streams, as pyarrow and polars write them.

use std::sync::Arc;

use arrow_array::builder::{Float64Builder, MapBuilder, StringBuilder};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array,
    LargeStringArray, ListArray, RecordBatch, StringArray, StructArray, TimestampMicrosecondArray,
    TimestampSecondArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};
use guarantor_ingest::{Format, IngestError};
use serde_json::{Value, json};

use super::{articles, read_json, reading};
use crate::logs::{arrow_stream, floats, lists, of_columns, parquet};
use crate::support::rejected;

/// A list column over these items.
fn list_of(items: ArrayRef, sizes: impl IntoIterator<Item = usize>) -> ArrayRef {
    let field = Arc::new(Field::new("item", items.data_type().clone(), true));
    Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(sizes), items, None))
}

fn struct_of(members: Vec<(&str, ArrayRef)>) -> StructArray {
    let fields: Fields =
        members.iter().map(|(name, c)| Field::new(*name, c.data_type().clone(), true)).collect();
    StructArray::new(fields, members.into_iter().map(|(_, column)| column).collect(), None)
}

/// A list of maps from names to numbers.
fn maps(rows: &[Vec<(&str, Option<f64>)>]) -> ArrayRef {
    let mut builder = MapBuilder::new(None, StringBuilder::new(), Float64Builder::new());
    for row in rows {
        for (name, value) in row {
            builder.keys().append_value(name);
            builder.values().append_option(*value);
        }
        builder.append(true).unwrap();
    }
    Arc::new(builder.finish())
}

fn texts<'a>(values: impl Iterator<Item = &'a Value>) -> ArrayRef {
    Arc::new(values.map(Value::as_str).collect::<StringArray>())
}

/// The flat columns of rows of `articles`.
fn flat(rows: &[Value]) -> Vec<(&'static str, ArrayRef)> {
    let column = |name: &str| -> Vec<Value> { rows.iter().map(|row| row[name].clone()).collect() };
    let member =
        |name: &str, part: &str| -> Vec<Value> { rows.iter().map(|row| row[name][part].clone()).collect() };
    let times = rows.iter().map(|row| row["timestamp"].as_i64());
    vec![
        ("action", Arc::new(rows.iter().map(|row| row["action"].as_i64()).collect::<Int64Array>())),
        ("propensity", floats(&column("propensity"))),
        ("propensities", lists(&column("propensities"))),
        ("cost", floats(&column("cost"))),
        ("event_id", texts(rows.iter().map(|row| &row["event_id"]))),
        ("timestamp", Arc::new(times.collect::<TimestampSecondArray>())),
        ("candidate.old", floats(&member("candidates", "old"))),
        ("candidate.new", floats(&member("candidates", "new"))),
        ("candidate_propensities.new", lists(&member("candidate_propensities", "new"))),
    ]
}

/// The same rows with `x` and `actions` as structs.
fn structs(rows: &[Value]) -> RecordBatch {
    let x = struct_of(vec![
        ("country", texts(rows.iter().map(|row| &row["x"]["country"]))),
        ("age", Arc::new(rows.iter().map(|row| row["x"]["age"].as_f64()).collect::<Float64Array>())),
    ]);
    let all: Vec<&Value> = rows.iter().flat_map(|row| row["actions"].as_array().unwrap()).collect();
    let topics: Vec<&str> = all.iter().map(|a| a["topic"].as_str().unwrap()).collect();
    let actions = struct_of(vec![
        ("id", texts(all.iter().map(|a| &a["id"]))),
        // As pandas writes categories.
        ("topic", Arc::new(topics.into_iter().collect::<DictionaryArray<arrow_array::types::Int32Type>>())),
        ("fresh", Arc::new(all.iter().map(|a| a["fresh"].as_f64()).collect::<Float64Array>())),
        ("sponsored", Arc::new(BooleanArray::from(vec![None; all.len()]))),
        ("_note", Arc::new(LargeStringArray::from(vec!["not a feature"; all.len()]))),
    ]);
    let sizes: Vec<usize> = rows.iter().map(|row| row["actions"].as_array().unwrap().len()).collect();
    let mut columns = flat(rows);
    columns.push(("x", Arc::new(x)));
    columns.push(("actions", list_of(Arc::new(actions), sizes)));
    of_columns(columns)
}

/// The digest of a batch as a Parquet file and as an Arrow stream.
fn digests(batch: &RecordBatch) -> [String; 2] {
    let (parquet, stream) = (parquet(batch), arrow_stream(std::slice::from_ref(batch)));
    [(Format::Parquet, parquet), (Format::ArrowStream, stream)]
        .map(|(format, bytes)| reading(format).chunks(&bytes, 1000).unwrap().0.digest)
}

#[test]
fn structs_have_the_digest_of_the_same_rows_in_ndjson() {
    // More rows than are converted at once.
    let rows = articles(700);
    let (expected, _) = read_json(&rows).unwrap();
    let digest = expected.digest;
    assert_eq!(digests(&structs(&rows)), [digest.clone(), digest.clone()]);
    let mut other = rows;
    other[500]["actions"][1]["fresh"] = json!(0.5);
    assert_ne!(read_json(&other).unwrap().0.digest, digest);
    other[500]["actions"][1]["id"] = json!("other");
    assert_ne!(digests(&structs(&other))[0], digest);
}

/// Two rows with three and two actions, in a column of this type.
fn two(actions: ArrayRef, x: Option<ArrayRef>) -> RecordBatch {
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("action", Arc::new(Int32Array::from(vec![2, 0]))),
        ("propensity", Arc::new(Float64Array::from(vec![0.5, 0.25]))),
        ("cost", Arc::new(Float64Array::from(vec![-1.0, 0.0]))),
        ("actions", list_of(actions, [3, 2])),
    ];
    columns.extend(x.map(|x| ("x", x)));
    of_columns(columns)
}

fn two_rows(actions: [Value; 5], x: Option<[Value; 2]>) -> String {
    let row = |i: usize| {
        let set = if i == 0 { &actions[..3] } else { &actions[3..] };
        let mut row = json!({"actions": set, "action": ([2, 0][i]), "propensity": ([0.5, 0.25][i]), "cost": ([-1, 0][i])});
        if let Some(x) = &x {
            row["x"] = x[i].clone();
        }
        row
    };
    read_json(&[row(0), row(1)]).unwrap().0.digest
}

#[test]
fn lists_maps_and_nested_columns_are_read() {
    let numbers = [json!([1, 0.5]), json!([0, 0]), json!([-2, 3]), json!([4, 5]), json!([6, 7])];
    let inner = lists(&numbers);
    let expected = two_rows(numbers.clone(), Some([json!([1]), json!([2])]));
    let x = Some(lists(&[json!([1]), json!([2])]));
    assert_eq!(digests(&two(inner.clone(), x.clone())), [expected.clone(), expected.clone()]);
    // In a struct, and with ids.
    let wrapped: ArrayRef = Arc::new(struct_of(vec![("x", inner.clone())]));
    assert_eq!(digests(&two(wrapped, x)), [expected.clone(), expected]);
    let ids: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 9, 7, 8]));
    let with_ids: ArrayRef = Arc::new(struct_of(vec![("id", ids.clone()), ("x", inner)]));
    let mut entries = numbers.clone().map(|x| json!({ "x": x }));
    [7, 8, 9, 7, 8].iter().zip(&mut entries).for_each(|(id, entry)| entry["id"] = json!(id));
    let expected = two_rows(entries, None);
    assert_eq!(digests(&two(with_ids, None)), [expected.clone(), expected]);

    // Maps, of which an entry may be null or absent.
    let rows: Vec<Vec<(&str, Option<f64>)>> = vec![
        vec![("topic=a", Some(1.0)), ("fresh", Some(0.5))],
        vec![],
        vec![("fresh", None)],
        vec![("7", Some(2.0))],
        vec![("fresh", Some(1.0)), ("fresh", Some(1.0))],
    ];
    let expected = two_rows(
        [json!({"topic=a": 1, "fresh": 0.5}), json!({}), json!({}), json!({"7": 2}), json!({"fresh": 2})],
        Some([json!({"u": 1}), json!({"v": 2})]),
    );
    let x = maps(&[vec![("u", Some(1.0))], vec![("v", Some(2.0))]]);
    assert_eq!(digests(&two(maps(&rows), Some(x.clone()))), [expected.clone(), expected.clone()]);
    let wrapped: ArrayRef = Arc::new(struct_of(vec![("x", maps(&rows))]));
    assert_eq!(digests(&two(wrapped, Some(x))), [expected.clone(), expected]);

    // Structs and lists in structs, and a scalar that happens to be called x.
    let tags = list_of(Arc::new(StringArray::from(vec!["a", "b", "c"])), [2, 0, 1, 0, 0]);
    let sizes = list_of(Arc::new(Float32Array::from(vec![1.0, 2.0, 3.0])), [0, 3, 0, 0, 0]);
    let article = struct_of(vec![
        ("tags", tags),
        ("_text", Arc::new(StringArray::from(vec!["big red", "", "x", "y", "z"]))),
    ]);
    let article = StructArray::new(
        article.fields().clone(),
        article.columns().to_vec(),
        Some(NullBuffer::from(vec![true, true, true, false, true])),
    );
    let members: Vec<(&str, ArrayRef)> = vec![
        ("Article", Arc::new(article)),
        ("sizes", sizes),
        ("x", Arc::new(Float64Array::from(vec![Some(1.0), None, Some(2.0), Some(3.0), None]))),
        ("new", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true), None]))),
    ];
    let expected = two_rows(
        [
            json!({"Article": {"tags": ["a", "b"], "_text": "big red"}, "x": 1, "new": true}),
            json!({"sizes": [1, 2, 3], "new": false}),
            json!({"Article": {"tags": ["c"], "_text": "x"}, "x": 2}),
            json!({"x": 3, "new": true}),
            json!({"Article": {"_text": "z"}}),
        ],
        None,
    );
    assert_eq!(digests(&two(Arc::new(struct_of(members)), None)), [expected.clone(), expected]);
}

#[test]
fn columns_and_rows_that_cannot_be_read_are_named() {
    let error = |actions: ArrayRef| {
        let batch = two(actions, None);
        let [a, b] = [(Format::Parquet, parquet(&batch)), (Format::ArrowStream, arrow_stream(&[batch]))]
            .map(|(format, bytes)| reading(format).chunks(&bytes, 1000).unwrap_err());
        match (a, b) {
            (IngestError::Unreadable(a), IngestError::Unreadable(b)) => {
                assert_eq!(a.split(" has the type").next(), b.split(" has the type").next());
                a
            }
            (IngestError::Rows(a), IngestError::Rows(b)) => {
                assert_eq!(a, b);
                format!("{}: {}: {}", a.first[0].row, a.first[0].field, a.first[0].message)
            }
            other => panic!("{other:?}"),
        }
    };
    let five =
        |name: &'static str, column: ArrayRef| -> ArrayRef { Arc::new(struct_of(vec![(name, column)])) };
    let numbers = || -> ArrayRef { Arc::new(Float64Array::from(vec![1.0; 5])) };
    let cases: Vec<(ArrayRef, &str)> = vec![
        (numbers(), "the column actions has the type List"),
        (
            five("when", Arc::new(TimestampMicrosecondArray::from(vec![1; 5]))),
            "the column actions.when has the type Timestamp",
        ),
        (
            five("id", numbers()),
            "the column actions.id has the type Float64; it must be a string or an integer",
        ),
        (
            Arc::new(struct_of(vec![("x", lists(&vec![json!([1]); 5])), ("y", numbers())])),
            "the column actions has x and \"y\"; an action with x has only id and x, so write all features into x, or none",
        ),
        (
            five("f", Arc::new(Float64Array::from(vec![1.0, 1.0, f64::NAN, 1.0, 1.0]))),
            "1: actions[2].f: NaN is not a finite single-precision number",
        ),
        (
            lists(&[json!([1]), json!([1]), json!([1]), json!([1]), json!([1, 2])]),
            "2: actions[1]: has 2 numbers, but actions[0] has 1",
        ),
        (lists(&[json!([1]), json!([1]), Value::Null, json!([1]), json!([1])]), "1: actions[2]: is null"),
        (
            five("x", lists(&[json!([1]), json!([1]), json!([1]), json!([1]), json!([f64::MAX])])),
            "2: actions[1].x[0]: 1.7976931348623157e308 is not a finite single-precision number",
        ),
        (
            five("id", Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("a"), Some("a"), None]))),
            "1: actions[2].id: duplicate id \"a\" (first in actions[0])",
        ),
    ];
    for (actions, expected) in cases {
        let found = error(actions);
        assert!(found.starts_with(expected), "{found}");
    }
    // An entry that is null, and a row without actions.
    let items = struct_of(vec![("f", numbers())]);
    let items = StructArray::new(
        items.fields().clone(),
        items.columns().to_vec(),
        Some(NullBuffer::from(vec![true, false, true, true, true])),
    );
    let batch = two(Arc::new(items.clone()), None);
    let errors = rejected(reading(Format::Parquet).chunks(&parquet(&batch), 1000));
    assert_eq!((errors.first[0].field.as_str(), errors.first[0].message.as_str()), ("actions[1]", "is null"));
    let item = Arc::new(Field::new("item", DataType::Struct(items.fields().clone()), true));
    let nulls = Some(NullBuffer::from(vec![true, false]));
    let items = struct_of(vec![("f", numbers())]);
    let column = ListArray::new(item, OffsetBuffer::from_lengths([3, 2]), Arc::new(items), nulls);
    let mut batch = two(lists(&vec![json!([1]); 5]), None).columns().to_vec();
    batch[3] = Arc::new(column);
    let batch = of_columns(["action", "propensity", "cost", "actions"].into_iter().zip(batch).collect());
    let errors = rejected(reading(Format::ArrowStream).chunks(&arrow_stream(&[batch]), 1000));
    assert_eq!((errors.first[0].row, errors.first[0].field.as_str()), (2, "actions"));
    assert_eq!(errors.first[0].message, "is missing, but earlier rows have it");
}
