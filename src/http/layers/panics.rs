//! Panics become a 500 that reveals nothing; tower-http's `CatchPanic` catches them.

use std::any::Any;

use axum::response::{IntoResponse, Response};

use crate::http::problem::Problem;

/// The response to a request whose handler panicked. The message goes to the log only.
pub fn response(panic: Box<dyn Any + Send>) -> Response {
    Problem::internal(message(&*panic)).into_response()
}

/// The message of a panic, for the log only.
pub fn message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message")
}
