//! `guarantor keys`: on the data directory, whether or not a server runs on it.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use guarantor::store::{KeyId, Store, Workspace};

use super::{Failure, runtime};

#[derive(Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
    /// The server's data directory.
    #[arg(long, env = "GUARANTOR_DATA_DIR", default_value = "data", global = true, value_name = "DIR")]
    data_dir: PathBuf,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Make a key and print it. It is shown this once: only its hash is kept.
    Create {
        /// The workspace that the key sees.
        #[arg(long, default_value = "default")]
        workspace: String,
        /// What the key is for, to recognise it by.
        #[arg(long, default_value = "")]
        name: String,
    },
    /// List all keys, the revoked ones too.
    List,
    /// Revoke a key by its id. The server refuses it from then on.
    Revoke { id: String },
}

pub fn keys(args: KeysArgs) -> Result<(), Failure> {
    runtime()?.block_on(async {
        let store = Store::open(&args.data_dir).await?;
        match args.command {
            KeysCommand::Create { workspace, name } => {
                let workspace: Workspace = workspace.parse()?;
                let (key, secret) = store.create_key(workspace, &name).await?;
                eprintln!("key {} for workspace {}; it is not shown again:", key.id, key.workspace);
                println!("{secret}");
            }
            KeysCommand::List => {
                println!("{:<36}  {:<24}  {:<24}  {:<16}  name", "id", "created", "revoked", "workspace");
                for key in store.repository().keys().await? {
                    let revoked = key.revoked_at.map_or("-".into(), |time| time.to_string());
                    let (id, created) = (key.id.to_string(), key.created_at.to_string());
                    println!(
                        "{id}  {created:<24}  {revoked:<24}  {:<16}  {}",
                        key.workspace.as_str(),
                        key.name
                    );
                }
            }
            KeysCommand::Revoke { id } => {
                let id: KeyId = id.parse().map_err(|_| format!("{id:?} is not the id of a key"))?;
                let key = store.repository().revoke_key(id).await?;
                println!("revoked key {} of workspace {}", key.id, key.workspace);
            }
        }
        Ok(())
    })
}
