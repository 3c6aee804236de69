//! The page docs/benchmarks.md.

use guarantor_engine::certificate::METHOD;

use super::{FIRST_SEED, Outcome, Part};
use crate::table::markdown;

/// The page as Markdown.
pub fn page(outcomes: &[(Part, Outcome)], quick: bool) -> String {
    let mut text = format!(
        "# Benchmarks\n\n`guarantor-lab benchmark` wrote this page with engine {} (method {METHOD}); the numbers are the same on \
         every machine. Everything runs through the engine's entry point, as jobs do. Seeds below {FIRST_SEED} and the eight \
         tables marked below were used for development; all numbers here are from seeds of {FIRST_SEED} and up, and from sets that \
         nothing was chosen on where the text says so. Data that cannot be in the repository is read from folders:\n\n```\ncargo \
         build --workspace --bins\ntarget/debug/guarantor-lab benchmark --ope DIR --tables DIR [--tables DIR] [--fashion DIR]\n```\n",
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
    text
}
