//! Which top-level modules of a crate import which others.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::sources;

/// For each top-level module of a crate, the others that it imports.
pub type Edges = BTreeMap<String, BTreeSet<String>>;

/// The edges between the top-level files and folders of `src`. The roots have none: they declare them.
pub fn edges(src: &Path) -> Edges {
    let mut edges = Edges::new();
    let mut imports = Vec::new();
    for file in sources(src) {
        let Some(module) = module_of(src, &file) else {
            continue;
        };
        let text = fs::read_to_string(&file).expect("read");
        edges.entry(module[0].clone()).or_default();
        imports.push((module[0].clone(), targets(&text, module.len())));
    }
    let known: BTreeSet<String> = edges.keys().cloned().collect();
    for (module, targets) in imports {
        let is_other = |to: &String| *to != module && known.contains(to);
        let others: Vec<String> = targets.into_iter().filter(is_other).collect();
        edges.entry(module).or_default().extend(others);
    }
    edges
}

/// The path of a file's module within its crate; nothing for the crate's root.
fn module_of(src: &Path, file: &Path) -> Option<Vec<String>> {
    let relative = file
        .strip_prefix(src)
        .expect("below src")
        .with_extension("");
    let mut module: Vec<String> = relative
        .iter()
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    if module.last().is_some_and(|name| name == "mod") {
        module.pop();
    }
    let is_root = module.len() == 1 && matches!(module[0].as_str(), "lib" | "main");
    (!is_root).then_some(module)
}

/// The top-level names that the paths of a file lead to, which is `depth` modules below the root.
fn targets(text: &str, depth: usize) -> BTreeSet<String> {
    let code = text.lines().map(|line| line.split("//").next());
    let tokens = tokens(&code.flatten().collect::<Vec<_>>().join("\n"));
    let mut found = BTreeSet::new();
    // Whether each brace that is open belongs to a module.
    let mut braces: Vec<bool> = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.as_str() {
            "{" => braces.push(at > 1 && tokens[at - 2] == "mod"),
            "}" => drop(braces.pop()),
            "crate" | "super" if at == 0 || tokens[at - 1] != "::" => {
                let inline = braces.iter().filter(|is_module| **is_module).count();
                found.extend(names_at_root(&tokens[at..], depth + inline));
            }
            _ => {}
        }
    }
    found
}

/// What a path that begins with `crate` or `super` names directly below the root: several for
/// `crate::{a, b}`.
fn names_at_root(path: &[String], depth: usize) -> Vec<String> {
    let supers = path.chunks(2).take_while(|pair| pair[0] == "super").count();
    let (rest, left) = match supers {
        0 => (&path[1..], 0),
        supers => (&path[2 * supers - 1..], depth.saturating_sub(supers)),
    };
    let [colons, first, ..] = rest else {
        return Vec::new();
    };
    if colons != "::" || left > 0 {
        return Vec::new();
    }
    if first != "{" {
        return vec![first.clone()];
    }
    let mut open = 0_usize;
    let mut names = Vec::new();
    for pair in rest[1..].windows(2) {
        match pair[0].as_str() {
            "{" => open += 1,
            "}" => open -= 1,
            _ => {}
        }
        if open == 0 {
            break;
        }
        if open == 1 && ["{", ","].contains(&pair[0].as_str()) {
            names.push(pair[1].clone());
        }
    }
    names
}

/// Words, `::`, and single characters.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            _ if rest.starts_with("::") => 2,
            first if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        if !first.is_whitespace() {
            tokens.push(rest[..length].to_owned());
        }
        rest = &rest[length..];
    }
    tokens
}

/// The sets of modules that import each other, directly or by way of others.
pub fn cycles(edges: &Edges) -> BTreeSet<BTreeSet<String>> {
    let reached: BTreeMap<&String, BTreeSet<String>> = edges
        .keys()
        .map(|module| (module, reached_from(edges, module)))
        .collect();
    let in_cycle = edges
        .keys()
        .filter(|module| reached[module].contains(*module));
    let partners = |module: &String| {
        let others = reached[module].iter();
        others
            .filter(|other| reached[other].contains(module))
            .cloned()
            .collect()
    };
    in_cycle.map(partners).collect()
}

fn reached_from(edges: &Edges, module: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![module];
    while let Some(next) = waiting.pop() {
        for to in edges.get(next).into_iter().flatten() {
            if reached.insert(to.clone()) {
                waiting.push(to);
            }
        }
    }
    reached
}

#[test]
fn paths_are_found_wherever_they_stand() {
    let text = "use crate::{a::{x, y}, b, c::Z};\nuse super::d::E; // crate::no\n\
                fn f() -> crate::e::T { super::g() }\nmod inner { use super::h; use super::super::i; }";
    let names = |depth| targets(text, depth).into_iter().collect::<Vec<_>>();
    assert_eq!(names(1), ["a", "b", "c", "d", "e", "g", "i"]);
    assert_eq!(names(2), ["a", "b", "c", "e"]);
}

#[test]
fn cycles_are_found_by_way_of_others() {
    let edge = |from: &str, to: &[&str]| {
        let to = to.iter().map(|to| (*to).to_owned()).collect();
        (from.to_owned(), to)
    };
    let edges = Edges::from([
        edge("a", &["b"]),
        edge("b", &["c", "d"]),
        edge("c", &["a"]),
        edge("d", &[]),
    ]);
    let found: Vec<Vec<String>> = cycles(&edges)
        .into_iter()
        .map(|cycle| cycle.into_iter().collect())
        .collect();
    assert_eq!(found, [["a", "b", "c"]]);
}
