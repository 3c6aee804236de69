//! Schema migrations. They are numbered like SQLite's, and begin with the version that was the newest when PostgreSQL was
//! added. All that are missing are applied in one transaction, by one process at a time.
//!
//! During a rollout, the old release works beside the new one, on the new schema. A migration therefore says which
//! releases can do so: those that know at least the schema `compatible_with`.

use sqlx::{Connection as _, Row};

use super::{Connection, MIGRATES};
use crate::store::error::{Result, StoreError};

struct Migration {
    version: i64,
    /// The oldest schema whose releases can use this one too.
    compatible_with: i64,
    sql: &'static str,
}

/// In order. Never edit one that was released; add the next.
const MIGRATIONS: &[Migration] = &[
    Migration { version: 8, compatible_with: 8, sql: include_str!("schema/0008_initial.sql") },
    Migration { version: 9, compatible_with: 8, sql: include_str!("schema/0009_imports.sql") },
];

/// The newest schema that this release knows.
fn known() -> i64 {
    MIGRATIONS.last().map_or(0, |migration| migration.version)
}

/// Brings the schema up to date.
///
/// # Errors
/// `Refused` if a newer release has changed the schema in a way that this one cannot use.
pub async fn migrate(connection: &mut Connection) -> Result<()> {
    let mut tx = connection.begin().await?;
    sqlx::query("SELECT pg_advisory_xact_lock($1)").bind(MIGRATES).execute(&mut *tx).await?;
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL, compatible_with BIGINT NOT NULL)",
    )
    .execute(&mut *tx)
    .await?;
    let (found, needed) = versions(&mut tx).await?;
    refuse_newer(found, needed)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > found) {
        sqlx::raw_sql(migration.sql).execute(&mut *tx).await?;
        sqlx::query("INSERT INTO schema_version (version, compatible_with) VALUES ($1, $2)")
            .bind(migration.version)
            .bind(migration.compatible_with)
            .execute(&mut *tx)
            .await?;
    }
    Ok(tx.commit().await?)
}

/// Checks that this release can still use the schema.
///
/// # Errors
/// `Refused` if a newer release has changed it since.
pub async fn check(connection: &mut Connection) -> Result<()> {
    let (found, needed) = versions(connection).await?;
    refuse_newer(found, needed)
}

async fn versions(connection: &mut Connection) -> Result<(i64, i64)> {
    let row = sqlx::query(
        "SELECT COALESCE(MAX(version), 0) AS found, COALESCE(MAX(compatible_with), 0) AS needed FROM schema_version",
    )
    .fetch_one(connection)
    .await?;
    Ok((row.try_get("found")?, row.try_get("needed")?))
}

fn refuse_newer(found: i64, needed: i64) -> Result<()> {
    let known = known();
    if needed <= known {
        return Ok(());
    }
    Err(StoreError::Refused(format!(
        "the database has schema version {found}, but this release supports versions up to {known}: the database was \
         changed by a newer release; run that release, or restore a backup taken before the upgrade"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_in_step_with_sqlite() {
        assert!(MIGRATIONS.is_sorted_by_key(|migration| migration.version));
        assert_eq!(known(), crate::store::sqlite::SCHEMA_VERSION as i64);
    }

    #[test]
    fn a_newer_schema_is_refused_unless_it_says_that_it_can_be_used() {
        let known = known();
        refuse_newer(known + 1, known).unwrap();
        let refused = refuse_newer(known + 1, known + 1).unwrap_err().to_string();
        assert!(refused.contains("newer release"), "{refused}");
    }
}
