//! The figures as Markdown tables that are also readable in a terminal.

use super::lines::{Line, of_figure};
use super::rows::{Of, Row, Summary, distinct};

/// A quantity to show.
pub struct TableQuantity {
    /// Its name in tables.
    pub name: &'static str,
    /// Its value in a row.
    pub of: fn(&Row) -> f64,
}

/// The guaranteed risk, GR*.
pub const PROMISED_RISK: TableQuantity =
    TableQuantity { name: "guaranteed risk GR*", of: |r| r.promised_risk };
/// The true risk, R(π*).
pub const TRUE_RISK: TableQuantity = TableQuantity { name: "true risk R(π*)", of: |r| r.true_risk };
/// The guaranteed improvement, GI*.
pub const PROMISED: TableQuantity =
    TableQuantity { name: "guaranteed improvement GI*", of: |r| r.promised_improvement };
/// The true improvement, R(π0) − R(π*).
pub const TRUE: TableQuantity = TableQuantity { name: "true improvement", of: |r| r.true_improvement };
const OVER_LOGGED: TableQuantity =
    TableQuantity { name: "GI* over the mean logged cost", of: |r| r.logged_risk - r.promised_risk };
const ESTIMATED: TableQuantity =
    TableQuantity { name: "promised improvement", of: |r| r.promised_improvement };

/// The title of a figure.
pub fn title(figure: u8) -> &'static str {
    match figure {
        1 => "LSₙ, with mixed logit and with LIG policies",
        2 => "Cₙ and CBB",
        3 => "Several interactions with each context",
        4 => "Beyond the paper: nothing assumed known",
        _ => "What learners promise and what they deliver",
    }
}

fn quantities(figure: u8) -> Vec<TableQuantity> {
    match figure {
        1 => vec![PROMISED_RISK, PROMISED],
        2 => vec![PROMISED_RISK, TRUE_RISK, PROMISED, OVER_LOGGED],
        3 | 4 => vec![PROMISED, TRUE],
        _ => vec![ESTIMATED, TRUE],
    }
}

/// All tables of a figure.
pub fn tables(rows: &[Row], figure: u8) -> String {
    let mut text = format!("## Figure {figure}. {}\n", title(figure));
    for quantity in quantities(figure) {
        text += &format!("\n{}\n", table(rows, figure, &quantity));
    }
    match figure {
        4 => text += &format!("\n{}\n", own_rows(rows)),
        5 => text += &format!("\n{}\n", lambdas(rows)),
        _ => {}
    }
    text
}

/// `auto` compared with the truth on the rows of its bound and on the test set, one row per run.
fn own_rows(rows: &[Row]) -> String {
    let head = ["`auto`: α", "seed", "guaranteed", "true, the bound's own rows", "true, test set"];
    let mut cells = vec![head.map(String::from).to_vec()];
    let mut runs: Vec<&Row> = rows.iter().filter(|r| r.figure == 4 && r.line == Line::Auto).collect();
    runs.sort_by(|a, b| a.alpha.total_cmp(&b.alpha).then(a.seed.cmp(&b.seed)));
    for run in runs {
        let with_error = |value: f64, error: f64| number(&format!("{value:.4} ± {error:.4}"));
        let own = run.own_improvement.zip(run.own_error);
        cells.push(vec![
            run.alpha.to_string(),
            run.seed.to_string(),
            number(&format!("{:.4}", run.promised_improvement)),
            // A policy that was refined on those rows has seen them.
            own.map_or("learned on them".into(), |(value, error)| with_error(value, error)),
            with_error(run.true_improvement, run.test_error),
        ]);
    }
    markdown(&cells)
}

