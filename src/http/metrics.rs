//! `/metrics` in the format of Prometheus. docs/operations.md lists the names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

use axum::extract::State;
use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use metrics::{Counter, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};

use super::App;
use super::problem::Problem;
use crate::store::Job;
use guarantor_engine::certificate::Decision;

const SECONDS: [f64; 12] = [0.001, 0.005, 0.02, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 120.0, 600.0, 3600.0];

/// How often histograms are summed up. A recorded number takes 16 bytes until then.
const SUM_UP_EVERY: Duration = Duration::from_secs(5);

/// Installs the recorder. A process has one; later calls return the first.
pub fn install() -> PrometheusHandle {
    static HANDLE: std::sync::OnceLock<PrometheusHandle> = std::sync::OnceLock::new();
    let build = || {
        let builder = PrometheusBuilder::new();
        let buckets = Matcher::Suffix("_seconds".into());
        let recorder = match builder.set_buckets_for_metric(buckets, &SECONDS) {
            Ok(builder) => builder.build_recorder(),
            Err(_) => PrometheusBuilder::new().build_recorder(),
        };
        let handle = recorder.handle();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another metrics recorder is installed; /metrics will be empty");
        }
        handle
    };
    HANDLE.get_or_init(build).clone()
}

/// Sums up what histograms have recorded, for as long as it is polled. Every request would take memory otherwise, until
/// somebody asks for the metrics.
pub async fn sum_up(handle: PrometheusHandle) {
    loop {
        tokio::time::sleep(SUM_UP_EVERY).await;
        handle.run_upkeep();
    }
}

/// The counters of one method, route and status. Looking them up costs more than most responses, so
/// they are looked up once.
struct Counted {
    method: &'static str,
    status: u16,
    requests: Counter,
    duration: Histogram,
}

impl Counted {
    fn new(method: &'static str, route: &str, status: u16) -> Counted {
        let labels = [("method", method.into()), ("route", route.to_owned()), ("status", status.to_string())];
        Counted {
            method,
            status,
            requests: counter!("guarantor_requests_total", &labels),
            duration: histogram!("guarantor_request_duration_seconds", &labels[..2]),
        }
    }

    fn count(&self, seconds: f64) {
        self.requests.increment(1);
        self.duration.record(seconds);
    }
}

/// Counts a request.
pub fn request(method: &Method, route: &str, status: u16, seconds: f64) {
    // Every thread has looked up its own, so that they need no lock. What they count is counted together.
    thread_local! {
        static COUNTED: RefCell<HashMap<String, Vec<Counted>>> = RefCell::default();
    }
    let method = method_label(method);
    COUNTED.with_borrow_mut(|routes| {
        let of_route = routes.get(route).map_or(&[][..], Vec::as_slice);
        if let Some(found) = of_route.iter().find(|c| c.method == method && c.status == status) {
            return found.count(seconds);
        }
        let new = Counted::new(method, route, status);
        new.count(seconds);
        routes.entry(route.to_owned()).or_default().push(new);
    });
}

/// Clients can invent methods, which must not fill the memory with counters.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Counts an upload.
pub fn upload(bytes: u64, rows: u64) {
    counter!("guarantor_uploads_total").increment(1);
    counter!("guarantor_uploaded_bytes_total").increment(bytes);
    counter!("guarantor_uploaded_rows_total").increment(rows);
}

/// Counts a job that ended: its wait, its compute time, how it ended and what was decided.
pub fn job_ended(job: &Job) {
    counter!("guarantor_jobs_total", "status" => job.status.name()).increment(1);
    if let (Some(started), Some(waited)) = (job.started_at, job.wait_seconds()) {
        histogram!("guarantor_job_wait_seconds").record(waited);
        if let Some(finished) = job.finished_at {
            histogram!("guarantor_job_compute_seconds").record(finished.seconds_since(started));
        }
    }
    if let Some(failure) = &job.failure {
        counter!("guarantor_job_failures_total", "code" => failure.code.name()).increment(1);
    }
    if let Some(result) = &job.result {
        counter!("guarantor_decisions_total", "decision" => result.decision.name()).increment(1);
        if result.decision == Decision::Keep {
            for reason in &result.reasons {
                counter!("guarantor_keep_reasons_total", "reason" => reason.code.name()).increment(1);
            }
        }
    }
}

/// Get metrics in the text format of Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "Operations",
    responses((status = 200, description = "Metrics", body = String, content_type = "text/plain"),
              (status = 503, description = "`unavailable`: the store is unreachable")))]
pub async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let depth = app.store.repository().queue_depth().await?;
    let (rows, files) = (app.store.repository().is_shared(), app.store.blobs().are_files());
    let labels = [
        ("role", app.config.role.name()),
        ("database", if rows { "postgres" } else { "sqlite" }),
        ("blobs", if files { "files" } else { "s3" }),
    ];
    gauge!("guarantor_server_info", &labels).set(1.0);
    gauge!("guarantor_queue_depth").set(depth.queued as f64);
    gauge!("guarantor_jobs_running").set(depth.running as f64);
    gauge!("guarantor_queue_oldest_seconds").set(depth.oldest_seconds);
    gauge!("guarantor_uploads_running").set(app.uploads.in_use() as f64);
    gauge!("guarantor_streams_open").set(app.streams.in_use() as f64);
    gauge!("guarantor_requests_in_progress").set(app.requests.in_use() as f64);
    gauge!("guarantor_appends_running").set(app.turns.running() as f64);
    gauge!("guarantor_appends_waiting").set(app.turns.waiting() as f64);
    let outbox = app.store.repository().outbox_depth().await?;
    gauge!("guarantor_webhook_deliveries_pending").set(outbox.pending as f64);
    gauge!("guarantor_webhook_oldest_seconds").set(outbox.oldest_seconds);
    gauge!("guarantor_webhooks_failing").set(outbox.failing as f64);
    if let Some(free) = app.store.free_bytes() {
        gauge!("guarantor_data_free_bytes").set(free as f64);
    }
    app.metrics.run_upkeep();
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, app.metrics.render()).into_response())
}
