//! The key that signs certificates: a file in the data directory, created at the first start and readable
//! by its owner only, or a file that the settings name, which is only read, or a text in the environment. Its public half is in the database too, so that certificates of earlier keys can
//! still be verified after the file is replaced.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

use super::Store;
use super::error::{Result, StoreError};
use guarantor_engine::certificate::{PublicKey, SigningKey};

const FILE: &str = "signing-key.json";

/// Both halves of the key, so that a damaged byte in either is noticed.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    algorithm: String,
    secret_key: String,
    public_key: String,
}

/// Where a server finds its signing key.
#[derive(Clone, Default)]
pub struct SigningKeyAt {
    /// The directory for the key if there is none elsewhere.
    pub directory: PathBuf,
    /// A file that is only read; empty if there is none.
    pub file: PathBuf,
    /// The contents of such a file; empty if there is none.
    pub text: String,
}

/// For how long servers may still start with the key before the newest one. A rollout takes less.
const OLD_KEY: Duration = Duration::from_secs(86_400);

impl Store {
    /// Signs certificates from now on with the given key, or, if there is none, with the one in the directory, which is
    /// created if necessary. Only for the server that holds the directory's lock.
    ///
    /// Servers that share a database must have the same key. The newest that the database knows is the current one, and
    /// the one before it is accepted for a day after that was announced, so that they can be replaced one by one.
    ///
    /// # Errors
    /// `Refused` if the key cannot be read or written, is damaged, or is readable by every user, if the file does not
    /// exist, and if other servers have another key.
    pub async fn sign_with(mut self, place: &SigningKeyAt) -> Result<Store> {
        let key = self.find_signing_key(place).await?;
        if self.repository.is_shared() {
            if !self.repository.accept_signing_key(&key.public(), OLD_KEY).await? {
                return Err(StoreError::Refused(format!(
                    "this server has the signing key {}, but the database knows another one as the current key: give all \
                     servers the same signing_key_file or GUARANTOR_SIGNING_KEY. To replace the key, announce the new one \
                     first with `guarantor keys announce FILE`",
                    key.public().key_id()
                )));
            }
        } else {
            self.repository.remember_signing_key(&key.public()).await?;
        }
        self.signing_key = Some(Arc::new(key));
        Ok(self)
    }

    async fn find_signing_key(&self, place: &SigningKeyAt) -> Result<SigningKey> {
        if !place.text.is_empty() {
            return key_of(place.text.as_bytes()).ok_or_else(|| {
                StoreError::Refused(
                    "signing_key is not a signing key: use the output of `guarantor keys new --signing`"
                        .into(),
                )
            });
        }
        let given = !place.file.as_os_str().is_empty();
        let path = if given { place.file.clone() } else { place.directory.join(FILE) };
        match read_signing_key(&path)? {
            Some(key) => Ok(key),
            None if given => {
                Err(StoreError::Refused(format!(
                    "the signing key {} does not exist: signing_key_file names a file that is only read; \
                     `guarantor keys new --signing` prints one",
                    path.display()
                )))
            }
            None if self.repository.is_shared() && !self.repository.signing_keys().await?.is_empty() => {
                Err(StoreError::Refused(
                    "this server has no signing key, and other servers on the database have one: give it the same \
                     signing_key_file or GUARANTOR_SIGNING_KEY"
                        .into(),
                ))
            }
            None => {
                let key = make_signing_key(&path)?;
                tracing::info!(key_id = key.public().key_id(), "created a signing key");
                Ok(key)
            }
        }
    }

    /// The signing key, if certificates are signed. The command line's store has none.
    pub fn signing_key(&self) -> Option<&Arc<SigningKey>> {
        self.signing_key.as_ref()
    }

    /// The public keys of all signing keys that this store has had, newest first.
    pub async fn public_keys(&self) -> Result<Vec<PublicKey>> {
        let mut keys = self.repository.signing_keys().await?;
        if let Some(current) = self.signing_key().map(|key| key.public()) {
            keys.retain(|key| *key != current);
            keys.insert(0, current);
        }
        Ok(keys)
    }
}

/// The signing key in a file, or `None` if there is no such file.
///
/// # Errors
/// `Refused` if the file cannot be read, is damaged, or is readable by every user of the machine.
pub fn read_signing_key(path: &Path) -> Result<Option<SigningKey>> {
    let Some(text) = read_secret("signing key", path)? else { return Ok(None) };
    key_of(&text).map(Some).ok_or_else(|| {
        StoreError::Refused(format!(
            "the signing key {} is damaged: restore it from a backup, or replace it; `guarantor keys new --signing` prints a new one",
            path.display()
        ))
    })
}

/// The bytes of a file with a secret, or `None` if there is no such file.
///
/// # Errors
/// `Refused` if the file cannot be read, or is accessible to every user of the machine.
pub(super) fn read_secret(what: &str, path: &Path) -> Result<Option<Vec<u8>>> {
    let refused = |why: String| StoreError::Refused(format!("the {what} {} {why}", path.display()));
    let unreadable = |error: std::io::Error| refused(format!("cannot be read: {error}"));
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mode = file.metadata().map_err(unreadable)?.permissions().mode() & 0o777;
    // Group access may be intended: orchestrators assign a group to volumes.
    if mode & 0o007 != 0 {
        return Err(refused(format!(
            "is accessible to every user of this machine (mode {mode:03o}), who could use it: run chmod 600 on it, \
             or defaultMode: 0440 for a mounted secret, if nobody can have read it, or replace it with a new key"
        )));
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text).map_err(unreadable)?;
    Ok(Some(text))
}

fn key_of(text: &[u8]) -> Option<SigningKey> {
    let file: KeyFile = serde_json::from_slice(text).ok()?;
    let seed: [u8; 32] = BASE64.decode(&file.secret_key).ok()?.try_into().ok()?;
    let key = SigningKey::from_seed(&seed);
    (file.algorithm == "ed25519" && key.public().base64() == file.public_key).then_some(key)
}

/// Creates a signing key in a new file, which is complete and on disk, or does not exist.
///
/// # Errors
/// `Refused` if the file cannot be written.
pub fn make_signing_key(path: &Path) -> Result<SigningKey> {
    let (key, text) = new_signing_key()?;
    write_secret(path, &text).map_err(|error| {
        StoreError::Refused(format!("the signing key {} cannot be written: {error}", path.display()))
    })?;
    Ok(key)
}

/// A new signing key and the contents of its file.
///
/// # Errors
/// `Refused` if there are no random bytes.
pub fn new_signing_key() -> Result<(SigningKey, Vec<u8>)> {
    let mut seed = [0u8; 32];
    getrandom::fill(&mut seed).map_err(|error| {
        StoreError::Refused(format!("the operating system provided no random bytes: {error}"))
    })?;
    let key = SigningKey::from_seed(&seed);
    let file = KeyFile {
        algorithm: "ed25519".into(),
        secret_key: BASE64.encode(seed),
        public_key: key.public().base64(),
    };
    let text = serde_json::to_vec_pretty(&file).map_err(|e| StoreError::damaged("the signing key", e))?;
    Ok((key, text))
}

fn write_secret(path: &Path, text: &[u8]) -> std::io::Result<()> {
    let staged = path.with_extension("new");
    match std::fs::remove_file(&staged) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&staged)?;
    file.write_all(text)?;
    file.sync_all()?;
    std::fs::rename(&staged, path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}
