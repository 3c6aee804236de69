//! Compute threads. Each worker has its own rayon pool, so that one job's threads never run parts of
//! another job. A plain thread waits for the pool, so that no async thread has to.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::{oneshot, watch};

use super::runner::Prepared;
use super::timeline::{DECODING, Timeline};
use guarantor_engine::control::{Control, Progress};
use guarantor_engine::{self, Finished};

/// How a computation ended.
pub enum Computed {
    /// The engine returned.
    Returned(guarantor_engine::Result<Box<Finished>>),
    /// The engine panicked, with this message.
    Panicked(String),
}

/// The niceness of compute threads: requests are short and take priority over jobs.
/// Linux has a niceness per thread; on other systems compute threads run like all others.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// A pool of `threads` compute threads for the worker with this number.
pub fn pool(worker: usize, threads: usize) -> std::io::Result<ThreadPool> {
    ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .thread_name(move |i| format!("compute-{worker}-{i}"))
        .start_handler(|_| lower_priority())
        .build()
        .map_err(std::io::Error::other)
}

fn lower_priority() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "could not lower the priority of a compute thread");
    }
}

/// Starts the computation and returns at once.
pub fn start(
    pool: Arc<ThreadPool>,
    prepared: Prepared,
    stop: Arc<AtomicBool>,
    progress: watch::Sender<Option<Progress>>,
    timeline: Arc<Timeline>,
) -> std::io::Result<oneshot::Receiver<Computed>> {
    let (sender, receiver) = oneshot::channel();
    std::thread::Builder::new().name("job".into()).spawn(move || {
        timeline.enter(DECODING);
        let report = |report: Progress| {
            timeline.enter(&report.phase);
            progress.send_replace(Some(report));
        };
        let work = || pool.install(|| prepared(&Control::new(&stop, &report)));
        // Unwind safe, because everything that the closure uses is dropped with it.
        let computed = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => Computed::Returned(result.map(Box::new)),
            Err(panic) => Computed::Panicked(message_of(&*panic)),
        };
        // If the receiver is gone, the lease is lost and the result must not be used.
        let _ = sender.send(computed);
    })?;
    Ok(receiver)
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
