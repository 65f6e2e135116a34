//! What the machine and the control group of this process have left: read from `/proc`, `/sys` and
//! the control group file system, whose roots are parameters.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sys::NodeSet;
use crate::zones::Zones;

/// Where the kernel's files are; tests point them at captured trees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineRoots {
    /// The process file system, `/proc`.
    pub proc: PathBuf,
    /// The system file system, `/sys`.
    pub sys: PathBuf,
    /// The mount point of the control group file systems, `/sys/fs/cgroup`.
    pub cgroup: PathBuf,
}

impl Default for MachineRoots {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            sys: "/sys".into(),
            cgroup: "/sys/fs/cgroup".into(),
        }
    }
}

/// A memory limit of the control group of this process, or of one above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupLimit {
    /// The most bytes that the group may use.
    pub limit_bytes: u64,
    /// What it uses now, without file pages that the kernel would drop first.
    pub used_bytes: u64,
    /// The file that holds the limit.
    pub file: PathBuf,
}

impl CgroupLimit {
    /// Bytes left below the limit.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }
}

/// The names of one version's files.
struct Files {
    limit: &'static str,
    usage: &'static str,
    inactive: &'static str,
}

/// Documentation/admin-guide/cgroup-v2.rst.
const VERSION_2: Files = Files {
    limit: "memory.max",
    usage: "memory.current",
    inactive: "inactive_file",
};
/// Documentation/admin-guide/cgroup-v1/memory.rst.
const VERSION_1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    inactive: "total_inactive_file",
};

/// Version 1 writes "no limit" as the largest multiple of a page; anything this large is none.
const NO_LIMIT_BYTES: u64 = 1 << 60;

impl MachineRoots {
    /// The memory limit that leaves this process the least, over its group and all above it, or
    /// `None` when there is no limit or no control group.
    #[must_use]
    pub fn memory_limit(&self) -> Option<CgroupLimit> {
        let groups = fs::read_to_string(self.proc.join("self/cgroup")).ok()?;
        let mut limits = Vec::new();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(path)) =
                (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            if controllers.is_empty() {
                for root in [self.cgroup.clone(), self.cgroup.join("unified")] {
                    collect_limits(&root, path, &VERSION_2, &mut limits);
                }
            } else if controllers
                .split(',')
                .any(|controller| controller == "memory")
            {
                collect_limits(&self.cgroup.join("memory"), path, &VERSION_1, &mut limits);
            }
        }
        limits.into_iter().min_by_key(CgroupLimit::available_bytes)
    }

    /// Bytes that can be allocated on `nodes` without pushing anything but droppable file pages
    /// out, and without touching what the kernel keeps back; `None` when the machine does not say.
    ///
    /// For a set of all nodes with memory this is the machine's own estimate (`MemAvailable`), which
    /// on machines whose memory grows on demand is more than what the nodes show.
    #[must_use]
    pub fn available_bytes(&self, nodes: &NodeSet) -> Option<u64> {
        let zones = self.zones().unwrap_or_default();
        let on_nodes: Option<u64> = nodes
            .iter()
            .map(|node| {
                let text = self.read(&self.node_folder().join(format!("node{node}/meminfo")))?;
                let droppable = ["Active(file)", "Inactive(file)", "SReclaimable"]
                    .iter()
                    .filter_map(|key| meminfo_bytes(&text, key))
                    .sum::<u64>();
                let unused = meminfo_bytes(&text, "MemFree")? + droppable;
                let node = [node].into_iter().collect();
                Some(unused.saturating_sub(zones.kept_back_bytes(&node)))
            })
            .sum();
        let everywhere = || {
            let text = self.read(&self.proc.join("meminfo"))?;
            meminfo_bytes(&text, "MemAvailable")
        };
        match self.memory_nodes() {
            Some(all) if nodes.covers(&all) => on_nodes.max(everywhere()),
            Some(_) => on_nodes,
            None => everywhere(),
        }
    }

    /// The most address space that this process may have (`RLIMIT_AS`), if that is limited.
    #[must_use]
    pub fn address_space_bytes(&self) -> Option<u64> {
        let text = self.read(&self.proc.join("self/limits"))?;
        let mut lines = text.lines();
        let soft = lines.find_map(|line| line.strip_prefix("Max address space"))?;
        soft.split_whitespace().next()?.parse().ok()
    }

    /// The machine's memory in bytes, if it says.
    #[must_use]
    pub fn total_bytes(&self) -> Option<u64> {
        meminfo_bytes(&self.read(&self.proc.join("meminfo"))?, "MemTotal")
    }

    /// The nodes that have memory, or `None` on a kernel without nodes.
    #[must_use]
    pub fn memory_nodes(&self) -> Option<NodeSet> {
        NodeSet::parse(&self.read(&self.node_folder().join("has_memory"))?)
    }

    /// Explicitly reserved 2 MiB pages that are free.
    #[must_use]
    pub fn free_huge_pages(&self) -> u64 {
        let file = self
            .sys
            .join("kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
        self.read(&file)
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(0)
    }

    /// The zones of its nodes, if it tells.
    pub(crate) fn zones(&self) -> Option<Zones> {
        let text = self.read(&self.proc.join("zoneinfo"))?;
        Some(Zones::parse(&text))
    }

    fn node_folder(&self) -> PathBuf {
        self.sys.join("devices/system/node")
    }

    fn read(&self, file: &Path) -> Option<String> {
        fs::read_to_string(file).ok()
    }
}

