//! The dashboard: the files of `ui/`, embedded in the binary, and the paths that it shows its pages at.
//!
//! Files are served under `/ui/VERSION/`, where the version is a digest of all files. They never change under their path, so
//! browsers keep them. The page itself is asked for every time, and names the version. It needs no API key, because
//! it contains no data: its scripts call the API like any other client, with a key where one is needed.

use std::collections::HashMap;
use std::io::Write;
use std::sync::LazyLock;

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};

use super::App;
use super::codes::Code;
use super::etag;
use super::layers::compression::accepts_gzip;
use super::problem::Problem;

static FILES: Dir = include_dir!("$CARGO_MANIFEST_DIR/ui");

/// What the dashboard may load, and from where: from this server only. Nothing inline, nothing evaluated.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self' data:; frame-ancestors 'none'";

/// Files that never change under their path.
const FOREVER: &str = "public, max-age=31536000, immutable";
/// The page, which names the current version of the files.
const ASK: &str = "no-cache";

/// The first segments of the paths of the dashboard's pages; `ui/lib/router.js` has the same. Whatever follows is the
/// page's to understand.
const SECTIONS: [&str; 6] = ["upload", "datasets", "jobs", "policies", "gates", "webhooks"];

/// A file as it is sent.
struct Asset {
    kind: &'static str,
    tag: String,
    plain: Bytes,
    /// Compressed, if that is smaller.
    gzip: Option<Bytes>,
}

/// All files by their path in `ui/`, and the page.
struct Assets {
    version: String,
    files: HashMap<&'static str, Asset>,
    page: Asset,
}

static ASSETS: LazyLock<Assets> = LazyLock::new(Assets::load);

/// The routes of the dashboard.
pub fn routes() -> Router<App> {
    let pages = SECTIONS.iter().flat_map(|name| ["", "/", "/{*rest}"].map(|rest| format!("/{name}{rest}")));
    let router = Router::new().route("/", get(page)).route("/ui/{version}/{*path}", get(file));
    pages.fold(router, |router, path| router.route(&path, get(page)))
}

/// The page, on every path of the dashboard.
async fn page(headers: HeaderMap) -> Response {
    ASSETS.page.answer(&headers, ASK)
}

/// A file of the current version.
async fn file(Path((version, path)): Path<(String, String)>, request: Request) -> Result<Response, Problem> {
    let assets = &*ASSETS;
    match assets.files.get(path.as_str()).filter(|_| version == assets.version) {
        Some(file) => Ok(file.answer(request.headers(), FOREVER)),
        None => Err(Problem::new(
            Code::NoSuchRoute,
            "The dashboard has no such file in this version; load its page again.",
        )),
    }
}

impl Assets {
    fn load() -> Assets {
        let mut found = Vec::new();
        collect(&FILES, &mut found);
        found.sort_unstable();
        let mut digest = Sha256::new();
        for (path, contents) in &found {
            digest.update((path.len() as u64).to_be_bytes());
            digest.update(path);
            digest.update((contents.len() as u64).to_be_bytes());
            digest.update(contents);
        }
        let version = hex::encode(&digest.finalize()[..8]);
        let page = page_of(&version, &found);
        let files =
            found.into_iter().map(|(path, contents)| (path, Asset::of(path, contents.into()))).collect();
        Assets { version, files, page: Asset::of("index.html", page.into()) }
    }
}

/// The files of a directory and those below it that browsers ask for.
fn collect(directory: &'static Dir<'static>, found: &mut Vec<(&'static str, &'static [u8])>) {
    for file in directory.files() {
        if let Some(path) = file.path().to_str().filter(|path| kind_of(path).is_some()) {
            found.push((path, file.contents()));
        }
    }
    directory.dirs().for_each(|below| collect(below, found));
}

