//! How requests are read: JSON bodies, query parameters and ids. A rejection names the field.

use std::str::FromStr;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::App;
use super::codes::Code;
use super::problem::{FieldError, Problem};

/// A JSON body, and its bytes, which idempotency fingerprints.
pub struct JsonBody<T> {
    pub value: T,
    pub bytes: Bytes,
}

impl<T: DeserializeOwned> FromRequest<App> for JsonBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        check_json_headers(&parts.headers)?;
        let bytes = read_body(body, app.config.max_json_bytes).await?;
        Ok(JsonBody { value: parse_json(&bytes)?, bytes })
    }
}

/// Checks that a body is sent as JSON and without an encoding.
///
/// # Errors
/// 415 if it is not.
pub fn check_json_headers(headers: &HeaderMap) -> Result<(), Problem> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let essence = kind.split(';').next().unwrap_or("").trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let got = if kind.is_empty() { "none".into() } else { format!("{kind:?}") };
        let detail = format!("The content type is {got}; it must be application/json.");
        return Err(Problem::new(Code::UnsupportedMediaType, detail));
    }
    match headers.get(header::CONTENT_ENCODING) {
        Some(encoding) if encoding != "identity" => {
            let detail = "A JSON body must be sent without a content encoding.";
            Err(Problem::new(Code::UnsupportedEncoding, detail))
        }
        _ => Ok(()),
    }
}

/// Reads a whole body of at most `limit` bytes.
///
/// # Errors
/// If the body is larger, or ends early.
pub async fn read_body(body: Body, limit: usize) -> Result<Bytes, Problem> {
    axum::body::to_bytes(body, limit).await.map_err(|error| {
        let error = error.into_inner();
        if error.is::<http_body_util::LengthLimitError>() {
            too_large(limit as u64)
        } else {
            Problem::new(Code::MalformedBody, "The body ended early.")
        }
    })
}

/// A JSON body that may be absent.
///
/// # Errors
/// As for [`JsonBody`].
pub async fn optional_json<T: DeserializeOwned>(
    app: &App,
    headers: &HeaderMap,
    body: Body,
) -> Result<Option<T>, Problem> {
    let bytes = read_body(body, app.config.max_json_bytes).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    check_json_headers(headers)?;
    parse_json(&bytes)
}

/// A body of more than `limit` bytes.
pub fn too_large(limit: u64) -> Problem {
    Problem::new(
        Code::BodyTooLarge,
        format!("The body is larger than {limit} bytes, the limit of this server."),
    )
}

/// Reads JSON.
///
/// # Errors
/// A problem that names the field that is wrong.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(json_problem)?;
    reader.end().map_err(|error| Problem::new(Code::MalformedJson, sentence(&error.to_string())))?;
    Ok(value)
}

fn json_problem(error: serde_path_to_error::Error<serde_json::Error>) -> Problem {
    let path = error.path().to_string();
    let inner = error.into_inner();
    if inner.is_data() {
        return field_problem(Code::InvalidValue, &path, &inner.to_string());
    }
    Problem::new(Code::MalformedJson, sentence(&inner.to_string()))
}

/// A problem about the field at `path`. In bodies, unknown fields have their own code.
pub fn field_problem(code: Code, path: &str, message: &str) -> Problem {
    let quoted = |prefix: &str| message.strip_prefix(prefix)?.split('`').next().map(str::to_owned);
    let unknown = quoted("unknown field `");
    let named = unknown.clone().or_else(|| quoted("missing field `")).or_else(|| quoted("duplicate field `"));
    let path = if path == "." { "" } else { path };
    let field = match named {
        Some(name) if path == name || path.ends_with(&format!(".{name}")) => path.to_owned(),
        Some(name) if path.is_empty() => name,
        Some(name) => format!("{path}.{name}"),
        None => path.to_owned(),
    };
    let code = if unknown.is_some() && code == Code::InvalidValue { Code::UnknownField } else { code };
    if field.is_empty() {
        let fault = FieldError { row: None, field: None, message: message.into() };
        return Problem::new(code, sentence(message)).with_fault(fault);
    }
    Problem::field(code, field, message)
}

fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_uppercase(), letters.as_str()),
        None => String::new(),
    }
}

/// Query parameters. Unknown ones are errors.
pub struct Params<T>(pub T);

/// For paths without query parameters.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

impl<T: DeserializeOwned> Params<T> {
    /// Reads the query of a request.
    ///
    /// # Errors
    /// A problem that names the parameter that is wrong.
    pub fn of(parts: &Parts) -> Result<Self, Problem> {
        let query = parts.uri.query().unwrap_or("");
        let reader = serde_urlencoded::Deserializer::new(form_urlencoded::parse(query.as_bytes()));
        serde_path_to_error::deserialize(reader).map(Params).map_err(|error| {
            let path = error.path().to_string();
            field_problem(Code::InvalidQuery, &path, &error.into_inner().to_string())
        })
    }
}

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Params::of(parts)
    }
}

/// The id in the path. Text that is not an id is a 404, like any unknown id.
pub struct Id<T>(pub T);

impl<T: FromStr, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Path(text) = Path::<String>::from_request_parts(parts, state).await.map_err(|_| no_such_id())?;
        text.parse().map(Id).map_err(|_| no_such_id())
    }
}

fn no_such_id() -> Problem {
    Problem::new(Code::NotFound, "The id in the path is not a valid id.")
}

/// The text of a header that may appear once.
///
/// # Errors
/// A problem that names the header, if it is repeated or not visible ASCII.
pub fn header_text<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let once = values.next().is_none();
    match value.to_str() {
        Ok(text) if once => Ok(Some(text)),
        Ok(_) => Err(Problem::field(Code::InvalidHeader, name, "appears more than once")),
        Err(_) => Err(Problem::field(Code::InvalidHeader, name, "is not visible ASCII")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Outer {
        inner: Option<Inner>,
        n: Option<u32>,
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Inner {
        a: f64,
    }

    #[test]
    fn json_errors_name_their_code_and_field() {
        let cases = [
            ("{", Code::MalformedJson, None),
            ("{} x", Code::MalformedJson, None),
            ("7", Code::InvalidValue, None),
            (r#"{"m": 1}"#, Code::UnknownField, Some("m")),
            (r#"{"n": -1}"#, Code::InvalidValue, Some("n")),
            (r#"{"inner": {"a": 1, "b": 2}}"#, Code::UnknownField, Some("inner.b")),
            (r#"{"inner": {}}"#, Code::InvalidValue, Some("inner.a")),
            (r#"{"inner": {"a": "x"}}"#, Code::InvalidValue, Some("inner.a")),
        ];
        for (text, code, field) in cases {
            let problem = parse_json::<Outer>(text.as_bytes()).unwrap_err();
            let named = problem.errors.first().and_then(|f| f.field.as_deref());
            assert_eq!((problem.code, named), (code, field), "{text}: {}", problem.detail);
        }
    }
}
