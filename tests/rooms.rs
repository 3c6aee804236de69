//! The walls of the house (DESIGN.md, "The house"): reads the sources and fails when a room knows
//! what it may not. Comments may speak of anything and unit tests may read files; code may not. A room that is not built yet has
//! no sources and passes.

use std::path::{Path, PathBuf};

/// A room and what its code may never mention.
struct Room {
    folder: &'static str,
    /// Paths that must not be named, as whole identifiers: `sqlx` forbids `sqlx::query`, not `my_sqlx`.
    forbidden: &'static [&'static str],
    /// Whether text that reads like a query may stand in it.
    sql: bool,
}

const HOUSE: &[Room] = &[
    Room {
        folder: "engine",
        forbidden: &[
            "tokio",
            "axum",
            "sqlx",
            "hyper",
            "reqwest",
            "object_store",
            "std::fs",
            "std::net",
            "crate::http",
            "crate::store",
            "crate::queue",
            "crate::ingest",
        ],
        sql: false,
    },
    // Nothing that serves requests opens a connection: there is no client in these rooms to send anywhere.
    Room {
        folder: "ingest",
        forbidden: &["crate::http", "crate::queue", "axum", "sqlx", "ureq", "std::net", "tokio::net"],
        sql: false,
    },
    Room {
        folder: "store",
        forbidden: &["crate::http", "crate::queue", "axum", "ureq", "std::net", "tokio::net"],
        sql: true,
    },
    Room {
        folder: "queue",
        forbidden: &["crate::http", "axum", "ureq", "std::net", "tokio::net"],
        sql: false,
    },
    Room {
        folder: "http",
        forbidden: &[
            "sqlx",
            "ureq",
            "hyper::client",
            "hyper_util::client",
            "TcpStream::connect",
            "TcpSocket",
        ],
        sql: false,
    },
    Room {
        folder: "reproduce",
        forbidden: &["tokio", "axum", "sqlx", "crate::http", "crate::store", "crate::queue", "crate::ingest"],
        sql: false,
    },
];

/// What a query opens with; upper case, as SQL is written here.
const SQL: &[&str] = &["SELECT ", "INSERT INTO ", "UPDATE ", "DELETE FROM ", "CREATE TABLE "];

/// A file that nobody can hold in their head belongs in two.
const MOST_LINES: usize = 600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// Every .rs file below a folder, in order; none where the folder does not exist.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("a readable folder").path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Where the scan of a source stands.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Code,
    Line,
    Block(u32),
    Text,
    /// A raw string, closed by a quote and this many hashes.
    Raw(usize),
}

/// The length of a raw string's opening at the start of `rest`, with its number of hashes.
fn raw_opening(rest: &[u8]) -> Option<(usize, usize)> {
    let hashes = rest.get(1..)?.iter().take_while(|&&b| b == b'#').count();
    (rest[0] == b'r' && rest.get(1 + hashes) == Some(&b'"')).then_some((2 + hashes, hashes))
}

/// What may follow in code: the state after the token at the start of `rest`, and its length.
fn step_in_code(rest: &[u8], after_word: bool) -> (At, usize) {
    match rest {
        [b'/', b'/', ..] => (At::Line, 2),
        [b'/', b'*', ..] => (At::Block(1), 2),
        [b'"', ..] => (At::Text, 1),
        // Character literals that would look like the start of a string or an escape.
        [b'\'', b'"', b'\'', ..] => (At::Code, 3),
        [b'\'', b'\\', _, b'\'', ..] => (At::Code, 4),
        _ => match raw_opening(rest).filter(|_| !after_word) {
            Some((length, hashes)) => (At::Raw(hashes), length),
            None => (At::Code, 1),
        },
    }
}

