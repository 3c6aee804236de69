//! The step from schema 2 to 3 that SQL alone cannot do. Schema 2 stored the numbers of a ledger entry and
//! formatted them at each reading. What was signed then has the wording below, which must never change.

use sqlx::types::Json;
use sqlx::{FromRow, SqliteConnection};

use crate::store::error::{Result, StoreError};
use crate::store::records::LedgerSummary;
use crate::store::sqlite::rows::to_text as to_json;
use guarantor_engine::certificate::{LedgerPlace, SharedLook, SharedWhy};
use guarantor_engine::ledger;
use guarantor_engine::spec::Family;

/// What an entry's document depends on.
#[derive(FromRow)]
struct OldRow {
    job_id: String,
    look: u64,
    delta: f64,
    spent_before: f64,
    shares_look: Option<u64>,
    shares_why: Option<String>,
    family: Option<Json<Family>>,
    family_taken: Option<u64>,
}

/// Copies `ledger_2` into `ledger` and drops it.
pub async fn move_ledger(connection: &mut SqliteConnection) -> Result<()> {
    let rows: Vec<OldRow> = sqlx::query_as("SELECT * FROM ledger_2").fetch_all(&mut *connection).await?;
    for row in &rows {
        let place = place(row)?;
        sqlx::query(
            "INSERT INTO ledger (dataset_id, look, workspace, job_id, dataset_version, created_at, kind, bound, \
             candidates, decision, cost, spent, family, digest, event, every_n, place, signature) \
             SELECT dataset_id, look, workspace, job_id, dataset_version, created_at, kind, bound, candidates, \
             decision, cost, spent_before + cost, family, digest, event, event IS NOT NULL, $2, signature \
             FROM ledger_2 WHERE job_id = $1",
        )
        .bind(&row.job_id)
        .bind(to_json(&place)?)
        .execute(&mut *connection)
        .await?;
    }
    sqlx::raw_sql("DROP TABLE ledger_2").execute(connection).await?;
    Ok(())
}

fn place(row: &OldRow) -> Result<LedgerPlace> {
    let why = match row.shares_why.as_deref() {
        None => None,
        Some("repeat") => Some(SharedWhy::Repeat),
        Some("anytime") => Some(SharedWhy::Anytime),
        Some(other) => return Err(StoreError::damaged("shares_why", other)),
    };
    let absent = |column: &str| StoreError::damaged(column, "it is absent");
    let shares = match why {
        Some(why) => Some(SharedLook { look: row.shares_look.ok_or_else(|| absent("shares_look"))?, why }),
        None => None,
    };
    let family = match &row.family {
        Some(Json(family)) => {
            let taken = row.family_taken.ok_or_else(|| absent("family_taken"))?;
            Some((*family, taken.saturating_sub(u64::from(shares.is_none()))))
        }
        None => None,
    };
    let before = LedgerSummary { looks: row.look.saturating_sub(1), spent: row.spent_before };
    let place = ledger::entry(before, row.delta, shares, family);
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
