//! Polls of jobs, answered before the router when everything that they take is at hand.
//!
//! Most requests are polls of few jobs, by many clients, and the way through the router and its layers costs several
//! times as much as such an answer. What is decided here is decided by the functions that the layers use. Whatever is
//! unusual is left to the router, which would have answered the same: keys, which are looked up in the store, a query, a
//! body, a job that was not read a moment ago, an answer that is not written yet or has to be compressed, and everything
//! that is rejected.

use std::panic::{AssertUnwindSafe, catch_unwind};

use axum::body::HttpBody;
use axum::http::{Method, Request};
use axum::response::{IntoResponse, Response};

use super::jobs::answered;
use super::layers::compression::{SMALLEST, accepts_gzip};
use super::layers::observe::Observed;
use super::layers::{OnResponse, Route, origin};
use super::{App, auth};
use crate::store::JobId;

const PREFIX: &str = "/v1/jobs/";
const ROUTE: &str = "/v1/jobs/{id}";

/// The response to a poll; `None` if the router must answer.
pub fn answer<B: HttpBody>(app: &App, request: &Request<B>) -> Option<Response> {
    // After a panic the router tries, and answers 500 if it panics too.
    catch_unwind(AssertUnwindSafe(|| answer_at_once(app, request))).ok().flatten()
}

fn answer_at_once<B: HttpBody>(app: &App, request: &Request<B>) -> Option<Response> {
    let id = polled(request)?;
    let (method, uri, headers) = (request.method(), request.uri(), request.headers());
    let identity = auth::everyone(app)?;
    origin::check(&app.config, (method, ROUTE), uri, headers).ok()?;
    let workspace = &identity.caller.0;
    let in_progress = app.requests.take(workspace).ok()?;
    let job = app.store.repository().recent_job(workspace, id)?;
    let written = app.answers.at_hand(&job)?;
    if written.len() as u64 >= SMALLEST && accepts_gzip(headers) {
        return None;
    }
    let observed = Observed::begin(method, uri, headers, Route::Named(ROUTE));
    let response = observed.span().in_scope(|| answered(app, headers, &job));
    let response = response.unwrap_or_else(IntoResponse::into_response);
    drop(in_progress);
    Some(observed.on_response(response))
}

/// The job that a request polls, if it does nothing else.
fn polled<B: HttpBody>(request: &Request<B>) -> Option<JobId> {
    let uri = request.uri();
    let plain = request.method() == Method::GET && uri.query().is_none() && request.body().is_end_stream();
    uri.path().strip_prefix(PREFIX).filter(|_| plain)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use hyper::service::Service;
    use hyper_util::service::TowerToHyperService;

    use super::*;
    use crate::config::Config;
    use crate::http::Server;
    use crate::http::server::router;

    const ROW: &str = "{\"action\":1,\"propensities\":[0.5,0.5],\"cost\":-1,\"candidates\":{\"new\":0.9}}\n";

    /// What clients see of a response.
    async fn seen(response: Response) -> (u16, Vec<(String, Vec<u8>)>, Vec<u8>) {
        let status = response.status().as_u16();
        // hyper adds the length if axum has not.
        let headers = response.headers().iter().filter(|(name, _)| *name != "content-length");
        let mut headers: Vec<_> =
            headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
        headers.sort();
        (status, headers, to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec())
    }

    /// The answer at hand, after the router has read the job. Reading it takes longer sometimes than it stays fresh.
    async fn at_hand(app: &App, path: &str, headers: &[(&str, &str)]) -> (Response, Response) {
        let service = TowerToHyperService::new(router(app.clone()));
        for _ in 0..1000 {
            let routed = service.call(get(path, headers)).await.unwrap();
            if let Some(response) = answer(app, &get(path, headers)) {
                return (response, routed);
            }
        }
        panic!("it is never at hand: {headers:?}");
    }

    fn get(path: &str, headers: &[(&str, &str)]) -> Request<Body> {
        let request = Request::get(path).header("x-request-id", "mine");
        headers.iter().fold(request, |request, (k, v)| request.header(*k, *v)).body(Body::empty()).unwrap()
    }

    async fn json(response: Response) -> serde_json::Value {
        serde_json::from_slice(&to_bytes(response.into_body(), 1 << 24).await.unwrap()).unwrap()
    }

    #[tokio::test]
    async fn polls_get_the_answer_of_the_router_or_are_left_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let flags = vec![("listen", "127.0.0.1:0".into())];
        let flags = [flags, vec![("data_dir", directory.path().to_str().unwrap().into())]].concat();
        let server = Server::start(Config::load(None, &flags).unwrap()).await.unwrap();
        let app = server.app().clone();
        let service = TowerToHyperService::new(router(app.clone()));
        let post = |path: &str, kind: &str, body: String| {
            Request::post(path).header("content-type", kind).body(Body::from(body)).unwrap()
        };
        let upload = post("/v1/datasets", "application/x-ndjson", ROW.into());
        let dataset = json(service.call(upload).await.unwrap()).await;
        let spec = serde_json::json!({"dataset_id": dataset["id"], "independent_of_log": true,
            "candidates": [{"kind": "logged", "name": "new"}]});
        let submit = post("/v1/jobs", "application/json", spec.to_string());
        let job = json(service.call(submit).await.unwrap()).await;
        let path = format!("/v1/jobs/{}", job["id"].as_str().unwrap());
        let done = service.call(get(&format!("{path}?wait=60"), &[])).await.unwrap();
        let tag = done.headers()["etag"].to_str().unwrap().to_owned();
        assert_eq!(json(done).await["status"], "succeeded");

        let usual: [&[(&str, &str)]; 4] = [
            &[],
            &[("host", "localhost:8080"), ("accept-encoding", "gzip")],
            &[("if-none-match", &tag)],
            &[("if-none-match", "\"0\""), ("sec-fetch-site", "same-origin")],
        ];
        for headers in usual {
            let (found, expected) = at_hand(&app, &path, headers).await;
            assert_eq!(seen(found).await, seen(expected).await, "{headers:?}");
        }
        let unusual = [
            get(&format!("{path}?wait=0"), &[]),
            get(&format!("{path}/events"), &[]),
            get("/v1/jobs/x", &[]),
            get("/v1/jobs/01a1f5b9-a464-744e-9f72-df755f57fa45", &[]),
            get(&path, &[("host", "evil.example")]),
            get(&path, &[("origin", "http://evil.example")]),
            get(&path, &[("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")]),
            Request::head(&path).body(Body::empty()).unwrap(),
            Request::get(&path).body(Body::from("x")).unwrap(),
        ];
        for request in &unusual {
            at_hand(&app, &path, &[]).await;
            assert!(answer(&app, request).is_none(), "{request:?}");
        }
        at_hand(&app, &path, &[]).await;
        let held: Vec<_> =
            std::iter::from_fn(|| app.requests.take(&crate::store::Workspace::default()).ok()).collect();
        assert!(answer(&app, &get(&path, &[])).is_none(), "the share is taken");
        drop(held);
        at_hand(&app, &path, &[]).await;
        assert_eq!(app.requests.in_use(), 0);
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        assert!(answer(&app, &get(&path, &[])).is_none(), "what was read is not fresh anymore");
    }
}
