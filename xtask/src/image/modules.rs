//! Kernel modules: which files a list of names needs.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};

/// The kernel's own lists of its modules, `modules.dep` and `modules.builtin`.
pub struct Modules {
    /// By name: the module's file, then those of the modules it needs.
    files: BTreeMap<String, Vec<String>>,
    builtin: BTreeSet<String>,
}

impl Modules {
    /// Reads both lists.
    pub fn parse(dependencies: &str, builtin: &str) -> Self {
        let files = dependencies.lines().filter_map(|line| {
            let (file, needed) = line.split_once(':')?;
            let all = std::iter::once(file).chain(needed.split_whitespace());
            Some((name_of(file), all.map(str::to_owned).collect()))
        });
        Self {
            files: files.collect(),
            builtin: builtin.lines().map(name_of).collect(),
        }
    }

    /// The files of these modules, each behind those that it needs. What is part of the kernel needs
    /// none.
    pub fn in_order(&self, names: &[&str]) -> Result<Vec<String>> {
        let mut order: Vec<String> = Vec::new();
        for name in names {
            let Some(files) = self.files.get(*name) else {
                if self.builtin.contains(*name) {
                    continue;
                }
                bail!("the kernel has no module {name}");
            };
            // The list names the most needed last.
            for file in files.iter().rev() {
                if !order.contains(file) {
                    order.push(file.clone());
                }
            }
        }
        Ok(order)
    }
}

/// `kernel/drivers/dax/device_dax.ko.xz` is `device_dax`.
fn name_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    let name = name.split(".ko").next().unwrap_or(name);
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEPENDENCIES: &str = "\
kernel/fs/9p/9p.ko.xz: kernel/net/9p/9pnet.ko.xz kernel/fs/netfs/netfs.ko.xz
kernel/net/9p/9pnet.ko.xz:
kernel/fs/netfs/netfs.ko.xz:
kernel/drivers/net/virtio-net.ko.xz: kernel/net/failover.ko.xz
";

    #[test]
    fn needed_modules_come_first_and_once() {
        let modules = Modules::parse(DEPENDENCIES, "kernel/drivers/virtio/virtio.ko\n");
        let order = modules
            .in_order(&["virtio_net", "9p", "9pnet", "virtio"])
            .unwrap();
        let names: Vec<String> = order.iter().map(|file| name_of(file)).collect();
        assert_eq!(names, ["failover", "virtio_net", "netfs", "9pnet", "9p"]);
    }

    #[test]
    fn unknown_modules_are_named() {
        let error = Modules::parse(DEPENDENCIES, "")
            .in_order(&["nfit"])
            .unwrap_err();
        assert_eq!(error.to_string(), "the kernel has no module nfit");
    }
}
