//! `guarantor-lab reproduce` through the real binary, on a small dataset that this test writes in IDX format.
//! The numbers of the figures are read back from the CSV and checked.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use guarantor_engine::certificate::Decision;
use guarantor_lab::claims::claims;
use guarantor_lab::lines::{Line, Promise, of_figure};
use guarantor_lab::rows::{self, Row};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const CLASSES: usize = 10;
const PIXELS: usize = 28 * 28;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("guarantor-reproduction-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Images of ten classes. In each class, a fifth of the pixels are bright more often.
fn write_dataset(folder: &Path) {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let chance: Vec<f64> =
        (0..CLASSES * PIXELS).map(|_| if rng.random::<f64>() < 0.2 { 0.5 } else { 0.2 }).collect();
    for (prefix, n) in [("train", 2000u32), ("t10k", 500)] {
        let mut images = [2051u32, n, 28, 28].iter().flat_map(|v| v.to_be_bytes()).collect::<Vec<u8>>();
        let mut labels = [2049u32, n].iter().flat_map(|v| v.to_be_bytes()).collect::<Vec<u8>>();
        for i in 0..n as usize {
            let class = i % CLASSES;
            labels.push(class as u8);
            let bright = |p: &f64| if rng.random::<f64>() < *p { 255 } else { 0 };
            images
                .extend(chance[class * PIXELS..(class + 1) * PIXELS].iter().map(bright).collect::<Vec<u8>>());
        }
        std::fs::write(folder.join(format!("{prefix}-images-idx3-ubyte")), images).unwrap();
        std::fs::write(folder.join(format!("{prefix}-labels-idx1-ubyte")), labels).unwrap();
    }
}

fn reproduce(data: &Path, out: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_guarantor-lab"))
        .args(["reproduce", "--quick", "--data-dir"])
        .arg(data)
        .arg("--out")
        .arg(out)
        .args(more)
        .output()
        .unwrap()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

/// Every line of every figure at every α, m and seed, once.
fn check_completeness(rows: &[Row]) {
    let mut expected = 0;
    for figure in 1..=5 {
        let interactions: &[usize] = if figure == 3 { &[1, 4] } else { &[1] };
        for (line, promise) in of_figure(figure) {
            for alpha in [0.1, 1.0] {
                for (&m, seed) in interactions.iter().flat_map(|m| [(m, 1), (m, 2)]) {
                    let found = rows.iter().filter(|r| {
                        (r.figure, r.line, r.promise, r.alpha, r.interactions, r.seed)
                            == (figure, line, promise, alpha, m, seed)
                    });
                    assert_eq!(found.count(), 1, "figure {figure}, {line:?}, α {alpha}, m {m}, seed {seed}");
                    expected += 1;
                }
            }
        }
    }
    assert_eq!(rows.len(), expected);
}

/// What must hold for every row, whatever the data.
fn check_row(row: &Row) {
    assert_eq!(row.contexts, 1900, "95% of the training set");
    assert!(row.test_error > 0.0 && row.test_error < 0.05 && row.seconds > 0.0, "{row:?}");
    assert!((-1.0..=0.0).contains(&row.true_risk) && (-1.0..=0.0).contains(&row.logging_risk), "{row:?}");
    assert!(close(row.logging_risk - row.true_risk, row.true_improvement), "{row:?}");
    match row.promise {
        Promise::Estimate => {
            assert_eq!((row.decision, row.termination, row.numerical_slack), (None, None, None), "{row:?}");
            let grid = row.line.related().unwrap().grid();
            assert!(row.lambda.is_some_and(|lambda| grid.contains(&lambda)), "{row:?}");
        }
        Promise::KnownBaseline | Promise::Certified => {
            assert!(row.termination.is_some() && row.lambda.is_none(), "{row:?}");
            assert!(row.numerical_slack.is_some_and(|slack| (0.0..0.05).contains(&slack)), "{row:?}");
            let wanted = if row.promised_improvement > 0.0 { Decision::Deploy } else { Decision::Keep };
            assert_eq!(row.decision, Some(wanted), "{row:?}");
            let measured = row.true_improvement + 3.0 * row.test_error;
            assert!(row.promised_improvement <= measured, "a guarantee was broken: {row:?}");
        }
    }
    // The mean cost of the log and the risk on the test set come from different examples.
    assert!((row.logged_risk - row.logging_risk).abs() < 0.1, "{row:?}");
    match (row.own_improvement, row.own_error) {
        (Some(own), Some(error)) => {
            assert_eq!(row.line, Line::Auto, "{row:?}");
            assert!(
                error > 0.0 && (own - row.true_improvement).abs() < 4.0 * (error + row.test_error),
                "{row:?}"
            );
            assert!(row.promised_improvement <= own + 3.0 * error, "a guarantee was broken: {row:?}");
        }
        (own, error) => assert!(own.is_none() && error.is_none(), "{row:?}"),
    }
    if row.promise == Promise::KnownBaseline {
        assert!(close(row.logging_risk - row.promised_risk, row.promised_improvement), "{row:?}");
    }
}

fn find(rows: &[Row], figure: u8, line: Line, like: &Row) -> Row {
    let same = |r: &&Row| (r.alpha, r.seed) == (like.alpha, like.seed) && r.interactions == like.interactions;
    rows.iter().find(|r| r.figure == figure && r.line == line && same(r)).unwrap().clone()
}

/// How the figures must relate to each other.
fn check_figures(rows: &[Row]) {
    for ls in rows.iter().filter(|r| r.line == Line::LsLig) {
        let catoni = find(rows, 2, Line::Catoni, ls);
        assert!(catoni.promised_risk < ls.promised_risk, "Theorem 2: {catoni:?} {ls:?}");
    }
    for cbb in rows.iter().filter(|r| r.figure == 2 && r.line == Line::CbbHalf) {
        let once = find(rows, 3, Line::CbbHalf, cbb);
        assert_eq!(Row { figure: 2, ..once }, *cbb, "one job, shown in two figures");
        let more = find(rows, 3, Line::CbbHalf, &Row { interactions: 4, ..cbb.clone() });
        assert!(more.promised_risk < cbb.promised_risk, "{more:?} {cbb:?}");
    }
    // At α = 0.1 there is much to gain: our bounds certify it, and `auto` certifies the most.
    for auto in rows.iter().filter(|r| r.figure == 4 && r.line == Line::Auto && r.alpha == 0.1) {
        assert_eq!(auto.decision, Some(Decision::Deploy), "{auto:?}");
        for (other, _) in of_figure(4).into_iter().filter(|(line, _)| *line != Line::Auto) {
            let other = find(rows, 4, other, auto);
            assert!(auto.promised_improvement > other.promised_improvement, "{auto:?} {other:?}");
        }
    }
    for half in rows.iter().filter(|r| r.line == Line::CbbHalf) {
        let other = find(rows, half.figure.min(4), Line::Cbb0, half);
        // No policy has a risk above 0, and no promise is above it.
        let both = half.promised_risk == 0.0 && other.promised_risk == 0.0;
        assert!(both || half.promised_risk < other.promised_risk, "{half:?} {other:?}");
    }
    assert!(rows.iter().any(|r| r.own_improvement.is_some()), "no row has the bound's own rows");
    for related in rows.iter().filter(|r| r.promise == Promise::Estimate && r.alpha == 0.1) {
        assert!(related.true_improvement > 0.1, "learned nothing: {related:?}");
    }
}

/// Checks that tags are nested properly.
fn check_svg(text: &str) {
    let mut open = Vec::new();
    for tag in text.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("every tag ends");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "{tag}");
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            open.push(name);
        }
    }
    assert!(text.starts_with("<svg") && open.is_empty(), "left open: {open:?}");
}

