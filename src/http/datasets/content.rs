//! The headers that describe a body or a part of a form.

use axum::http::{HeaderMap, header};

use crate::http::codes::Code;
use crate::http::problem::Problem;
use guarantor_ingest::Encoding;

/// The media type in lower case, without its parameters.
///
/// # Errors
/// If the type names a character set other than UTF-8. Text is always read as UTF-8.
pub fn essence(content_type: &str) -> Result<String, Problem> {
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    let mut parameters = parameters.split(';').filter_map(|p| p.trim().split_once('='));
    let charset = parameters.find(|(name, _)| name.eq_ignore_ascii_case("charset"));
    match charset.map(|(_, value)| value.trim_matches('"').to_ascii_lowercase()) {
        Some(charset) if !matches!(charset.as_str(), "utf-8" | "utf8" | "us-ascii") => {
            let detail = format!("Logs must be UTF-8, but the content type says charset={charset:?}.");
            Err(Problem::new(Code::UnsupportedMediaType, detail))
        }
        _ => Ok(essence.trim().to_ascii_lowercase()),
    }
}

/// The content encoding. There can be only one.
pub fn encoding_of(headers: &HeaderMap) -> Result<Encoding, Problem> {
    let reject = |detail: String| Problem::new(Code::UnsupportedEncoding, detail);
    let mut codings = Vec::new();
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let value =
            value.to_str().map_err(|_| reject("The content encoding is not visible ASCII.".into()))?;
        codings.extend(value.split(',').map(str::trim));
    }
    match codings[..] {
        [] => Ok(Encoding::Identity),
        [name] => Encoding::named(name).ok_or_else(|| {
            let names = Encoding::ALL.map(Encoding::name).join(", ");
            reject(format!("The content encoding {name:?} is not supported; the supported ones are {names}."))
        }),
        _ => Err(reject("The body has several content encodings; send it with at most one.".into())),
    }
}
