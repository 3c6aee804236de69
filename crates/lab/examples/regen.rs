use guarantor_lab::{pictures, plot, report, rows};
fn main() {
    let dir = std::path::Path::new("docs/reproduction");
    let rows = rows::read(&dir.join("results.csv")).unwrap();
    let old = std::fs::read_to_string(dir.join("tables.md")).unwrap();
    let new = report::text(&rows);
    assert_eq!(old.lines().count(), new.lines().count());
    let mut document = std::fs::read_to_string("docs/reproduction.md").unwrap();
    let mut lines: Vec<(String, String)> =
        old.lines().map(String::from).zip(new.lines().map(String::from)).filter(|(a, b)| a != b).collect();
    lines.dedup();
    for (a, b) in &lines {
        document =
            document.split('\n').map(|l| if l == a { b.as_str() } else { l }).collect::<Vec<_>>().join("\n");
    }
    std::fs::write(dir.join("tables.md"), new).unwrap();
    std::fs::write("docs/reproduction.md", document).unwrap();
    for figure in 1..=5 {
        plot::write(&pictures::picture(&rows, figure).unwrap(), dir).unwrap();
    }
}