/// The chosen λ of each seed, marked if it is at an end of the grid.
fn lambdas(rows: &[Row]) -> String {
    let alphas = distinct(rows, 5, |r| r.alpha);
    let mut cells = vec![vec!["chosen λ (* at an end of the grid)".to_string()]];
    cells[0].extend(alphas.iter().map(|a| format!("α = {a}")));
    for (line, principle) in of_figure(5).into_iter().filter_map(|(l, _)| Some((l, l.related()?))) {
        let shown = |lambda: f64| {
            let end = if principle.at_an_end(lambda) { "*" } else { "" };
            if (1e-300..1e-2).contains(&lambda) {
                format!("{lambda:e}{end}")
            } else {
                format!("{lambda}{end}")
            }
        };
        let at = |&alpha: &f64| {
            let chosen = Of { rows, figure: 5, line }.at(alpha, 1).filter_map(|r| r.lambda);
            chosen.map(shown).collect::<Vec<_>>().join(", ")
        };
        cells.push(std::iter::once(line.name().to_string()).chain(alphas.iter().map(at)).collect());
    }
    markdown(&cells)
}

/// One row per line, one column per α; each cell is the mean ± standard deviation over seeds.
fn table(rows: &[Row], figure: u8, quantity: &TableQuantity) -> String {
    let alphas = distinct(rows, figure, |r| r.alpha);
    let interactions: Vec<usize> =
        distinct(rows, figure, |r| r.interactions as f64).iter().map(|&m| m as usize).collect();
    let mut cells = vec![vec![quantity.name.to_string()]];
    cells[0].extend(alphas.iter().map(|a| format!("α = {a}")));
    if figure <= 2 && quantity.name.contains("risk") {
        cells.push(logging(rows, figure, "R(π0), test set", |r| r.logging_risk));
        cells.push(logging(rows, figure, "R(π0), mean logged cost", |r| r.logged_risk));
    }
    for (line, _) in of_figure(figure) {
        for &m in &interactions {
            let of = Of { rows, figure, line };
            let name = match interactions.len() {
                1 => line.name().to_string(),
                _ => format!("{}, m = {m}", line.name()),
            };
            let values = alphas.iter().map(|&a| cell(of.summary(a, m, quantity.of)));
            cells.push(std::iter::once(name).chain(values).collect());
        }
    }
    markdown(&cells)
}

/// A row with R(π0), for comparison.
fn logging(rows: &[Row], figure: u8, name: &str, risk: fn(&Row) -> f64) -> Vec<String> {
    let first = of_figure(figure).first().map(|(line, _)| *line);
    let of = Of { rows, figure, line: first.unwrap_or(Line::CbbHalf) };
    let alphas = distinct(rows, figure, |r| r.alpha);
    let values = alphas.into_iter().map(|alpha| cell(of.summary(alpha, 1, risk)));
    std::iter::once(name.to_string()).chain(values).collect()
}

fn cell(summary: Option<Summary>) -> String {
    match summary {
        None => String::new(),
        Some(s) if s.count == 1 => number(&format!("{:.4}", s.mean)),
        Some(s) => number(&format!("{:.4} ± {:.4}", s.mean, s.deviation)),
    }
}

/// Replaces hyphens by the minus sign, which is as wide as a plus.
pub fn number(text: &str) -> String {
    text.replace('-', "−")
}

/// A Markdown table with aligned columns. The first row is the header.
pub fn markdown(cells: &[Vec<String>]) -> String {
    let columns = cells.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| {
        cells.iter().filter_map(|row| row.get(c)).map(|cell| cell.chars().count()).max().unwrap_or(0).max(3)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (r, row) in cells.iter().enumerate() {
        for (c, width) in widths.iter().enumerate() {
            let cell = row.get(c).map_or("", String::as_str);
            let pad = " ".repeat(width - cell.chars().count());
            text += &if c == 0 { format!("| {cell}{pad} ") } else { format!("| {pad}{cell} ") };
        }
        text += "|\n";
        if r == 0 {
            let rule = |(c, &w): (usize, &usize)| match c {
                0 => format!("|{}", "-".repeat(w + 2)),
                _ => format!("|{}:", "-".repeat(w + 1)),
            };
            text += &widths.iter().enumerate().map(rule).collect::<String>();
            text += "|\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_aligned() {
        let cells = [["a", "α = 1"], ["long name", "−1"]].map(|r| r.map(String::from).to_vec());
        let want = "| a         | α = 1 |\n|-----------|------:|\n| long name |    −1 |\n";
        assert_eq!(super::markdown(&cells), want);
    }
}
