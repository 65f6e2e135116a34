//! The direction of the dependencies between the crates, and what else `ARCHITECTURE.md` promises.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use toml::Table;

use crate::support::workspace;

mod modules;
mod words;

/// Each crate with the crates of this workspace that it may depend on.
const ALLOWED: [(&str, &[&str]); 20] = [
    ("xtask", &[]),
    ("nearfar-topology", &[]),
    ("nearfar-plan", &[]),
    ("nearfar-memory", &["nearfar-topology"]),
    ("nearfar-model", &["nearfar-topology"]),
    ("nearfar-kernels", &["nearfar-topology", "nearfar-model"]),
    (
        "nearfar-index",
        &["nearfar-topology", "nearfar-memory", "nearfar-model"],
    ),
    (
        "nearfar-measure",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-model",
            "nearfar-kernels",
            "nearfar-plan",
        ],
    ),
    (
        "nearfar-index-bench",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-model",
            "nearfar-index",
            "nearfar-measure",
        ],
    ),
    (
        "nearfar-rdma",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-model",
            "nearfar-kernels",
        ],
    ),
    ("nearfar-regulate", &["nearfar-topology", "nearfar-model"]),
    (
        "nearfar-table",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-model",
            "nearfar-kernels",
            "nearfar-index",
            "nearfar-regulate",
        ],
    ),
    (
        "nearfar-durable",
        &["nearfar-topology", "nearfar-memory", "nearfar-table"],
    ),
    (
        "nearfar-sql",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-model",
            "nearfar-kernels",
            "nearfar-index",
            "nearfar-table",
            "nearfar-durable",
            "nearfar-rdma",
        ],
    ),
    (
        "nearfar-bench",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-model",
            "nearfar-kernels",
            "nearfar-measure",
            "nearfar-table",
            "nearfar-durable",
            "nearfar-sql",
        ],
    ),
    (
        "nearfar-server",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-table",
            "nearfar-durable",
            "nearfar-sql",
            "nearfar-regulate",
        ],
    ),
    (
        "nearfar-cluster",
        &["nearfar-table", "nearfar-durable", "nearfar-sql"],
    ),
    (
        "nearfar-capi",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-model",
            "nearfar-index",
            "nearfar-measure",
        ],
    ),
    (
        "nearfar-python",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-model",
            "nearfar-index",
            "nearfar-measure",
            "nearfar-plan",
            "nearfar-table",
            "nearfar-durable",
            "nearfar-sql",
        ],
    ),
    (
        "nearfar",
        &[
            "nearfar-topology",
            "nearfar-memory",
            "nearfar-model",
            "nearfar-kernels",
            "nearfar-measure",
            "nearfar-plan",
            "nearfar-table",
            "nearfar-durable",
            "nearfar-sql",
            "nearfar-bench",
            "nearfar-index",
            "nearfar-index-bench",
            "nearfar-rdma",
            "nearfar-regulate",
            "nearfar-server",
            "nearfar-cluster",
        ],
    ),
];

/// Packages that only some crates may depend on.
const RESERVED: [(&str, &[&str]); 7] = [
    (
        "datafusion",
        &[
            "nearfar-sql",
            "nearfar-server",
            "nearfar-cluster",
            "nearfar-bench",
            "nearfar",
        ],
    ),
    ("libc", &["nearfar-memory"]),
    ("libmimalloc-sys", &["nearfar-memory"]),
    ("clap", &["nearfar", "xtask"]),
    ("anyhow", &["nearfar", "xtask"]),
    ("pyo3", &["nearfar-python"]),
    ("adbc", &["nearfar-python"]),
];

/// Files and folders outside of nearfar-memory and nearfar-index that may hold unsafe code.
const UNSAFE_PLACES: [&str; 13] = [
    "crates/nearfar-capi/src",
    "crates/nearfar-kernels/src/copy/bytes.rs",
    "crates/nearfar-kernels/src/copy/idxd.rs",
    "crates/nearfar-kernels/src/copy/stage.rs",
    "crates/nearfar-kernels/src/line.rs",
    "crates/nearfar-kernels/src/memory.rs",
    "crates/nearfar-kernels/src/scan",
    "crates/nearfar-kernels/src/vectors.rs",
    "crates/nearfar-kernels/src/words.rs",
    "crates/nearfar-measure/src/access/kernels",
    "crates/nearfar-measure/src/probe/kernels.rs",
    "crates/nearfar-python/src/lib.rs",
    "crates/nearfar-python/src/python/stream.rs",
];

struct Crate {
    name: String,
    folder: PathBuf,
    manifest: Table,
}

fn crates() -> Vec<Crate> {
    let entries = fs::read_dir(workspace().join("crates")).expect("listed");
    let folders = entries.map(|entry| entry.expect("an entry").path());
    let read = |folder: PathBuf| {
        let text = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
        let manifest: Table = text.parse().expect("TOML");
        let name = manifest["package"]["name"]
            .as_str()
            .expect("a name")
            .to_owned();
        Crate {
            name,
            folder,
            manifest,
        }
    };
    let tools = workspace().join("xtask");
    let with_manifest = |folder: &PathBuf| folder.join("Cargo.toml").is_file();
    folders
        .filter(with_manifest)
        .chain([tools])
        .map(read)
        .collect()
}

