//! When a delivery that failed is tried again.

use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::store::{Delivery, Timestamp};

/// For how long a delivery is tried: a weekend and a working day.
pub const RETRY_FOR: Duration = Duration::from_secs(72 * 3600);

/// The waits after the first attempts, in seconds. The last one repeats.
const WAITS: [u32; 9] = [5, 30, 120, 600, 1800, 3600, 2 * 3600, 4 * 3600, 8 * 3600];

/// The longest wait that a receiver can ask for with `Retry-After`.
const LONGEST_ASKED: Duration = Duration::from_secs(8 * 3600);

/// When to try again after the attempt that began at `now`; `None` if the time for retries is over. A receiver can
/// ask for a longer wait, not for a shorter one.
pub fn next_try(delivery: &Delivery, now: Timestamp, asked: Option<Duration>) -> Option<Timestamp> {
    let last = WAITS.len() - 1;
    let wait = f64::from(WAITS[(delivery.attempts as usize).min(last)]) * jitter(delivery);
    let asked = asked.unwrap_or_default().min(LONGEST_ASKED).as_secs_f64();
    let next = Timestamp(now.0.saturating_add((wait.max(asked) * 1e6) as i64));
    let until = delivery.since.0.saturating_add(RETRY_FOR.as_micros() as i64);
    (next.0 <= until).then_some(next)
}

/// Between 0.8 and 1.2, so that deliveries that failed together are not repeated together. It follows from the delivery
/// and the attempt, so a schedule repeats exactly.
fn jitter(delivery: &Delivery) -> f64 {
    let mut hash = Sha256::new();
    hash.update(delivery.id.to_string());
    hash.update(delivery.attempts.to_le_bytes());
    let digest = hash.finalize();
    let [a, b, ..] = digest[..] else { return 1.0 };
    0.8 + 0.4 * f64::from(u16::from_le_bytes([a, b])) / f64::from(u16::MAX)
}

/// The wait that a `Retry-After` header asks for: seconds, or a date.
pub fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = chrono::DateTime::parse_from_rfc2822(text.trim()).ok()?;
    u64::try_from(date.timestamp_micros().saturating_sub(now.0)).ok().map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{DeliveryId, DeliveryStatus, EventKind, WebhookId};

    fn delivery(attempts: u32) -> Delivery {
        Delivery {
            id: DeliveryId::new(),
            webhook_id: WebhookId::new(),
            event_id: "e".into(),
            kind: EventKind::Ping,
            subject: "s".into(),
            data: serde_json::json!({}),
            created_at: Timestamp(0),
            status: DeliveryStatus::Pending,
            since: Timestamp(0),
            attempts,
            next_at: Some(Timestamp(0)),
            last_at: None,
            last_status: None,
            last_error: None,
            ended_at: None,
        }
    }

    fn wait(delivery: &Delivery, asked: Option<u64>) -> f64 {
        next_try(delivery, Timestamp(0), asked.map(Duration::from_secs)).unwrap().seconds_since(Timestamp(0))
    }

    #[test]
    fn waits_grow_and_are_spread() {
        for (attempts, expected) in [(0, 5.0), (1, 30.0), (4, 1800.0), (8, 28_800.0), (1000, 28_800.0)] {
            let waits: Vec<f64> = (0..64).map(|_| wait(&delivery(attempts), None)).collect();
            assert!(
                waits.iter().all(|wait| (0.8..=1.2).contains(&(wait / expected))),
                "{attempts}: {waits:?}"
            );
            let (min, max) = waits.iter().fold((f64::MAX, 0.0f64), |(a, b), w| (a.min(*w), b.max(*w)));
            assert!(max / min > 1.2, "{attempts}: they are not spread: {waits:?}");
        }
        let same = delivery(3);
        assert_eq!(wait(&same, None), wait(&same, None));
    }

    #[test]
    fn receivers_can_ask_for_longer_waits_within_limits() {
        assert_eq!(wait(&delivery(0), Some(100)), 100.0);
        assert!(wait(&delivery(2), Some(1)) > 90.0);
        assert_eq!(wait(&delivery(0), Some(u32::MAX.into())), 28_800.0);
        let now = Timestamp(1_700_000_000_000_000);
        assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Tue, 14 Nov 2023 22:14:20 GMT", now), Some(Duration::from_secs(60)));
        assert_eq!(retry_after("Tue, 14 Nov 2023 22:12:20 GMT", now), None);
        for nonsense in ["", "-1", "1.5", "soon", "99999999999999999999"] {
            assert_eq!(retry_after(nonsense, now), None, "{nonsense}");
        }
    }

    #[test]
    fn retries_end_after_three_days() {
        let (mut now, mut tries) = (Timestamp(0), 0);
        let mut failing = delivery(0);
        while let Some(next) = next_try(&failing, now, None) {
            (now, tries) = (next, tries + 1);
            failing.attempts += 1;
        }
        assert!((14..=18).contains(&tries), "{tries}");
        assert!(now.seconds_since(Timestamp(0)) > 60.0 * 3600.0, "{}", now.0);
    }
}
