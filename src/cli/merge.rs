//! `guarantor merge`: the certificate of partials, without a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use guarantor_engine::certificate::{Decision, Document};
use guarantor_engine::partial::{Partial, Recipe};
use guarantor_ingest::partials;

use super::certify::signing_key;
use super::partial::PartitionArgs;
use super::recipe::read_recipe;
use super::report::ReportPage;
use super::{Failure, Verdict, print_text, summary};

/// The arguments of `guarantor merge`.
#[derive(Args)]
pub struct MergeArgs {
    /// The partials.
    #[arg(value_name = "PARTIAL.json", required = true)]
    partials: Vec<PathBuf>,
    /// The recipe of all of them.
    #[arg(long, value_name = "RECIPE.json")]
    recipe: PathBuf,
    /// The number of rows of all partitions together, those that were learned from included. Fewer or more are an error.
    #[arg(long, value_name = "ROWS")]
    expected_rows: Option<u64>,
    /// Print the certificate as JSON instead of a summary.
    #[arg(long)]
    json: bool,
    /// Sign the certificate with the key in this file. If the file does not exist, a new key is created that only you
    /// can read.
    #[arg(long, value_name = "FILE", requires = "json")]
    signing_key: Option<PathBuf>,
}

/// Merges partials and prints the certificate. The verdict is the decision.
pub fn merge(args: MergeArgs) -> Result<Verdict, Failure> {
    let recipe = read_recipe(&args.recipe)?;
    let partials = read_partials(&args.partials)?;
    show(certificate(&recipe, partials, args.expected_rows)?, args.json, args.signing_key.as_deref())
}

/// Certifies files by a recipe in this process: the merge of one partial.
///
/// # Errors
/// If the files cannot be read, or the recipe cannot be used on their rows.
pub fn certify_by_recipe(
    recipe: &Path,
    files: &PartitionArgs,
    json: bool,
    signing_key: Option<&Path>,
) -> Result<Verdict, Failure> {
    let recipe = Arc::new(read_recipe(recipe)?);
    let partial = files.partial(&recipe, "all")?;
    show(certificate(&recipe, vec![partial], None)?, json, signing_key)
}

/// Reads partials from files.
///
/// # Errors
/// If one cannot be read, or is not as it was computed.
pub fn read_partials(paths: &[PathBuf]) -> Result<Vec<Partial>, Failure> {
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Partial::from_json(&text).map_err(|error| format!("{}: {error}", path.display()).into())
    };
    paths.iter().map(read).collect()
}

/// The certificate of partials, not signed.
///
/// # Errors
/// Why the partials cannot be merged.
pub fn certificate(
    recipe: &Recipe,
    partials: Vec<Partial>,
    expected_rows: Option<u64>,
) -> Result<Document, Failure> {
    let (merged, _) = partials::merge(recipe, partials, expected_rows)?;
    Ok(merged.document()?)
}

fn show(mut document: Document, json: bool, key: Option<&Path>) -> Result<Verdict, Failure> {
    if json {
        if let Some(path) = key {
            signing_key(path)?.sign(&mut document)?;
        }
        print_text(&format!("{}\n", serde_json::to_string_pretty(&document)?))?;
    } else {
        let mut page = ReportPage::new(false);
        summary::show(&mut page, &document.certificate);
        print_text(page.text())?;
        if let Some(merged) = &document.certificate.merged {
            print_text(&format!("{}\n", merged.partials.statement))?;
        }
    }
    Ok(match document.certificate.decision {
        Decision::Deploy => Verdict::Yes,
        Decision::Keep => Verdict::No,
    })
}
