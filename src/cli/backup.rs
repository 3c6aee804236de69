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
    /// The server's database and bucket, if it has them. Their own tools copy them.
    #[arg(long, env = "GUARANTOR_DATABASE", hide = true, hide_env_values = true, default_value = "")]
    database: String,
    #[arg(long, env = "GUARANTOR_BLOBS", hide = true, default_value = "")]
    blobs: String,
}

/// Copies the database and every file that it names.
pub fn backup(args: BackupArgs) -> Result<(), Failure> {
    if !args.database.is_empty() || !args.blobs.is_empty() {
        return Err("this server keeps its data in PostgreSQL or S3, which this command does not copy: use pg_dump for the \
                    database, and versioning or replication of the bucket (docs/operations.md#several-replicas)"
            .into());
    }
    create_private_files();
    let done = runtime()?.block_on(back_up(&args.data_dir, &args.to))?;
    println!("Copied the database and {} files ({} bytes) to {}", done.files, done.bytes, args.to.display());
    Ok(())
}
