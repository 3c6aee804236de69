//! `guarantor-lab benchmark --quick` through the real binary, on small data in the true file formats.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int16Array, RecordBatch, UInt8Array};
use parquet::arrow::ArrowWriter;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const K: u8 = 4;
const ROWS: usize = 300;

/// Two cases of one world: a logging policy that prefers the right action unless the label is 0 or 1.
fn write_cases(directory: &Path, rows_of_last: usize) {
    let mut cases = String::from(
        "case,dataset,noise,target_temperature,logging_temperature,n_actions,rows,true_value,published_ls,\
         published_ix,published_second_moment,published_empirical_bernstein,published_eslb\n",
    );
    let (mut case, mut label, mut action, mut reward) = (vec![], vec![], vec![], vec![]);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let high = |t: f64| (1.0 / t).exp() / ((1.0 / t).exp() + 3.0);
    for (number, temperature) in [(0i16, 0.2), (1, 0.5)] {
        let value = high(temperature);
        writeln!(cases, "{number},small,0,{temperature},0.3,{K},{ROWS},{value},0.5,0.6,0.7,0.8,0.9").unwrap();
        for _ in 0..if number == 1 { rows_of_last } else { ROWS } {
            let y = (rng.random::<f64>() * f64::from(K)) as u8;
            let favorite = if y <= 1 { y + 1 } else { y };
            let other = (favorite + 1 + (rng.random::<f64>() * 3.0) as u8) % K;
            let a = if rng.random::<f64>() < high(0.3) { favorite } else { other };
            case.push(number);
            label.push(y);
            action.push(a);
            reward.push(u8::from(a == y));
        }
    }
    std::fs::write(directory.join("cases.csv"), cases).unwrap();
    let columns: [(&str, ArrayRef); 4] = [
        ("case", Arc::new(Int16Array::from(case))),
        ("label", Arc::new(UInt8Array::from(label))),
        ("action", Arc::new(UInt8Array::from(action))),
        ("reward", Arc::new(UInt8Array::from(reward))),
    ];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let file = File::create(directory.join("rows.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

/// Three labels that two numbers and a category tell apart.
fn write_table(path: &Path, rows: usize) {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let mut text = String::from("a,b,color,class\n");
    for _ in 0..rows {
        let y = (rng.random::<f64>() * 3.0) as usize;
        let noise = rng.random::<f64>() - 0.5;
        let color = if rng.random::<f64>() < 0.8 { ["red", "green", "blue"][y] } else { "gray" };
        writeln!(text, "{:.4},{:.4},{color},label {y}", y as f64 + noise, noise).unwrap();
    }
    std::fs::write(path, text).unwrap();
}

fn benchmark(out: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_guarantor-lab"));
    command.args(["benchmark", "--quick", "--out"]).arg(out).args(args).output().unwrap()
}

fn page(out: &Path) -> String {
    std::fs::read_to_string(out.join("benchmarks.md")).unwrap()
}

#[test]
fn the_page_has_every_part_that_has_data() {
    let folder = tempfile::tempdir().unwrap();
    let (cases, tables) = (folder.path().join("ope"), folder.path().join("tables"));
    [&cases, &tables].into_iter().for_each(|directory| std::fs::create_dir(directory).unwrap());
    write_cases(&cases, ROWS);
    write_table(&tables.join("digits.csv"), 600);
    write_table(&tables.join("unheard-of.csv"), 400);
    let args = [
        "--ope",
        cases.to_str().unwrap(),
        "--tables",
        tables.to_str().unwrap(),
        "--parts",
        "ope,tables,widths,clicks",
    ];
    let [first, second] = ["first", "second"].map(|name| folder.path().join(name));
    let output = benchmark(&first, &args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = page(&first);
    assert_eq!(text.trim_end(), String::from_utf8(output.stdout).unwrap().trim_end());
    for heading in [
        "published evaluation cases",
        "width in worlds with known truth",
        "Learning on labelled tables",
        "Learning on logs of rare clicks",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with("## ") && line.contains(heading)),
            "{heading}: {text}"
        );
    }
    assert!(text.contains("2 of the 495 cases") && text.contains("| small (300)"), "{text}");
    assert!(text.contains("not measured"), "a table without a reference has no share: {text}");
    assert!(
        text.lines().any(|line| line.starts_with("| digits ") && !line.contains("not measured")),
        "{text}"
    );
    for name in ["ope", "widths", "tables"] {
        let svg = std::fs::read_to_string(first.join(format!("benchmarks/{name}.svg"))).unwrap();
        assert!(svg.starts_with("<svg") && text.contains(&format!("(benchmarks/{name}.svg)")), "{name}");
    }
    assert!(String::from_utf8(output.stderr).unwrap().contains("published cases: 2 of 2"));
    benchmark(&second, &args);
    assert_eq!(page(&second), text, "the page does not depend on the run");
}

#[test]
fn missing_data_is_named_and_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    let args = ["--parts", "ope,tables,fashion", "--ope", nowhere, "--tables", nowhere, "--fashion", nowhere];
    let output = benchmark(folder.path(), &args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = page(folder.path());
    for word in ["--ope DIR", "export_tables.py", "train-images-idx3-ubyte", "dataset-fashion-mnist"] {
        assert!(text.contains(word), "{word}: {text}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(word), "{word} on standard error");
    }
}

#[test]
fn data_that_does_not_fit_together_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    write_cases(folder.path(), ROWS - 1);
    let ope = folder.path().to_str().unwrap().to_string();
    let output = benchmark(&folder.path().join("out"), &["--parts", "ope", "--ope", &ope]);
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("rows.parquet: case 1 has 299 rows of 300"), "{message}");
}
