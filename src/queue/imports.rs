//! Imports: a queue of logs that are read where they lie. It works like that of jobs, with leases and the same terms,
//! but nothing is computed: an import is I/O and parsing, so it needs no threads of its own.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::Queue;
use super::worker::Phase;
use crate::store::{
    self, ClaimedImport, DatasetId, Import, ImportEnd, ImportError, ImportMeter, ImportProgress, NewImport,
    Result, Store, StoreError, Workspace,
};

/// The most imports of a workspace that are not finished.
const MOST_UNFINISHED: u64 = 100;
/// How often a running import writes its progress and looks whether it was canceled.
const TICK: Duration = Duration::from_millis(500);
/// How long the first attempt waits before the next one; later ones wait for longer.
const PAUSE: Duration = Duration::from_secs(2);
/// The waits between attempts to write an end. After the last one the lease expires, and the import starts again.
const RETRIES: [Duration; 3] = [Duration::from_millis(200), Duration::from_secs(1), Duration::from_secs(5)];

/// The imports of one process.
#[derive(Default)]
pub struct ImportQueue {
    /// Wakes an idle worker.
    work: Notify,
    /// Wakes whoever waits for an import of this process.
    changes: watch::Sender<()>,
}

/// How an attempt ended.
enum Outcome {
    Stored,
    Ended(ImportEnd),
    /// Nothing may be written.
    LeaseLost,
}

impl Queue {
    /// Queues an import. When this returns, it is on disk.
    ///
    /// # Errors
    /// `LimitReached` if the workspace has too many, or the store fails.
    pub async fn submit_import(&self, new: NewImport) -> Result<Import> {
        let import = self.store().repository().create_import(new, MOST_UNFINISHED).await?;
        self.shared.imports.work.notify_one();
        Ok(import)
    }

    /// Cancels a queued import, or tells a running one to stop.
    ///
    /// # Errors
    /// If it does not exist or has already succeeded or failed, or the store fails.
    pub async fn cancel_import(&self, workspace: &Workspace, id: DatasetId) -> Result<Import> {
        let cancel = || self.store().repository().cancel_import(workspace, id);
        let import = self.store().freeing(cancel).await?;
        self.shared.imports.changes.send_replace(());
        Ok(import)
    }

    /// Returns the import when it has ended, or as it is after `limit`.
    ///
    /// # Errors
    /// If it does not exist, or the store fails.
    pub async fn wait_for_import(
        &self,
        workspace: &Workspace,
        id: DatasetId,
        limit: Duration,
    ) -> Result<Import> {
        let deadline = Instant::now() + limit;
        let mut changes = self.shared.imports.changes.subscribe();
        loop {
            let import = self.store().repository().import(workspace, id).await?;
            if import.status.is_finished() || Instant::now() >= deadline {
                return Ok(import);
            }
            // Another process may run it, so it is read from time to time in any case.
            let until = deadline.min(Instant::now() + self.settings().poll);
            let _ = tokio::time::timeout_at(until, changes.changed()).await;
        }
    }
}

/// Starts a worker of imports.
pub(super) fn start(queue: Queue, phase: watch::Receiver<Phase>) -> JoinHandle<()> {
    tokio::spawn(ImportWorker { queue, phase }.work())
}

struct ImportWorker {
    queue: Queue,
    phase: watch::Receiver<Phase>,
}

impl ImportWorker {
    async fn work(mut self) {
        while *self.phase.borrow() == Phase::Running {
            let terms = self.queue.settings().terms();
            let most = self.queue.settings().workers as u64;
            match self.queue.store().repository().claim_import(&terms, most).await {
                Ok(Some(claim)) => self.run(claim).await,
                Ok(None) => self.idle().await,
                Err(error) => {
                    tracing::warn!(%error, "could not claim an import");
                    self.idle().await;
                }
            }
        }
    }

    async fn idle(&mut self) {
        tokio::select! {
            _ = self.queue.shared.imports.work.notified() => {}
            _ = tokio::time::sleep(self.queue.settings().poll) => {}
            _ = self.phase.changed() => {}
        }
    }

    async fn run(&self, claim: ClaimedImport) {
        let id = claim.import.id;
        tracing::info!(import_id = %id, workspace = %claim.import.workspace, attempt = claim.import.attempt,
            uris = claim.import.request.uris.len(), "import started");
        self.queue.shared.imports.changes.send_replace(());
        let meter = Arc::new(ImportMeter::default());
        let outcome = self.attempt(&claim, &meter).await;
        let progress = meter.progress();
        counter!("guarantor_import_bytes_total").increment(progress.bytes_read);
        self.conclude(&claim, outcome, &progress).await;
        self.queue.shared.imports.changes.send_replace(());
    }

