//! Lists: newest first, a page at a time, by a cursor that stays valid while the list grows.

use super::error::{Result, StoreError};
use super::ids::Timestamp;

#[derive(Debug, Clone, PartialEq)]
pub struct PageRequest {
    pub limit: u32,
    /// The `next` of an earlier page.
    pub after: Option<String>,
}

impl PageRequest {
    pub fn first(limit: u32) -> Self {
        PageRequest { limit, after: None }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    pub data: Vec<T>,
    /// Present exactly where there is more.
    pub next: Option<String>,
}

/// The place of an item in a list: lists are ordered by creation time, then by id.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor {
    pub created_at: Timestamp,
    pub id: String,
}

impl Cursor {
    /// Later than every item.
    pub fn start() -> Self {
        Cursor { created_at: Timestamp(i64::MAX), id: String::new() }
    }

    pub fn of(request: &PageRequest) -> Result<Self> {
        let Some(text) = &request.after else { return Ok(Cursor::start()) };
        let (time, id) = text.split_once('.').ok_or(StoreError::BadCursor)?;
        let time = i64::from_str_radix(time, 16).map_err(|_| StoreError::BadCursor)?;
        let id = id.parse::<uuid::fmt::Hyphenated>().map_err(|_| StoreError::BadCursor)?;
        Ok(Cursor { created_at: Timestamp(time), id: id.to_string() })
    }

    pub fn encode(&self) -> String {
        format!("{:x}.{}", self.created_at.0, self.id)
    }
}

impl<T> Page<T> {
    /// From `limit + 1` items at most: the extra one only says that there is more.
    pub fn from_extra(mut data: Vec<T>, limit: u32, place: impl Fn(&T) -> Cursor) -> Self {
        let more = data.len() > limit as usize;
        data.truncate(limit as usize);
        let next = if more { data.last().map(|last| place(last).encode()) } else { None };
        Page { data, next }
    }
}
