//! From rows to records. A value that cannot be read is `Damaged`, never a panic.

use std::str::FromStr;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use crate::store::error::{Result, StoreError};
use crate::store::ids::Timestamp;

pub fn parsed<T: FromStr>(row: &SqliteRow, column: &str) -> Result<T> {
    let text: String = row.try_get(column)?;
    text.parse().map_err(|_| StoreError::damaged(column, format!("{text:?} is not one")))
}

pub fn parsed_option<T: FromStr>(row: &SqliteRow, column: &str) -> Result<Option<T>> {
    let text: Option<String> = row.try_get(column)?;
    text.map(|text| text.parse().map_err(|_| StoreError::damaged(column, format!("{text:?} is not one"))))
        .transpose()
}

pub fn json<T: DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<T> {
    let text: String = row.try_get(column)?;
    serde_json::from_str(&text).map_err(|error| StoreError::damaged(column, error))
}

pub fn json_option<T: DeserializeOwned>(row: &SqliteRow, column: &str) -> Result<Option<T>> {
    let text: Option<String> = row.try_get(column)?;
    text.map(|text| serde_json::from_str(&text).map_err(|error| StoreError::damaged(column, error)))
        .transpose()
}

pub fn count<T: TryFrom<i64>>(row: &SqliteRow, column: &str) -> Result<T> {
    let value: i64 = row.try_get(column)?;
    T::try_from(value).map_err(|_| StoreError::damaged(column, format!("{value} is out of range")))
}

pub fn time(row: &SqliteRow, column: &str) -> Result<Timestamp> {
    Ok(Timestamp(row.try_get(column)?))
}

pub fn time_option(row: &SqliteRow, column: &str) -> Result<Option<Timestamp>> {
    Ok(row.try_get::<Option<i64>, _>(column)?.map(Timestamp))
}

pub fn to_json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| StoreError::damaged("a document to be stored", error))
}

/// Whether an insert failed because its primary key is taken.
pub fn is_taken(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|e| e.is_unique_violation())
}
