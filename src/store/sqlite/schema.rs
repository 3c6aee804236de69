//! Schema migrations: each is applied once, in order, in its own transaction.

mod places;

use sqlx::{Connection, Row, SqliteConnection};

use crate::store::error::{Result, StoreError};

/// In order. Never edit one that was released; add the next.
const MIGRATIONS: &[&str] = &[
    include_str!("schema/0001_initial.sql"),
    include_str!("schema/0002_ledger.sql"),
    include_str!("schema/0003_looks.sql"),
    include_str!("schema/0004_honest.sql"),
    include_str!("schema/0005_roles.sql"),
    include_str!("schema/0006_gates.sql"),
    include_str!("schema/0007_webhooks.sql"),
    include_str!("schema/0008_job_lists.sql"),
    include_str!("schema/0009_imports.sql"),
];

/// The newest schema that this release knows.
pub const VERSION: usize = MIGRATIONS.len();

/// Brings the schema up to date.
///
/// # Errors
/// `Refused` if the database was written by a newer release.
pub async fn migrate(connection: &mut SqliteConnection) -> Result<()> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    sqlx::raw_sql("CREATE TABLE IF NOT EXISTS schema_version (version BIGINT NOT NULL)")
        .execute(&mut *tx)
        .await?;
    let row = sqlx::query("SELECT COALESCE(MAX(version), 0) AS version FROM schema_version")
        .fetch_one(&mut *tx)
        .await?;
    tx.commit().await?;
    let known = VERSION;
    let found = usize::try_from(row.try_get::<i64, _>("version")?).unwrap_or(usize::MAX);
    if found > known {
        return Err(StoreError::Refused(format!(
            "the database has schema version {found}, but this release supports versions up to {known}: the database \
             was written by a newer release; run that release, or restore a backup taken before the upgrade"
        )));
    }
    for (index, migration) in MIGRATIONS.iter().enumerate().skip(found) {
        let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
        sqlx::raw_sql(*migration).execute(&mut *tx).await?;
        if index + 1 == 3 {
            places::move_ledger(&mut tx).await?;
        }
        sqlx::query("INSERT INTO schema_version (version) VALUES ($1)")
            .bind(index as i64 + 1)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
    }
    Ok(())
}
