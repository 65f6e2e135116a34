//! Putting an image together.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::apt::Apt;
use super::cache::Versions;
use super::cpio::Archive;
use super::modules::Modules;
use super::tools::{Tools, run};
use super::{kernel, recipe};

pub const HOST_TREE: &str = "host";
pub const GUEST_TREE: &str = "guest";
pub const KERNEL: &str = "vmlinux";
pub const INITRAMFS: &str = "initramfs.cpio";

/// Makes an image in `folder`, which is empty.
pub fn assemble(folder: &Path) -> Result<Versions> {
    let work = tempfile::tempdir_in(folder)?;
    let apt = Apt::new(&work.path().join("apt"))?;
    let host = apt.download_with_dependencies(recipe::QEMU_RELEASE, &recipe::HOST_PACKAGES)?;
    let guest = apt.download_with_dependencies(recipe::RELEASE, &recipe::GUEST_PACKAGES)?;
    let kernel = apt.download_newest(recipe::KERNEL_PACKAGES)?;
    let all = host.iter().chain(&guest).chain([&kernel]);
    let packages = all.map(|file| name_and_version(file)).collect();

    let (host_tree, guest_tree) = (folder.join(HOST_TREE), folder.join(GUEST_TREE));
    let kernel_tree = work.path().join("kernel");
    unpack(&host, &host_tree)?;
    unpack(&guest, &guest_tree)?;
    unpack(&[kernel], &kernel_tree)?;
    let tools = Tools::new(host_tree);

    let release = only_entry(&kernel_tree.join("usr/lib/modules"))?;
    let release = release
        .to_str()
        .context("a kernel release that is no text")?
        .to_owned();
    let early = take_modules(&tools, &kernel_tree, &guest_tree, &release)?;
    unpack_kernel(&tools, &kernel_tree, &folder.join(KERNEL))?;
    fs::write(folder.join(INITRAMFS), initramfs(&guest_tree, &early)?)?;
    Ok(Versions {
        kernel: release,
        packages,
    })
}

/// `fio_3.39-1_amd64.deb` is `fio`, `3.39-1`. apt writes colons as `%3a`.
fn name_and_version(file: &Path) -> (String, String) {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let mut parts = stem.split('_');
    let name = parts.next().unwrap_or_default().to_owned();
    (name, parts.next().unwrap_or_default().replace("%3a", ":"))
}

/// Unpacks packages over one another, in the layout where `/bin` and its like are links into `/usr`.
fn unpack(packages: &[PathBuf], tree: &Path) -> Result<()> {
    fs::create_dir_all(tree)?;
    for folder in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(tree.join("usr").join(folder))?;
        symlink(format!("usr/{folder}"), tree.join(folder))?;
    }
    for package in packages {
        run(Command::new("dpkg-deb")
            .arg("--extract")
            .arg(package)
            .arg(tree))?;
    }
    for folder in recipe::UNREAD_FOLDERS {
        let folder = tree.join(folder);
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
    }
    Ok(())
}

fn only_entry(folder: &Path) -> Result<PathBuf> {
    let mut entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let first = entries.next().context("an empty folder")??;
    Ok(first.file_name().into())
}

/// Takes the recipe's modules from the kernel's tree to the guest's, decompressed, since an emulated
/// guest is slow at that. Gives the files of the early ones, in the order of loading.
fn take_modules(
    tools: &Tools,
    kernel_tree: &Path,
    guest_tree: &Path,
    release: &str,
) -> Result<Vec<PathBuf>> {
    let modules = format!("usr/lib/modules/{release}");
    let (from, to) = (kernel_tree.join(&modules), guest_tree.join(&modules));
    depmod(tools, kernel_tree, release)?;
    let read = |name: &str| {
        fs::read_to_string(from.join(name)).with_context(|| format!("the kernel's {name}"))
    };
    let known = Modules::parse(&read("modules.dep")?, &read("modules.builtin")?);
    let mut compressed = Vec::new();
    for file in known.in_order(&recipe::MODULES)? {
        let target = to.join(&file);
        fs::create_dir_all(target.parent().context("a module in a folder")?)?;
        fs::rename(from.join(&file), &target)?;
        if target.extension().is_some_and(|ending| ending == "xz") {
            compressed.push(target);
        }
    }
    run(tools
        .command("usr/bin/xz", "xz")
        .arg("--decompress")
        .args(&compressed))?;
    for list in [
        "modules.builtin",
        "modules.builtin.modinfo",
        "modules.order",
    ] {
        fs::copy(from.join(list), to.join(list))?;
    }
    depmod(tools, guest_tree, release)?;
    let early = known.in_order(&recipe::EARLY_MODULES)?;
    Ok(early
        .iter()
        .map(|file| to.join(file.trim_end_matches(".xz")))
        .collect())
}

fn depmod(tools: &Tools, tree: &Path, release: &str) -> Result<()> {
    let mut depmod = tools.command("usr/bin/kmod", "depmod");
    run(depmod.arg("--basedir").arg(tree).arg(release)).map(drop)
}

fn unpack_kernel(tools: &Tools, kernel_tree: &Path, target: &Path) -> Result<()> {
    let boot = kernel_tree.join("boot");
    let mut image = None;
    for entry in fs::read_dir(&boot)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("vmlinuz") {
            image = Some(entry.path());
        }
    }
    let image = fs::read(image.context("the kernel's package has no vmlinuz")?)?;
    let packed = boot.join("payload");
    fs::write(&packed, kernel::payload(&image)?)?;
    let mut zstd = tools.command("usr/bin/zstd", "zstd");
    run(zstd
        .args(["--decompress", "--quiet", "-o"])
        .arg(target)
        .arg(&packed))
    .map(drop)
}

/// The first file system: busybox, the early modules, and a program that mounts the rest.
fn initramfs(guest_tree: &Path, early: &[PathBuf]) -> Result<Vec<u8>> {
    let mut archive = Archive::default();
    archive.program("init", recipe::INIT);
    archive.program("busybox", fs::read(guest_tree.join("usr/bin/busybox"))?);
    for (index, module) in early.iter().enumerate() {
        let name = module.file_name().unwrap_or_default().to_string_lossy();
        archive.file(&format!("early/{index:02}-{name}"), fs::read(module)?);
    }
    for folder in [
        "dev", "exchange", "mnt", "proc", "programs", "root", "run", "shared", "sys", "tmp",
        "tree", "var/tmp",
    ] {
        archive.folder(folder);
    }
    archive.link("usr", "tree/usr");
    for folder in ["bin", "sbin", "lib", "lib64"] {
        archive.link(folder, &format!("usr/{folder}"));
    }
    archive.link("etc/libibverbs.d", "/tree/etc/libibverbs.d");
    archive.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    archive.file("etc/group", "root:x:0:\n");
    archive.file("etc/mtab", "");
    archive.link("out", "exchange/out");
    Ok(archive.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_by_their_files() {
        let named = name_and_version(Path::new("/a/qemu-system-x86_1%3a11.1.3+ds-1_amd64.deb"));
        assert_eq!(named, ("qemu-system-x86".into(), "1:11.1.3+ds-1".into()));
    }
}
