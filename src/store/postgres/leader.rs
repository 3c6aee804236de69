//! Which process does the upkeep: the one whose session holds an advisory lock. When the process or its session dies, the
//! database releases the lock, and the next process that asks gets it.

use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection as _, Row};
use tokio::sync::Mutex;

use super::{Connection, TIDIES};
use crate::store::error::Result;

/// How long the session may take to answer before it counts as lost.
const ANSWER: Duration = Duration::from_secs(5);

/// The session for the lock.
pub struct Leader {
    options: PgConnectOptions,
    session: Mutex<Option<Session>>,
}

struct Session {
    connection: Connection,
    leads: bool,
}

impl Leader {
    /// A process without the lock.
    pub fn new(options: PgConnectOptions) -> Self {
        Leader { options, session: Mutex::default() }
    }

    /// Whether this process has the lock, after an attempt to get it. A session that does not answer is closed: without
    /// it, it is not known whether the lock is still held.
    pub async fn leads(&self) -> Result<bool> {
        let mut session = self.session.lock().await;
        let asked = tokio::time::timeout(ANSWER, self.ask(session.take())).await;
        match asked {
            Ok(Ok(answered)) => {
                let leads = answered.leads;
                *session = Some(answered);
                Ok(leads)
            }
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Ok(false),
        }
    }

    async fn ask(&self, session: Option<Session>) -> Result<Session, sqlx::Error> {
        let mut session = match session {
            Some(session) => session,
            None => Session { connection: self.options.connect().await?, leads: false },
        };
        if session.leads {
            session.connection.ping().await?;
        } else {
            let row = sqlx::query("SELECT pg_try_advisory_lock($1) AS leads")
                .bind(TIDIES)
                .fetch_one(&mut session.connection)
                .await?;
            session.leads = row.try_get("leads")?;
        }
        Ok(session)
    }

    /// Gives the lock to others.
    pub async fn resign(&self) {
        if let Some(session) = self.session.lock().await.take() {
            // If it is lost already, so is the lock.
            let _ = session.connection.close().await;
        }
    }
}
