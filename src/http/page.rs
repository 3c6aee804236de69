//! Lists: `?limit=&after=` in, `{data, has_more, next}` out, newest first.

use serde::Serialize;

use super::codes::Code;
use super::problem::Problem;
use crate::store::{Page, PageRequest};

pub const DEFAULT_LIMIT: u32 = 20;
pub const MAX_LIMIT: u32 = 100;

#[derive(Debug, Serialize, utoipa::ToSchema)]
pub struct List<T> {
    pub data: Vec<T>,
    pub has_more: bool,
    /// The `after` of the next page.
    #[schema(required)]
    pub next: Option<String>,
}

impl<T> List<T> {
    pub fn of<R>(page: Page<R>, show: impl Fn(R) -> T) -> List<T> {
        List {
            has_more: page.next.is_some(),
            next: page.next,
            data: page.data.into_iter().map(show).collect(),
        }
    }
}

pub fn page_request(limit: Option<u32>, after: Option<String>) -> Result<PageRequest, Problem> {
    let limit = limit.unwrap_or(DEFAULT_LIMIT);
    if !(1..=MAX_LIMIT).contains(&limit) {
        let message = format!("{limit} is not in [1, {MAX_LIMIT}]");
        return Err(Problem::field(Code::InvalidQuery, "limit", message));
    }
    Ok(PageRequest { limit, after })
}
