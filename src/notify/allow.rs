//! The addresses that webhooks may have. An operator lists them; without a list there are no webhooks.
//!
//! One parser reads the list, the addresses of webhooks, and what is connected to, so nothing can mean one address when
//! it is checked and another when it is used. An address must already be in the form that the parser writes, which
//! rules out every other spelling of hosts, ports and paths.

use url::{Host, Url};

/// The most bytes of an address.
const LONGEST: usize = 2048;

/// What an operator allows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AllowList {
    entries: Vec<Url>,
    /// Names that may resolve to addresses that are not public.
    private_hosts: Vec<String>,
}

/// Why an address is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAllowed {
    /// It is not an address that a webhook can have.
    #[error("{0}")]
    Malformed(String),
    /// It is not below any address that the operator has listed.
    #[error(
        "is not below an address that the operator of the server allows; ask for it to be added to the setting \
         webhook_allow"
    )]
    NotListed,
}

impl AllowList {
    /// Reads lists that are separated by commas: addresses, and host names that may resolve to private addresses.
    ///
    /// # Errors
    /// If an entry cannot be used, with the reason.
    pub fn parse(addresses: &str, private_hosts: &str) -> Result<AllowList, String> {
        let mut entries = Vec::new();
        for text in items(addresses) {
            let bad = |why: &str| format!("webhook_allow has {text:?}, which {why}");
            let url = parse(text).map_err(|error| bad(&error.to_string()))?;
            if url.query().is_some() {
                return Err(bad("has a query; list the address without it"));
            }
            entries.push(url);
        }
        let mut private = Vec::new();
        for name in items(private_hosts) {
            let is_listed = |url: &&Url| url.domain() == Some(name);
            if entries.iter().find(is_listed).is_none() {
                return Err(format!(
                    "webhook_private_hosts has {name:?}, which is not the host name of an address in webhook_allow"
                ));
            }
            private.push(name.to_owned());
        }
        Ok(AllowList { entries, private_hosts: private })
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether an address with TLS is allowed.
    pub fn has_https(&self) -> bool {
        self.entries.iter().any(|url| url.scheme() == "https")
    }

    /// The address as it is connected to.
    ///
    /// # Errors
    /// If it cannot be the address of a webhook, or is not listed.
    pub fn check(&self, text: &str) -> Result<Url, NotAllowed> {
        let url = parse(text)?;
        if self.entries.iter().any(|entry| covers(entry, &url)) {
            Ok(url)
        } else {
            Err(NotAllowed::NotListed)
        }
    }

    /// Whether a name may resolve to addresses that are not public.
    pub fn allows_private(&self, name: &str) -> bool {
        self.private_hosts.iter().any(|host| host == name)
    }
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Whether `url` has the scheme, host and port of `entry`, and its path starts with whole segments of the entry's.
fn covers(entry: &Url, url: &Url) -> bool {
    let origin = entry.scheme() == url.scheme()
        && entry.host() == url.host()
        && entry.port_or_known_default() == url.port_or_known_default();
    let prefix = entry.path().trim_end_matches('/');
    let rest = url.path().strip_prefix(prefix);
    origin && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether a host name can contain this. The parser lets more through, and an entry with `*` would look like a wildcard.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)
}

fn parse(text: &str) -> Result<Url, NotAllowed> {
    let bad = |why: String| Err(NotAllowed::Malformed(why));
    if text.len() > LONGEST {
        return bad(format!("has {} bytes; the maximum is {LONGEST}", text.len()));
    }
    let Ok(url) = Url::parse(text) else {
        return bad("is not a URL; write one such as https://hooks.example.com/guarantor".into());
    };
    if !matches!(url.scheme(), "http" | "https") {
        return bad("must begin with https:// or http://".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return bad("has a user name or a password; leave it out, deliveries are signed instead".into());
    }
    if url.fragment().is_some() {
        return bad("has a fragment; leave out `#` and what follows".into());
    }
    match url.host() {
        None => return bad("has no host".into()),
        // The name of the root, which resolves like the name without it but is spelled differently.
        Some(Host::Domain(name)) if name.ends_with('.') || name.is_empty() => {
            return bad("has a host that ends with a dot; leave it out".into());
        }
        Some(Host::Domain(name)) if !name.bytes().all(is_of_name) => {
            return bad("has a host with other characters than letters, digits, `-`, `_` and `.`".into());
        }
        Some(_) => {}
    }
    let path = url.path().to_ascii_lowercase();
    if ["%2f", "%5c", "%00", "%2e"].iter().any(|encoded| path.contains(encoded)) {
        return bad("has an encoded slash, backslash, dot or zero in its path".into());
    }
    if url.as_str() != text {
        return bad(format!("is not in its usual form; write it as {url}"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(addresses: &str) -> AllowList {
        AllowList::parse(addresses, "").unwrap()
    }

    #[test]
    fn the_path_is_a_prefix_of_whole_segments() {
        let allow = list("https://hooks.example.com/in/guarantor, https://a.example/dir/");
        for good in [
            "https://hooks.example.com/in/guarantor",
            "https://hooks.example.com/in/guarantor/",
            "https://hooks.example.com/in/guarantor/team?x=1&y=%20",
            "https://hooks.example.com/in/guarantor?x=1",
            "https://a.example/dir/",
            "https://a.example/dir",
            "https://a.example/dir/x",
        ] {
            assert!(allow.check(good).is_ok(), "{good}: {:?}", allow.check(good));
        }
        for other in [
            "https://hooks.example.com/",
            "https://hooks.example.com/in",
            "https://hooks.example.com/in/guarantors",
            "https://hooks.example.com/in/guarantor%20x",
            "https://hooks.example.com/IN/guarantor",
            "https://hooks.example.com:8443/in/guarantor",
            "http://hooks.example.com/in/guarantor",
            "https://hooks.example.com.evil.example/in/guarantor",
            "https://evil.example/in/guarantor",
            "https://xhooks.example.com/in/guarantor",
            "https://a.example/dirx",
            "https://a.example//dir/",
        ] {
            assert_eq!(allow.check(other), Err(NotAllowed::NotListed), "{other}");
        }
    }

    #[test]
    fn other_spellings_of_an_allowed_address_are_rejected() {
        let allow = list("https://hooks.example.com/in, http://127.0.0.1:8080/, https://[2606:4700::1111]/");
        for tricky in [
            "",
            "hooks.example.com/in",
            "//hooks.example.com/in",
            "https:hooks.example.com/in",
            "https:///hooks.example.com/in",
            "https://user@hooks.example.com/in",
            "https://user:word@hooks.example.com/in",
            "https://hooks.example.com@evil.example/in",
            "https://evil.example\\@hooks.example.com/in",
            "https://hooks.example.com\\.evil.example/in",
            "https://HOOKS.example.com/in",
            "https://hooks.example.com:443/in",
            "https://hooks.example.com./in",
            "https://hooks.example.com/in/../admin",
            "https://hooks.example.com/in/./x",
            "https://hooks.example.com/in/%2e%2e/admin",
            "https://hooks.example.com/in/.%2E/admin",
            "https://hooks.example.com/in%2f..%2fadmin",
            "https://hooks.example.com/in/..%5cadmin",
            "https://hooks.example.com/in\\..\\admin",
            "https://hooks.example.com/in#x",
            "https://hooks.example.com/in?a b",
            " https://hooks.example.com/in",
            "https://hooks.example.com/in\n",
            "https://hooks.ex\tample.com/in",
            "https://hooks.example.com/in\r\nx-evil: 1",
            "https://hooks%2eexample.com/in",
            "https://hooks。example.com/in",
            "https://ｈooks.example.com/in",
            "http://2130706433:8080/",
            "http://0x7f.1:8080/",
            "http://0177.0.0.1:8080/",
            "http://127.1:8080/",
            "https://[2606:4700:0:0:0:0:0:1111]/",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "ftp://hooks.example.com/in",
            "data:text/plain,x",
            "https://",
            "https://:80/",
        ] {
            assert!(
                matches!(allow.check(tricky), Err(NotAllowed::Malformed(_))),
                "{tricky:?}: {:?}",
                allow.check(tricky)
            );
        }
        // An address that stands for another one is not the other one.
        for other in ["http://[::ffff:7f00:1]:8080/", "http://127.0.0.2:8080/", "http://localhost:8080/"] {
            assert_eq!(allow.check(other), Err(NotAllowed::NotListed), "{other}");
        }
        for good in
            ["https://hooks.example.com/in/x", "http://127.0.0.1:8080/a", "https://[2606:4700::1111]/"]
        {
            assert!(allow.check(good).is_ok(), "{good}");
        }
        let long = format!("https://hooks.example.com/in/{}", "x".repeat(LONGEST));
        assert!(matches!(allow.check(&long), Err(NotAllowed::Malformed(_))));
    }

    #[test]
    fn lists_are_checked_at_the_start() {
        assert!(list("").is_empty() && !list("http://a.example/").has_https());
        assert_eq!(AllowList::default().check("https://a.example/"), Err(NotAllowed::NotListed));
        for (addresses, private, word) in [
            ("https://a.example", "", "https://a.example/"),
            ("hooks.example.com", "", "not a URL"),
            ("https://*.example.com/", "", "other characters"),
            ("https://a.example/?x=1", "", "query"),
            ("https://u@a.example/", "", "user name"),
            ("https://a.example/", "b.example", "b.example"),
            ("https://10.0.0.1/", "10.0.0.1", "10.0.0.1"),
        ] {
            let error = AllowList::parse(addresses, private).unwrap_err();
            assert!(error.contains(word), "{addresses}: {error}");
        }
        let allow = AllowList::parse("https://a.example/,https://b.example/", "b.example").unwrap();
        assert!(allow.allows_private("b.example") && !allow.allows_private("a.example"));
    }
}
