//! Joins the dashboard's modules into one script. A browser takes a few milliseconds for each file, also from its cache, and
//! there are sixty of them; that was most of the time until a page showed something.
//!
//! There is nothing to parse: our modules have one import or export per line, in the forms below, and a test fails on any other. Each module
//! becomes a block, so that names stay its own, and leaves what it exports in `$`.

use std::path::Path;

/// Modules that stay files: the libraries, and what is asked for before everything else.
fn stays(path: &str) -> bool {
    path.starts_with("vendor/") || path == "early.js" || path == "lib/paths.js"
}

/// The script that does what the module `entry` does.
pub fn joined(files: &[(&str, &[u8])], entry: &str) -> String {
    let mut join = Join { files, seen: Vec::new(), kept: Vec::new(), blocks: String::new() };
    join.add(entry);
    let number = |at: usize| format!("module{at}");
    let imports: String = (join.kept.iter().enumerate())
        .map(|(at, path)| format!("import * as {} from './{path}';\n", number(at)))
        .collect();
    let known: Vec<String> =
        join.kept.iter().enumerate().map(|(at, path)| format!("'{path}': {}", number(at))).collect();
    format!("{imports}const $ = {{ {} }};\n{}", known.join(", "), join.blocks)
}

struct Join<'a> {
    files: &'a [(&'a str, &'a [u8])],
    seen: Vec<String>,
    /// The modules that stay files, and are imported.
    kept: Vec<String>,
    blocks: String,
}

impl Join<'_> {
    /// Adds a module after everything that it imports.
    fn add(&mut self, path: &str) {
        if self.seen.iter().any(|seen| seen == path) {
            return;
        }
        self.seen.push(path.to_owned());
        if stays(path) {
            self.kept.push(path.to_owned());
            return;
        }
        let found = self.files.iter().find(|(name, _)| *name == path);
        let text = found.map(|(_, contents)| String::from_utf8_lossy(contents)).unwrap_or_default();
        for target in text.lines().filter_map(imported) {
            self.add(&resolved(path, target));
        }
        // Pages that are imported later are in the same script. Libraries are not: they are loaded when they are needed.
        for target in text.split("import('").skip(1).filter_map(|rest| rest.split('\'').next()) {
            let target = resolved(path, target);
            if !stays(&target) {
                self.add(&target);
            }
        }
        let block = block(path, &text);
        self.blocks.push_str(&block);
    }
}

/// A module as a block.
fn block(path: &str, text: &str) -> String {
    let mut exports: Vec<String> = Vec::new();
    let lines: Vec<String> = text.lines().map(|line| converted(path, line, &mut exports)).collect();
    format!("// {path}\n{{\n{}\n$['{path}'] = {{ {} }};\n}}\n", lines.join("\n"), exports.join(", "))
}

/// The target of a line that imports, or exports again.
fn imported(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once(" from '")?;
    let imports = before.starts_with("import ") || before.starts_with("export {");
    rest.strip_suffix("';").filter(|_| imports)
}

/// A line without imports and exports; `exports` gets the members that it exports.
fn converted(path: &str, line: &str, exports: &mut Vec<String>) -> String {
    let names = |list: &str| -> Vec<(String, String)> {
        let list = list.trim().trim_start_matches('{').trim_end_matches('}').split(',');
        let pairs = list.map(|each| each.split_once(" as ").unwrap_or((each, each)));
        pairs.map(|(name, own)| (name.trim().to_owned(), own.trim().to_owned())).collect()
    };
    if let Some(target) = imported(line) {
        let from = format!("$['{}']", resolved(path, target));
        let what = line.split(" from '").next().unwrap_or_default();
        if let Some(list) = what.strip_prefix("export ") {
            exports.extend(names(list).iter().map(|(name, own)| format!("{own}: {from}.{name}")));
            return String::new();
        }
        let what = what.trim_start_matches("import ");
        return match what.strip_prefix("* as ") {
            Some(own) => format!("const {own} = {from};"),
            None if what.starts_with('{') => {
                let members: Vec<String> =
                    names(what).iter().map(|(name, own)| format!("{name}: {own}")).collect();
                format!("const {{ {} }} = {from};", members.join(", "))
            }
            None => format!("const {what} = {from}.default;"),
        };
    }
    if let Some(list) = line.strip_prefix("export {").and_then(|rest| rest.strip_suffix("};")) {
        exports.extend(names(list).iter().map(|(name, own)| format!("{own}: {name}")));
        return String::new();
    }
    let line = later(path, line);
    let Some(declared) = line.strip_prefix("export ") else { return line };
    let name = declared.trim_start_matches("async ").split([' ', '(']).nth(1).unwrap_or_default();
    exports.push(name.to_owned());
    declared.to_owned()
}

/// A line whose later imports find what is in the script already, or the file beside it.
fn later(path: &str, line: &str) -> String {
    let mut parts = line.split("import('");
    let mut found = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once("')").unwrap_or((part, ""));
        let target = resolved(path, target);
        match stays(&target) {
            true => found.push_str(&format!("import('./{target}'){rest}")),
            false => found.push_str(&format!("Promise.resolve($['{target}']){rest}")),
        }
    }
    found
}

/// The path of a file that the file at `path` names relative to its own folder.
pub fn resolved(path: &str, target: &str) -> String {
    let joined = Path::new(path).parent().unwrap_or(Path::new("")).join(target);
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.to_str().unwrap_or_default().split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_and_exports_become_members() {
        let files: [(&str, &[u8]); 4] = [
            ("app.js", b"import { a as b, c } from './lib/x.js';\nimport * as y from './lib/y.js';\nexport { c } from './lib/x.js';\nawait import('./lib/z.js');"),
            ("lib/x.js", b"import own from '../vendor/v.js';\nexport const a = own;\nexport async function c() {}\nconst d = 1;\nexport { d as e };"),
            ("lib/y.js", b"export function f(x) {\n  return import('../vendor/late.js');\n}"),
            ("lib/z.js", b"export class Z {}"),
        ];
        let script = joined(&files, "app.js");
        for part in [
            "import * as module0 from './vendor/v.js';\nconst $ = { 'vendor/v.js': module0 };",
            "const own = $['vendor/v.js'].default;\nconst a = own;\nasync function c() {}\nconst d = 1;\n\n$['lib/x.js'] = { a, c, e: d };",
            "return import('./vendor/late.js');",
            "const { a: b, c: c } = $['lib/x.js'];\nconst y = $['lib/y.js'];\n\nawait Promise.resolve($['lib/z.js']);\n$['app.js'] = { c: $['lib/x.js'].c };",
        ] {
            assert!(script.contains(part), "{part}\n\nis not in\n\n{script}");
        }
        let at = |name: &str| script.find(&format!("$['{name}'] = ")).unwrap();
        assert!(at("lib/x.js") < at("app.js") && at("lib/z.js") < at("app.js"));
    }
}