    /// Reads the log, and meanwhile renews the lease and looks whether to stop. When this returns, nothing is read anymore.
    async fn attempt(&self, claim: &ClaimedImport, meter: &Arc<ImportMeter>) -> Outcome {
        let done = Notify::new();
        let read = async {
            let outcome = read(self.queue.store(), claim, meter).await;
            done.notify_one();
            outcome
        };
        // Both are polled, because the reading may hold the connection, or the lock, that a tick waits for.
        let (outcome, stopped) = tokio::join!(read, self.supervise(claim, meter, &done));
        match (outcome, stopped) {
            (Outcome::Stored, _) => Outcome::Stored,
            (_, Some(stopped)) => stopped,
            (outcome, None) => outcome,
        }
    }

    /// Renews the lease until `done`. Returns why the attempt was told to stop, if it was.
    async fn supervise(&self, claim: &ClaimedImport, meter: &ImportMeter, done: &Notify) -> Option<Outcome> {
        let (repository, terms) = (self.queue.store().repository(), self.queue.settings().terms());
        let (id, lease, mut phase) = (claim.import.id, terms.duration, self.phase.clone());
        let (mut renewed, mut stopped) = (Instant::now(), None);
        loop {
            tokio::select! {
                _ = done.notified() => return stopped,
                _ = super::attempt::stopping(&mut phase), if stopped.is_none() => {
                    meter.stop();
                    stopped = Some(Outcome::Ended(ImportEnd::Released));
                }
                _ = tokio::time::sleep(TICK.min(lease / 4)) => {}
            }
            match repository.renew_import(id, claim.token, &terms, &meter.progress()).await {
                Ok(asked) => {
                    renewed = Instant::now();
                    self.queue.shared.imports.changes.send_replace(());
                    if asked {
                        meter.stop();
                        stopped = Some(Outcome::Ended(ImportEnd::Cancelled));
                    }
                }
                Err(StoreError::LeaseLost(_)) => {
                    meter.stop();
                    stopped = Some(Outcome::LeaseLost);
                }
                Err(error) => {
                    tracing::warn!(import_id = %id, %error, "could not renew the lease of an import");
                    // From here on another worker may claim it: stop before it does.
                    if renewed.elapsed() >= lease {
                        meter.stop();
                        stopped = Some(Outcome::LeaseLost);
                    }
                }
            }
        }
    }

    /// Whether a client asked to cancel. Writes nothing.
    async fn is_cancelled(&self, claim: &ClaimedImport) -> bool {
        let found = self.queue.store().repository().import(&claim.import.workspace, claim.import.id).await;
        found.is_ok_and(|import| import.cancel_requested)
    }

    async fn conclude(&self, claim: &ClaimedImport, outcome: Outcome, progress: &ImportProgress) {
        let (id, terms) = (claim.import.id, self.queue.settings().terms());
        let end = match outcome {
            Outcome::Stored => {
                counter!("guarantor_imports_total", "status" => "succeeded").increment(1);
                tracing::info!(import_id = %id, "import stored");
                return;
            }
            Outcome::LeaseLost => {
                // A cancellation that was acknowledged while the dataset was being stored.
                if self.is_cancelled(claim).await {
                    ImportEnd::Cancelled
                } else {
                    tracing::warn!(import_id = %id, "the lease of an import was lost");
                    return;
                }
            }
            Outcome::Ended(end) => end,
        };
        if matches!(end, ImportEnd::Retry(_)) {
            // The cause may go away meanwhile. The lease lasts for longer.
            let pause = PAUSE * claim.import.attempt.min(20);
            tokio::time::sleep(pause.min(terms.duration / 2)).await;
        }
        for wait in RETRIES.into_iter().map(Some).chain([None]) {
            match self
                .queue
                .store()
                .repository()
                .finish_import(id, claim.token, &terms, end.clone(), progress)
                .await
            {
                Ok(import) => return ended(&import),
                Err(StoreError::LeaseLost(_)) => return,
                Err(error) => {
                    tracing::error!(import_id = %id, %error, "could not write the end of an import")
                }
            }
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return,
            }
        }
    }
}

fn ended(import: &Import) {
    let (code, error) =
        (import.failure.as_ref().map(|f| f.code.name()), import.failure.as_ref().map(|f| &f.message));
    if import.status.is_finished() {
        counter!("guarantor_imports_total", "status" => import.status.name()).increment(1);
    }
    tracing::info!(import_id = %import.id, status = import.status.name(), error_code = code, error, "import ended");
}

async fn read(store: &Store, claim: &ClaimedImport, meter: &Arc<ImportMeter>) -> Outcome {
    let Some(reader) = store.sources() else {
        let why = "this server reads no logs by reference anymore (the setting sources_allow is empty)";
        let failure = store::ImportFailure::new(store::ImportCode::SourceNotAllowed, why);
        return Outcome::Ended(ImportEnd::Failed(failure));
    };
    match store::import(store, reader, claim, meter).await {
        Ok(_) => Outcome::Stored,
        Err(ImportError::Failed(failure)) => Outcome::Ended(ImportEnd::Failed(failure)),
        Err(ImportError::Retry(failure)) => Outcome::Ended(ImportEnd::Retry(failure)),
        // Whoever told it to stop says how it ends.
        Err(ImportError::LeaseLost | ImportError::Stopped) => Outcome::LeaseLost,
    }
}
