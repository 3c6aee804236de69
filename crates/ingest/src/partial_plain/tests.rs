//! Files column by column and row by row: the same partials, and the same errors.

use std::collections::BTreeMap;
use std::io::Seek;
use std::sync::Arc;

use arrow_array::types::Float32Type;
use arrow_array::{
    ArrayRef, FixedSizeListArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray,
};
use guarantor_engine::Inputs;
use guarantor_engine::control::unattended;
use guarantor_engine::log::{Columns, LogSource, MemoryLog, Outcome, OutcomeKind};
use guarantor_engine::partial::{FreezeRequest, Partial, Recipe};
use guarantor_engine::spec::{Candidate, SpecContext, SpecRequest};
use parquet::arrow::ArrowWriter;

use super::*;
use crate::IngestLimits;
use crate::files::read_files;
use crate::format::Format;
use crate::partials::read_partial;

const START: i64 = 1_000_000;

/// The numbers of a row, which depend on its position alone.
fn unit(i: usize, salt: u64) -> f64 {
    let mut state =
        (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    for _ in 0..3 {
        state = (state ^ (state >> 30)).wrapping_mul(0x94d0_49bb_1331_11eb);
        state ^= state >> 31;
    }
    (state >> 11) as f64 / (1u64 << 53) as f64
}

fn recipe() -> Arc<Recipe> {
    let n = 400;
    let numbers = |salt: u64| (0..n).map(|i| 0.1 + 0.8 * unit(i + 100_000, salt)).collect::<Vec<f64>>();
    let columns = Columns {
        n_actions: 3,
        actions: (0..n as u32).map(|i| i % 3).collect(),
        costs: (0..n).map(|i| -f64::from(u8::from(unit(i, 9) < 0.3))).collect(),
        propensities: numbers(1),
        candidates: vec![("new".into(), numbers(2))],
        timestamps: Some((0..n as i64).map(|i| START - 1000 + i).collect()),
        outcome: Outcome::new(OutcomeKind::Reward, 0.0, 1.0).unwrap(),
        ..Columns::default()
    };
    let log = MemoryLog::new(columns).unwrap();
    let request = SpecRequest {
        candidates: Some(vec![Candidate::Logged { name: "new".into() }]),
        independent_of_log: Some(true),
        ..SpecRequest::default()
    };
    let shape = log.shape();
    let context =
        SpecContext { shape, logging_policy: None, policy: &|_| None, seen_rows: 0, caller: "test" };
    let spec = request.resolve(&context).unwrap();
    let policies = BTreeMap::new();
    let inputs = Inputs {
        log: &log,
        logging_policy: None,
        policies: &policies,
        dataset_version: 1,
        dataset_digest: "sha256:test",
        log_checks: None,
    };
    let request = FreezeRequest { spec: &spec, planned_rows: Some(5000), sketch: None };
    Arc::new(Recipe::freeze(&inputs, &request, &unattended()).unwrap())
}

/// The columns of rows from a position on.
fn columns(from: usize, n: usize) -> Vec<(&'static str, ArrayRef)> {
    let rows = from..from + n;
    let numbers = |salt: u64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.clone().map(|i| 0.05 + 0.9 * unit(i, salt))))
    };
    let x = rows.clone().map(|i| Some([1, 2].map(|salt| Some(unit(i, salt) as f32))));
    let rewards = rows.clone().map(|i| f64::from(u8::from(unit(i, 5) < 0.4)));
    let times = rows.clone().map(|i| START + i as i64);
    vec![
        ("timestamp", Arc::new(TimestampMicrosecondArray::from_iter_values(times))),
        ("x", Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(x, 2))),
        ("action", Arc::new(Int32Array::from_iter_values(rows.clone().map(|i| (3.0 * unit(i, 6)) as i32)))),
        ("propensity", numbers(3)),
        ("reward", Arc::new(Float64Array::from_iter_values(rewards))),
        ("candidate.new", numbers(4)),
        ("note", Arc::new(Int64Array::from_iter_values(rows.map(|i| i as i64)))),
    ]
}

