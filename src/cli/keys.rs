//! `guarantor keys`: manages API keys in a data directory, also while a server is running on it.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use guarantor::store::{
    ApiKey, KeyId, Places, Role, Store, Workspace, create_private_files, new_api_key, new_signing_key,
    read_signing_key,
};

use super::{Failure, runtime};

/// The arguments of `guarantor keys`.
#[derive(Args)]
pub struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
    /// The server's data directory.
    #[arg(long, env = "GUARANTOR_DATA_DIR", default_value = "data", global = true, value_name = "DIR")]
    data_dir: PathBuf,
    /// The server's database, if that is PostgreSQL: postgres://…
    #[arg(
        long,
        env = "GUARANTOR_DATABASE",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true,
        global = true,
        value_name = "URL"
    )]
    database: String,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Create a key and print it. It is shown only once: the server keeps only its hash.
    Create {
        /// The workspace that the key gives access to.
        #[arg(long, default_value = "default")]
        workspace: String,
        /// What the key is for, shown by `list`.
        #[arg(long, default_value = "")]
        name: String,
        /// What the key may do: gate (ask gates only), read (read everything), submit (everything but
        /// administration) or admin (everything).
        #[arg(long, default_value = "submit")]
        role: Role,
    },
    /// Print a new key and store nothing. It needs no data directory: give the key to a server with
    /// the setting bootstrap_key_file.
    New {
        /// Print a key that signs certificates instead, for the setting signing_key_file.
        #[arg(long)]
        signing: bool,
    },
    /// Announce a signing key, before servers that share a database get it one by one. They may start with it from now
    /// on, and with the one before for another day.
    Announce {
        /// The file with the key, as `new --signing` prints it.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// List all keys, including revoked ones.
    List,
    /// Revoke a key by its id. It stops working at once.
    Revoke {
        /// The id of the key, as `list` shows it.
        id: String,
    },
}

/// Creates, lists or revokes keys.
pub fn keys(args: KeysArgs) -> Result<(), Failure> {
    if let KeysCommand::New { signing } = args.command {
        let key = if signing { String::from_utf8(new_signing_key()?.1)? } else { new_api_key()? };
        return super::print_text(&format!("{key}\n"));
    }
    create_private_files();
    runtime()?.block_on(async {
        let places =
            Places { database: args.database, connections: 3, ..Places::in_directory(&args.data_dir) };
        let store = Store::open_rows(&places).await?;
        match args.command {
            KeysCommand::Create { workspace, name, role } => {
                let workspace: Workspace = workspace.parse()?;
                let (key, secret) = store.create_key(workspace, &name, role).await?;
                eprintln!(
                    "Created key {} for workspace {} with the role {}. It will not be shown again:",
                    key.id, key.workspace, key.role
                );
                println!("{secret}");
            }
            KeysCommand::New { .. } => {}
            KeysCommand::Announce { file } => {
                let Some(key) = read_signing_key(&file)? else {
                    return Err(format!("the signing key {} does not exist", file.display()).into());
                };
                store.repository().announce_signing_key(&key.public()).await?;
                println!("Announced the signing key {}", key.public().key_id());
            }
            KeysCommand::List => super::print_text(&table(&store.repository().keys().await?))?,
            KeysCommand::Revoke { id } => {
                let id: KeyId = id.parse().map_err(|_| format!("{id:?} is not the id of a key"))?;
                let key = store.revoke_key(id).await?;
                println!("Revoked key {} of workspace {}", key.id, key.workspace);
            }
        }
        Ok(())
    })
}

/// One line per key, below a line with the names of the columns.
fn table(keys: &[ApiKey]) -> String {
    let line = |[id, created, revoked, role, workspace, name]: [&str; 6]| {
        format!("{id:<36}  {created:<24}  {revoked:<24}  {role:<6}  {workspace:<16}  {name}\n")
    };
    let head = line(["id", "created", "revoked", "role", "workspace", "name"]);
    let rows = keys.iter().map(|key| {
        let revoked = key.revoked_at.map_or("-".into(), |time| time.to_string());
        let (id, created) = (key.id.to_string(), key.created_at.to_string());
        line([&id, &created, &revoked, key.role.name(), key.workspace.as_str(), &key.name])
    });
    std::iter::once(head).chain(rows).collect()
}
