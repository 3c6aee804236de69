//! A bucket in this process: files behind the protocol of S3, with failures on demand.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s_fs::FileSystem;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

/// What the bucket does with requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mood {
    /// It answers.
    Well,
    /// It answers every third request with this status.
    Sometimes(u16),
    /// It answers every request with this status.
    Always(u16),
    /// It answers after this many milliseconds.
    Slow(u64),
}

/// The number that stands for a mood, so that it can be changed while requests are answered.
fn encode(mood: Mood) -> u64 {
    match mood {
        Mood::Well => 0,
        Mood::Sometimes(status) => 1 << 32 | u64::from(status),
        Mood::Always(status) => 2 << 32 | u64::from(status),
        Mood::Slow(milliseconds) => 3 << 32 | milliseconds,
    }
}

/// The bucket `data`. Its server makes names of files of its name and of keys, so both must be short.
pub struct Bucket {
    directory: tempfile::TempDir,
    url: String,
    mood: Arc<AtomicU64>,
    failed: Arc<AtomicU64>,
    _runtime: Runtime,
}

pub const KEY_ID: &str = "test-key";
pub const SECRET: &str = "test-secret-that-must-not-be-shown";

impl Bucket {
    pub fn start() -> Bucket {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("data")).unwrap();
        Bucket::on(directory)
    }

    /// On a directory that has the files of another bucket.
    pub fn on(directory: tempfile::TempDir) -> Bucket {
        let mut service = S3ServiceBuilder::new(FileSystem::new(directory.path()).unwrap());
        service.set_auth(SimpleAuth::from_single(KEY_ID, SECRET));
        let (service, mood, failed) =
            (service.build(), Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        runtime.spawn(serve(listener, service, mood.clone(), failed.clone()));
        Bucket { directory, url, mood, failed, _runtime: runtime }
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// The folder with the files.
    pub fn files(&self) -> &Path {
        self.directory.path()
    }

    pub fn set(&self, mood: Mood) {
        self.mood.store(encode(mood), Ordering::SeqCst);
    }

    /// How many requests have failed on demand.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::SeqCst)
    }
}

async fn serve(listener: TcpListener, service: S3Service, mood: Arc<AtomicU64>, failed: Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (service, mood, failed, count) = (service.clone(), mood.clone(), failed.clone(), count.clone());
        let answer = service_fn(move |request| {
            let (service, mood, failed, count) =
                (service.clone(), mood.clone(), failed.clone(), count.clone());
            async move {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let mood = mood.load(Ordering::SeqCst);
                let status = match (mood >> 32, mood as u32) {
                    (1, status) if number % 3 == 0 => Some(status),
                    (2, status) => Some(status),
                    (3, milliseconds) => {
                        tokio::time::sleep(Duration::from_millis(milliseconds.into())).await;
                        None
                    }
                    _ => None,
                };
                if let Some(status) = status {
                    failed.fetch_add(1, Ordering::SeqCst);
                    let response = hyper::Response::builder().status(status as u16);
                    return Ok::<_, Infallible>(response.body(s3s::Body::empty()).unwrap());
                }
                let answered = hyper::service::Service::call(&service, request).await;
                Ok(answered.unwrap_or_else(|error| {
                    let response = hyper::Response::builder().status(500);
                    response.body(s3s::Body::from(format!("{error:?}"))).unwrap()
                }))
            }
        });
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
        tokio::spawn(connection);
    }
}
