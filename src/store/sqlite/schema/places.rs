//! The step from schema 2 to 3 that is no SQL: schema 2 kept the numbers of a look's place and worded
//! them at each reading. What was signed then had the words below, which never change.

use sqlx::{Row, SqliteConnection};

use crate::store::error::{Result, StoreError};
use crate::store::sqlite::rows::{count, json_option, to_json};
use guarantor_engine::certificate::{LedgerPlace, SharedLook, SharedWhy};
use guarantor_engine::spec::Family;

/// Copies `ledger_2` into `ledger` and drops it.
pub async fn move_ledger(connection: &mut SqliteConnection) -> Result<()> {
    let rows = sqlx::query("SELECT * FROM ledger_2").fetch_all(&mut *connection).await?;
    for row in &rows {
        let place = place(row)?;
        sqlx::query(
            "INSERT INTO ledger (dataset_id, look, workspace, job_id, dataset_version, created_at, kind, bound, \
             candidates, decision, cost, spent, family, digest, event, every_n, place, signature) \
             SELECT dataset_id, look, workspace, job_id, dataset_version, created_at, kind, bound, candidates, \
             decision, cost, spent_before + cost, family, digest, event, event IS NOT NULL, $2, signature \
             FROM ledger_2 WHERE job_id = $1",
        )
        .bind(row.try_get::<String, _>("job_id")?)
        .bind(to_json(&place)?)
        .execute(&mut *connection)
        .await?;
    }
    sqlx::raw_sql("DROP TABLE ledger_2").execute(connection).await?;
    Ok(())
}

fn place(row: &sqlx::sqlite::SqliteRow) -> Result<LedgerPlace> {
    let why = match row.try_get::<Option<&str>, _>("shares_why")? {
        None => None,
        Some("repeat") => Some(SharedWhy::Repeat),
        Some("anytime") => Some(SharedWhy::Anytime),
        Some(other) => return Err(StoreError::damaged("shares_why", other)),
    };
    let shares = match why {
        Some(why) => Some(SharedLook { look: count(row, "shares_look")?, why }),
        None => None,
    };
    let family = match json_option::<Family>(row, "family")? {
        Some(family) => {
            let taken: u64 = count(row, "family_taken")?;
            Some((family, taken.saturating_sub(u64::from(shares.is_none()))))
        }
        None => None,
    };
    let (look, delta, spent_before) =
        (count(row, "look")?, row.try_get("delta")?, row.try_get("spent_before")?);
    let place = LedgerPlace::new(look, delta, shares, spent_before, family);
    let statement = statement(&place);
    Ok(LedgerPlace { statement, ..place })
}

fn statement(place: &LedgerPlace) -> String {
    let free = match place.shares {
        Some(shared) if shared.why == SharedWhy::Repeat => {
            format!(" It is the certificate of look {} again and costs nothing.", shared.look)
        }
        Some(shared) => format!(
            " It rests on the same event as look {}, which holds at every number of rows at once, and costs \
             nothing.",
            shared.look
        ),
        None => String::new(),
    };
    let family = match place.family {
        Some(family) => format!(" It belongs to a family of {} looks.", family.looks),
        None => String::new(),
    };
    let percent = format!("{:.4}", 100.0 * place.family_wise_confidence);
    let percent = percent.trim_end_matches('0').trim_end_matches('.');
    format!(
        "Look {} at these rows.{free}{family} All looks so far hold together with probability at least {percent} \
         %, as long as none was asked for because of what another had found.",
        place.look
    )
}
