//! Every document and every anchor that the code and the documents cite exists.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Files whose citations of `docs/` are checked.
const CITING: [&str; 4] = ["rs", "md", "toml", "sh"];
/// Documents that were merged into docs/math.md, or that are not in this repository.
/// In two halves each, so that this file does not cite them.
const RETIRED: [&str; 3] =
    [concat!("MATH", ".md"), concat!("DESIGN", ".md"), concat!("docs/", "method", ".md")];

/// The tree that is checked: its text files, and the anchors of each document once it was asked for.
struct Tree {
    root: PathBuf,
    files: Vec<(PathBuf, String)>,
    anchors: HashMap<PathBuf, HashSet<String>>,
}

impl Tree {
    fn read(root: &Path) -> Tree {
        let mut files = Vec::new();
        collect(root, root, &mut files);
        files.sort();
        Tree { root: root.to_owned(), files, anchors: HashMap::new() }
    }

    /// Citations such as `docs/trust.md` and `docs/math.md#kl`, in code and in documents.
    fn broken_citations(&mut self) -> Vec<String> {
        let mut broken = Vec::new();
        for (file, text) in self.files.clone() {
            for (number, line) in (1..).zip(text.lines()) {
                for (document, anchor) in citations(line) {
                    let fault = self.fault(Path::new(document), anchor);
                    broken.extend(fault.map(|fault| format!("{}:{number}: {fault}", file.display())));
                }
            }
        }
        broken
    }

    /// Relative links in the documents: `[text](path#anchor)`.
    fn broken_links(&mut self) -> Vec<String> {
        let mut broken = Vec::new();
        for (file, text) in self.files.clone() {
            if !is_document(&file) {
                continue;
            }
            let folder = file.parent().unwrap_or(Path::new(""));
            for (number, line) in prose(&text) {
                for target in links(line) {
                    let (path, anchor) = target.split_once('#').map_or((target, None), |(p, a)| (p, Some(a)));
                    let path = if path.is_empty() { file.clone() } else { plain(&folder.join(path)) };
                    let fault = self.fault(&path, anchor);
                    broken.extend(fault.map(|fault| format!("{}:{number}: {fault}", file.display())));
                }
            }
        }
        broken
    }

    /// Citations of retired documents in the code.
    fn retired_citations(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (file, text) in self.files.iter().filter(|(file, _)| file.extension().is_some_and(|e| e == "rs"))
        {
            for (number, line) in (1..).zip(text.lines()) {
                let names = RETIRED.iter().filter(|name| line.contains(**name));
                found.extend(names.map(|name| format!("{}:{number}: cites {name}", file.display())));
            }
        }
        found
    }

    fn fault(&mut self, path: &Path, anchor: Option<&str>) -> Option<String> {
        let file = self.root.join(path);
        if !file.exists() {
            return Some(format!("{} does not exist", path.display()));
        }
        let anchor = anchor?;
        let read = || anchors(&fs::read_to_string(file).unwrap());
        let known = self.anchors.entry(path.to_owned()).or_insert_with(read);
        (!known.contains(anchor)).then(|| format!("{} has no anchor {anchor}", path.display()))
    }
}

/// Text files of the tree by their paths relative to `root`, without builds and Git's own files.
fn collect(root: &Path, folder: &Path, files: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() {
            if name != "target" && name != ".git" {
                collect(root, &path, files);
            }
        } else if path.extension().is_some_and(|extension| CITING.iter().any(|known| extension == *known)) {
            // A malformed file of a test corpus may have any bytes.
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            files.push((path.strip_prefix(root).unwrap().to_owned(), text));
        }
    }
}

/// README.md, CHANGELOG.md, CONTRIBUTING.md and `docs/*.md`.
fn is_document(file: &Path) -> bool {
    let folder = file.parent().and_then(Path::to_str);
    let top = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"];
    match folder {
        Some("") => top.iter().any(|name| file == Path::new(name)),
        Some("docs") => file.extension().is_some_and(|extension| extension == "md"),
        _ => false,
    }
}

