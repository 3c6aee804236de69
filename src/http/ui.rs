//! The dashboard: the files of `ui/`, embedded in the binary, and the paths that it shows its pages at.
//!
//! Files are served under `/ui/VERSION/`, where the version is a digest of all files. They never change under their path, so
//! browsers keep them. The HTML itself is asked for every time, and names the version. It needs no API key, because
//! it contains no data: its scripts call the API like any other client, with a key where one is needed.
//!
//! A page that is loaded asks for few files: the modules are joined into one script, and so are the styles.

mod join;

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

/// The entry of the modules, and the script that all of them are joined into.
const ENTRY: &str = "app.js";
const SCRIPT: &str = "dashboard.js";
/// All styles but that of printing.
const STYLE: &str = "dashboard.css";

/// A file as it is sent.
struct Asset {
    kind: &'static str,
    tag: String,
    plain: Bytes,
    /// Compressed, if that is smaller.
    gzip: Option<Bytes>,
}

/// All files by their path, and the page.
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
        let template = text_of(&found, "index.html");
        let (styles, page) = with_one_style(&template);
        let styles: String = styles.iter().map(|path| text_of(&found, path)).collect();
        let script = join::joined(&found, ENTRY);
        let page = announced(&page, &script).replace("\"/ui/", &format!("\"/ui/{version}/"));
        let own = [(SCRIPT, script.into()), (STYLE, styles.into())];
        let files = found.into_iter().map(|(path, contents)| (path, Bytes::from(contents))).chain(own);
        let files = files.map(|(path, contents)| (path, Asset::of(path, contents))).collect();
        Assets { version, files, page: Asset::of("index.html", page.into()) }
    }
}

fn text_of(files: &[(&str, &[u8])], name: &str) -> String {
    let found = files.iter().find(|(path, _)| *path == name);
    found.map(|(_, contents)| String::from_utf8_lossy(contents).into_owned()).unwrap_or_default()
}

/// The styles that the page names for every medium, and the page with one style in place of them.
fn with_one_style(template: &str) -> (Vec<String>, String) {
    let named = |line: &str| {
        let path = line.strip_prefix("<link rel=\"stylesheet\" href=\"/ui/")?.strip_suffix("\">")?;
        // That of printing says so after its path.
        Some(path.to_owned()).filter(|path| !path.contains('"'))
    };
    let styles = template.lines().filter_map(named).collect();
    let mut page: Vec<String> = Vec::new();
    for line in template.lines() {
        let line = named(line)
            .map_or(line.to_owned(), |_| format!("<link rel=\"stylesheet\" href=\"/ui/{STYLE}\">"));
        if page.last() != Some(&line) {
            page.push(line);
        }
    }
    (styles, page.join("\n"))
}

/// The page with the joined script in place of the entry, and with what it imports announced, so that it is loaded at once.
fn announced(page: &str, script: &str) -> String {
    let kept = script.lines().map_while(|line| line.strip_prefix("import * as "));
    let kept = kept.filter_map(|line| line.split_once(" from './")?.1.strip_suffix("';"));
    let preload: String =
        kept.map(|path| format!("<link rel=\"modulepreload\" href=\"/ui/{path}\">\n")).collect();
    page.replace(&format!("\"/ui/{ENTRY}\""), &format!("\"/ui/{SCRIPT}\""))
        .replace("</head>", &format!("{preload}</head>"))
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

    fn size(asset: &Asset) -> usize {
        asset.gzip.as_ref().map_or(asset.plain.len(), Bytes::len)
    }

    /// What a browser loads: what the page names, and what the script imports later.
    fn loaded() -> Vec<String> {
        let page = String::from_utf8_lossy(&ASSETS.page.plain);
        let before = format!("\"/ui/{}/", ASSETS.version);
        let named = page.split(&before).skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
        let script = String::from_utf8_lossy(&ASSETS.files[SCRIPT].plain);
        let later =
            script.split("import('./").skip(1).map(|rest| rest.split('\'').next().unwrap().to_owned());
        named.chain(later).collect()
    }

    #[test]
    fn what_is_loaded_is_small_and_exists() {
        let files = loaded();
        let missing: Vec<_> = files.iter().filter(|path| !ASSETS.files.contains_key(path.as_str())).collect();
        assert!(missing.is_empty(), "{missing:?}");
        for name in
            [SCRIPT, STYLE, "style/print.css", "early.js", "vendor/preact/preact.js", "vendor/uplot/uplot.js"]
        {
            assert!(files.iter().any(|path| path == name), "{name} is not in {files:?}");
        }
        let total: usize = files.iter().map(|path| size(&ASSETS.files[path.as_str()])).sum();
        assert!(total + size(&ASSETS.page) < MOST_BYTES, "{total} bytes");
        assert!(!ASSETS.files.contains_key("README.md"));
    }

    #[test]
    fn all_modules_are_in_the_script() {
        let script = String::from_utf8_lossy(&ASSETS.files[SCRIPT].plain);
        // Imports come first; nothing is left of them after that, and of exports nothing at all.
        let body = script.split_once("\nconst $ = ").unwrap().1;
        for line in body.lines() {
            assert!(!line.starts_with("import ") && !line.starts_with("export "), "{line}");
            assert!(!line.contains("sourceMappingURL"));
        }
        for (path, asset) in &ASSETS.files {
            let text = String::from_utf8_lossy(&asset.plain);
            let from = text
                .lines()
                .filter(|line| line.starts_with("import "))
                .filter_map(|line| line.split(" from '").nth(1));
            for target in from
                .map(|rest| rest.trim_end_matches("';"))
                .filter(|_| *path != SCRIPT && !path.starts_with("vendor/"))
            {
                assert!(
                    ASSETS.files.contains_key(join::resolved(path, target).as_str()),
                    "{path} imports {target}"
                );
            }
            if path.ends_with(".js")
                && !path.starts_with("vendor/")
                && ![SCRIPT, "early.js", "lib/paths.js"].contains(path)
            {
                assert_eq!(script.matches(&format!("\n$['{path}'] = ")).count(), 1, "{path}");
            }
        }
    }
}
