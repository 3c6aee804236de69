//! The places that logs by reference may be in. Only the operator names them; a request can never add one.

use std::path::{Path, PathBuf};

use super::Within;
use super::uri::SourceUri;
use crate::store::ids::Workspace;

/// The prefixes of addresses that the operator allows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedSources(Vec<Allowed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Allowed {
    /// The workspace that may read it; `None` means all.
    workspace: Option<Workspace>,
    bucket: Option<String>,
    /// The key, or the path without its first slash. Empty means the whole bucket.
    folder: String,
}

impl AllowedSources {
    /// Reads prefixes, separated by commas: `s3://bucket/folder` or `file:///folder`, each with `workspace=` in front of it
    /// if only one workspace may read it.
    ///
    /// # Errors
    /// What is wrong with a prefix.
    pub fn parse(text: &str) -> Result<Self, String> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(Allowed::parse).collect::<Result<_, _>>().map(AllowedSources)
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether there are buckets among the places.
    pub fn names_buckets(&self) -> bool {
        self.0.iter().any(|allowed| allowed.bucket.is_some())
    }

    /// The real paths of the folders of this machine that a workspace may read, for an address of a file.
    pub fn real_folders(&self, workspace: &Workspace, uri: &SourceUri) -> Within {
        if uri.bucket.is_some() {
            return None;
        }
        let folders = self.0.iter().filter(|allowed| allowed.bucket.is_none() && allowed.is_for(workspace));
        Some(
            folders
                .filter_map(|allowed| std::fs::canonicalize(Path::new("/").join(&allowed.folder)).ok())
                .collect(),
        )
    }

    /// Whether a workspace may read everything that an address stands for.
    pub fn allows(&self, workspace: &Workspace, uri: &SourceUri) -> bool {
        self.0.iter().any(|allowed| allowed.allows(workspace, uri))
    }

    /// The first folder of this machine that has a part of `private`, or is a part of it.
    pub fn touching(&self, private: &Path) -> Option<PathBuf> {
        // Two names of one folder must not hide this.
        let real = |path: PathBuf| {
            std::fs::canonicalize(&path).or_else(|_| std::path::absolute(&path)).unwrap_or(path)
        };
        let private = real(private.to_owned());
        let folders = self.0.iter().filter(|allowed| allowed.bucket.is_none());
        let mut folders = folders.map(|allowed| real(Path::new("/").join(&allowed.folder)));
        folders.find(|folder| folder.starts_with(&private) || private.starts_with(folder))
    }

    /// Whether a prefix has a part of this place in a bucket, or is a part of it.
    pub fn touches_bucket(&self, bucket: &str, prefix: &str) -> bool {
        self.0.iter().any(|allowed| {
            allowed.bucket.as_deref() == Some(bucket)
                && (is_within(prefix, &allowed.folder) || is_within(&allowed.folder, prefix))
        })
    }
}

impl Allowed {
    fn is_for(&self, workspace: &Workspace) -> bool {
        self.workspace.as_ref().is_none_or(|only| only == workspace)
    }

    fn allows(&self, workspace: &Workspace, uri: &SourceUri) -> bool {
        self.is_for(workspace) && self.bucket == uri.bucket && is_within(&uri.literal(), &self.folder)
    }

    fn parse(entry: &str) -> Result<Self, String> {
        let (workspace, place) = match entry.split_once('=') {
            Some((name, place)) if !name.contains("://") => {
                (Some(name.trim().parse::<Workspace>().map_err(|error| error.to_string())?), place.trim())
            }
            _ => (None, entry),
        };
        let bare = place.trim_end_matches('/');
        let of_bucket = bare.strip_prefix("s3://").filter(|rest| !rest.is_empty() && !rest.contains('/'));
        // A bucket as a whole has no key, so it is read as the folder of one.
        let read = match of_bucket {
            Some(_) => format!("{bare}/any"),
            None => bare.to_owned(),
        };
        let uri: SourceUri = read.parse().map_err(|error: super::SourceError| error.to_string())?;
        if uri.folder().is_some() {
            return Err(format!("{place:?} has * or ?; name a folder, whose objects may all be read"));
        }
        let folder = if of_bucket.is_some() { String::new() } else { uri.key };
        Ok(Allowed { workspace, bucket: uri.bucket, folder })
    }
}

/// Whether a path is this folder or in it. Folders end at a slash: `logs-private` is not in `logs`.
fn is_within(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(list: &str, workspace: &str, uri: &str) -> bool {
        let (workspace, uri) = (workspace.parse().unwrap(), uri.parse().unwrap());
        AllowedSources::parse(list).unwrap().allows(&workspace, &uri)
    }

    #[test]
    fn only_what_is_listed_is_allowed() {
        assert!(!allows("", "a", "s3://logs/x"));
        for (uri, want) in [
            ("s3://logs/team/x.parquet", true),
            ("s3://logs/team/day-*/x.parquet", true),
            ("s3://logs/team", true),
            ("s3://logs/team-private/x.parquet", false),
            ("s3://logs/x.parquet", false),
            ("s3://logs/*/x.parquet", false),
            // The folder before the wildcard is not all in the prefix.
            ("s3://logs/team*/x.parquet", false),
            ("s3://other/team/x.parquet", false),
            ("file:///logs/team/x.parquet", false),
        ] {
            assert_eq!(allows("s3://logs/team/", "a", uri), want, "{uri}");
        }
        assert!(allows("s3://logs", "a", "s3://logs/x") && allows("s3://logs/", "a", "s3://logs/*"));
        assert!(allows("file:///mnt/logs", "a", "file:///mnt/logs/x"));
        assert!(!allows("file:///mnt/logs", "a", "file:///mnt/x"));
    }

    #[test]
    fn a_prefix_may_be_that_of_one_workspace() {
        let list = "a=s3://logs/a, s3://logs/shared";
        assert!(allows(list, "a", "s3://logs/a/x") && !allows(list, "b", "s3://logs/a/x"));
        assert!(allows(list, "a", "s3://logs/shared/x") && allows(list, "b", "s3://logs/shared/x"));
        // A key may have an equals sign.
        assert!(allows("s3://logs/day=1", "a", "s3://logs/day=1/x"));
    }

    #[test]
    fn prefixes_are_checked() {
        for bad in
            ["logs", "s3://", "file:///", "https://logs/x", "s3://logs/../x", "s3://logs/*", "B=s3://logs/x"]
        {
            assert!(AllowedSources::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_data_of_the_service_is_recognized() {
        let list = |text: &str| AllowedSources::parse(text).unwrap();
        for (text, touches) in [
            ("file:///srv/data/blobs", true),
            ("file:///srv", true),
            ("file:///srv/data-2", false),
            ("s3://srv/data", false),
        ] {
            assert_eq!(list(text).touching(Path::new("/srv/data")).is_some(), touches, "{text}");
        }
        for (text, touches) in [
            ("s3://b/blobs/datasets", true),
            ("s3://b", true),
            ("s3://b/blobs", true),
            ("s3://b/logs", false),
            ("s3://c/blobs", false),
        ] {
            assert_eq!(list(text).touches_bucket("b", "blobs"), touches, "{text}");
        }
        assert!(list("s3://b/logs").touches_bucket("b", ""));
    }
}
