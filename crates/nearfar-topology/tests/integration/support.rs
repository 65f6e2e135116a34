//! Fixtures: captured or written sysfs trees with what is expected of them.
//!
//! Each is a folder of `sysfs.txt` (a capture; on a machine worth keeping,
//! `cargo run -p nearfar-topology --example capture-sysfs` prints one),
//! `about.toml` (what it is and where it comes from) and `expected.txt` (the
//! topology as text, or the error).

use std::fs;
use std::path::{Path, PathBuf};

use nearfar_topology::Topology;
use nearfar_topology::capture::Capture;
use serde::Deserialize;
use tempfile::TempDir;

/// What a fixture is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct About {
    /// `recorded` on a running kernel, or `synthetic`.
    pub origin: String,
    /// The kernel it was recorded on.
    pub kernel: Option<String>,
    pub description: String,
}

pub struct Fixture {
    pub name: String,
    pub folder: PathBuf,
    pub capture: Capture,
    pub root: TempDir,
}

impl Fixture {
    pub fn open(name: &str) -> Self {
        let folder = fixtures_folder().join(name);
        let text = fs::read_to_string(folder.join("sysfs.txt")).unwrap();
        let capture = Capture::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let root = tempfile::tempdir().unwrap();
        capture.unpack(root.path()).unwrap();
        Self {
            name: name.to_owned(),
            folder,
            capture,
            root,
        }
    }

    pub fn all() -> Vec<Self> {
        let entries = fs::read_dir(fixtures_folder()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names.iter().map(|name| Self::open(name)).collect()
    }

    pub fn discover(&self) -> Topology {
        Topology::discover(self.root.path()).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    /// The topology as text, or the error with the root named `<root>`.
    pub fn rendered(&self) -> String {
        match Topology::discover(self.root.path()) {
            Ok(topology) => topology.to_string(),
            Err(error) => {
                let root = self.root.path().display().to_string();
                format!("error: {}\n", error.to_string().replace(&root, "<root>"))
            }
        }
    }
}

/// In the folder of the crate, where cargo runs its tests. It may be another than where they were built.
fn fixtures_folder() -> PathBuf {
    Path::new("tests/fixtures").to_owned()
}
