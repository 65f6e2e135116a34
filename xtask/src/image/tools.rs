//! Programs of unpacked packages, run without installing them.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// A tree of unpacked packages whose programs run through its own dynamic loader.
#[derive(Debug, Clone)]
pub struct Tools {
    tree: PathBuf,
}

impl Tools {
    pub fn new(tree: PathBuf) -> Self {
        Self { tree }
    }

    /// A file of the tree.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.tree.join(relative)
    }

    /// Runs `program`, a path in the tree, as if it were called `name`.
    pub fn command(&self, program: &str, name: &str) -> Command {
        let mut command = Command::new(self.path("usr/lib64/ld-linux-x86-64.so.2"));
        command
            .args(["--argv0", name, "--library-path"])
            .arg(self.path("usr/lib/x86_64-linux-gnu"))
            .arg(self.path(program));
        command
    }
}

/// Runs a command to its end.
///
/// # Errors
/// What it said, where it failed.
pub fn run(command: &mut Command) -> Result<Vec<u8>> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {}", said.trim_end());
    }
    Ok(output.stdout)
}
