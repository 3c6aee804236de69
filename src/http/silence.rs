//! The time limit for the head of a request, at the price of one timer for a connection.
//!
//! hyper makes a timer whenever it waits for a head, and drops it when the head has arrived. Each would enter and leave
//! tokio's timers, which all threads share behind a lock, and polling would pay for that. Here a connection keeps one
//! timer. It may be left behind by the deadline, which only moves forward; it is set again when it fires too early.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Sleep, Timer};
use parking_lot::Mutex;

/// The timer of a connection.
#[derive(Clone, Default)]
pub struct SilenceTimer {
    /// What the last wait left, if nothing waits.
    idle: Arc<Mutex<Option<Pin<Box<tokio::time::Sleep>>>>>,
}

impl Timer for SilenceTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(self.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        let sleep = match self.idle.lock().take() {
            Some(mut sleep) => {
                if sleep.deadline().into_std() > deadline {
                    sleep.as_mut().reset(deadline.into());
                }
                sleep
            }
            None => Box::pin(tokio::time::sleep_until(deadline.into())),
        };
        Box::pin(Silence { deadline, sleep: Some(sleep), timer: self.clone() })
    }

    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }
}

/// One wait. It ends at its deadline, whenever the timer fires.
struct Silence {
    deadline: Instant,
    /// Always there, until this is dropped.
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
    timer: SilenceTimer,
}

impl Sleep for Silence {}

impl Future for Silence {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let Some(sleep) = &mut this.sleep else { return Poll::Ready(()) };
        loop {
            ready!(sleep.as_mut().poll(context));
            if this.timer.now() >= this.deadline {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(this.deadline.into());
        }
    }
}

impl Drop for Silence {
    fn drop(&mut self) {
        *self.timer.idle.lock() = self.sleep.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_end_at_their_own_deadlines_however_many_were_given_up() {
        let (timer, short, long) =
            (SilenceTimer::default(), Duration::from_millis(20), Duration::from_millis(100));
        for _ in 0..3 {
            // The wait is polled once, and given up, like one for a head that arrives.
            assert!(tokio::time::timeout(short, timer.sleep(long)).await.is_err());
        }
        // The timer is that of the first wait, which fires too early.
        let started = Instant::now();
        timer.sleep(long).await;
        assert!(started.elapsed() >= long, "{:?}", started.elapsed());
        // A wait that is shorter than what is left of the last one.
        drop(timer.sleep(Duration::from_secs(3600)));
        let started = Instant::now();
        timer.sleep(long).await;
        assert!(started.elapsed() >= long && started.elapsed() < Duration::from_secs(60));
    }
}
