//! Compute threads: a rayon pool a worker, so that one job's threads never pick up pieces of
//! another's, and a plain thread that waits for the pool, so that no async thread does.

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
    Returned(guarantor_engine::Result<Box<Finished>>),
    Panicked(String),
}

/// How much the compute threads give way: requests are short and come first, a job can wait for
/// them. On Linux this is a thread's own affair; where it cannot be set, nothing else changes.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

pub fn pool(worker: usize, threads: usize) -> std::io::Result<ThreadPool> {
    ThreadPoolBuilder::new()
        .num_threads(threads.max(1))
        .thread_name(move |i| format!("compute-{worker}-{i}"))
        .start_handler(|_| give_way())
        .build()
        .map_err(std::io::Error::other)
}

fn give_way() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICENESS) {
        tracing::debug!(%error, "compute threads run at the priority of all others");
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
        // Unwind safety: everything that the closure touches is dropped with it.
        let computed = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(result) => Computed::Returned(result.map(Box::new)),
            Err(panic) => Computed::Panicked(words_of(&*panic)),
        };
        // Where nobody waits any more the lease is gone, and with it the right to the result.
        let _ = sender.send(computed);
    })?;
    Ok(receiver)
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| s.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
