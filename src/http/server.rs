//! Startup and shutdown: open the store, lock the data directory, bind, serve, drain.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;

use super::codes::Code;
use super::connections::Connections;
use super::datasets::limits;
use super::envelope::{Access, enclose};
use super::layers::public_path;
use super::problem::Problem;
use super::tally::{Rule, Tally};
use super::{App, Shared, auth, jobs, metrics, openapi, tls, ui};
use crate::config::{Config, ConfigError, ServerRole};
use crate::notify::{DatabaseClock, Delivering, Notifier};
use crate::queue::{EngineRunner, JobMemory, Queue, QueueSettings, Workers};
use crate::store::{
    AllowedSources, DirectoryLock, JobChange, LogMemory, QueueLimits, SourceReader, Sources, Store,
    StoreError,
};
use guarantor_ingest::IngestLimits;

/// How often old data is removed. Files that no row names are removed once they are older than the
/// longest upload.
const SWEEP_EVERY: Duration = Duration::from_secs(3600);

/// The most connections of the listener for health checks.
const HEALTH_CONNECTIONS: u32 = 64;

/// How many certificates are recomputed at a time. Each costs as much as the certification in its job
/// did, and does not go through the queue. One workspace gets at most half of them.
const VERIFICATIONS: usize = 4;

/// How many computations a workspace may have running or waiting, for each that runs at a time. So whoever comes
/// next waits for at most this many rounds of another workspace.
const ROUNDS: usize = 4;

/// How many responses are computed at a time. More would only be slower and take more memory.
fn computations() -> usize {
    std::thread::available_parallelism().map_or(2, |n| n.get()).clamp(2, 8)
}

/// How long deliveries in progress may take to end during shutdown. They are repeated after the next start otherwise.
const DELIVERY_GRACE: Duration = Duration::from_secs(5);

/// Why a server did not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// A setting cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The address is in use or does not belong to this machine.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    /// The server stopped by itself.
    #[error("the server stopped: {0}")]
    Io(#[from] std::io::Error),
}

/// A server that is bound to its address, with its workers running.
pub struct Server {
    app: App,
    listener: TcpListener,
    /// The listener for health checks, if they have one of their own.
    health: Option<TcpListener>,
    tls: Option<TlsAcceptor>,
    workers: Workers,
    /// `None` if other servers deliver.
    delivering: Option<Delivering>,
    drain: watch::Sender<bool>,
    /// Held until the server has stopped.
    _lock: DirectoryLock,
}

impl Server {
    /// Opens the store, binds to the address and starts the workers.
    ///
    /// # Errors
    /// If the settings, the data directory or the address cannot be used.
    pub async fn start(config: Config) -> Result<Server, ServerError> {
        let tls = tls::acceptor(&config)?;
        let store = Store::open_at(&config.places()?).await?;
        let memory = LogMemory { max_bytes: config.max_log_memory_bytes, ..store.log_memory().clone() };
        let store = store.with_log_memory(memory);
        let store = match config.allowed_sources()? {
            Some(allowed) => store.with_sources(source_reader(&config, allowed)),
            None => store,
        };
        let keys_exist = !store.repository().keys().await?.is_empty();
        if config.role != ServerRole::Worker {
            config.check_exposure(keys_exist)?;
        }
        let lock = store.take_over(&config.data_dir).await?;
        let store = store.sign_with(&config.signing_key_at()).await?;
        let listener = bind(config.listen).await?;
        let health = match config.health_listen {
            Some(address) => Some(bind(address).await?),
            None => None,
        };
        let queue = Queue::new(store.clone(), queue_settings(&config));
        queue.follow();
        let clock = Arc::new(DatabaseClock(store.clone()));
        let notifier = Notifier::new(store.clone(), config.notify_settings()?, clock);
        let notifier = notifier.map_err(ConfigError)?;
        let memory = config.job_memory();
        let JobMemory { max_bytes, threads } = memory;
        tracing::info!(max_job_memory_bytes = max_bytes, threads, "the most memory that a job may take");
        let (drain, draining) = watch::channel(false);
        let app = App(Arc::new(Shared {
            auth: auth::Auth::new(keys_exist),
            metrics: metrics::install(),
            requests: Tally::new(Rule::Shared(config.max_connections as usize)),
            streams: Tally::new(Rule::Each(config.max_streams_per_key as usize)),
            uploads: Tally::new(Rule::Shared(config.max_concurrent_uploads as usize)),
            uploads_of_keys: Tally::new(Rule::Each(config.max_uploads_per_key as usize)),
            turns: Default::default(),
            computations: Arc::new(Semaphore::new(computations())),
            computing: Tally::new(Rule::Each(ROUNDS * computations())),
            verifications: Tally::new(Rule::Shared(VERIFICATIONS)),
            job_memory: memory,
            config,
            queue: queue.clone(),
            notifier: notifier.clone(),
            answers: jobs::Answers::default(),
            tails: jobs::Tails::default(),
            policies: Default::default(),
            draining,
            store: store.clone(),
        }));
        app.count_ended_jobs();
        let delivering = (app.config.role != ServerRole::Worker).then(|| {
            wake_for_others(&store, &notifier);
            notifier.start(queue.ended())
        });
        let workers = queue.start(Arc::new(EngineRunner::new(store).within(memory)))?;
        Ok(Server { app, listener, health, tls, workers, delivering, drain, _lock: lock })
    }

