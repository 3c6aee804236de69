//! The page docs/benchmarks.md.

use guarantor_engine::certificate::METHOD;

use super::{FIRST_SEED, Outcome, Part};
use crate::table::markdown;

/// The widest line of a paragraph.
const WIDTH: usize = 120;

/// The page as Markdown.
pub fn page(outcomes: &[(Part, Outcome)], quick: bool) -> String {
    let mut text = format!(
        "# Benchmarks\n\n`guarantor-lab benchmark` wrote this page with engine {} (method {METHOD}). It has no timings, and a \
         repeated run gives the same page. Everything runs through the engine's entry point, as jobs do. Worlds and tables \
         use seeds of {FIRST_SEED} and up; lower seeds and the eight tables marked below were used for development. The published \
         cases and FashionMNIST are fixed logs that were looked at during development too. Data that cannot be in the \
         repository is read from folders:\n\n```\ncargo build --workspace --bins\ntarget/debug/guarantor-lab benchmark \
         --ope DIR --tables DIR [--tables DIR] [--fashion DIR]\n```\n",
        guarantor_engine::VERSION
    );
    if quick {
        text += "\n**This is the small version (`--quick`), which only shows that everything works.**\n";
    }
    let mut cells = vec![["", "Guarantor", "for comparison"].map(String::from).to_vec()];
    for (_, outcome) in outcomes {
        if let Outcome::Done(section) = outcome {
            cells.extend(
                section.headlines.iter().map(|h| vec![h.what.clone(), h.value.clone(), h.compared.clone()]),
            );
        }
    }
    if cells.len() > 1 {
        text += &format!("\n{}", markdown(&cells));
    }
    for (part, outcome) in outcomes {
        match outcome {
            Outcome::Done(section) => text += &format!("\n## {}\n\n{}", section.heading, section.text),
            Outcome::Missing(what) => text += &format!("\n## {part:?}: left out\n\n{what}\n"),
        }
    }
    text.lines().map(wrapped).collect()
}

/// A line of a paragraph or list, broken at spaces. Tables and pictures stay on one line.
fn wrapped(line: &str) -> String {
    if line.starts_with(['|', '!']) {
        return format!("{line}\n");
    }
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let (mut text, mut width) = (String::new(), 0);
    for word in line.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > WIDTH {
            text += &format!("\n{indent}");
            width = indent.len();
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text += word;
        width += length;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_and_tables_are_not() {
        let long = "word ".repeat(40);
        let lines: Vec<String> = wrapped(&format!("- {long}end")).lines().map(String::from).collect();
        assert!(lines.len() == 2 && lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:?}");
        assert!(lines[0].starts_with("- word") && lines[1].starts_with("  word"), "{lines:?}");
        assert_eq!(wrapped(&format!("| {long}|")).lines().count(), 1);
        assert_eq!(wrapped(""), "\n");
        assert_eq!(wrapped("a  b"), "a  b\n");
    }
}
