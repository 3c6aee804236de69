//! Runs work on threads of its own, while the calling thread lets other Python threads run, follows progress and looks
//! for Ctrl-C.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use guarantor_engine::control::{Control, Progress};
use pyo3::prelude::*;

use crate::errors::{Failure, Outcome};

/// How often the calling thread looks for Ctrl-C and passes progress on.
const TICK: Duration = Duration::from_millis(50);

/// What the caller wants besides the result.
#[derive(Default)]
pub struct Wishes {
    /// The number of compute threads; by default that of the processors.
    pub threads: Option<usize>,
    /// Is called with the fields of [`Progress`].
    pub progress: Option<Py<PyAny>>,
}

impl Wishes {
    /// The number of compute threads.
    pub fn threads(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, |n| n.get());
        self.threads.filter(|&threads| threads > 0).unwrap_or_else(processors)
    }
}

/// Does the work, without holding the interpreter. The pool of threads is made for this call, so that a forked process
/// has no pool without threads.
///
/// # Errors
/// What the work returns, a panic of the work, or an exception of the progress function or of Ctrl-C. The work has
/// ended in each case.
pub fn attend<T: Send + 'static>(
    py: Python<'_>,
    wishes: Wishes,
    work: impl FnOnce(&Control) -> Outcome<T> + Send + 'static,
) -> PyResult<T> {
    let threads = wishes.threads();
    let (cancel, latest) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None::<Progress>)));
    let (sender, receiver) = mpsc::channel();
    let (flag, slot) = (cancel.clone(), latest.clone());
    let body = move || {
        let report = |progress| *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(progress);
        let control = Control::new(&flag, &report);
        let done = catch_unwind(AssertUnwindSafe(|| in_pool(threads, || work(&control))));
        let done = done.unwrap_or_else(|panic| Err(Failure::Panic(message_of(&*panic))));
        // The calling thread waits for it.
        let _ = sender.send(done);
    };
    let worker = std::thread::Builder::new().name("guarantor".into()).spawn(body)?;
    // The Mutex makes the receiver Sync, which `detach` requires.
    let receiver = Mutex::new(receiver);
    let mut interrupted = None;
    let done = loop {
        let received =
            py.detach(|| receiver.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(TICK));
        match received {
            Ok(done) => break done,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Err(Failure::Panic("its thread ended".into())),
        }
        if interrupted.is_none()
            && let Err(error) = py.check_signals().and_then(|()| pass_on(py, &wishes, &latest))
        {
            cancel.store(true, Ordering::Relaxed);
            interrupted = Some(error);
        }
    };
    // The thread has sent its last word.
    let _ = py.detach(|| worker.join());
    if let Some(error) = interrupted {
        return Err(error);
    }
    pass_on(py, &wishes, &latest)?;
    done.map_err(|failure| failure.raise(py))
}

fn in_pool<T: Send>(threads: usize, work: impl FnOnce() -> Outcome<T> + Send) -> Outcome<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.map_err(|error| Failure::Panic(error.to_string()))?;
    pool.install(work)
}

/// Passes the latest progress on, if there is any.
fn pass_on(py: Python<'_>, wishes: &Wishes, latest: &Mutex<Option<Progress>>) -> PyResult<()> {
    let Some(callback) = &wishes.progress else { return Ok(()) };
    let progress = latest.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Progress { phase, fraction, epoch, epochs, bound }) = progress {
        callback.call1(py, (phase, fraction, epoch, epochs, bound))?;
    }
    Ok(())
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