    #[cfg(test)]
    pub(super) fn app(&self) -> &App {
        &self.app
    }

    /// The base URL.
    pub fn url(&self) -> std::io::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.address()?))
    }

    /// The base URL of the listener for health checks, if there is one.
    pub fn health_url(&self) -> std::io::Result<Option<String>> {
        let address = self.health.as_ref().map(TcpListener::local_addr).transpose()?;
        Ok(address.map(|address| format!("http://{address}")))
    }

    /// The address that it is bound to.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` resolves. Then, in this order: /readyz answers 503 and no job starts;
    /// running jobs get `shutdown_seconds` to end and are queued again otherwise; deliveries to webhooks get a
    /// few seconds; the listener closes; open requests get `shutdown_seconds` to end.
    ///
    /// # Errors
    /// If the server stops by itself.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
        let grace = Duration::from_secs(self.app.config.shutdown_seconds);
        let role = self.app.config.role;
        let sweeper = (role != ServerRole::Worker).then(|| tokio::spawn(sweep(self.app.clone())));
        let counting = tokio::spawn(metrics::sum_up(self.app.metrics.clone()));
        let (close, closing) = watch::channel(false);
        let connections = Connections {
            router: match role {
                ServerRole::Worker => health_router(self.app.clone()),
                ServerRole::All | ServerRole::Api => router(self.app.clone()),
            },
            polled: (role != ServerRole::Worker).then(|| self.app.clone()),
            tls: self.tls,
            silence: Duration::from_secs(self.app.config.header_seconds),
            most: self.app.config.max_connections,
            closing,
        };
        if let Some(health) = self.health {
            let router = health_router(self.app.clone());
            let connections = Connections {
                router,
                polled: None,
                tls: None,
                most: HEALTH_CONNECTIONS,
                ..connections.clone()
            };
            tokio::spawn(connections.serve(health));
        }
        let mut serving = tokio::spawn(connections.serve(self.listener));
        tokio::select! {
            () = stop => {}
            ended = &mut serving => return Ok(ended.map_err(std::io::Error::other)?),
        }
        tracing::info!("shutting down");
        self.drain.send_replace(true);
        if let Some(sweeper) = sweeper {
            sweeper.abort();
        }
        self.workers.shutdown(grace).await;
        if let Some(delivering) = self.delivering {
            delivering.shutdown(grace.min(DELIVERY_GRACE)).await;
        }
        close.send_replace(true);
        if tokio::time::timeout(grace, serving).await.is_err() {
            tracing::warn!("shutdown timed out; closing connections with open requests");
        }
        counting.abort();
        Ok(())
    }
}

async fn bind(address: SocketAddr) -> Result<TcpListener, ServerError> {
    TcpListener::bind(address).await.map_err(|error| ServerError::Listen(address, error))
}

/// Logs by reference have limits of their own: they do not pass through requests.
fn source_reader(config: &Config, allowed: AllowedSources) -> SourceReader {
    let decoded_bytes = config.max_decoded_bytes.max(config.sources_max_bytes);
    SourceReader {
        sources: Sources::new(config.s3()),
        allowed,
        limits: IngestLimits { decoded_bytes, ..limits(config) },
        max_bytes: config.sources_max_bytes,
    }
}

/// Jobs that end on other servers have deliveries too.
fn wake_for_others(store: &Store, notifier: &Notifier) {
    let Some(mut changes) = store.repository().changes() else { return };
    let notifier = notifier.clone();
    tokio::spawn(async move {
        loop {
            match changes.recv().await {
                Ok(JobChange::Ended(_)) | Err(RecvError::Lagged(_)) => notifier.wake(),
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            }
        }
    });
}