/// The path with `.` and `..` resolved by name.
fn plain(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Matches of `docs/[A-Za-z0-9_-]+\.md(#[A-Za-z0-9_-]+)?`.
fn citations(line: &str) -> Vec<(&str, Option<&str>)> {
    let mut found = Vec::new();
    for (start, folder) in line.match_indices("docs/") {
        let rest = &line[start + folder.len()..];
        let name = rest.find(|c| !in_name(c)).unwrap_or(rest.len());
        let Some(after) = rest[name..].strip_prefix(".md").filter(|_| name > 0) else { continue };
        let document = &line[start..start + folder.len() + name + ".md".len()];
        let anchor =
            after.strip_prefix('#').map(|rest| &rest[..rest.find(|c| !in_name(c)).unwrap_or(rest.len())]);
        found.push((document, anchor.filter(|anchor| !anchor.is_empty())));
    }
    found
}

/// The targets of a line's Markdown links that are not addresses.
fn links(line: &str) -> Vec<&str> {
    let targets = line.match_indices("](").filter_map(|(at, _)| line[at + 2..].split(')').next());
    targets.filter(|target| !target.contains("://") && !target.starts_with("mailto:")).collect()
}

/// The numbered lines of a document that are not in a code block.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let fence = line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// The anchors of a document: `<a id="x">` and the slugs of its headings.
fn anchors(text: &str) -> HashSet<String> {
    let mut known = HashSet::new();
    let mut times: HashMap<String, usize> = HashMap::new();
    for (_, line) in prose(text) {
        let ids = line.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
        known.extend(ids.map(str::to_owned));
        let marks = line.bytes().take_while(|byte| *byte == b'#').count();
        let Some(title) = line[marks..].strip_prefix(' ').filter(|_| (1..=6).contains(&marks)) else {
            continue;
        };
        let slug = slug(title);
        let seen = times.entry(slug.clone()).or_default();
        known.insert(if *seen == 0 { slug } else { format!("{slug}-{seen}") });
        *seen += 1;
    }
    known
}

/// A heading's anchor, as GitHub makes it.
fn slug(title: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-' | ' ');
    title.trim().to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn repository() -> Tree {
    Tree::read(Path::new(env!("CARGO_MANIFEST_DIR")))
}

#[track_caller]
fn assert_none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_cited_document_and_anchor_exists() {
    assert_none(repository().broken_citations());
}

#[test]
fn every_relative_link_resolves() {
    assert_none(repository().broken_links());
}

#[test]
fn the_code_cites_no_retired_document() {
    assert_none(repository().retired_citations());
}

#[test]
fn slugs_are_those_of_github() {
    let headings = "# Limits, and `K`\n## Add a bound\n## Add a bound\n```\n# not a heading\n```\n#hash\n";
    let mut found: Vec<String> = anchors(headings).into_iter().collect();
    found.sort();
    assert_eq!(found, ["add-a-bound", "add-a-bound-1", "limits-and-k"]);
}

#[test]
fn planted_violations_are_found() {
    let place = tempfile::tempdir().unwrap();
    // Written as DOCS here, so that this file cites no document that does not exist.
    let docs = |text: &str| text.replace("DOCS", "docs");
    let write = |path: &str, text: &str| {
        let file = place.path().join(docs(path));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, docs(text)).unwrap();
    };
    write(
        "DOCS/a.md",
        "<a id=\"one\"></a>\n# The title\n[up](../README.md#top) [here](#the-title) [no](#none)\n",
    );
    write("README.md", "# Top\n[a](DOCS/a.md) [b](DOCS/a.md#one) ![](no.png)\n```\n[in](code.md)\n```\n");
    write("CHANGELOG.md", "see DOCS/a.md#the-title and [gone](gone/b.md), [web](https://example.com/x.md)\n");
    write("src/x.rs", "// DOCS/a.md#one, DOCS/a.md#two\n// DOCS/b.md and DOCS/a.md.\n");
    write("src/y.rs", &format!("// {} and {}\n// {}\n", RETIRED[0], RETIRED[1], RETIRED[2]));
    write("notes/z.md", "[not checked](nowhere.md)\n");
    write("target/x.rs", "// DOCS/none.md\n");
    let mut tree = Tree::read(place.path());
    let method = format!("src/y.rs:2: {} does not exist", RETIRED[2]);
    let anchor = docs("src/x.rs:1: DOCS/a.md has no anchor two");
    let missing = docs("src/x.rs:2: DOCS/b.md does not exist");
    assert_eq!(tree.broken_citations(), [anchor, missing, method]);
    let broken = [
        "CHANGELOG.md:1: gone/b.md does not exist",
        "README.md:2: no.png does not exist",
        "DOCS/a.md:3: DOCS/a.md has no anchor none",
    ];
    assert_eq!(tree.broken_links(), broken.map(docs));
    let cited = [(1, RETIRED[0]), (1, RETIRED[1]), (2, RETIRED[2])];
    let cited = cited.map(|(line, name)| format!("src/y.rs:{line}: cites {name}"));
    assert_eq!(tree.retired_citations(), cited);
}
