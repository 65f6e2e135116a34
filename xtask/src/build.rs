//! Building what runs in the guests, with the cargo that runs this tool.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// The package of the command line, which alone depends on DataFusion among those that are tested
/// in guests.
const PROGRAM: &str = "nearfar";

/// Programs that were built.
#[derive(Debug, Default, PartialEq)]
pub struct Built {
    /// Integration test binaries by package.
    pub tests: BTreeMap<String, PathBuf>,
    /// Other programs by name.
    pub programs: BTreeMap<String, PathBuf>,
}

/// Builds the integration tests of these packages and, with those of `nearfar`, the program itself.
pub fn tests(packages: &BTreeSet<&str>) -> Result<Built> {
    if packages.is_empty() {
        return Ok(Built::default());
    }
    let mut arguments = vec!["test", "--no-run", "--test", "integration"];
    if packages.contains(PROGRAM) {
        // All packages together, as `cargo test --workspace` does: another selection may enable
        // other features of DataFusion, and build all of it anew.
        arguments.push("--workspace");
    } else {
        arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
    }
    let built = cargo(&arguments)?;
    for package in packages {
        ensure!(
            built.tests.contains_key(*package),
            "{package} has no integration test binary"
        );
    }
    Ok(built)
}

/// Builds an example and gives its path.
pub fn example(package: &str, name: &str) -> Result<PathBuf> {
    let mut built = cargo(&["build", "--package", package, "--example", name])?;
    let program = built.programs.remove(name);
    program.with_context(|| format!("cargo built no example {name}"))
}

fn cargo(arguments: &[&str]) -> Result<Built> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Build scripts of other packages would take this tool's for theirs, and all be built anew that depends on them.
    let of_package = env::vars_os().map(|(name, _)| name);
    let of_package = of_package.filter(|name| name.to_str().is_some_and(describes_package));
    of_package.for_each(|name| {
        command.env_remove(name);
    });
    let output = command
        .current_dir(workspace()?)
        .args(arguments)
        .args(["--quiet", "--locked"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    ensure!(
        output.status.success(),
        "cargo {} failed",
        arguments.join(" ")
    );
    parse(&String::from_utf8(output.stdout)?)
}

/// Whether cargo tells a program that it runs of its package by a variable of this name.
fn describes_package(name: &str) -> bool {
    let names = ["CARGO_CRATE_NAME", "CARGO_BIN_NAME", "OUT_DIR"];
    ["CARGO_PKG_", "CARGO_MANIFEST_"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || names.contains(&name)
}

/// The root of the workspace.
pub fn workspace() -> Result<PathBuf> {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").context("run it by `cargo xtask`")?;
    let root = Path::new(&folder).join("..");
    root.canonicalize()
        .with_context(|| format!("{} is not there", root.display()))
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    package_id: Option<String>,
    target: Option<Target>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    kind: Vec<String>,
    name: String,
}

fn parse(messages: &str) -> Result<Built> {
    let mut built = Built::default();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line).context("a message of cargo")?;
        let artifact = (message.target, message.executable, message.package_id);
        let (Some(target), Some(executable), Some(package)) = artifact else {
            continue;
        };
        if message.reason != "compiler-artifact" {
            continue;
        }
        if target.kind.iter().any(|kind| kind == "test") {
            built.tests.insert(package_name(&package), executable);
        } else {
            built.programs.insert(target.name, executable);
        }
    }
    Ok(built)
}

/// `path+file:///a/crates/nearfar#0.0.0` and `path+file:///a/b#nearfar@0.0.0` are `nearfar`.
fn package_name(id: &str) -> String {
    let (url, version) = id.split_once('#').unwrap_or((id, ""));
    match version.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => url.rsplit('/').next().unwrap_or(url).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_in_the_messages_of_cargo() {
        let messages = r#"
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/nearfar#0.0.0","target":{"kind":["bin"],"name":"nearfar"},"executable":"/t/nearfar"}
{"reason":"compiler-artifact","package_id":"path+file:///w/crates/nearfar-memory#0.0.0","target":{"kind":["test"],"name":"integration"},"executable":"/t/integration-1"}
{"reason":"compiler-artifact","package_id":"path+file:///w/x#y@1.0.0","target":{"kind":["lib"],"name":"y"},"executable":null}
{"reason":"build-finished","success":true}
"#;
        let built = parse(messages).unwrap();
        assert_eq!(built.tests["nearfar-memory"], Path::new("/t/integration-1"));
        assert_eq!(built.programs["nearfar"], Path::new("/t/nearfar"));
        assert_eq!((built.tests.len(), built.programs.len()), (1, 1));
    }

    #[test]
    fn package_ids_have_two_forms() {
        assert_eq!(
            package_name("path+file:///a/crates/nearfar#0.0.0"),
            "nearfar"
        );
        assert_eq!(package_name("path+file:///a/b#nearfar@0.0.0"), "nearfar");
    }
}