fn queue_settings(config: &Config) -> QueueSettings {
    QueueSettings {
        workers: if config.role == ServerRole::Api { 0 } else { config.workers },
        threads_per_job: config.threads().div_ceil(config.workers),
        lease: config.lease(),
        max_attempts: config.max_attempts,
        limits: QueueLimits {
            total: Some(config.max_queued_jobs),
            workspace: Some(config.max_queued_jobs_per_workspace),
        },
        ..QueueSettings::default()
    }
}

async fn sweep(app: App) {
    let orphan_age = Duration::from_secs(app.config.upload_seconds) + SWEEP_EVERY;
    loop {
        match app.store.repository().may_tidy().await {
            Ok(true) => {
                if let Err(error) = app.store.sweep(app.config.retention(), orphan_age).await {
                    tracing::warn!(%error, "cannot remove old data");
                }
            }
            // Another server does it.
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, "cannot find out which server removes old data"),
        }
        tokio::time::sleep(SWEEP_EVERY).await;
    }
}

pub(super) fn router(app: App) -> Router {
    let (open, guarded, api) = openapi::assemble(app.config.metrics_need_key);
    let open = match app.config.dashboard {
        true => open.merge(ui::routes()),
        false => open,
    };
    let open = open.merge(openapi::pages(api)).fallback(no_such_route);
    let open = enclose(open.method_not_allowed_fallback(method_not_allowed), &app, Access::Open);
    let guarded = enclose(guarded.method_not_allowed_fallback(method_not_allowed), &app, Access::Guarded);
    open.merge(guarded).with_state(app)
}

/// What the listener for health checks serves.
fn health_router(app: App) -> Router {
    let (open, guarded) = openapi::health(app.config.metrics_need_key);
    let open = open.fallback(no_such_route).method_not_allowed_fallback(method_not_allowed);
    let guarded = enclose(guarded, &app, Access::Guarded);
    enclose(open, &app, Access::Health).merge(guarded).with_state(app)
}

async fn no_such_route(request: Request) -> Problem {
    Problem::new(
        Code::NoSuchRoute,
        format!("{} does not exist; /docs lists every path.", public_path(request.uri().path())),
    )
}