fn step(at: At, rest: &[u8], after_word: bool) -> (At, usize) {
    match (at, rest) {
        (At::Code, _) => step_in_code(rest, after_word),
        (At::Line, [b'\n', ..]) => (At::Code, 1),
        (At::Block(depth), [b'/', b'*', ..]) => (At::Block(depth + 1), 2),
        (At::Block(1), [b'*', b'/', ..]) => (At::Code, 2),
        (At::Block(depth), [b'*', b'/', ..]) => (At::Block(depth - 1), 2),
        (At::Text, [b'\\', _, ..]) => (At::Text, 2),
        (At::Text, [b'"', ..]) => (At::Code, 1),
        (At::Raw(hashes), [b'"', tail @ ..])
            if tail.len() >= hashes && tail[..hashes].iter().all(|&b| b == b'#') =>
        {
            (At::Code, 1 + hashes)
        }
        _ => (at, 1),
    }
}

/// The source with its comments blanked (line breaks kept, so that lines still count).
fn without_comments(source: &str) -> String {
    let bytes = source.as_bytes();
    let (mut at, mut i, mut out) = (At::Code, 0, Vec::with_capacity(bytes.len()));
    while i < bytes.len() {
        let after_word = i > 0 && is_word(bytes[i - 1]);
        let (next, length) = step(at, &bytes[i..], after_word);
        let comment = |at: At| matches!(at, At::Line | At::Block(_));
        for &byte in &bytes[i..(i + length).min(bytes.len())] {
            let blank = (comment(at) || comment(next)) && byte != b'\n';
            out.push(if blank { b' ' } else { byte });
        }
        (at, i) = (next, i + length);
    }
    String::from_utf8(out).expect("whole characters were kept or blanked")
}

/// Unit tests may read files. Blanks each module that is compiled for tests only; one whose braces
/// do not match is left to be checked.
fn without_unit_tests(code: &str) -> String {
    let mut out = code.to_string();
    for (at, _) in code.match_indices("#[cfg(test)]") {
        let item = code[at..].trim_start_matches("#[cfg(test)]").trim_start();
        let is_module = item.split('{').next().is_some_and(|head| !mentions(head, "mod").is_empty());
        if let Some(end) = closing_brace(&code[at..]).filter(|_| is_module) {
            let blank = |c: char| if c == '\n' { "\n".to_string() } else { " ".repeat(c.len_utf8()) };
            let blanked: String = code[at..at + end].chars().map(blank).collect();
            out.replace_range(at..at + end, &blanked);
        }
    }
    out
}

/// The place after the brace that closes the first one.
fn closing_brace(code: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(at + 1),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Byte positions where `name` stands as a whole identifier or path.
fn mentions(code: &str, name: &str) -> Vec<usize> {
    let whole = |&(at, _): &(usize, &str)| {
        let before = at.checked_sub(1).map(|i| code.as_bytes()[i]);
        let after = code.as_bytes().get(at + name.len()).copied();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    };
    code.match_indices(name).filter(whole).map(|(at, _)| at).collect()
}

/// `use a::{b, c::d}` hides `a::b`; the names inside the braces of `use root::{…}`, one level deep.
fn grouped_mentions(code: &str, name: &str) -> Vec<usize> {
    let Some((root, leaf)) = name.split_once("::") else { return Vec::new() };
    let opening = format!("{root}::{{");
    let inside = |(at, _): (usize, &str)| {
        let from = at + opening.len();
        let group = &code[from..from + code[from..].find(';').unwrap_or(0)];
        mentions(group, leaf).first().map(|found| from + found)
    };
    code.match_indices(&opening).filter_map(inside).collect()
}

/// Everything in a source that its room may not know, as `line: what`.
fn violations(room: &Room, source: &str) -> Vec<String> {
    let code = without_unit_tests(&without_comments(source));
    let line = |at: usize| 1 + code[..at].matches('\n').count();
    let mut found = Vec::new();
    for name in room.forbidden {
        let everywhere = [mentions(&code, name), grouped_mentions(&code, name)].concat();
        found.extend(everywhere.into_iter().map(|at| format!("{}: {name}", line(at))));
    }
    if !room.sql {
        let queries = SQL.iter().flat_map(|sql| code.match_indices(sql));
        found.extend(queries.map(|(at, sql)| format!("{}: the query {sql}…", line(at))));
    }
    found
}

#[test]
fn no_room_knows_what_it_may_not() {
    let mut found = Vec::new();
    for room in HOUSE {
        for path in sources(&root().join(room.folder)) {
            let source = std::fs::read_to_string(&path).unwrap();
            found.extend(violations(room, &source).iter().map(|v| format!("{}:{v}", path.display())));
        }
    }
    assert!(found.is_empty(), "walls are broken:\n{}", found.join("\n"));
}

#[test]
fn no_source_is_too_long() {
    let all = sources(&root());
    assert!(all.iter().any(|p| p.ends_with("engine/mod.rs")), "the sources were not found");
    for path in all {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= MOST_LINES, "{} has {lines} lines, more than {MOST_LINES}", path.display());
    }
}

