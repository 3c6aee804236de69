//! Permits for uploads: an upload takes memory and a thread, so the number of concurrent uploads is limited,
//! for each key, for each workspace and in total.
//!
//! tower's `ConcurrencyLimit` makes requests wait and releases a permit with the response. Here an
//! upload over the limit is rejected before its body is read. And an upload continues when its
//! client disconnects, so the permit belongs to the work and not to the response.

use std::sync::Arc;
use std::time::Duration;

use crate::http::App;
use crate::http::auth::Identity;
use crate::http::codes::Code;
use crate::http::problem::Problem;
use crate::http::tally::Taken;
use crate::store::{KeyId, Workspace};

/// How long the client of a rejected upload should wait.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// The permit of one upload, in the extensions of its request. The work must hold it to its end.
#[derive(Clone)]
pub struct UploadPermit(#[allow(dead_code)] Arc<(Taken<Option<KeyId>>, Taken<Workspace>)>);

/// Takes a permit for an upload.
///
/// # Errors
/// 429 if too many uploads are in progress.
pub fn permit(app: &App, identity: &Identity) -> Result<UploadPermit, Problem> {
    let of_key = app.uploads_of_keys.take(&identity.credential.key).map_err(|own| {
        too_many(format!("This key has {own} uploads in progress, and a key may have {own}"))
    })?;
    let of_workspace = app.uploads.take(&identity.caller.0).map_err(|own| {
        let (all, most) = (app.uploads.in_use(), app.config.max_concurrent_uploads);
        too_many(match own {
            0 => format!("{all} of {most} concurrent uploads in progress"),
            _ => format!(
                "This workspace has {own} uploads in progress, which is its share: {all} of {most} are in progress"
            ),
        })
    })?;
    Ok(UploadPermit(Arc::new((of_key, of_workspace))))
}

fn too_many(why: String) -> Problem {
    Problem::new(Code::TooManyUploads, format!("{why}; try again.")).retry_after(RETRY_AFTER)
}
