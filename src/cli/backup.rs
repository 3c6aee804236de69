//! `guarantor backup`: copies a data directory.

use std::path::PathBuf;

use clap::Args;
use guarantor::store::{back_up, create_private_files};

use super::{Failure, runtime};

/// The arguments of `guarantor backup`.
#[derive(Args)]
pub struct BackupArgs {
    /// Where to write the copy: a new or empty directory. To restore, run `guarantor serve --data-dir DIR`.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// The data directory to copy. A server may be running on it.
    #[arg(long, env = "GUARANTOR_DATA_DIR", value_name = "DIR", default_value = "data")]
    data_dir: PathBuf,
}

/// Copies the database and every file that it names.
pub fn backup(args: BackupArgs) -> Result<(), Failure> {
    create_private_files();
    let done = runtime()?.block_on(back_up(&args.data_dir, &args.to))?;
    println!("Copied the database and {} files ({} bytes) to {}", done.files, done.bytes, args.to.display());
    Ok(())
}
