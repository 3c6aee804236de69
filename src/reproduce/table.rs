//! The figures as tables of text, in Markdown that reads well on a terminal too.

use super::lines::{Line, of_figure};
use super::rows::{Of, Row, Summary, distinct};

/// A column of numbers to show: its name and where it is in a row.
pub struct Quantity {
    pub name: &'static str,
    pub of: fn(&Row) -> f64,
}

pub const PROMISED_RISK: Quantity = Quantity { name: "guaranteed risk GR*", of: |r| r.promised_risk };
pub const TRUE_RISK: Quantity = Quantity { name: "true risk R(π*)", of: |r| r.true_risk };
pub const PROMISED: Quantity =
    Quantity { name: "guaranteed improvement GI*", of: |r| r.promised_improvement };
pub const TRUE: Quantity = Quantity { name: "true improvement", of: |r| r.true_improvement };
const ESTIMATED: Quantity = Quantity { name: "promised improvement", of: |r| r.promised_improvement };

/// What each figure is about, in a line.
pub fn title(figure: u8) -> &'static str {
    match figure {
        1 => "LSₙ guarantees no improvement",
        2 => "Cₙ and CBB guarantee improvement",
        3 => "More interactions with each context",
        4 => "Past the paper: nothing assumed known",
        _ => "What learners promise and what they deliver",
    }
}

fn quantities(figure: u8) -> Vec<Quantity> {
    match figure {
        1 => vec![PROMISED_RISK, PROMISED],
        2 => vec![PROMISED_RISK, TRUE_RISK, PROMISED],
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
    text
}

/// Lines down, α across, mean ± standard deviation over seeds in each cell.
fn table(rows: &[Row], figure: u8, quantity: &Quantity) -> String {
    let alphas = distinct(rows, figure, |r| r.alpha);
    let interactions: Vec<usize> =
        distinct(rows, figure, |r| r.interactions as f64).iter().map(|&m| m as usize).collect();
    let mut cells = vec![vec![quantity.name.to_string()]];
    cells[0].extend(alphas.iter().map(|a| format!("α = {a}")));
    if figure <= 2 && quantity.name.contains("risk") {
        cells.push(logging(rows, figure, &alphas));
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

/// R(π0), for comparison.
fn logging(rows: &[Row], figure: u8, alphas: &[f64]) -> Vec<String> {
    let at = |&alpha: &f64| {
        let first = of_figure(figure).first().map(|(line, _)| *line);
        let of = Of { rows, figure, line: first.unwrap_or(Line::CbbHalf) };
        cell(of.summary(alpha, 1, |r| r.logging_risk))
    };
    std::iter::once("R(π0)".to_string()).chain(alphas.iter().map(at)).collect()
}

fn cell(summary: Option<Summary>) -> String {
    match summary {
        None => String::new(),
        Some(s) if s.count == 1 => format!("{:.4}", s.mean).replace('-', "−"),
        Some(s) => format!("{:.4} ± {:.4}", s.mean, s.deviation).replace('-', "−"),
    }
}

/// Cells with their columns aligned; the first row is the head.
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
