//! What a certificate says about partials that it was merged from.

use serde::{Deserialize, Serialize};

use crate::digest::digest_of;
use crate::error::Result;

/// That a certificate was merged from partials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct MergedRecord {
    /// The digest of the recipe, which fixed everything that the sums depend on.
    pub recipe: String,
    /// The content of the certified rows: a sum of hashes, in 32 hexadecimal digits.
    pub content: String,
    /// The number of rows of the log on which the recipe was frozen.
    pub frozen_on_rows: u64,
    /// The digest of that log.
    pub frozen_on: String,
    /// The snapshot of the table that the rows were read from, if the caller named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// What to know about it, as a sentence.
    pub note: String,
    /// The partials. Like the dataset's version they are no part of the certificate's digest, which does not depend on how
    /// the rows were divided; the signature covers them.
    pub partials: PartialsRecord,
}

impl MergedRecord {
    /// The sentence that every certificate of partials carries.
    pub const NOTE: &'static str = "The sums over the rows were merged from partials, which whoever issued this \
                                    certificate did not recompute.";
}

/// The partials that a certificate was merged from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PartialsRecord {
    /// How many partials were merged.
    pub count: u64,
    /// The digest of the list of all partials.
    pub digest: String,
    /// The partials, in the order of the names of their partitions; absent if there are more than 1000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub manifest: Vec<PartialEntry>,
    /// What they mean, as a sentence.
    pub statement: String,
}

/// One partial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct PartialEntry {
    /// The name of the partition.
    pub partition: String,
    /// The number of its rows.
    pub rows: u64,
    /// The digest of the partial.
    pub digest: String,
}

/// A longer manifest is left out.
const LONGEST: usize = 1000;

impl PartialsRecord {
    /// The record of these partials.
    ///
    /// # Errors
    /// If the list has no canonical form.
    pub fn new(manifest: Vec<PartialEntry>) -> Result<Self> {
        let (count, digest) = (manifest.len(), digest_of(&manifest)?);
        let partials = if count == 1 { "partial" } else { "partials" };
        let statement = format!("Merged from {count} {partials}, which the issuer did not recompute.");
        let manifest = if count <= LONGEST { manifest } else { Vec::new() };
        Ok(PartialsRecord { count: count as u64, digest, manifest, statement })
    }
}
