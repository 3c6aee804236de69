//! Lists: newest first, one page at a time, with a cursor that stays valid while the list grows.

use super::error::{Result, StoreError};
use super::ids::Timestamp;

/// Which page of a list is wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct PageRequest {
    /// How many items, at most.
    pub limit: u32,
    /// The `next` of an earlier page.
    pub after: Option<String>,
}

impl PageRequest {
    /// The first page.
    pub fn first(limit: u32) -> Self {
        PageRequest { limit, after: None }
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items.
    pub data: Vec<T>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

/// The position of an item in a list. Lists are ordered by creation time, then by id.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor {
    /// When the item was created.
    pub created_at: Timestamp,
    /// The item's id.
    pub id: String,
}

impl Cursor {
    /// The position before the first item.
    pub fn start() -> Self {
        Cursor { created_at: Timestamp(i64::MAX), id: String::new() }
    }

    /// The position after which the requested page starts.
    ///
    /// # Errors
    /// `BadCursor` if the cursor was not issued by a list.
    pub fn of(request: &PageRequest) -> Result<Self> {
        let Some(text) = &request.after else { return Ok(Cursor::start()) };
        let (time, id) = text.split_once('.').ok_or(StoreError::BadCursor)?;
        let time = i64::from_str_radix(time, 16).map_err(|_| StoreError::BadCursor)?;
        let id = id.parse::<uuid::fmt::Hyphenated>().map_err(|_| StoreError::BadCursor)?;
        Ok(Cursor { created_at: Timestamp(time), id: id.to_string() })
    }

    /// The text form, which clients send back.
    pub fn encode(&self) -> String {
        format!("{:x}.{}", self.created_at.0, self.id)
    }
}

impl<T> Page<T> {
    /// A page of at most `limit + 1` items; the extra one only shows that there are more.
    pub fn from_extra(mut data: Vec<T>, limit: u32, cursor: impl Fn(&T) -> Cursor) -> Self {
        let more = data.len() > limit as usize;
        data.truncate(limit as usize);
        let next = if more { data.last().map(|last| cursor(last).encode()) } else { None };
        Page { data, next }
    }
}