fn check_pictures(out: &Path) {
    for figure in 1..=5 {
        let svg = std::fs::read_to_string(out.join(format!("figure{figure}.svg"))).unwrap();
        check_svg(&svg);
        for (line, _) in of_figure(figure) {
            assert!(svg.contains(line.name()), "figure {figure} does not name {}", line.name());
        }
        let png = std::fs::read(out.join(format!("figure{figure}.png"))).unwrap();
        assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
        let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
        assert!(width == 1500 && png.len() > 10_000 && png.len() < 300_000, "{width} {}", png.len());
    }
}

#[test]
fn the_figures_numbers_are_in_the_csv_and_hold() {
    let (data, out) = (Folder::new("data"), Folder::new("out"));
    write_dataset(&data.0);
    let output = reproduce(&data.0, &out.0, &["--seeds", "2"]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "a progress bar without a terminal");
    let rows = rows::read(&out.0.join("results.csv")).unwrap();
    check_completeness(&rows);
    rows.iter().for_each(check_row);
    check_figures(&rows);
    check_pictures(&out.0);
    for figure in 1..=5 {
        assert!(printed.contains(&format!("Figure {figure}. ")), "{printed}");
    }
    for claim in claims(&rows) {
        assert!(printed.contains(&claim.numbers), "{} is not printed: {}", claim.text, claim.numbers);
    }

    // Running a part of the experiments again gives the same numbers, except for the time.
    let again = Folder::new("again");
    let output = reproduce(&data.0, &again.0, &["--figures", "2", "--alphas", "1.0"]);
    assert!(output.status.success());
    let part = rows::read(&again.0.join("results.csv")).unwrap();
    assert_eq!(part.len(), 3);
    for row in part {
        let first = find(&rows, 2, row.line, &row);
        assert_eq!(Row { seconds: first.seconds, ..row }, first);
    }
    assert!(!again.0.join("figure1.png").exists());
}

#[test]
fn missing_files_and_wrong_arguments_are_reported() {
    let data = Folder::new("empty");
    let out = data.0.join("out");
    let output = reproduce(&data.0, &out, &[]);
    let said = String::from_utf8_lossy(&output.stderr).to_string();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("train-images-idx3-ubyte") && said.contains("dataset-fashion-mnist"), "{said}");
    for wrong in [["--alphas", "-1"], ["--figures", "6"], ["--seeds", "0"], ["--dataset", "mnist"]] {
        let output = reproduce(&data.0, &out, &wrong);
        let said = String::from_utf8_lossy(&output.stderr).to_string();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(wrong[1]), "{said}");
    }
    assert!(!out.exists(), "something was left behind");
}