/// Adds the limits of the group at `path` below `root` and of those above it. Where the path is not
/// there, the process sees only its own part of the tree, mounted at `root` (a container).
fn collect_limits(root: &Path, path: &str, files: &Files, limits: &mut Vec<CgroupLimit>) {
    let relative = Path::new(path.trim_start_matches('/'));
    let group = root.join(relative);
    let start = if group.is_dir() {
        group.as_path()
    } else {
        root
    };
    for folder in start
        .ancestors()
        .take_while(|folder| folder.starts_with(root))
    {
        let number = |file: &str| -> Option<u64> {
            fs::read_to_string(folder.join(file))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        let Some(limit_bytes) = number(files.limit).filter(|limit| *limit < NO_LIMIT_BYTES) else {
            continue;
        };
        let usage = number(files.usage).unwrap_or(0);
        let inactive = fs::read_to_string(folder.join("memory.stat"))
            .ok()
            .and_then(|text| {
                let mut lines = text.lines().filter_map(|line| line.split_once(' '));
                lines
                    .find(|(key, _)| *key == files.inactive)?
                    .1
                    .trim()
                    .parse()
                    .ok()
            })
            .unwrap_or(0);
        limits.push(CgroupLimit {
            limit_bytes,
            used_bytes: usage.saturating_sub(inactive),
            file: folder.join(files.limit),
        });
    }
}

/// The bytes of `key` in the format of `/proc/meminfo` and of a node's `meminfo`.
fn meminfo_bytes(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.split_whitespace().last()? != key {
            return None;
        }
        let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kib.checked_mul(1024)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `files` below a temporary folder and gives the roots to it.
    fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, MachineRoots) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = folder.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let at = |name: &str| folder.path().join(name);
        let roots = MachineRoots {
            proc: at("proc"),
            sys: at("sys"),
            cgroup: at("cgroup"),
        };
        (folder, roots)
    }

    #[test]
    fn limits_of_address_space_are_read() {
        let limits = |limit: &str| {
            let text = format!(
                "Limit                     Soft Limit           Hard Limit           Units     \n\
                 Max locked memory         8388608              8388608              bytes     \n\
                 Max address space         {limit}              unlimited            bytes     \n"
            );
            let (_folder, roots) = machine(&[("proc/self/limits", &text)]);
            roots.address_space_bytes()
        };
        assert_eq!(limits("4096000000"), Some(4_096_000_000));
        assert_eq!(limits("unlimited"), None);
    }

    #[test]
    fn version_2_takes_the_tightest_group_above() {
        let (_folder, roots) = machine(&[
            ("proc/self/cgroup", "0::/user/job\n"),
            ("cgroup/user/job/memory.max", "max\n"),
            ("cgroup/user/memory.max", "1000000\n"),
            ("cgroup/user/memory.current", "700000\n"),
            ("cgroup/user/memory.stat", "anon 5\ninactive_file 200000\n"),
        ]);
        let limit = roots.memory_limit().unwrap();
        assert_eq!((limit.limit_bytes, limit.used_bytes), (1_000_000, 500_000));
        assert_eq!(limit.available_bytes(), 500_000);
        assert!(limit.file.ends_with("user/memory.max"));
    }

    #[test]
    fn version_1_reads_its_own_files_and_knows_no_limit() {
        let (_folder, roots) = machine(&[
            ("proc/self/cgroup", "9:cpu:/\n4:memory,misc:/a/b\n"),
            ("cgroup/memory/a/b/memory.limit_in_bytes", "4096\n"),
            ("cgroup/memory/a/b/memory.usage_in_bytes", "96\n"),
            (
                "cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ]);
        let limit = roots.memory_limit().unwrap();
        assert_eq!(limit.available_bytes(), 4000);
        assert!(limit.file.ends_with("a/b/memory.limit_in_bytes"));
    }

    #[test]
    fn a_container_that_sees_only_its_group_finds_the_limit_at_the_root() {
        let (_folder, roots) = machine(&[
            ("proc/self/cgroup", "0::/only/outside\n"),
            ("cgroup/memory.max", "77\n"),
        ]);
        assert_eq!(roots.memory_limit().unwrap().limit_bytes, 77);
    }

    #[test]
    fn a_machine_without_control_groups_has_no_limit() {
        let (_folder, roots) = machine(&[]);
        assert_eq!(roots.memory_limit(), None);
        assert_eq!(roots.available_bytes(&NodeSet::EMPTY), None);
    }

    #[test]
    fn available_memory_is_the_nodes_or_the_machines() {
        let node = "Node 1 MemTotal: 100 kB\nNode 1 MemFree: 10 kB\nNode 1 Active(file): 2 kB\n\
                    Node 1 Inactive(file): 3 kB\nNode 1 SReclaimable: 1 kB\n";
        let (_folder, roots) = machine(&[
            ("proc/meminfo", "MemTotal: 500 kB\nMemAvailable:   300 kB\n"),
            ("sys/devices/system/node/has_memory", "0-1\n"),
            (
                "sys/devices/system/node/node0/meminfo",
                "Node 0 MemFree: 20 kB\n",
            ),
            ("sys/devices/system/node/node1/meminfo", node),
        ]);
        let nodes = |list: &str| NodeSet::parse(list).unwrap();
        assert_eq!(roots.available_bytes(&nodes("1")), Some(16 * 1024));
        assert_eq!(roots.available_bytes(&nodes("0-1")), Some(300 * 1024));
        assert_eq!(roots.total_bytes(), Some(500 * 1024));
        assert_eq!(roots.free_huge_pages(), 0);
    }

    #[test]
    fn what_the_kernel_keeps_back_is_not_available() {
        let zones = "Node 0, zone  DMA32\n        high     9\nNode 1, zone   Normal\n        \
                     min      2\n        high     5\n    pagesets\n      high:  77\n\
                     Node 1, zone  Movable\n        high     1\n";
        let (_folder, roots) = machine(&[
            ("proc/zoneinfo", zones),
            ("sys/devices/system/node/has_memory", "0-1\n"),
            (
                "sys/devices/system/node/node1/meminfo",
                "Node 1 MemFree: 100 kB\n",
            ),
        ]);
        let one = NodeSet::parse("1").unwrap();
        assert_eq!(roots.available_bytes(&one), Some((100 - 6 * 4) * 1024));
    }
}
