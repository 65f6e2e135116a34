//! Words that are not used, and files that nothing is made of.

use std::fs;
use std::path::{Path, PathBuf};

use super::{crates, sources};
use crate::support::workspace;

/// Words, and what stands in their place. In two pieces each, so that this file has none of them.
const WORDS: [([&str; 2], &str); 3] = [
    (["at ", "once"], "immediately, concurrently or together"),
    (["unless ", "told"], "by default"),
    (["query ", "heap"], "operator memory"),
];

/// Files that are modules by another name than their own.
const RENAMED_MODULES: [&str; 1] = ["crates/nearfar-measure/src/access/kernels/portable.rs"];

/// Everything that people write here, but for the rule itself, which names the words.
fn texts() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = ["README.md", "ARCHITECTURE.md"]
        .map(|name| workspace().join(name))
        .into();
    for folder in ["docs", "docs/notebooks"] {
        let entries = fs::read_dir(workspace().join(folder)).expect("docs");
        let paths = entries.map(|entry| entry.expect("an entry").path());
        files.extend(paths.filter(|path| path.extension().is_some_and(|it| it == "md")));
    }
    for found in crates() {
        files.extend(sources(&found.folder));
    }
    files
}

#[test]
fn words_are_those_of_the_field() {
    for file in texts() {
        let text = fs::read_to_string(&file).expect("read");
        for (index, line) in text.lines().enumerate() {
            for (word, better) in WORDS {
                let is_found = line.contains(&word.concat());
                let line = index + 1;
                assert!(!is_found, "{}, line {line}: write {better}", file.display());
            }
        }
    }
}

#[test]
fn every_file_is_a_module() {
    for found in crates() {
        let src = found.folder.join("src");
        for file in sources(&src) {
            let relative = file.strip_prefix(workspace()).expect("below the workspace");
            let is_renamed = RENAMED_MODULES
                .iter()
                .any(|known| relative.ends_with(known));
            let name = file
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            if is_renamed || ["lib", "main"].contains(&name.as_str()) {
                continue;
            }
            assert!(
                is_declared(&file, &name),
                "{} is no module",
                relative.display()
            );
        }
    }
}

/// Whether a file of the module above declares `file`.
fn is_declared(file: &Path, name: &str) -> bool {
    let folder = file.parent().expect("a folder");
    let (name, folder) = match name {
        "mod" => {
            let name = folder.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), folder.parent().expect("a folder"))
        }
        _ => (name.to_owned(), folder),
    };
    let declaration = format!("mod {name};");
    let above = ["lib.rs", "main.rs", "mod.rs"].map(|root| folder.join(root));
    let beside = folder.with_extension("rs");
    let mut above = above.iter().chain([&beside]);
    above.any(|above| {
        let text = fs::read_to_string(above).unwrap_or_default();
        text.lines()
            .any(|line| line.trim_end().ends_with(&declaration))
    })
}