/// Names of the dependencies in these sections, those of single platforms included.
fn dependencies(manifest: &Table, sections: &[&str]) -> BTreeSet<String> {
    let targets = manifest
        .get("target")
        .and_then(|targets| targets.as_table());
    let targets = targets.into_iter().flat_map(|targets| targets.values());
    let tables = targets
        .filter_map(|target| target.as_table())
        .chain([manifest]);
    let sections = tables.flat_map(|table| sections.iter().filter_map(|name| table.get(*name)));
    let names = sections
        .filter_map(|section| section.as_table())
        .flat_map(|table| table.keys());
    names.cloned().collect()
}

#[test]
fn crates_depend_in_one_direction() {
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.into_iter().collect();
    let crates = crates();
    let names: BTreeSet<&str> = crates.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(
        names,
        allowed.keys().copied().collect(),
        "crates that this test knows"
    );
    for found in &crates {
        let all = ["dependencies", "build-dependencies", "dev-dependencies"];
        for dependency in dependencies(&found.manifest, &all) {
            let is_ours = names.contains(dependency.as_str());
            // A crate's tests may ask for features of its own.
            let is_allowed = dependency == found.name
                || allowed[found.name.as_str()].contains(&dependency.as_str());
            assert!(
                !is_ours || is_allowed,
                "{} must not depend on {dependency}",
                found.name
            );
        }
    }
}

#[test]
fn modules_of_a_crate_import_in_one_direction() {
    for Crate { name, folder, .. } in crates() {
        let cycles = modules::cycles(&modules::edges(&folder.join("src")));
        assert!(cycles.is_empty(), "{name}: {cycles:?}");
    }
}

#[test]
fn packages_stay_where_they_belong() {
    for found in crates() {
        for dependency in dependencies(&found.manifest, &["dependencies", "build-dependencies"]) {
            let reserved = RESERVED
                .iter()
                .find(|(name, _)| dependency.starts_with(name));
            if let Some((_, owners)) = reserved {
                let is_owner = owners.contains(&found.name.as_str());
                assert!(is_owner, "{} must not depend on {dependency}", found.name);
            }
        }
    }
}

#[test]
fn manifests_take_what_the_workspace_says() {
    for Crate {
        name,
        folder,
        manifest,
    } in crates()
    {
        assert_eq!(
            folder.file_name().and_then(|name| name.to_str()),
            Some(name.as_str())
        );
        for key in ["version", "edition", "rust-version", "license", "publish"] {
            let inherits = manifest["package"][key].get("workspace");
            assert_eq!(
                inherits.and_then(toml::Value::as_bool),
                Some(true),
                "{name}: {key}"
            );
        }
        assert_eq!(
            manifest["lints"]["workspace"].as_bool(),
            Some(true),
            "{name}: lints"
        );
    }
}

#[test]
fn unsafe_code_is_where_it_may_be() {
    for Crate { name, folder, .. } in crates() {
        if ["nearfar-memory", "nearfar-index"].contains(&name.as_str()) {
            continue;
        }
        let root = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        let root = root.iter().find(|file| file.exists()).expect("a root");
        let text = fs::read_to_string(root).expect("read");
        let denied = ["#![forbid(unsafe_code)]", "#![deny(unsafe_code)]"];
        assert!(
            denied.iter().any(|lint| text.contains(lint)),
            "{name} does not forbid unsafe code"
        );
        for file in sources(&folder.join("src")) {
            let relative = file.strip_prefix(workspace()).expect("below the workspace");
            let is_allowed = UNSAFE_PLACES
                .iter()
                .any(|allowed| relative.starts_with(allowed));
            let text = fs::read_to_string(&file).expect("read");
            assert!(
                is_allowed || !has_unsafe(&text),
                "{}: unsafe code",
                relative.display()
            );
        }
    }
}

#[test]
fn libraries_deny_missing_documentation() {
    for Crate { name, folder, .. } in crates() {
        let Ok(text) = fs::read_to_string(folder.join("src/lib.rs")) else {
            continue;
        };
        let is_denied = text.contains("\n#![deny(missing_docs)]\n");
        assert!(is_denied, "{name}: missing_docs");
    }
}

#[test]
fn only_the_model_implements_probes() {
    for Crate { name, folder, .. } in crates() {
        if name == "nearfar-model" {
            continue;
        }
        let parts = ["src", "tests", "examples"].map(|part| folder.join(part));
        let files = parts.iter().filter(|part| part.is_dir());
        // Not in one piece, or this file would be found.
        let implementation = ["Probe", "for "].join(" ");
        for file in files.flat_map(|part| sources(part)) {
            let text = fs::read_to_string(&file).expect("read");
            let mut lines = text.lines();
            let found =
                lines.find(|line| line.starts_with("impl") && line.contains(&implementation));
            assert_eq!(found, None, "{}", file.display());
        }
    }
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("listed") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files
}

/// Whether the keyword stands outside of comments.
fn has_unsafe(text: &str) -> bool {
    let code = text
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.into_iter()
        .any(|line| line.split(|c| !is_word(c)).any(|word| word == "unsafe"))
}
