//! Starting machines.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::accelerator::Accelerator;
use super::exchange::Exchange;
use super::job::Job;
use super::machine::Machine;
use crate::image::Image;
use crate::topology::{Files, Topology, arguments};

/// Where the files of a machine are.
#[derive(Debug)]
pub struct Place {
    own: PathBuf,
    common: PathBuf,
    host: u8,
    /// Removed with the machine, unless it is kept.
    _temporary: Option<TempDir>,
}

impl Place {
    /// A folder that is removed with the machine.
    pub fn temporary() -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("nearfar-testbed-")
            .tempdir()?;
        let mut place = Self::at(folder.path());
        place._temporary = Some(folder);
        Ok(place)
    }

    /// A folder that stays.
    pub fn at(folder: &Path) -> Self {
        Self {
            own: folder.to_owned(),
            common: folder.to_owned(),
            host: 1,
            _temporary: None,
        }
    }

    /// The same for the first or the second of two machines, with what they have in common in another folder.
    pub fn of_host(mut self, host: u8, common: &Path) -> Self {
        self.common = common.to_owned();
        self.host = host;
        self
    }

    /// The machine's own folder.
    pub fn own(&self) -> &Path {
        &self.own
    }
}

/// Starts machines of one image.
#[derive(Debug, Clone)]
pub struct Launcher {
    image: Image,
    accelerator: Accelerator,
    verbose: bool,
}

/// The kernel must not measure its clocks against one another: on a busy host the measurement is
/// wrong, and the guest's time with it.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 quiet panic=-1 nokaslr mitigations=off \
    no_timer_check clocksource=hpet tsc=unstable";

impl Launcher {
    pub fn new(image: Image, accelerator: Accelerator) -> Self {
        Self {
            image,
            accelerator,
            verbose: false,
        }
    }

    /// Prints the command line of each machine.
    pub fn verbose(mut self, verbose: bool) -> Self {
        self.verbose = verbose;
        self
    }

    pub fn image(&self) -> &Image {
        &self.image
    }

    /// Starts one machine of `topology`, which does `job` and turns itself off.
    pub fn start(&self, topology: &Topology, job: &Job, place: Place) -> Result<Machine> {
        let exchange = Exchange::create(place.own(), topology.name, topology.setup, job)?;
        if let Some(mib) = topology.disk_mib {
            let disk = File::create(place.own.join("disk"))?;
            disk.set_len(u64::from(mib) << 20)?;
        }
        let tools = self.image.host_tools();
        let mut qemu = tools.command("usr/bin/qemu-system-x86_64", "qemu-system-x86_64");
        qemu.env(
            "QEMU_MODULE_DIR",
            tools.path("usr/lib/x86_64-linux-gnu/qemu"),
        );
        for folder in ["usr/share/qemu", "usr/share/seabios"] {
            qemu.arg("-L").arg(tools.path(folder));
        }
        qemu.args(["-nodefaults", "-no-user-config", "-no-reboot"]);
        qemu.args(["-display", "none", "-accel", self.accelerator.option()]);
        let files = Files {
            own: &place.own,
            common: &place.common,
            host: place.host,
        };
        qemu.args(arguments(topology, files));
        for (tag, folder, access) in self.shares(topology, &place, &exchange)? {
            let folder = folder.display();
            let model = "security_model=none,multidevs=remap";
            qemu.arg("-fsdev")
                .arg(format!("local,id={tag},path={folder},{model}{access}"));
            qemu.arg("-device").arg(format!(
                "virtio-9p-pci,bus=pcie.0,fsdev={tag},mount_tag={tag}"
            ));
        }
        qemu.arg("-serial")
            .arg(format!("file:{}", exchange.console().display()));
        if job.shell {
            qemu.args(["-chardev", "stdio,id=shell,signal=off"]);
            qemu.args(["-serial", "chardev:shell"]);
        } else {
            qemu.stdin(Stdio::null());
        }
        qemu.arg("-kernel").arg(self.image.kernel());
        qemu.arg("-initrd").arg(self.image.initramfs());
        qemu.arg("-append")
            .arg(format!("{KERNEL_ARGUMENTS} {}", topology.kernel_arguments));
        if self.verbose {
            eprintln!("{qemu:?}");
        }
        if !job.shell {
            let messages = File::create(exchange.messages())?;
            qemu.stdout(messages.try_clone()?).stderr(messages);
        }
        let child = qemu.spawn().context("cannot start qemu")?;
        Ok(Machine::new(child, exchange, place))
    }

    /// Folders that the guest mounts, by tag.
    fn shares(
        &self,
        topology: &Topology,
        place: &Place,
        exchange: &Exchange,
    ) -> Result<Vec<(&'static str, PathBuf, &'static str)>> {
        let mut shares = vec![
            ("tree", self.image.guest_tree(), ",readonly=on"),
            ("programs", exchange.programs(), ",readonly=on"),
            ("exchange", exchange.guest_folder(), ""),
        ];
        if topology.hosts > 1 {
            let shared = place.common.join("shared");
            fs::create_dir_all(&shared)?;
            shares.push(("shared", shared, ""));
        }
        Ok(shares)
    }
}
