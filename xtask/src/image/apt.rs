//! Debian's packages, fetched by this machine's own apt into a folder of ours.
//!
//! Where the archive is comes from the sources that this machine's apt is configured with; its
//! proxies and credentials hold too. An empty package status makes apt resolve complete closures.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result};

use super::recipe::{QEMU_RELEASE, RELEASE};
use crate::exit::Unavailable;
use crate::packages::KEYRING;

/// Names the archive where this machine's apt has no source of Debian's.
const MIRROR_VARIABLE: &str = "NEARFAR_DEBIAN_MIRROR";

/// Releases whose archive has all others too.
const DEBIAN_RELEASES: [&str; 9] = [
    "bookworm",
    "trixie",
    "forky",
    "duke",
    "sid",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];

/// A private apt.
pub struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Configures apt below `folder` and fetches the lists of packages.
    pub fn new(folder: &Path) -> Result<Self> {
        let apt = Self {
            folder: folder.to_owned(),
        };
        for part in ["state/lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(folder.join(part))?;
        }
        fs::write(folder.join("state/status"), "")?;
        fs::write(folder.join("debian.sources"), sources(&mirror()?))?;
        fs::write(folder.join("apt.conf"), configuration(folder))?;
        apt.run("apt-get", ["--quiet", "update"])?;
        Ok(apt)
    }

    /// Fetches `packages` of `release` with all that they depend on, and gives their files.
    pub fn download_with_dependencies(
        &self,
        release: &str,
        packages: &[&str],
    ) -> Result<Vec<PathBuf>> {
        let options = [
            "--quiet",
            "--yes",
            "--download-only",
            "--target-release",
            release,
        ];
        let arguments = [&options[..], &["install"], packages].concat();
        self.run("apt-get", arguments)?;
        self.take_archives()
    }

    /// Fetches the newest of the packages whose names match `pattern`, alone, and gives its file.
    pub fn download_newest(&self, pattern: &str) -> Result<PathBuf> {
        let found = self.run("apt-cache", ["search", "--names-only", pattern])?;
        let found = String::from_utf8(found.stdout)?;
        let names = found.lines().filter_map(|line| line.split(' ').next());
        let newest = names
            .max_by_key(|name| numbers(name))
            .with_context(|| format!("the archive has no package that matches {pattern}"))?;
        let archives = self.folder.join("cache/archives");
        let download = ["--quiet", "download", newest];
        self.run_in(&archives, "apt-get", download)?;
        let mut files = self.take_archives()?;
        files.pop().context("apt-get download left no file")
    }

    /// The fetched files, sorted by name, moved out of the way of the next fetch.
    fn take_archives(&self) -> Result<Vec<PathBuf>> {
        let taken = tempfile::tempdir_in(&self.folder)?.keep();
        let mut files = Vec::new();
        for entry in fs::read_dir(self.folder.join("cache/archives"))? {
            let path = entry?.path();
            if path.extension() == Some(OsStr::new("deb")) {
                let target = taken.join(path.file_name().context("a file without a name")?);
                fs::rename(&path, &target)?;
                files.push(target);
            }
        }
        files.sort();
        Ok(files)
    }

    fn run<'a>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Output> {
        self.run_in(&self.folder, program, arguments)
    }

    fn run_in<'a>(
        &self,
        folder: &Path,
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<Output> {
        let output = Command::new(program)
            .current_dir(folder)
            .arg("--config-file")
            .arg(self.folder.join("apt.conf"))
            .args(arguments)
            .env("LC_ALL", "C")
            .output()
            .with_context(|| format!("cannot run {program}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let problem = format!("{program} failed:\n{}", said.trim_end());
            return Err(Unavailable(problem).into());
        }
        Ok(output)
    }
}

/// The numbers in a package's name, to compare versions by.
fn numbers(name: &str) -> Vec<u64> {
    name.split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

/// The archive of Debian that this machine's apt is configured with.
fn mirror() -> Result<String> {
    if let Ok(mirror) = env::var(MIRROR_VARIABLE) {
        return Ok(mirror);
    }
    let format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
    let output = Command::new("apt-get")
        .args(["indextargets", "--format", format, "Created-By: Packages"])
        .output()
        .context("cannot run apt-get")?;
    let targets = String::from_utf8_lossy(&output.stdout);
    let found = targets.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        match fields[..] {
            [uri, release, "main"] if DEBIAN_RELEASES.contains(&release) => Some(uri.to_owned()),
            _ => None,
        }
    });
    let problem = format!(
        "this machine's apt has no source of Debian packages: name one with {MIRROR_VARIABLE}=URL"
    );
    found.ok_or_else(|| Unavailable(problem).into())
}

fn sources(mirror: &str) -> String {
    format!(
        "Types: deb\nURIs: {mirror}\nSuites: {RELEASE} {RELEASE}-updates {QEMU_RELEASE}\n\
         Components: main\nArchitectures: amd64\nSigned-By: {KEYRING}\n"
    )
}

/// Read after this machine's own configuration, whose hooks are for its own packages.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear APT::Default-Release;
Dir::Etc::sourcelist "{folder}/debian.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{folder}/state";
Dir::State::status "{folder}/state/status";
Dir::Cache "{folder}/cache";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Debug::NoLocking "true";
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let names = [
            "linux-image-6.12.94+deb13-amd64",
            "linux-image-6.12.107+deb13-amd64",
        ];
        let newest = names.iter().max_by_key(|name| numbers(name));
        assert_eq!(newest, Some(&names[1]));
    }
}
