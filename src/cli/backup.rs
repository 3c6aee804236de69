//! `guarantor backup`.

use std::path::PathBuf;

use clap::Args;
use guarantor::store::back_up;

use super::{Failure, runtime};

#[derive(Args)]
pub struct BackupArgs {
    /// Where the copy goes; empty or not there yet. `guarantor serve --data-dir` on it restores it.
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// The data directory to copy; a server may be running on it.
    #[arg(long, env = "GUARANTOR_DATA_DIR", value_name = "DIR", default_value = "data")]
    data_dir: PathBuf,
}

pub fn backup(args: BackupArgs) -> Result<(), Failure> {
    let done = runtime()?.block_on(back_up(&args.data_dir, &args.to))?;
    println!("{}: the database and {} files ({} bytes)", args.to.display(), done.files, done.bytes);
    Ok(())
}
