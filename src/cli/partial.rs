//! `guarantor partial`: the sums over one partition of a log, by a recipe.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use guarantor_engine::control::unattended;
use guarantor_engine::partial::{Partial, Recipe};
use guarantor_ingest::partials::{PartialFault, read_partial};
use guarantor_ingest::{Format, IngestError};

use super::log_file::{format_parser, local_limits, open_files, with_formats};
use super::recipe::{read_recipe, write_out};
use super::{Failure, Verdict, print_text};

/// The files of a partition, and how they are read.
#[derive(Args)]
pub struct PartitionArgs {
    /// The files of the partition. Their names imply their formats, as for `guarantor certify`.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The format, if the names do not imply it.
    #[arg(long, value_parser = format_parser())]
    format: Option<Format>,
    /// The number of dimensions into which named features are hashed, if the recipe was frozen with it.
    #[arg(long)]
    hash_dims: Option<usize>,
}

/// The arguments of `guarantor partial`.
#[derive(Args)]
pub struct PartialArgs {
    #[command(flatten)]
    partition: PartitionArgs,
    /// The recipe.
    #[arg(long, value_name = "RECIPE.json")]
    recipe: PathBuf,
    /// The name of the partition [default: the names of the files].
    #[arg(long = "partition", value_name = "NAME")]
    name: Option<String>,
    /// Write the partial to this file instead of standard output.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// Computes a partial and writes it.
pub fn partial(args: PartialArgs) -> Result<Verdict, Failure> {
    let recipe = Arc::new(read_recipe(&args.recipe)?);
    let name = args.name.clone().unwrap_or_else(|| args.partition.name());
    let partial = args.partition.partial(&recipe, &name)?;
    write_out(args.out.as_deref(), &partial.to_json()?)?;
    if args.out.is_some() {
        let rows = partial.rows;
        print_text(&format!("{} rows certified, {} learned from\n", rows.certified, rows.learned_from))?;
    }
    Ok(Verdict::Yes)
}

impl PartitionArgs {
    /// The partition of these files.
    pub fn new(files: Vec<PathBuf>, format: Option<Format>, hash_dims: Option<usize>) -> Self {
        PartitionArgs { files, format, hash_dims }
    }

    fn name(&self) -> String {
        self.files.iter().map(|file| file.to_string_lossy()).collect::<Vec<_>>().join(",")
    }

    /// The partial of the files.
    ///
    /// # Errors
    /// Why a file was rejected, or the recipe cannot be used on its rows.
    pub fn partial(&self, recipe: &Arc<Recipe>, name: &str) -> Result<Partial, Failure> {
        let mut files = with_formats(&self.files, self.format)?;
        for (_, format) in &mut files {
            if let Some(dims) = self.hash_dims {
                let hashed = format.with_hash_dims(dims);
                *format = hashed.ok_or("--hash-dims cannot be used with csv, which has no named features")?;
            }
        }
        let read = read_partial(open_files(&files)?, recipe, name, local_limits(), &unattended());
        read.map_err(|fault| match fault {
            PartialFault::File(failed) => {
                let file = failed.file.and_then(|at| self.files.get(at)).or(self.files.first());
                let file = file.map_or_else(String::new, |file| file.display().to_string());
                match failed.error {
                    IngestError::Rows(rows) => {
                        let rows: Vec<String> = rows.first.iter().map(ToString::to_string).collect();
                        format!("{file} has invalid rows:\n  {}", rows.join("\n  ")).into()
                    }
                    error => format!("{file}: {error}").into(),
                }
            }
            other => format!("partition {name:?}: {other}").into(),
        })
    }
}
