//! Keeps web pages away from a server without API keys.
//!
//! Such a server trusts everyone who can connect, and a browser on the same machine can connect. A page of
//! another site must not use it: neither by sending requests to it from the page (`Sec-Fetch-Site`,
//! `Origin`), nor under a name of its own that leads to this machine (`Host`, DNS rebinding). With API keys a
//! page has no key to send, so nothing is checked: proxies may change these headers.

use std::net::IpAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};

use crate::config::Config;
use crate::http::App;
use crate::http::codes::Code;
use crate::http::problem::Problem;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// What [`check`] has found, unless there are keys by now: the first one may have been created since the store was asked.
///
/// # Errors
/// 403 and 421, or if the store does not answer.
pub async fn unless_keys_exist(app: &App, checked: Result<(), Problem>) -> Result<(), Problem> {
    match checked {
        Err(problem) if !app.auth.needed(&app.store).await? => Err(problem),
        _ => Ok(()),
    }
}

/// Checks that a request is neither from a page of another site nor sent under a foreign name.
///
/// # Errors
/// 403 and 421.
pub fn check(
    config: &Config,
    (method, route): (&Method, &str),
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    // Probes name the server as they like, and these reveal nothing.
    if matches!(route, "/livez" | "/readyz") {
        return Ok(());
    }
    check_host(config, uri, headers)?;
    match check_origin(headers) {
        Err(_) if is_link(method, route, headers) => Ok(()),
        checked => checked,
    }
}

/// Whether the browser follows a link to a page of this server. The page that has the link cannot read the
/// response.
fn is_link(method: &Method, route: &str, headers: &HeaderMap) -> bool {
    let navigates = headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate");
    *method == Method::GET && navigates && !route.starts_with("/v1/")
}

/// Checks that the request was sent to a name of this server. A request without `Host` is not from a browser.
fn check_host(config: &Config, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let named = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
    let named = named.chain(uri.authority().map(|authority| authority.as_str().as_bytes()));
    for name in named {
        let name = String::from_utf8_lossy(name);
        if !is_allowed(config, &name) {
            let detail = format!(
                "A server without API keys answers only requests to localhost, and this one is to {name:?}. Use \
                 http://127.0.0.1, add the name to the setting allowed_hosts, or create a key with `guarantor keys \
                 create`."
            );
            return Err(Problem::new(Code::WrongHost, detail));
        }
    }
    Ok(())
}

fn is_allowed(config: &Config, authority: &str) -> bool {
    let host = host_of(authority);
    if host.eq_ignore_ascii_case("localhost") {
        return true;
    }
    if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        // Rebinding needs a name. If others can connect anyway, they may use the address.
        return address.to_canonical().is_loopback() || !config.listen.ip().is_loopback();
    }
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host == "localhost" || host.ends_with(".localhost") || config.allows_host(&host)
}

/// An authority without its port.
fn host_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// Checks that the request is not from a page of another site.
fn check_origin(headers: &HeaderMap) -> Result<(), Problem> {
    let text = |name: &HeaderName| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
    if let Some(site) = text(&FETCH_SITE)
        && !matches!(&*site, "same-origin" | "none")
    {
        return Err(cross_origin(&format!("Sec-Fetch-Site is {site:?}")));
    }
    let Some(origin) = text(&header::ORIGIN) else { return Ok(()) };
    let host = text(&header::HOST);
    match is_same(&origin, host.as_deref().unwrap_or("")) {
        true => Ok(()),
        false => Err(cross_origin(&format!("Origin is {origin:?}"))),
    }
}

/// Whether an origin is that of requests to `host`. Ports count; those that the scheme implies may be left
/// out.
fn is_same(origin: &str, host: &str) -> bool {
    let Some((scheme, authority)) = origin.split_once("://") else { return false };
    let implied = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let short = |authority: &str| authority.strip_suffix(implied).unwrap_or(authority).to_ascii_lowercase();
    !authority.is_empty() && short(authority) == short(host)
}

fn cross_origin(found: &str) -> Problem {
    let detail = format!(
        "{found}: the request is from a web page of another site, and a server without API keys does not answer \
         those. Send it without a browser, or create a key with `guarantor keys create`."
    );
    Problem::new(Code::CrossOrigin, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(listen: &str, allowed_hosts: &str) -> Config {
        let flags = [("listen", listen), ("allowed_hosts", allowed_hosts)];
        Config::load(None, &flags.map(|(name, value)| (name, value.to_owned())).into()).unwrap()
    }

    #[test]
    fn hosts_are_loopback_or_listed() {
        let local = config("127.0.0.1:8080", "box.example, Other.example");
        for good in [
            "localhost",
            "LOCALHOST:8080",
            "localhost.:1",
            "a.localhost",
            "127.0.0.1:8080",
            "127.8.0.1",
            "[::1]:8080",
            "[::ffff:127.0.0.1]",
            "box.example",
            "other.EXAMPLE:1",
        ] {
            assert!(is_allowed(&local, good), "{good}");
        }
        for bad in [
            "",
            ":8080",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example:8080",
            "10.0.0.1",
            "[2001:db8::1]",
            "evil.example:localhost",
            "x.box.example",
            "localhost@evil.example",
        ] {
            assert!(!is_allowed(&local, bad), "{bad}");
        }
        let exposed = config("0.0.0.0:8080", "");
        assert!(is_allowed(&exposed, "10.0.0.1:8080") && !is_allowed(&exposed, "evil.example"));
    }

    #[test]
    fn origins_have_the_host_and_the_port_of_the_request() {
        for (origin, host) in [
            ("http://localhost:8080", "localhost:8080"),
            ("http://a", "a:80"),
            ("http://A:80", "a"),
            ("https://a", "a:443"),
            ("http://[::1]:1", "[::1]:1"),
        ] {
            assert!(is_same(origin, host), "{origin} {host}");
        }
        for (origin, host) in [
            ("null", "a"),
            ("http://localhost:3000", "localhost:8080"),
            ("http://a", "a:443"),
            ("http://a.b", "b"),
            ("file://", ""),
            ("http://", ""),
            ("ftp://a", "a"),
            ("http://a@b", "a"),
        ] {
            assert!(!is_same(origin, host), "{origin} {host}");
        }
    }
}
