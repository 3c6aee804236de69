//! Deliveries to receivers in this process: retries by a clock that the test sets, what is written, and what is not
//! reached.

#[path = "../common/receiver.rs"]
mod receiver;

use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use guarantor::notify::{AllowList, Clock, Notifier, NotifySettings, RETRY_FOR, SystemClock, signature};
use guarantor::queue::{Queue, QueueSettings};
use guarantor::store::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use receiver::{Receiver, Reply};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{Connection, SqliteConnection};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, Stream};

use crate::support::{dataset, job, store, workspace};

const TERMS: LeaseTerms = LeaseTerms { duration: Duration::from_secs(60), max_attempts: 3 };
const HOUR: i64 = 3_600_000_000;

/// The clock of the machine and what the test adds to it.
#[derive(Default)]
struct Ahead(AtomicI64);

impl Ahead {
    /// Sets the clock to a later time.
    fn set(&self, time: Timestamp) {
        self.0.fetch_max(time.0 - Timestamp::now().0 + 1000, Ordering::SeqCst);
    }
}

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        Timestamp(Timestamp::now().0 + self.0.load(Ordering::SeqCst))
    }
}

fn settings(allow: &str, private: &str, ca_file: &Path) -> NotifySettings {
    let allow = AllowList::parse(allow, private).unwrap();
    NotifySettings { allow, ca_file: ca_file.to_owned(), public_url: String::new() }
}

fn notifier(store: &Store, allow: &str, clock: Arc<dyn Clock>) -> Notifier {
    Notifier::new(store.clone(), settings(allow, "", Path::new("")), clock).unwrap()
}

async fn webhook(store: &Store, url: &str) -> Webhook {
    let definition = WebhookDefinition {
        name: String::new(),
        url: url.into(),
        events: EventKind::OF_JOBS.into(),
        dataset_id: None,
        decision: None,
    };
    let new = NewWebhook {
        id: WebhookId::new(),
        workspace: workspace("a"),
        definition,
        enabled: true,
        secret: WebhookSecret::of(&[5; 32]),
        by: "ada".into(),
    };
    store.repository().create_webhook(new, 100).await.unwrap()
}

/// A job that has ended.
async fn ended(store: &Store) -> JobId {
    let dataset = dataset(store.repository(), "a").await;
    let job = job(store.repository(), &dataset).await;
    store.repository().cancel_job(&dataset.workspace, job.id).await.unwrap();
    job.id
}

