//! The layers that every request and its response pass through.

use axum::Router;
use tower::ServiceBuilder;

use super::App;
use super::layers::admit::AdmitLayer;
use super::layers::compression::GzipLayer;
use super::layers::linger::LingerLayer;
use super::layers::observe::ObserveLayer;
use super::layers::panics::PanicsLayer;
use super::layers::reserve::ReserveLayer;
use super::layers::time_limit::TimeLimitLayer;

/// Whether routes require an API key, once a key exists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anyone may call them.
    Open,
    /// Anyone may call them, under any name: the listener for health checks has nothing else.
    Health,
    /// Only callers with a workspace may call them.
    Guarded,
}

/// Puts the layers around `routes`, the outermost first. A layer sees what the layers after it
/// return: problems are written after everything that can return one, and logged as written.
pub fn enclose(routes: Router<App>, app: &App, access: Access) -> Router<App> {
    routes.layer(
        ServiceBuilder::new()
            .layer(GzipLayer)
            .layer(ObserveLayer)
            .layer(LingerLayer::new(&app.config))
            .layer(TimeLimitLayer::new(&app.config))
            .layer(PanicsLayer)
            .layer(ReserveLayer)
            .layer(AdmitLayer { app: app.clone(), access }),
    )
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, to_bytes};
    use axum::extract::Request;
    use axum::http::{HeaderValue, StatusCode, header};
    use axum::response::Response;
    use axum::routing::get;
    use tower::ServiceExt;

    use super::*;
    use crate::config::Config;
    use crate::http::Server;

    async fn send(routes: Router<App>, access: Access, request: Request) -> Response {
        let directory = tempfile::tempdir().unwrap();
        let data_dir = directory.path().to_str().unwrap().to_owned();
        let flags = vec![("listen", "127.0.0.1:0".into()), ("data_dir", data_dir)];
        let server = Server::start(Config::load(None, &flags).unwrap()).await.unwrap();
        let router = enclose(routes, server.app(), access).with_state(server.app().clone());
        router.oneshot(request).await.unwrap()
    }

    fn request(path: &str) -> Request {
        Request::get(path).header("x-request-id", "mine").body(Body::empty()).unwrap()
    }

    async fn text(response: Response) -> String {
        String::from_utf8(to_bytes(response.into_body(), 1 << 20).await.unwrap().to_vec()).unwrap()
    }

    async fn panics() -> StatusCode {
        panic!("a secret")
    }

    #[tokio::test]
    async fn a_panic_becomes_a_problem_that_reveals_nothing() {
        for access in [Access::Open, Access::Guarded] {
            let response =
                send(Router::new().route("/panics", get(panics)), access, request("/panics")).await;
            assert_eq!(response.status(), 500);
            assert_eq!(response.headers()["content-type"], "application/problem+json");
            assert_eq!(response.headers()["x-request-id"], "mine");
            assert_eq!(response.headers()["x-content-type-options"], "nosniff");
            let body = text(response).await;
            assert!(body.contains("\"internal\"") && body.contains("\"/panics\""), "{body}");
            assert!(!body.contains("secret"), "{body}");
        }
    }

    #[tokio::test]
    async fn the_authorization_header_is_marked_as_sensitive() {
        let handler = |headers: axum::http::HeaderMap| async move { format!("{headers:?}") };
        let mut request = request("/headers");
        request.headers_mut().insert(header::AUTHORIZATION, HeaderValue::from_static("Bearer gk_secret"));
        let response = send(Router::new().route("/headers", get(handler)), Access::Open, request).await;
        assert!(!text(response).await.contains("gk_secret"));
    }

    #[tokio::test]
    async fn an_accept_encoding_that_rules_out_everything_gets_the_plain_body() {
        let large = || async { axum::Json("a".repeat(20_000)) };
        for (accept, encoded) in [("*;q=0", false), ("identity;q=0", false), ("gzip", true)] {
            let mut request = request("/large");
            request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accept));
            let response = send(Router::new().route("/large", get(large)), Access::Open, request).await;
            assert_eq!(response.status(), 200, "{accept}");
            assert_eq!(response.headers().contains_key(header::CONTENT_ENCODING), encoded, "{accept}");
        }
    }
}