async fn method_not_allowed(method: Method) -> Problem {
    Problem::new(
        Code::MethodNotAllowed,
        format!("{method} is not allowed for this path; /docs lists the allowed methods."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Workspace;
    use axum::body::{Body, Bytes};
    use futures_util::{FutureExt, stream};
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;
    use tokio::sync::mpsc;

    const ROW: &str = "{\"x\":[0.5],\"action\":1,\"propensity\":0.5,\"cost\":-1}\n";

    async fn server(directory: &std::path::Path, more: &[(&'static str, &str)]) -> Server {
        let mut flags = vec![("listen", "127.0.0.1:0".into())];
        flags.push(("data_dir", directory.to_str().unwrap().into()));
        flags.extend(more.iter().map(|(name, value)| (*name, value.to_string())));
        Server::start(Config::load(None, &flags).unwrap()).await.unwrap()
    }

    fn upload(body: Body) -> axum::http::Request<Body> {
        let request = axum::http::Request::post("/v1/datasets");
        request.header("content-type", "application/x-ndjson").body(body).unwrap()
    }

    fn post(path: &str, body: &serde_json::Value) -> axum::http::Request<Body> {
        let request = axum::http::Request::post(path).header("content-type", "application/json");
        request.body(Body::from(body.to_string())).unwrap()
    }

    async fn json(response: axum::response::Response) -> serde_json::Value {
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 24).await.unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

    #[tokio::test]
    async fn verifications_over_the_share_of_a_workspace_are_rejected() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path(), &[]).await;
        let service = TowerToHyperService::new(router(server.app.clone()));
        let get = |path: String| axum::http::Request::get(path).body(Body::empty()).unwrap();
        let row = "{\"action\":1,\"propensities\":[0.5,0.5],\"cost\":-1,\"candidates\":{\"new\":0.9}}\n";
        let dataset = json(service.call(upload(Body::from(row))).await.unwrap()).await;
        let spec = serde_json::json!({"dataset_id": dataset["id"], "independent_of_log": true,
            "candidates": [{"kind": "logged", "name": "new"}]});
        let job = json(service.call(post("/v1/jobs", &spec)).await.unwrap()).await;
        let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
        let done = json(service.call(get(format!("{path}?wait=60"))).await.unwrap()).await;
        assert_eq!(done["status"], "succeeded", "{done}");
        let document = json(service.call(get(format!("{path}/certificate"))).await.unwrap()).await;
        let verify = || service.call(post("/v1/certificates/verify", &document));
        let hold = |workspace: Workspace| -> Vec<_> {
            std::iter::from_fn(|| server.app.verifications.take(&workspace).ok()).collect()
        };
        // Whatever another workspace asks for, it does not get everything.
        let of_other = hold("other".parse().unwrap());
        assert_eq!(of_other.len(), VERIFICATIONS / 2);
        assert_eq!(json(verify().await.unwrap()).await["valid"], true);
        let own = hold(Workspace::default());
        let rejected = verify().await.unwrap();
        assert_eq!(rejected.status(), 429);
        assert!(rejected.headers().contains_key("retry-after"));
        assert_eq!(json(rejected).await["code"], "too_many_verifications");
        drop(own);
        assert_eq!(json(verify().await.unwrap()).await["valid"], true);
        drop(of_other);
        assert_eq!(server.app.verifications.in_use(), 0);
    }

    #[tokio::test]
    async fn a_workspace_has_few_computations_in_front_of_those_of_others() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path(), &[]).await;
        let app = &server.app;
        let service = TowerToHyperService::new(router(app.clone()));
        let policy = serde_json::json!({"kind": "softmax", "mean": [[0.5, -0.5]]});
        let policy = json(service.call(post("/v1/policies", &policy)).await.unwrap()).await;
        let path = format!("/v1/policies/{}", policy["id"].as_str().unwrap());
        let contexts = serde_json::json!({"contexts": [[1.0]]});
        let ask = |what: &str| service.call(post(&format!("{path}/{what}"), &contexts));
        // Nothing is computed, so requests wait.
        let all = app.computations.clone().acquire_many_owned(computations() as u32).await.unwrap();
        let most = ROUNDS * computations();
        let waiting: Vec<_> = (0..most)
            .map(|i| tokio::spawn(ask(if i % 2 == 0 { "propensities" } else { "actions" })))
            .collect();
        while app.computing.in_use() < most {
            tokio::task::yield_now().await;
        }
        for what in ["propensities", "actions"] {
            let rejected = ask(what).await.unwrap();
            assert_eq!(
                (rejected.status().as_u16(), &rejected.headers()["retry-after"]),
                (429, &"1".parse().unwrap())
            );
            assert_eq!(json(rejected).await["code"], "too_many_requests");
        }
        let other: Workspace = "other".parse().unwrap();
        let mut of_other = Box::pin(app.compute(&other, || 7));
        assert!(of_other.as_mut().now_or_never().is_none(), "it waits, and is not rejected");
        drop(all);
        assert_eq!(of_other.await.ok(), Some(7));
        for answer in waiting {
            assert_eq!(answer.await.unwrap().unwrap().status(), 200);
        }
        assert_eq!(ask("actions").await.unwrap().status(), 200);
        assert_eq!(app.computing.in_use(), 0);
    }

    #[tokio::test]
    async fn an_upload_whose_client_disconnected_counts_until_it_ends() {
        let directory = tempfile::tempdir().unwrap();
        let server = server(directory.path(), &[("max_concurrent_uploads", "1")]).await;
        let service = TowerToHyperService::new(router(server.app.clone()));
        let (rows, body) = mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let body = stream::unfold(body, |mut body| async { body.recv().await.map(|row| (row, body)) });
        let mut answer = Box::pin(service.call(upload(Body::from_stream(body))));
        // The channel holds one row, so if the second can be sent, the work has taken the first.
        let under_way = async {
            rows.send(Ok(ROW.into())).await.unwrap();
            rows.send(Ok(ROW.into())).await.unwrap();
        };
        tokio::select! {
            _ = &mut answer => panic!("a response before the end of the body"),
            () = under_way => {}
        }
        drop(answer);
        assert_eq!(server.app.uploads.in_use(), 1);
        let rejected = service.call(upload(Body::from(ROW))).await.unwrap();
        assert_eq!(rejected.status(), 429);
        drop(rows);
        while server.app.uploads.in_use() > 0 {
            tokio::task::yield_now().await;
        }
    }
}
