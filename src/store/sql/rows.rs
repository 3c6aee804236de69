//! From rows to records and back. A value that cannot be read is `Damaged`, never a panic.

use std::borrow::Cow;

use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use sqlx::{Database, Decode, FromRow, Row, Type};
use uuid::fmt::Hyphenated;

use super::{DbRow, Document, Pool, Repo};
use crate::store::error::{Resource, Result, StoreError};
use crate::store::page::{Cursor, Page, PageRequest};

/// An enumeration of the engine, stored under its name in JSON.
pub struct Named<T>(pub T);

impl<DB: Database, T> Type<DB> for Named<T>
where
    str: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <str as Type<DB>>::type_info()
    }

    fn compatible(found: &DB::TypeInfo) -> bool {
        <str as Type<DB>>::compatible(found)
    }
}

impl<'r, DB: Database, T: DeserializeOwned> Decode<'r, DB> for Named<T>
where
    &'r str: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        let name = <&str as Decode<'r, DB>>::decode(value)?;
        let read: Result<T, serde::de::value::Error> = T::deserialize(name.into_deserializer());
        Ok(Named(read?))
    }
}

/// A number that is not negative. No database has unsigned integers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

impl<DB: Database> Type<DB> for Count
where
    i64: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <i64 as Type<DB>>::type_info()
    }

    fn compatible(found: &DB::TypeInfo) -> bool {
        <i64 as Type<DB>>::compatible(found)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Count
where
    i64: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        Ok(Count(u64::try_from(<i64 as Decode<'r, DB>>::decode(value)?)?))
    }
}

/// A document in a text column, which can be compared.
pub struct Written<T>(pub T);

impl<DB: Database, T> Type<DB> for Written<T>
where
    str: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <str as Type<DB>>::type_info()
    }

    fn compatible(found: &DB::TypeInfo) -> bool {
        <str as Type<DB>>::compatible(found)
    }
}

impl<'r, DB: Database, T: DeserializeOwned> Decode<'r, DB> for Written<T>
where
    &'r str: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, sqlx::error::BoxDynError> {
        Ok(Written(serde_json::from_str(<&str as Decode<'r, DB>>::decode(value)?)?))
    }
}

/// A text of a client, as the database can hold it.
pub fn plain(text: &str) -> Cow<'_, str> {
    match Repo::HOLDS_ZERO || !text.contains('\0') {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.replace('\0', "\u{fffd}")),
    }
}

/// A document as text.
pub fn to_text<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::damaged("a document to be stored", error))
}

/// A document as a column of documents holds it.
pub fn to_json<T: Serialize>(value: &T) -> Result<Document> {
    Ok(Document::from(to_text(value)?))
}

/// The name under which an enumeration is stored.
pub fn name_of<T: Serialize>(value: T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        other => Err(StoreError::damaged("an enumeration", format!("{other:?}"))),
    }
}

/// Whether an insert failed because its primary key is taken.
pub fn is_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|e| e.is_unique_violation())
}

/// Checks that there may be another of a kind of resource.
pub fn check_room(resource: Resource, present: u64, limit: u64) -> Result<()> {
    if present >= limit { Err(StoreError::LimitReached { resource, limit }) } else { Ok(()) }
}

/// A page of a list, from at most `limit + 1` rows. A damaged row is logged and left out, so that it does not
/// hide the others.
pub fn readable_page<T>(rows: &[DbRow], limit: u32) -> Result<Page<T>>
where
    T: for<'r> FromRow<'r, DbRow>,
{
    let shown = &rows[..rows.len().min(limit as usize)];
    let mut data = Vec::with_capacity(shown.len());
    for row in shown {
        match T::from_row(row).map_err(StoreError::from) {
            Ok(item) => data.push(item),
            Err(error @ StoreError::Damaged(_)) => {
                let id: Option<String> = row.try_get("id").ok();
                tracing::error!(id, %error, "a damaged row was left out of a list");
            }
            Err(error) => return Err(error),
        }
    }
    let more = rows.len() > shown.len();
    let next = if more { shown.iter().rev().find_map(cursor_of) } else { None };
    Ok(Page { data, next: next.map(|cursor| cursor.encode()) })
}

/// Reads a page of the list of what `owner` has: `$1` of the SQL is the owner, `$2` and `$3` are the position after which
/// the page starts, and `$4` is how many rows to read.
pub async fn read_page<T>(
    readers: &Pool,
    sql: &'static str,
    owner: &str,
    page: &PageRequest,
) -> Result<Page<T>>
where
    T: for<'r> FromRow<'r, DbRow>,
{
    let cursor = Cursor::of(page)?;
    let rows = sqlx::query(sql)
        .bind(owner)
        .bind(cursor.created_at.0)
        .bind(&cursor.id)
        .bind(i64::from(page.limit) + 1)
        .fetch_all(readers)
        .await?;
    readable_page(&rows, page.limit)
}

/// The position of a row in its list, unless that is damaged too.
fn cursor_of(row: &DbRow) -> Option<Cursor> {
    let id: String = row.try_get("id").ok()?;
    id.parse::<Hyphenated>().ok()?;
    Some(Cursor { created_at: row.try_get("created_at").ok()?, id })
}
