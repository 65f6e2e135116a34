//! What is written for people names what there is.

use std::fs;
use std::path::PathBuf;

use crate::support::{run, workspace};

const COMMANDS: [&[&str]; 35] = [
    &["tiers"],
    &["profiles"],
    &["sql"],
    &["serve"],
    &["serve", "user", "add"],
    &["tpch"],
    &["tpcds"],
    &["bench", "tpch"],
    &["bench", "tpcds"],
    &["bench", "scan"],
    &["bench", "operators"],
    &["bench", "heap"],
    &["bench", "merge"],
    &["bench", "insert"],
    &["bench", "restart"],
    &["bench", "cluster"],
    &["bench", "fairness"],
    &["bench", "regulate"],
    &["bench", "index"],
    &["index", "bench"],
    &["bench"],
    &["measure"],
    &["measure", "interference"],
    &["measure", "pagerank"],
    &["measure", "inference"],
    &["measure", "report"],
    &["measure", "compare"],
    &["measure", "presets"],
    &["regulate"],
    &["regulate", "restore"],
    &["reproduce"],
    &["plan", "cost"],
    &["calibrate"],
    &["memory", "serve"],
    &["memory", "check"],
];

fn document(name: &str) -> String {
    fs::read_to_string(workspace().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_flag_is_in_the_reference() {
    let reference = document("docs/cli.md");
    for command in COMMANDS {
        let help = run([command, &["--help"]].concat()).succeeded();
        let name = command.join(" ");
        assert!(
            reference.contains(&format!("nearfar {name}")),
            "{name} is missing in docs/cli.md"
        );
        let flags = help
            .split_whitespace()
            .filter(|word| word.starts_with("--") && word.len() > 2);
        for flag in flags {
            let flag = flag.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
            assert!(
                reference.contains(flag),
                "{name} {flag} is missing in docs/cli.md"
            );
        }
    }
}

#[test]
fn every_exit_code_is_in_the_reference_and_the_help() {
    let reference = document("docs/cli.md");
    let help = run(["--help"]).succeeded();
    let (_, codes) = help.split_once("Exit codes:").expect("exit codes");
    let codes: Vec<&str> = codes
        .lines()
        .filter_map(|line| line.trim_start().split_once("  "))
        .map(|(code, _)| code.trim())
        .collect();
    assert_eq!(
        codes,
        [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "130"
        ]
    );
    for code in codes {
        assert!(
            reference.contains(&format!("| {code} |")),
            "{code} is missing in docs/cli.md"
        );
    }
}

#[test]
fn every_profile_is_described() {
    let profiles = document("docs/profiles.md");
    for name in nearfar_topology::Profile::builtin_names() {
        assert!(profiles.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_example_of_a_profile_is_one() {
    let profiles = document("docs/profiles.md");
    let example = profiles
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let example = example.expect("an example");
    nearfar_topology::Profile::parse("docs/profiles.md", example).expect("a profile");
}

#[test]
fn every_field_of_a_specification_is_described_and_the_example_is_one() {
    use nearfar_measure::access::spec::fields;
    let text = document("docs/measure.md");
    let all = [
        &fields::RUN[..],
        &fields::REGION,
        &fields::TASK,
        &fields::STEP,
    ]
    .concat();
    for field in all {
        assert!(
            text.contains(&format!("`{}`", field.name)),
            "{}",
            field.name
        );
    }
    let example = text
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let example = example.expect("an example");
    nearfar_measure::access::Document::parse("docs/measure.md", example).expect("a specification");
}

#[test]
fn documents_that_others_refer_to_are_there() {
    for file in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "LICENSE",
        "deny.toml",
        ".ci/run",
    ] {
        assert!(!document(file).is_empty(), "{file}");
    }
}

/// Documents whose links and paths must lead somewhere: those of the root, and all in `docs`.
fn documents_with_paths() -> Vec<String> {
    let entries = fs::read_dir(workspace().join("docs")).expect("docs");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut documents: Vec<String> = names
        .map(|name| format!("docs/{}", name.display()))
        .filter(|name| name.ends_with(".md"))
        .collect();
    documents.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(str::to_owned));
    documents
}

#[test]
fn links_lead_to_files() {
    for name in documents_with_paths() {
        let folder = workspace().join(&name);
        let folder = folder.parent().expect("a folder").to_owned();
        let text = document(&name);
        let links = text.split("](").skip(1);
        for link in links.filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            let is_file = !path.is_empty() && !path.contains("://");
            assert!(!is_file || folder.join(path).exists(), "{name}: {link}");
        }
    }
}

#[test]
fn every_document_is_in_the_index() {
    let index = document("docs/README.md");
    for name in documents_with_paths() {
        let from_docs = match name.strip_prefix("docs/") {
            Some("README.md") => continue,
            Some(name) => format!("({name})"),
            None => format!("(../{name})"),
        };
        assert!(
            index.contains(&from_docs),
            "{name} is missing in docs/README.md"
        );
    }
}

#[test]
fn paths_in_documents_exist() {
    let sources = source_folders();
    for name in documents_with_paths() {
        let text = document(&name);
        for (index, line) in text.lines().enumerate() {
            for path in paths_in(line) {
                assert!(
                    is_there(&path, &sources),
                    "{name}, line {}: there is no {path}",
                    index + 1
                );
            }
        }
    }
}

#[test]
fn the_code_map_names_files_of_its_crates() {
    let text = document("ARCHITECTURE.md");
    let mut mapped = 0;
    for line in text.lines() {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(owner), Some(_), Some(begin)) = (cells.next(), cells.next(), cells.next()) else {
            continue;
        };
        let owner = owner.split('`').nth(1).unwrap_or_default();
        let folder = ["crates", ""].map(|above| workspace().join(above).join(owner).join("src"));
        let Some(folder) = folder
            .iter()
            .find(|folder| !owner.is_empty() && folder.is_dir())
        else {
            continue;
        };
        for path in begin.split('`').skip(1).step_by(2) {
            assert!(folder.join(path).exists(), "{owner}: there is no {path}");
            mapped += 1;
        }
    }
    assert!(mapped > 20, "the code map has {mapped} files");
}

/// The words in backticks that are paths of this repository: with a slash, and either the name of a Rust
/// file or below one of the folders of the root or of a crate. Those with a placeholder are left out.
fn paths_in(line: &str) -> Vec<String> {
    let words = line.split('`').skip(1).step_by(2);
    let is_path = |word: &&str| {
        let roots = ["crates/", "docs/", "fuzz/", "xtask/", ".ci/"];
        let folders = ["/src/", "/tests/", "/examples/"];
        let is_of_crate =
            word.starts_with("nearfar-") && folders.iter().any(|folder| word.contains(folder));
        let is_below = is_of_crate || roots.iter().any(|root| word.starts_with(root));
        let is_plain = !word.contains(|c: char| c.is_whitespace() || "*<…(:{".contains(c));
        word.contains('/') && is_plain && (is_below || word.ends_with(".rs"))
    };
    words.filter(is_path).map(str::to_owned).collect()
}

/// The folders that paths in documents begin at: the root, `crates`, and those of each crate.
fn source_folders() -> Vec<PathBuf> {
    let root = workspace();
    let crates = fs::read_dir(root.join("crates")).expect("crates");
    let crates = crates.map(|entry| entry.expect("an entry").path());
    let of_crate = |folder: PathBuf| ["", "src", "tests/integration"].map(|part| folder.join(part));
    let others = [root.clone(), root.join("crates"), root.join("xtask/src")];
    others
        .into_iter()
        .chain(crates.flat_map(of_crate))
        .collect()
}

fn is_there(path: &str, sources: &[PathBuf]) -> bool {
    sources.iter().any(|folder| folder.join(path).exists())
}
