//! A topology as qemu's arguments.

use std::path::Path;

use super::machine::{CxlDevice, Topology};

/// Files on the host that back devices of one machine.
#[derive(Debug, Clone, Copy)]
pub struct Files<'a> {
    /// Where the machine's own devices keep their content.
    pub own: &'a Path,
    /// Where devices are that two machines have in common.
    pub common: &'a Path,
    /// Which of two machines it is, from 1 on.
    pub host: u8,
}

/// Arguments for memory, CPUs and devices.
pub fn arguments(topology: &Topology, files: Files) -> Vec<String> {
    let mut arguments = Arguments::default();
    arguments.add("-machine", machine(topology));
    arguments.add("-cpu", cpu(topology));
    let per_socket = topology.cpus() / topology.sockets();
    arguments.add(
        "-smp",
        format!(
            "{},sockets={},cores={per_socket}",
            topology.cpus(),
            topology.sockets()
        ),
    );
    let total_mib = topology.memory_mib();
    arguments.add(
        "-m",
        format!("{total_mib}M,maxmem={}M,slots=8", total_mib + 8192),
    );
    if has_nodes(topology) {
        nodes(topology, &mut arguments);
    }
    if let Some(module) = topology.module {
        arguments.add(
            "-object",
            format!("memory-backend-ram,id=module,size={}M", module.mib),
        );
        arguments.add(
            "-device",
            format!("pc-dimm,id=dimm0,memdev=module,node={}", module.node),
        );
    }
    for (index, mib) in topology.nvdimms_mib.iter().enumerate() {
        let file = files.own.join(format!("nvdimm{index}"));
        arguments.add("-object", backend_file(&format!("nv{index}"), &file, *mib));
        arguments.add(
            "-device",
            format!("nvdimm,id=nvdimm{index},memdev=nv{index}"),
        );
    }
    cxl(topology, files, &mut arguments);
    if topology.disk_mib.is_some() {
        let file = files.own.join("disk");
        arguments.add(
            "-drive",
            format!("if=none,id=disk,format=raw,file={}", file.display()),
        );
        arguments.add(
            "-device",
            "nvme,bus=pcie.0,drive=disk,serial=nearfar".to_owned(),
        );
    }
    if topology.network {
        let (host, of_two) = (files.host, topology.hosts > 1);
        let netdev = match of_two {
            true => wire(files),
            false => "user,id=net,restrict=on".to_owned(),
        };
        arguments.add("-netdev", netdev);
        let card =
            format!("virtio-net-pci,bus=pcie.0,netdev=net,mac=52:54:00:00:00:{host:02x},romfile=");
        arguments.add("-device", card);
    }
    arguments.0
}

/// A network of two machines: datagrams between sockets of theirs, which need not exist yet when they are sent to.
fn wire(files: Files) -> String {
    let socket = |host: u8| files.common.join(format!("net{host}"));
    let (own, other) = (socket(files.host), socket(3 - files.host));
    format!(
        "dgram,id=net,local.type=unix,local.path={},remote.type=unix,remote.path={}",
        own.display(),
        other.display()
    )
}

#[derive(Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn add(&mut self, option: &str, value: String) {
        self.0.extend([option.to_owned(), value]);
    }
}

fn machine(topology: &Topology) -> String {
    let mut machine = "q35".to_owned();
    if !topology.declared.is_empty() {
        machine += ",hmat=on";
    }
    if !topology.cxl.is_empty() {
        machine += ",cxl=on";
    }
    if !topology.nvdimms_mib.is_empty() {
        machine += ",nvdimm=on";
    }
    machine
}

fn cpu(topology: &Topology) -> String {
    // The guest's idea of how fast its time stamp counter is may be wrong on a busy host, so that
    // timers must not depend on it.
    let mut cpu = "max,-tsc-deadline".to_owned();
    if !topology.cxl.is_empty() {
        // Linux refuses to commit CXL decoders in a machine that it knows to be virtual, since it
        // could not invalidate CPU caches there.
        cpu += ",-hypervisor";
    }
    cpu
}