fn written(columns: Vec<(&'static str, ArrayRef)>) -> (FileFormat, File) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = tempfile::tempfile().unwrap();
    let mut writer = ArrowWriter::try_new(file.try_clone().unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    (&file).rewind().unwrap();
    (Format::Parquet.into(), file)
}

/// The same files for two readers.
fn again(files: &[(FileFormat, File)]) -> Vec<(FileFormat, File)> {
    files.iter().map(|(format, file)| (*format, file.try_clone().unwrap())).collect()
}

fn by_rows(files: &[(FileFormat, File)], recipe: &Arc<Recipe>) -> Result<Partial, PartialFault> {
    let control = unattended();
    let mut sink = PartialSink::new(recipe.clone(), "a", &control)?;
    let rules = rules_of(recipe, IngestLimits::default()).unwrap();
    files.iter().for_each(|(_, file)| (&*file).rewind().unwrap());
    let read = read_files(again(files), Checker::new(rules), &mut sink);
    sink.finish(read)
}

fn of_files(files: &[(FileFormat, File)], recipe: &Arc<Recipe>) -> Result<Partial, PartialFault> {
    files.iter().for_each(|(_, file)| (&*file).rewind().unwrap());
    read_partial(again(files), recipe, "a", IngestLimits::default(), &unattended())
}

fn are_plain(files: &[(FileFormat, File)], recipe: &Arc<Recipe>) -> bool {
    let control = unattended();
    let sink = PartialSink::new(recipe.clone(), "a", &control).unwrap();
    PlainRows::new(rules_of(recipe, IngestLimits::default()).unwrap(), sink).read_files(files).unwrap()
}

#[test]
fn columns_have_the_partial_of_rows() {
    let recipe = recipe();
    for sizes in [vec![1], vec![20_000], vec![900, 1, 3000]] {
        let mut from = 0;
        let file = |&n: &usize| {
            from += n;
            written(columns(from - n, n))
        };
        let files: Vec<_> = sizes.iter().map(file).collect();
        assert!(are_plain(&files, &recipe));
        let partial = of_files(&files, &recipe).unwrap();
        assert_eq!(partial.rows.certified as usize, sizes.iter().sum::<usize>());
        assert_eq!(partial, by_rows(&files, &recipe).unwrap(), "{sizes:?}");
    }
    // Rows that were learned from are left out, whole files of them too.
    let mut early = columns(0, 500);
    let times = (0..500).map(|i| START - 2000 + 4 * i);
    early[0].1 = Arc::new(TimestampMicrosecondArray::from_iter_values(times));
    let files = [written(early)];
    let partial = of_files(&files, &recipe).unwrap();
    assert!(are_plain(&files, &recipe) && partial.rows.learned_from > 100 && partial.rows.certified > 100);
    assert_eq!(partial, by_rows(&files, &recipe).unwrap());
}

#[test]
fn unusual_files_are_read_row_by_row() {
    let recipe = recipe();
    let mut named = columns(0, 800);
    named.push(("event_id", Arc::new(StringArray::from_iter_values((0..800).map(|i| format!("e{i}"))))));
    let files = [written(named)];
    assert!(!are_plain(&files, &recipe));
    assert_eq!(of_files(&files, &recipe).unwrap().rows.certified, 800);
}

#[test]
fn errors_name_the_file_and_the_row() {
    let recipe = recipe();
    let changed = |name: &str, array: ArrayRef| {
        let mut columns = columns(500, 300);
        columns.iter_mut().filter(|(own, _)| *own == name).for_each(|(_, own)| *own = array.clone());
        [written(self::columns(0, 500)), written(columns)]
    };
    let numbers = |at: usize, value: Option<f64>| -> ArrayRef {
        let number = |i: usize| if i == at { value } else { Some(0.25) };
        Arc::new(Float64Array::from_iter((0..300).map(number)))
    };
    for (name, value) in
        [("propensity", Some(0.0)), ("propensity", None), ("reward", Some(2.0)), ("candidate.new", Some(1.5))]
    {
        let files = changed(name, numbers(122, value));
        let [fast, slow] = [of_files(&files, &recipe), by_rows(&files, &recipe)].map(|read| {
            let Err(PartialFault::File(fault)) = read else { panic!("{name} {value:?}") };
            let IngestError::Rows(rows) = &fault.error else { panic!("{}", fault.error) };
            (fault.file, rows.first[0].row, rows.first[0].field.clone(), fault.to_string())
        });
        assert_eq!((fast.0, fast.1), (Some(1), 123), "{name}");
        assert_eq!(fast, slow);
    }
    // Rows that were sent twice, in two files.
    let files = [written(columns(0, 900)), written(columns(200, 400))];
    let message = |read: Result<Partial, PartialFault>| read.unwrap_err().to_string();
    assert!(message(of_files(&files, &recipe)).contains("repeat"));
    assert_eq!(message(of_files(&files, &recipe)), message(by_rows(&files, &recipe)));
}
