//! What every request passes on its way to its handler, and its response on the way back.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::IntoResponse;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{PropagateRequestIdLayer, SetRequestIdLayer};
use tower_http::sensitive_headers::SetSensitiveRequestHeadersLayer;
use tower_http::set_header::SetResponseHeaderLayer;

use super::App;
use super::layers::caller::CallerLayer;
use super::layers::linger::LingerLayer;
use super::layers::observe::ObserveLayer;
use super::layers::problems::ProblemsLayer;
use super::layers::request_id::{self, NewIds};
use super::layers::time_limit::TimeLimitLayer;
use super::layers::uploads::UploadsLayer;
use super::layers::{compression, panics};

/// Whether routes need an API key, once there is one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anyone may call them.
    Open,
    /// Only callers with a workspace may call them.
    Guarded,
}

/// Puts the layers around `routes`, the outermost first. A layer sees what the layers after it
/// return: problems are written after everything that can return one, and logged as written.
pub fn enclose(routes: Router<App>, app: &App, access: Access) -> Router<App> {
    let guard = (access == Access::Guarded).then(|| CallerLayer(app.clone()));
    routes.layer(
        ServiceBuilder::new()
            .layer(SetSensitiveRequestHeadersLayer::new([header::AUTHORIZATION]))
            .map_request(request_id::remove_unsafe)
            .layer(SetRequestIdLayer::x_request_id(NewIds))
            .layer(PropagateRequestIdLayer::x_request_id())
            .layer(SetResponseHeaderLayer::overriding(
                header::X_CONTENT_TYPE_OPTIONS,
                HeaderValue::from_static("nosniff"),
            ))
            .map_request(compression::remove_unusable)
            .map_response(compression::weaken_etag)
            .layer(compression::layer())
            .layer(ObserveLayer)
            .layer(ProblemsLayer)
            .layer(LingerLayer::new(&app.config))
            .layer(TimeLimitLayer::new(&app.config))
            .map_response(IntoResponse::into_response)
            .layer(CatchPanicLayer::custom(panics::response))
            .option_layer(guard)
            .layer(UploadsLayer(app.clone())),
    )
}