fn has_nodes(topology: &Topology) -> bool {
    topology.nodes.len() > 1 || !topology.declared.is_empty()
}

fn nodes(topology: &Topology, arguments: &mut Arguments) {
    let with_hmat = !topology.declared.is_empty();
    let mut first_cpu = 0;
    for (id, node) in topology.nodes.iter().enumerate() {
        let mut text = format!("node,nodeid={id}");
        if node.cpus > 0 {
            text += &format!(",cpus={first_cpu}-{}", first_cpu + node.cpus - 1);
            first_cpu += node.cpus;
        }
        if node.memory_mib > 0 {
            let object = format!("memory-backend-ram,id=node{id},size={}M", node.memory_mib);
            arguments.add("-object", object);
            text += &format!(",memdev=node{id}");
        }
        if with_hmat {
            text += &format!(",initiator={}", node.initiator);
        }
        arguments.add("-numa", text);
    }
    if with_hmat && !topology.cxl.is_empty() {
        // The CXL host bridge's, which stands for the way from the CPUs to its ports.
        let bridge = topology.nodes.len();
        arguments.add("-numa", format!("node,nodeid={bridge},initiator=0"));
    }
    for distance in topology.distances {
        let ((one, other), value) = (distance.nodes, distance.distance);
        arguments.add("-numa", format!("dist,src={one},dst={other},val={value}"));
        arguments.add("-numa", format!("dist,src={other},dst={one},val={value}"));
    }
    for declared in topology.declared {
        let of = format!(
            "hmat-lb,initiator={},target={},hierarchy=memory",
            declared.initiator, declared.target
        );
        arguments.add(
            "-numa",
            format!(
                "{of},data-type=access-latency,latency={}",
                declared.latency_ns
            ),
        );
        let bandwidth = declared.bandwidth_gib_per_s;
        arguments.add(
            "-numa",
            format!("{of},data-type=access-bandwidth,bandwidth={bandwidth}G"),
        );
    }
}

fn cxl(topology: &Topology, files: Files, arguments: &mut Arguments) {
    if topology.cxl.is_empty() {
        return;
    }
    arguments.add("-device", "pxb-cxl,id=cxl,bus=pcie.0,bus_nr=12".to_owned());
    for (index, device) in topology.cxl.iter().enumerate() {
        let slot = index + 2;
        arguments.add(
            "-device",
            format!("cxl-rp,id=port{index},bus=cxl,port={index},chassis=0,slot={slot}"),
        );
        let type3 = format!("cxl-type3,id=cxl{index},bus=port{index},sn={}", index + 1);
        let memory = format!("cxl-memory{index}");
        match device {
            CxlDevice::Volatile { mib } => {
                let backend = match topology.hosts {
                    1 => format!("memory-backend-ram,id={memory},size={mib}M"),
                    _ => backend_file(&memory, &files.common.join(&memory), *mib),
                };
                arguments.add("-object", backend);
                arguments.add("-device", format!("{type3},volatile-memdev={memory}"));
            }
            CxlDevice::Persistent { mib } => {
                let file = files.own.join(&memory);
                arguments.add("-object", backend_file(&memory, &file, *mib));
                let labels = format!("cxl-labels{index}");
                arguments.add("-object", format!("memory-backend-ram,id={labels},size=1M"));
                arguments.add(
                    "-device",
                    format!("{type3},persistent-memdev={memory},lsa={labels}"),
                );
            }
        }
    }
    arguments.add(
        "-machine",
        "cxl-fmw.0.targets.0=cxl,cxl-fmw.0.size=1G".to_owned(),
    );
    if !topology.declared.is_empty() {
        let bridge = topology.nodes.len();
        arguments.add(
            "-object",
            format!("acpi-generic-port,id=generic-port,pci-bus=cxl,node={bridge}"),
        );
    }
}