/// `index.html` with the version in its paths, and with all modules to load at once instead of one after the other.
fn page_of(version: &str, files: &[(&str, &[u8])]) -> String {
    let template =
        files.iter().find(|(path, _)| *path == "index.html").map_or(&[][..], |(_, contents)| contents);
    let modules = files.iter().filter(|(path, _)| path.ends_with(".js") && *path != "app.js");
    let preload: String =
        modules.map(|(path, _)| format!("<link rel=\"modulepreload\" href=\"/ui/{path}\">\n")).collect();
    let page = String::from_utf8_lossy(template).replace("</head>", &format!("{preload}</head>"));
    page.replace("\"/ui/", &format!("\"/ui/{version}/"))
}

/// The content type of a file that browsers ask for; `None` for all others, such as this folder's README.
fn kind_of(path: &str) -> Option<&'static str> {
    match path.rsplit_once('.')?.1 {
        "html" => Some("text/html; charset=utf-8"),
        "js" => Some("text/javascript; charset=utf-8"),
        "css" => Some("text/css; charset=utf-8"),
        "svg" => Some("image/svg+xml"),
        _ => None,
    }
}

impl Asset {
    fn of(path: &str, plain: Bytes) -> Asset {
        let digest = hex::encode(&Sha256::digest(&plain)[..12]);
        let gzip = compress(&plain).filter(|gzip| gzip.len() < plain.len());
        Asset { kind: kind_of(path).unwrap_or("application/octet-stream"), tag: digest, plain, gzip }
    }

    fn answer(&self, headers: &HeaderMap, cache: &'static str) -> Response {
        let gzip = self.gzip.as_ref().filter(|_| accepts_gzip(headers));
        // A strong tag names the exact bytes, so both forms have their own.
        let tag = if gzip.is_some() { format!("\"{}-gzip\"", self.tag) } else { format!("\"{}\"", self.tag) };
        let mut response = match etag::matches(headers, &tag) {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false => self.body(gzip),
        };
        let own = response.headers_mut();
        if let Ok(value) = HeaderValue::try_from(tag) {
            own.insert(header::ETAG, value);
        }
        own.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
        own.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        own.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        own.insert(header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
        own.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }

    fn body(&self, gzip: Option<&Bytes>) -> Response {
        let mut response = gzip.unwrap_or(&self.plain).clone().into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        if gzip.is_some() {
            response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

fn compress(plain: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a browser loads at most. The limit is the product's promise.
    const MOST_BYTES: usize = 150 * 1024;

    #[test]
    fn all_files_together_are_small() {
        let size = |asset: &Asset| asset.gzip.as_ref().map_or(asset.plain.len(), Bytes::len);
        let total: usize = ASSETS.files.values().map(size).sum::<usize>() + size(&ASSETS.page);
        assert!(total < MOST_BYTES, "{total} bytes");
        assert!(ASSETS.files.contains_key("app.js") && !ASSETS.files.contains_key("README.md"));
    }

    #[test]
    fn nothing_is_loaded_from_elsewhere_and_every_file_that_is_named_exists() {
        for (path, asset) in &ASSETS.files {
            let text = String::from_utf8_lossy(&asset.plain);
            assert!(!text.contains("sourceMappingURL"), "{path}");
            for import in text.split(" from '").skip(1).filter(|_| !path.starts_with("vendor/")) {
                let target = import.split('\'').next().unwrap();
                let folder = std::path::Path::new(path).parent().unwrap();
                let file = normal(&folder.join(target));
                assert!(ASSETS.files.contains_key(file.as_str()), "{path} imports {target}");
            }
        }
        let page = String::from_utf8_lossy(&ASSETS.page.plain);
        let before = format!("\"/ui/{}/", ASSETS.version);
        let named = page.split(&before).skip(1);
        let named: Vec<&str> = named.map(|rest| rest.split('"').next().unwrap()).collect();
        assert!(named.len() > 20 && named.iter().all(|path| ASSETS.files.contains_key(path)), "{named:?}");
        assert!(!page.contains("\"/ui/app.js"));
    }

    fn normal(path: &std::path::Path) -> String {
        let mut parts: Vec<&str> = Vec::new();
        for part in path.to_str().unwrap().split('/') {
            match part {
                "." => {}
                ".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        parts.join("/")
    }
}
