//! The top-level modules of the engine must not depend on each other in a cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Each top-level module with the other top-level modules that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The code of a source file without comments, string contents and `#[cfg(test)]` items.
pub fn code_of(source: &str) -> String {
    let lines = source.lines().map(|line| line.split("//").next().unwrap_or_default());
    let text: String = lines.flat_map(|line| [line, "\n"]).collect();
    let mut parts = text.split("#[cfg(test)]");
    let mut code = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        code.push_str(after_item(part));
    }
    code
}

/// What follows the first item of `text`: a block in braces, or a declaration that ends in a semicolon.
fn after_item(text: &str) -> &str {
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && matches!(character, '}' | ';') {
            return &text[at + 1..];
        }
    }
    ""
}

/// The top-level modules that the code of `module` names by `crate::` or, from its first level, `super::`.
/// `depth` is the number of modules between the file and the crate's root.
fn named(code: &str, depth: usize, modules: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for prefix in ["crate::".to_owned(), "super::".repeat(depth)] {
        for (at, _) in code.match_indices(&prefix) {
            // `super::super::x` from the second level is not `super::x` from the first.
            if code[..at].ends_with("::") || code[at + prefix.len()..].starts_with("super::") {
                continue;
            }
            found.extend(first_names(&code[at + prefix.len()..]));
        }
    }
    found.intersection(modules).cloned().collect()
}

/// The first name of a path, or of each path of a group in braces.
fn first_names(path: &str) -> Vec<String> {
    let name =
        |text: &str| text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let Some(group) = path.strip_prefix('{') else { return vec![name(path)] };
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            ',' if depth == 0 => {
                names.push(name(&group[start..at]));
                start = at + 1;
            }
            '}' if depth == 0 => {
                names.push(name(&group[start..at]));
                return names;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    names
}

fn files_under(directory: &Path, depth: usize, out: &mut Vec<(usize, String)>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_under(&path, depth + 1, out);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_root = path.file_name().is_some_and(|name| name == "mod.rs");
            out.push((if is_root { depth - 1 } else { depth }, std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// The sources of each top-level module, with the depth of each file.
fn sources(src: &Path) -> BTreeMap<String, Vec<(usize, String)>> {
    let mut modules: BTreeMap<String, Vec<(usize, String)>> = BTreeMap::new();
    for entry in std::fs::read_dir(src).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let files = modules.entry(name).or_default();
        if path.is_dir() {
            files_under(&path, 2, files);
        } else {
            files.push((1, std::fs::read_to_string(&path).unwrap()));
        }
    }
    modules.remove("lib");
    modules
}

fn graph(sources: &BTreeMap<String, Vec<(usize, String)>>) -> Graph {
    let modules: BTreeSet<String> = sources.keys().cloned().collect();
    let edges = |(module, files): (&String, &Vec<(usize, String)>)| {
        let mut all: BTreeSet<String> =
            files.iter().flat_map(|(depth, source)| named(&code_of(source), *depth, &modules)).collect();
        all.remove(module);
        (module.clone(), all)
    };
    sources.iter().map(edges).collect()
}

/// The modules ordered so that each depends only on earlier ones, or the modules that depend on a cycle.
fn order(mut graph: Graph) -> Result<Vec<String>, Vec<String>> {
    let mut ordered: Vec<String> = Vec::new();
    while !graph.is_empty() {
        let free = |needs: &BTreeSet<String>| needs.iter().all(|needed| ordered.contains(needed));
        let ready: Vec<String> =
            graph.iter().filter(|(_, needs)| free(needs)).map(|(module, _)| module.clone()).collect();
        if ready.is_empty() {
            return Err(graph.into_keys().collect());
        }
        ready.iter().for_each(|module| drop(graph.remove(module)));
        ordered.extend(ready);
    }
    Ok(ordered)
}

#[test]
fn the_engines_modules_have_no_cycle() {
    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(sources.len() > 15, "only {} modules were found", sources.len());
    let graph = graph(&sources);
    let edges: usize = graph.values().map(BTreeSet::len).sum();
    assert!(edges > 40, "only {edges} dependencies were found");
    assert!(graph["certify"].contains("certificate") && graph["policy"].contains("digest"), "{graph:?}");
    match order(graph) {
        Ok(order) => println!("{}", order.join(" < ")),
        Err(cyclic) => panic!("these modules depend on a cycle: {}", cyclic.join(", ")),
    }
}

#[test]
fn a_planted_cycle_is_found() {
    let source = |text: &str, depth: usize| vec![(depth, text.to_owned())];
    let planted = |last: &str, depth: usize| {
        let sources = [
            ("a", source("use crate::b::Thing;\nuse super::log::{self, Log};", 1)),
            ("b", source("fn f() { crate::{c::f, log::{g, h}}; }", 1)),
            ("c", source(last, depth)),
            ("log", source("// use crate::a::Thing;", 1)),
        ];
        order(graph(&sources.map(|(name, files)| (name.to_owned(), files)).into()))
    };
    for (cyclic, depth) in [
        ("use crate::a::Other;", 2),
        ("use super::a::Other;", 1),
        ("use super::super::a::Other;", 2),
        ("type T = super::super::super::a::T;", 3),
        ("#[cfg(test)]\nmod tests { use crate::log; }\nuse crate::{log, a};", 2),
        ("#[cfg(test)]\nuse crate::log;\nfn f() -> crate::a::T {}", 2),
    ] {
        assert_eq!(planted(cyclic, depth).unwrap_err(), ["a", "b", "c"], "{cyclic}");
    }
    for (acyclic, depth) in [
        ("#[cfg(test)]\nmod tests { use crate::a::Other; }", 2),
        ("use super::a::Other;", 2),
        ("use crate::c::a;", 2),
        ("use std::a;", 2),
    ] {
        assert_eq!(planted(acyclic, depth).unwrap(), ["c", "log", "b", "a"], "{acyclic}");
    }
}