fn backend_file(id: &str, file: &Path, mib: u32) -> String {
    format!(
        "memory-backend-file,id={id},share=on,mem-path={},size={mib}M",
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use super::super::{ALL, find};
    use super::*;

    fn of(name: &str) -> String {
        let files = Files {
            own: Path::new("/own"),
            common: Path::new("/common"),
            host: 1,
        };
        arguments(find(name).unwrap(), files).join(" ")
    }

    #[track_caller]
    fn has(name: &str, parts: &[&str]) {
        let all = of(name);
        for part in parts {
            assert!(all.contains(part), "{part:?} is missing in {all}");
        }
    }

    #[test]
    fn a_laptop_has_no_nodes_to_speak_of() {
        let all = of("one-node");
        assert!(all.starts_with("-machine q35 -cpu max,-tsc-deadline -smp 2,sockets=1,cores=2"));
        assert!(!all.contains("-numa"), "{all}");
        has(
            "one-node",
            &[
                "file=/own/disk",
                "nvme,bus=pcie.0,drive=disk",
                "virtio-net-pci",
            ],
        );
    }

    #[test]
    fn a_far_node_has_what_firmware_declares() {
        has(
            "far-node",
            &[
                "-machine q35,hmat=on",
                "-m 2560M",
                "node,nodeid=0,cpus=0-1,memdev=node0,initiator=0",
                "node,nodeid=1,memdev=node1,initiator=0",
                "dist,src=0,dst=1,val=20 -numa dist,src=1,dst=0,val=20",
                "hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-latency,latency=250",
                "data-type=access-bandwidth,bandwidth=50G",
            ],
        );
    }

    #[test]
    fn sockets_have_their_own_cpus() {
        has(
            "two-sockets",
            &[
                "-smp 4,sockets=2,cores=2",
                "nodeid=0,cpus=0-1,",
                "nodeid=1,cpus=2-3,",
                "node,nodeid=2,memdev=node2,initiator=1",
            ],
        );
    }

    #[test]
    fn cxl_devices_hide_the_hypervisor_and_have_a_window() {
        has(
            "cxl-node",
            &[
                "-machine q35,hmat=on,cxl=on -cpu max,-tsc-deadline,-hypervisor",
                "cxl-type3,id=cxl0,bus=port0,sn=1,volatile-memdev=cxl-memory0",
                "memory-backend-ram,id=cxl-memory0,size=512M",
                "cxl-fmw.0.targets.0=cxl",
                "acpi-generic-port,id=generic-port,pci-bus=cxl,node=1",
            ],
        );
    }

    #[test]
    fn two_hosts_share_the_memory_but_not_the_disk() {
        has(
            "two-hosts",
            &["mem-path=/common/cxl-memory0", "file=/own/disk"],
        );
    }

    #[test]
    fn two_hosts_are_on_one_network() {
        has(
            "rdma-hosts",
            &[
                "dgram,id=net,local.type=unix,local.path=/common/net1,remote.type=unix,remote.path=/common/net2",
                "netdev=net,mac=52:54:00:00:00:01",
            ],
        );
    }

    #[test]
    fn persistent_memory_is_in_files() {
        has(
            "pmem",
            &[
                "q35,cxl=on,nvdimm=on",
                "mem-path=/own/nvdimm1,size=256M -device nvdimm,id=nvdimm1,memdev=nv1",
                "persistent-memdev=cxl-memory0,lsa=cxl-labels0",
            ],
        );
    }

    #[test]
    fn odd_nodes_may_lack_memory() {
        has(
            "odd-nodes",
            &[
                "-numa node,nodeid=1,cpus=2-3 ",
                "-numa node,nodeid=3 ",
                "pc-dimm,id=dimm0,memdev=module,node=3",
            ],
        );
    }

    #[test]
    fn every_option_has_a_value() {
        for topology in &ALL {
            let files = Files {
                own: Path::new("/own"),
                common: Path::new("/common"),
                host: 2,
            };
            let all = arguments(topology, files);
            let names = all.iter().step_by(2);
            assert!(names.clone().all(|name| name.starts_with('-')), "{all:?}");
            assert_eq!(all.len() % 2, 0);
        }
    }
}
