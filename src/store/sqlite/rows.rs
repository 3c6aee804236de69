//! From rows to records and back. A value that cannot be read is `Damaged`, never a panic.

use serde::Serialize;
use serde::de::{DeserializeOwned, IntoDeserializer};
use sqlx::sqlite::SqliteRow;
use sqlx::{Database, Decode, FromRow, Row, SqlitePool, Type};
use uuid::fmt::Hyphenated;

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

/// The name under which an enumeration is stored.
pub fn name_of<T: Serialize>(value: T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => Ok(name),
        other => Err(StoreError::damaged("an enumeration", format!("{other:?}"))),
    }
}

/// The stored form of a document.
pub fn to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::damaged("a document to be stored", error))
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
pub fn readable_page<T>(rows: &[SqliteRow], limit: u32) -> Result<Page<T>>
where
    T: for<'r> FromRow<'r, SqliteRow>,
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
    readers: &SqlitePool,
    sql: &'static str,
    owner: &str,
    page: &PageRequest,
) -> Result<Page<T>>
where
    T: for<'r> FromRow<'r, SqliteRow>,
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
fn cursor_of(row: &SqliteRow) -> Option<Cursor> {
    let id: String = row.try_get("id").ok()?;
    id.parse::<Hyphenated>().ok()?;
    Some(Cursor { created_at: row.try_get("created_at").ok()?, id })
}
