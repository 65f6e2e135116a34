//! PostgreSQL's programs, and how they are run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::OltpError;

/// Where Debian and Ubuntu have them, below a folder for each version.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The file of `program`: one in `PATH`, else that of the newest version that is installed.
pub fn find(program: &'static str) -> Result<PathBuf, OltpError> {
    let in_path = std::env::var_os("PATH").unwrap_or_default();
    let versioned = versions(Path::new(VERSIONS));
    let mut files = std::env::split_paths(&in_path)
        .chain(versioned)
        .map(|folder| folder.join(program));
    let found = files.find(|file| file.is_file());
    found.ok_or(OltpError::NotInstalled { program })
}

/// The folders of programs below `folder`, that of the newest version first.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut versions: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by(|(one, _), (other, _)| other.cmp(one));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

/// Runs `command` to its end. What it printed.
pub fn run(command: &mut Command) -> Result<String, OltpError> {
    let program = || command.get_program().to_string_lossy().into_owned();
    let program = Path::new(&program())
        .file_name()
        .map_or_else(program, |name| name.to_string_lossy().into_owned());
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|source| OltpError::Run {
        program: program.clone(),
        source,
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(OltpError::Failed {
            program,
            reason: said.lines().last().unwrap_or("it said nothing").to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["9", "15", "16", "common"] {
            fs::create_dir(folder.path().join(name)).expect("a folder");
        }
        let found = versions(folder.path());
        assert_eq!(found.len(), 3);
        assert_eq!(found[0], folder.path().join("16/bin"));
        assert!(versions(&folder.path().join("missing")).is_empty());
    }

    #[test]
    fn errors_have_the_last_line() {
        let mut shell = Command::new("/bin/sh");
        let error = run(shell.args(["-c", "echo one >&2; echo two >&2; exit 3"]));
        assert_eq!(error.unwrap_err().to_string(), "sh failed: two");
        let printed = run(Command::new("/bin/echo").arg("three")).expect("its output");
        assert_eq!(printed, "three\n");
    }
}
