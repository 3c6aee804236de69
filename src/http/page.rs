//! Lists, newest first: `?limit=&after=` in, `{data, has_more, next}` out.

use axum::Json;
use serde::{Deserialize, Serialize};

use super::codes::Code;
use super::problem::Problem;
use crate::store::{Page, PageRequest};

const DEFAULT_LIMIT: u32 = 20;
const MAX_LIMIT: u32 = 100;

/// One page of a list.
#[derive(Debug, Serialize, utoipa::ToSchema)]
#[schema(as = List)]
pub struct ListView<T> {
    pub data: Vec<T>,
    /// Whether there is another page.
    pub has_more: bool,
    /// The value of `after` for the next page.
    #[schema(required)]
    pub next: Option<String>,
}

impl<R, T: From<R>> From<Page<R>> for ListView<T> {
    fn from(page: Page<R>) -> ListView<T> {
        ListView {
            has_more: page.next.is_some(),
            next: page.next,
            data: page.data.into_iter().map(T::from).collect(),
        }
    }
}

/// A page of the store as the response to a list request.
pub fn listed<R, T: From<R>>(page: Page<R>) -> Json<ListView<T>> {
    Json(ListView::from(page))
}

/// The query parameters of a list without filters.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListParams {
    /// The size of the page, at most 100.
    #[param(minimum = 1, maximum = 100, default = 20)]
    limit: Option<u32>,
    /// The `next` of the previous page.
    after: Option<String>,
}

impl ListParams {
    /// The page that is requested.
    ///
    /// # Errors
    /// If the limit is out of range.
    pub fn page(self) -> Result<PageRequest, Problem> {
        page_request(self.limit, self.after)
    }
}

/// The page that `limit` and `after` request, for lists with further parameters.
///
/// # Errors
/// If the limit is out of range.
pub fn page_request(limit: Option<u32>, after: Option<String>) -> Result<PageRequest, Problem> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let message = format!("{limit} is not between 1 and {MAX_LIMIT}");
        return Err(Problem::field(Code::InvalidQuery, "limit", message));
    }
    Ok(PageRequest { limit, after })
}
