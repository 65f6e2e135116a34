//! The state of a machine that a reader needs to believe its figures.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use nearfar_topology::Known;

/// What the kernel tells of the machine's state, each thing with its value or why there is none.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineState {
    /// By name.
    pub facts: BTreeMap<&'static str, Known<String>>,
}

/// Facts that are one file of sysfs or procfs.
const FILES: [(&str, &str); 11] = [
    ("smt", "sys/devices/system/cpu/smt/active"),
    (
        "frequency governor",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    ),
    (
        "frequency lowest kHz",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq",
    ),
    (
        "frequency highest kHz",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq",
    ),
    ("boost", "sys/devices/system/cpu/cpufreq/boost"),
    (
        "intel turbo off",
        "sys/devices/system/cpu/intel_pstate/no_turbo",
    ),
    (
        "transparent huge pages",
        "sys/kernel/mm/transparent_hugepage/enabled",
    ),
    ("numa balancing", "proc/sys/kernel/numa_balancing"),
    (
        "last level cache",
        "sys/devices/system/cpu/cpu0/cache/index3/size",
    ),
    ("load average", "proc/loadavg"),
    ("kernel command line", "proc/cmdline"),
];

impl MachineState {
    /// The state of the machine whose root is `root`, and the quotas of this process's control group.
    pub fn read(root: &Path) -> Self {
        let of_file = |(name, file): (&'static str, &str)| (name, line(&root.join(file)));
        let mut facts: BTreeMap<_, _> = FILES.map(of_file).into();
        for (name, file) in [
            ("cpu quota", "cpu.max"),
            ("memory limit", "memory.max"),
            ("cpuset", "cpuset.cpus.effective"),
        ] {
            facts.insert(name, of_groups(root, file));
        }
        Self { facts }
    }
}

/// The first line of a file.
fn line(path: &Path) -> Known<String> {
    match fs::read_to_string(path) {
        Ok(text) => Known::Value(text.lines().next().unwrap_or_default().trim().to_owned()),
        Err(error) => Known::unavailable(format!("{}: {error}", path.display())),
    }
}

/// What the control groups of this process say, from its own to the root: each limit counts.
fn of_groups(root: &Path, file: &str) -> Known<String> {
    let own = line_of_group(&root.join("proc/self/cgroup"));
    let Some(own) = own else {
        let reason = "this process is in no control group of version 2";
        return Known::unavailable(reason.to_owned());
    };
    let mut found = Vec::new();
    let mut group = own.trim_matches('/');
    loop {
        let path = root.join("sys/fs/cgroup").join(group).join(file);
        if let Known::Value(value) = line(&path) {
            found.push(format!("{value} (/{group})"));
        }
        group = match group.rsplit_once('/') {
            Some((parent, _)) => parent,
            None if !group.is_empty() => "",
            None => break,
        };
    }
    match found.is_empty() {
        true => Known::unavailable(format!("no control group of this process has {file}")),
        false => Known::Value(found.join(", ")),
    }
}

/// The path of the group of version 2 (cgroups(7)).
fn line_of_group(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines()
        .find_map(|line| line.strip_prefix("0::"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_of_all_groups_above_are_told() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("proc/self/cgroup", "1:name=x:/\n0::/a/b\n");
        write("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
        write("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
        write("sys/devices/system/cpu/smt/active", "0\n");
        let state = MachineState::read(root.path());
        let quota = Known::Value("max 100000 (/a/b), 50000 100000 (/a)".to_owned());
        assert_eq!(state.facts["cpu quota"], quota);
        assert_eq!(state.facts["smt"], Known::Value("0".to_owned()));
        assert!(
            state.facts["memory limit"]
                .reason()
                .unwrap()
                .contains("memory.max")
        );
        assert!(state.facts["boost"].reason().unwrap().contains("boost"));
        assert_eq!(state.facts.len(), FILES.len() + 3);
    }
}