fn room(folder: &str) -> &'static Room {
    HOUSE.iter().find(|room| room.folder == folder).expect("a room of the house")
}

#[test]
fn the_checker_sees_planted_violations() {
    let planted = [
        ("engine", "use tokio::sync::Mutex;"),
        ("engine", "fn f() { std::fs::read(\"x\").ok(); }"),
        ("engine", "use std::{fmt, fs::File};"),
        ("engine", "use crate::{engine::log, store::Blob};"),
        ("engine", "let text = r#\"// not a comment\"#; axum::serve();"),
        ("engine", "let quote = '\"'; reqwest::get(url);"),
        ("ingest", "let job = crate::queue::claim();"),
        ("store", "use axum::Json;"),
        ("queue", "use crate::http::events;"),
        ("http", "let rows = sqlx::query(q);"),
        ("reproduce", "use crate::{engine::log, http::Server};"),
        ("http", "let q = \"SELECT id FROM jobs\";"),
        ("http", "let q = r#\"\n    DELETE FROM jobs\"#;"),
        ("queue", "/* a /* nested */ comment */ axum::serve();"),
        ("http", "let escaped = \"\\\" // text, not a comment: sqlx\"; // sqlx"),
        ("engine", "#[cfg(test)]\nmod tests { fn f() {} }\nuse axum::Json;"),
    ];
    for (folder, source) in planted {
        assert_eq!(violations(room(folder), source).len(), 1, "{folder}: {source}");
    }
}

#[test]
fn the_checker_leaves_the_innocent_alone() {
    let innocent = [
        ("engine", "// tokio would be wrong here, and so would SELECT a room"),
        ("engine", "/* axum /* sqlx */ hyper */ fn f() {}"),
        ("engine", "let hypervolume = my_sqlx + std::fmt::from_fn(f);"),
        ("engine", "use crate::engine::{log, policy};"),
        ("store", "let q = \"SELECT id FROM jobs\";"),
        ("http", "let selected = SELECTED;"),
        ("engine", "#[cfg(test)]\npub(crate) mod tests { fn f() { std::fs::read(x); } }"),
    ];
    for (folder, source) in innocent {
        assert_eq!(violations(room(folder), source), Vec::<String>::new(), "{folder}: {source}");
    }
}

#[test]
fn lines_are_counted_through_comments() {
    let source = "//! axum\n/* two\nlines */\nuse axum::Json;\n";
    assert_eq!(violations(room("store"), source), ["4: axum"]);
}

/// What a comparison takes tells nobody how much of a guessed key was right.
#[test]
fn keys_are_compared_in_constant_time() {
    let keys = std::fs::read_to_string(root().join("store/sqlite/keys.rs")).expect("the keys' table");
    assert!(keys.contains(".ct_eq("), "the one place that looks keys up");
    for path in sources(&root().join("store")).into_iter().chain(sources(&root().join("http"))) {
        let text = std::fs::read_to_string(&path).expect("a readable source");
        for comparison in ["hash ==", "== hash", "hash = $", "secret ==", "== secret"] {
            assert!(!text.contains(comparison), "{}: {comparison}", path.display());
        }
    }
}