async fn only_delivery(store: &Store, webhook: &Webhook) -> Delivery {
    let page = PageRequest::first(9);
    let mut all = store.repository().deliveries(&webhook.workspace, webhook.id, &page).await.unwrap().data;
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

async fn state_of(store: &Store, webhook: &Webhook) -> Webhook {
    store.repository().webhook(&webhook.workspace, webhook.id).await.unwrap()
}

/// Closes connections without an answer until it is told to answer.
fn dead_until(alive: &Arc<AtomicBool>) -> Receiver {
    let alive = alive.clone();
    Receiver::answering(move |_, _| match alive.load(Ordering::SeqCst) {
        true => Reply::Status(200, ""),
        false => Reply::Close,
    })
}

async fn query(directory: &Path, sql: &'static str) {
    let options = SqliteConnectOptions::new().filename(directory.join("guarantor.sqlite"));
    let mut database = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut database).await.unwrap();
    database.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_was_dead_for_24_hours_gets_its_event_once() {
    let (_directory, store) = store().await;
    let alive = Arc::default();
    let receiver = dead_until(&alive);
    let hook = webhook(&store, &receiver.url()).await;
    let clock = Arc::new(Ahead::default());
    let notifier = notifier(&store, &receiver.url(), clock.clone());
    let job = ended(&store).await;
    let began = only_delivery(&store, &hook).await.created_at;
    let mut waits = Vec::new();
    while clock.now().0 < began.0 + 24 * HOUR {
        let before = clock.now();
        let next = notifier.deliver_due().await.unwrap().expect("it is tried again");
        waits.push(next.seconds_since(before));
        clock.set(next);
    }
    let failing = only_delivery(&store, &hook).await;
    assert_eq!(failing.status, DeliveryStatus::Pending);
    assert!((9..=13).contains(&failing.attempts), "{} attempts: {waits:?}", failing.attempts);
    assert_eq!(failing.last_error.as_deref(), Some("the receiver closed the connection without a response"));
    let since = state_of(&store, &hook).await.failing_since.unwrap();
    assert!(since.seconds_since(began) < 60.0 && since >= began);
    // It is back. Nothing is sent before its time, and then the same event.
    alive.store(true, Ordering::SeqCst);
    assert_eq!(notifier.deliver_due().await.unwrap(), None);
    let delivered = only_delivery(&store, &hook).await;
    assert_eq!((delivered.status, delivered.last_status), (DeliveryStatus::Delivered, Some(200)));
    let received = receiver.received();
    assert_eq!(received.len(), delivered.attempts as usize);
    for request in &received {
        assert_eq!((request.event_id(), &request.body), (received[0].event_id(), &received[0].body));
        let seconds: i64 = request.header("webhook-timestamp").parse().unwrap();
        let expected =
            signature(hook.secrets(clock.now()), request.event_id(), seconds, request.body.as_bytes());
        assert_eq!(request.header("webhook-signature"), expected);
    }
    assert_eq!(received[0].event_id(), format!("{job}-cancelled"));
    let well = state_of(&store, &hook).await;
    assert!(well.failing_since.is_none() && well.last_success_at.is_some());
    clock.set(Timestamp(clock.now().0 + 100 * HOUR));
    assert_eq!(notifier.deliver_due().await.unwrap(), None);
    assert_eq!(receiver.received().len(), received.len(), "a delivery that has ended is not repeated");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_fails_after_three_days_and_can_be_asked_for_again() {
    let (_directory, store) = store().await;
    let alive = Arc::default();
    let receiver = dead_until(&alive);
    let hook = webhook(&store, &receiver.url()).await;
    let clock = Arc::new(Ahead::default());
    let notifier = notifier(&store, &receiver.url(), clock.clone());
    ended(&store).await;
    while let Some(next) = notifier.deliver_due().await.unwrap() {
        clock.set(next);
    }
    let failed = only_delivery(&store, &hook).await;
    assert_eq!((failed.status, failed.next_at), (DeliveryStatus::Failed, None));
    let tried = failed.ended_at.unwrap().seconds_since(failed.created_at);
    assert!((60.0 * 3600.0..=RETRY_FOR.as_secs_f64()).contains(&tried), "{tried}");
    assert!((14..=18).contains(&failed.attempts), "{}", failed.attempts);
    assert!(state_of(&store, &hook).await.failing_since.is_some());
    // The clock of the database did not move, so this is due at once.
    alive.store(true, Ordering::SeqCst);
    store.repository().redeliver(&hook.workspace, hook.id, failed.id).await.unwrap();
    assert_eq!(notifier.deliver_due().await.unwrap(), None);
    let again = only_delivery(&store, &hook).await;
    assert_eq!((again.status, again.event_id), (DeliveryStatus::Delivered, failed.event_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_decide_what_follows() {
    let (_directory, store) = store().await;
    let elsewhere = Receiver::start();
    let location = format!("location: {}\r\n", elsewhere.url());
    let location: &'static str = location.leak();
    let receiver = Receiver::answering(move |number, _| match number {
        0 => Reply::Status(302, location),
        1 => Reply::Status(503, "retry-after: 7200\r\n"),
        2 => Reply::Status(404, "retry-after: 99999999\r\n"),
        3 => Reply::Garbage,
        _ => Reply::Status(202, ""),
    });
    let hook = webhook(&store, &receiver.url()).await;
    let clock = Arc::new(Ahead::default());
    let allow = format!("{},{}", receiver.url(), elsewhere.url());
    let notifier = notifier(&store, &allow, clock.clone());
    ended(&store).await;
    for (status, words, wait) in [
        (Some(302), "redirects are not followed", 3.0..7.0),
        (Some(503), "answered 503", 7195.0..7205.0),
        (Some(404), "answered 404", 28_795.0..28_805.0),
        (None, "not HTTP/1.1", 400.0..800.0),
    ] {
        let before = clock.now();
        let next = notifier.deliver_due().await.unwrap().unwrap();
        let delivery = only_delivery(&store, &hook).await;
        assert_eq!(delivery.last_status, status);
        assert!(delivery.last_error.unwrap().contains(words), "{words}");
        assert!(wait.contains(&next.seconds_since(before)), "{status:?}: {}", next.seconds_since(before));
        clock.set(next);
    }
    assert_eq!(notifier.deliver_due().await.unwrap(), None);
    assert_eq!(only_delivery(&store, &hook).await.last_status, Some(202));
    assert!(elsewhere.received().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_does_not_answer_holds_up_nobody_else() {
    let (_directory, store) = store().await;
    let slow = Receiver::answering(|_, _| Reply::Hold);
    let quick = Receiver::start();
    let (slow_hook, quick_hook) = (webhook(&store, &slow.url()).await, webhook(&store, &quick.url()).await);
    let allow = format!("{},{}", slow.url(), quick.url());
    let notifier = notifier(&store, &allow, Arc::new(SystemClock));
    let queue = Queue::new(store.clone(), QueueSettings::default());
    let delivering = notifier.start(queue.ended());
    for _ in 0..6 {
        ended(&store).await;
    }
    notifier.wake();
    let arrived = tokio::task::block_in_place(|| quick.wait_for(6));
    assert_eq!(arrived.len(), 6);
    // None of the slow one's deliveries has ended.
    tokio::task::block_in_place(|| slow.wait_for(2));
    let page = PageRequest::first(9);
    let waiting = store.repository().deliveries(&slow_hook.workspace, slow_hook.id, &page).await.unwrap();
    assert_eq!(waiting.data.len(), 6);
    assert!(waiting.data.iter().all(|delivery| delivery.status == DeliveryStatus::Pending));
    // It can be deleted while its deliveries run.
    store.delete_webhook(&slow_hook.workspace, slow_hook.id).await.unwrap();
    assert!(state_of(&store, &quick_hook).await.failing_since.is_none());
    delivering.shutdown(Duration::ZERO).await;
}

/// What a full or read-only disk does: a delivery that cannot be written down is not repeated.
#[tokio::test(flavor = "multi_thread")]
async fn as_long_as_an_end_cannot_be_written_nothing_is_sent_again() {
    let (directory, store) = store().await;
    let receiver = Receiver::start();
    let hook = webhook(&store, &receiver.url()).await;
    let notifier = notifier(&store, &receiver.url(), Arc::new(SystemClock));
    ended(&store).await;
    query(
        directory.path(),
        "CREATE TRIGGER full BEFORE UPDATE ON deliveries BEGIN SELECT RAISE(ABORT, 'full'); END",
    )
    .await;
    let queue = Queue::new(store.clone(), QueueSettings::default());
    let delivering = notifier.start(queue.ended());
    tokio::task::block_in_place(|| receiver.wait_for(1));
    for _ in 0..20 {
        notifier.wake();
        // A job still ends, and its event is stored.
        ended(&store).await;
    }
    assert_eq!(receiver.received().len(), 1);
    query(directory.path(), "DROP TRIGGER full").await;
    notifier.wake();
    let all = tokio::task::block_in_place(|| receiver.wait_for(21));
    let ids: std::collections::BTreeSet<&str> = all.iter().map(|request| request.event_id()).collect();
    assert_eq!(ids.len(), 21, "each event was sent once");
    delivering.shutdown(Duration::from_secs(60)).await;
    assert_eq!(store.repository().outbox_depth().await.unwrap().pending, 0);
    assert!(state_of(&store, &hook).await.last_success_at.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_with_private_addresses_are_not_reached_unless_the_operator_says_so() {
    let (_directory, store) = store().await;
    let receiver = Receiver::start();
    let url = format!("http://localhost:{}/hook", receiver.address.port());
    let hook = webhook(&store, &url).await;
    let clock = Arc::new(Ahead::default());
    let refusing = notifier(&store, &url, clock.clone());
    ended(&store).await;
    clock.set(refusing.deliver_due().await.unwrap().unwrap());
    let delivery = only_delivery(&store, &hook).await;
    assert!(delivery.last_error.unwrap().contains("an address that is not public"));
    // The operator has changed the list since the webhook was created.
    let other = notifier(&store, "http://other.example/", clock.clone());
    clock.set(other.deliver_due().await.unwrap().unwrap());
    assert!(only_delivery(&store, &hook).await.last_error.unwrap().contains("webhook_allow"));
    let off = notifier(&store, "", clock.clone());
    clock.set(off.deliver_due().await.unwrap().unwrap());
    assert!(receiver.received().is_empty());
    let told = settings(&url, "localhost", Path::new(""));
    let allowing = Notifier::new(store.clone(), told, clock.clone()).unwrap();
    assert_eq!(allowing.deliver_due().await.unwrap(), None);
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_rows_hold_up_neither_jobs_nor_deliveries() {
    let (directory, store) = store().await;
    let receiver = Receiver::start();
    let broken = webhook(&store, &receiver.url()).await;
    ended(&store).await;
    query(directory.path(), "UPDATE webhooks SET definition = 'x'").await;
    let whole = webhook(&store, &receiver.url()).await;
    let job = ended(&store).await;
    let notifier = notifier(&store, &receiver.url(), Arc::new(SystemClock));
    assert_eq!(notifier.deliver_due().await.unwrap(), None);
    let received = receiver.received();
    assert_eq!(received.len(), 1);
    assert_eq!(received[0].json()["data"]["job_id"], job.to_string());
    store.delete_webhook(&broken.workspace, broken.id).await.unwrap();
    // A delivery that cannot be read has failed.
    ended(&store).await;
    query(directory.path(), "UPDATE deliveries SET data = 'x' WHERE status = 'pending'").await;
    assert_eq!(notifier.deliver_due().await.unwrap(), None);
    assert_eq!(receiver.received().len(), 1);
    // The end of a job whose row is damaged is an event too.
    let data = dataset(store.repository(), "a").await;
    let damaged = crate::support::job(store.repository(), &data).await;
    query(directory.path(), "UPDATE jobs SET spec = 'x' WHERE status = 'queued'").await;
    assert!(store.repository().claim_job(&TERMS).await.unwrap().is_none());
    assert_eq!(notifier.deliver_due().await.unwrap(), None);
    let told = receiver.received().pop().unwrap();
    assert_eq!(told.event_id(), format!("{}-failed", damaged.id));
    assert_eq!(told.json()["data"]["error"]["code"], "job_unreadable");
    assert!(state_of(&store, &whole).await.failing_since.is_none());
}

/// A certificate of an authority of its own for 127.0.0.1: the authority's PEM file, and the server's settings.
fn authority(directory: &Path) -> (PathBuf, ServerConfig) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let (key, server_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let file = directory.join("ca.pem");
    std::fs::write(&file, params.self_signed(&key).unwrap().pem()).unwrap();
    let issuer = Issuer::new(params, key);
    let own = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let certificate = own.signed_by(&server_key, &issuer).unwrap();
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], secret);
    (file, config.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_with_tls_need_a_certificate_that_is_trusted() {
    let (directory, store) = store().await;
    let (ca_file, server) = authority(directory.path());
    let other = tempfile::tempdir().unwrap();
    let (other_ca, _) = authority(other.path());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/hook", listener.local_addr().unwrap());
    let server = Arc::new(server);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut tls = ServerConnection::new(server.clone()).unwrap();
            let mut both = Stream::new(&mut tls, &mut stream);
            // Fails if the client does not trust us.
            if receiver::read(&mut BufReader::new(&mut both)).is_ok() {
                let _ = both.write_all(b"HTTP/1.1 204 x\r\n\r\n");
                both.conn.send_close_notify();
                let _ = both.flush();
            }
        }
    });
    let hook = webhook(&store, &url).await;
    let clock = Arc::new(Ahead::default());
    ended(&store).await;
    let wary = Notifier::new(store.clone(), settings(&url, "", &other_ca), clock.clone()).unwrap();
    clock.set(wary.deliver_due().await.unwrap().unwrap());
    let error = only_delivery(&store, &hook).await.last_error.unwrap();
    assert!(error.contains("no TLS connection") && error.contains("certificate"), "{error}");
    let trusting = Notifier::new(store.clone(), settings(&url, "", &ca_file), clock.clone()).unwrap();
    assert_eq!(trusting.deliver_due().await.unwrap(), None);
    assert_eq!(only_delivery(&store, &hook).await.status, DeliveryStatus::Delivered);
    let empty = directory.path().join("empty.pem");
    std::fs::write(&empty, "").unwrap();
    let refused = Notifier::new(store.clone(), settings(&url, "", &empty), clock).err().unwrap();
    assert!(refused.contains("webhook_ca_file") && refused.contains("no certificate"), "{refused}");
}
