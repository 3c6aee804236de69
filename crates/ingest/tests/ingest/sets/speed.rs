//! How fast a log is read. Run with GUARANTOR_LOG=log.dsjson and --ignored --nocapture.

use std::time::Instant;

use guarantor_engine::log::Outcome;
use guarantor_ingest::{Checker, FileFormat, IngestLimits, MemorySink, Rules, read};

#[test]
#[ignore = "prints a time"]
fn reading_a_log() {
    let path = std::path::PathBuf::from(std::env::var_os("GUARANTOR_LOG").expect("GUARANTOR_LOG is a file"));
    let format = FileFormat::of_file(&path, None).unwrap();
    for _ in 0..3 {
        let file = std::fs::File::open(&path).unwrap();
        let rules = Rules::new(None, Outcome::default(), None, IngestLimits::default()).unwrap();
        let (start, mut sink) = (Instant::now(), MemorySink::default());
        let summary = read(format, file, Checker::new(rules), &mut sink).unwrap();
        println!("{} rows in {:.3} s", summary.rows, start.elapsed().as_secs_f64());
    }
}
