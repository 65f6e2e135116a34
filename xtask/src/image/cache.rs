//! Where images are kept, and which one is used.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::tools::Tools;
use super::{assemble, recipe};

/// A finished image.
#[derive(Debug, Clone)]
pub struct Image {
    folder: PathBuf,
}

/// What an image was made from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Versions {
    /// The kernel's release, as `uname -r` says.
    pub kernel: String,
    /// All packages with their versions, those of the host's tools first.
    pub packages: Vec<(String, String)>,
}

impl Versions {
    /// The version of a package.
    pub fn of(&self, package: &str) -> &str {
        let mut all = self.packages.iter();
        all.find(|(name, _)| name == package)
            .map_or("absent", |(_, version)| version)
    }
}

const VERSIONS: &str = "versions.json";

impl Image {
    /// The image of this recipe, built if the cache has none.
    pub fn open_or_build() -> Result<Self> {
        let cache = cache_folder()?;
        let folder = cache.join(recipe::key());
        if !folder.join(VERSIONS).exists() {
            eprintln!("building the guest image in {}", folder.display());
            let started = Instant::now();
            build(&cache, &folder)?;
            eprintln!("built in {:.0} s", started.elapsed().as_secs_f64());
        }
        Ok(Self { folder })
    }

    /// Programs that run on the host: qemu.
    pub fn host_tools(&self) -> Tools {
        Tools::new(self.folder.join(assemble::HOST_TREE))
    }

    /// The tree that guests see as `/usr` and `/tree`.
    pub fn guest_tree(&self) -> PathBuf {
        self.folder.join(assemble::GUEST_TREE)
    }

    pub fn kernel(&self) -> PathBuf {
        self.folder.join(assemble::KERNEL)
    }

    pub fn initramfs(&self) -> PathBuf {
        self.folder.join(assemble::INITRAMFS)
    }

    /// A file of the image's own folder, for what is found out about this image on this machine.
    pub fn note(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// What it was made from.
    pub fn versions(&self) -> Result<Versions> {
        let text = fs::read_to_string(self.folder.join(VERSIONS))?;
        serde_json::from_str(&text).context("the image's list of versions is damaged")
    }
}

/// Builds beside the place and moves the whole there, so that an image is complete or absent, also
/// when two build it concurrently.
fn build(cache: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let unfinished = tempfile::Builder::new()
        .prefix("unfinished-")
        .tempdir_in(cache)?;
    let versions = assemble::assemble(unfinished.path())?;
    let text = serde_json::to_string_pretty(&versions)?;
    fs::write(unfinished.path().join(VERSIONS), text)?;
    match fs::rename(unfinished.path(), folder) {
        Err(_) if folder.join(VERSIONS).exists() => Ok(()),
        moved => moved.with_context(|| format!("cannot make {}", folder.display())),
    }
}

/// `${XDG_CACHE_HOME:-~/.cache}/nearfar/testbed`.
fn cache_folder() -> Result<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let caches = caches.context("neither XDG_CACHE_HOME nor HOME is an absolute path")?;
    Ok(caches.join("nearfar/testbed"))
}
