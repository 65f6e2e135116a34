//! What the image is made from.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The release of Debian that guests run.
pub const RELEASE: &str = "trixie";
/// Where qemu comes from: the release's own 10.0 serves CXL memory a thousand times slower.
pub const QEMU_RELEASE: &str = "trixie-backports";
/// The kernel's series is pinned; the archive keeps its last two builds. What backports have moves
/// on, and other kernels tell other things of the same machine.
pub const KERNEL_SERIES: &str = "6.12";
/// A regular expression for the names of this series' kernels, without those for clouds, which lack
/// 9p and RDMA.
pub const KERNEL_PACKAGES: &str = r"^linux-image-6\.12\.[0-9]+\+deb13-amd64$";

/// What runs on the host, without being installed there.
pub const HOST_PACKAGES: [&str; 4] = ["qemu-system-x86", "kmod", "xz-utils", "zstd"];

/// What guests can run.
pub const GUEST_PACKAGES: [&str; 14] = [
    "busybox-static",
    "cxl",
    "daxctl",
    "e2fsprogs",
    "fio",
    "ibverbs-providers",
    "ibverbs-utils",
    "iproute2",
    "kmod",
    "libgcc-s1",
    "ndctl",
    "numactl",
    "rdma-core",
    "rdmacm-utils",
];

/// Modules that the first file system holds: enough to mount the others' tree.
pub const EARLY_MODULES: [&str; 2] = ["9pnet_virtio", "9p"];

/// Modules that guests can load; their dependencies come with them.
pub const MODULES: [&str; 22] = [
    "9p",
    "9pnet_virtio",
    "crc32_generic",
    "crc32c_generic",
    "cxl_acpi",
    "cxl_mem",
    "cxl_pci",
    "cxl_pmem",
    "dax_cxl",
    "dax_hmem",
    "dax_pmem",
    "device_dax",
    "ext4",
    "ib_uverbs",
    "kmem",
    "nd_pmem",
    "nfit",
    "nvme",
    "rdma_rxe",
    "rdma_ucm",
    "virtio_blk",
    "virtio_net",
];

/// The first program of a guest.
pub const INIT: &str = include_str!("init.sh");

/// Folders of a package that nothing here reads.
pub const UNREAD_FOLDERS: [&str; 6] = [
    "usr/share/doc",
    "usr/share/info",
    "usr/share/locale",
    "usr/share/man",
    "usr/share/lintian",
    "usr/include",
];

/// Raised when the way an image is put together changes.
const FORMAT: u32 = 1;

/// Names an image by all that it is made from, so that none is used that another recipe made.
pub fn key() -> String {
    let mut hasher = DefaultHasher::new();
    FORMAT.hash(&mut hasher);
    (RELEASE, QEMU_RELEASE, KERNEL_PACKAGES, INIT).hash(&mut hasher);
    (HOST_PACKAGES, GUEST_PACKAGES).hash(&mut hasher);
    (EARLY_MODULES, MODULES, UNREAD_FOLDERS).hash(&mut hasher);
    format!("{RELEASE}-{KERNEL_SERIES}-{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_without_repetition() {
        assert!(MODULES.is_sorted_by(|a, b| a < b));
        assert!(GUEST_PACKAGES.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn the_key_is_a_folder_name_that_stays() {
        assert_eq!(key(), key());
        assert!(key().starts_with("trixie-6.12-"), "{}", key());
    }
}
