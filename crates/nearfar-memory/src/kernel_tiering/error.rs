//! Why the kernel cannot be asked to place pages.

use std::io;
use std::path::PathBuf;

use crate::sys::SysError;

/// Why the kernel cannot be asked to place pages.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KernelTieringError {
    /// Two tiers of one node, or one that is no memory of the kernel's.
    #[error(
        "the kernel moves pages between nodes, and the tiers have the nodes {near:?} (near) and {far:?} (far): each \
         needs nodes of its own; memory of a device becomes a node by `daxctl reconfigure-device --mode=system-ram`"
    )]
    SameNodes {
        /// Nodes of the near tier.
        near: String,
        /// Nodes of the far one.
        far: String,
    },
    /// The kernel does not see that one is farther.
    #[error(
        "the kernel demotes from a memory tier to one behind it, and sees none that nodes {far} have behind nodes \
         {near}: see /sys/devices/virtual/memory_tiering and what the firmware says of the nodes (HMAT)"
    )]
    OneKernelTier {
        /// Nodes of the near tier.
        near: String,
        /// Nodes of the far one.
        far: String,
    },
    /// Memory that is of neither tier.
    #[error(
        "nodes {nodes} have memory too, to which the kernel would move pages or put new ones: only machines whose nodes \
         are all near or far can be compared; take the others offline"
    )]
    NodesElsewhere {
        /// The nodes of neither.
        nodes: String,
    },
    /// DAMON is told of one node to promote to.
    #[error(
        "DAMON promotes to one node, and the near tier has nodes {near}: compare with NUMA balancing there"
    )]
    SeveralNearNodes {
        /// Nodes of the near tier.
        near: String,
    },
    /// A kernel without the mechanism.
    #[error(
        "cannot read {}: this kernel has no such mechanism (tiering needs Linux 6.9 with CONFIG_NUMA_BALANCING and \
         CONFIG_MIGRATION, DAMON 6.11 with CONFIG_DAMON_SYSFS and CONFIG_DAMON_PADDR)",
        file.display()
    )]
    Missing {
        /// What is not there.
        file: PathBuf,
        /// What reading it said.
        #[source]
        source: io::Error,
    },
    /// Memory whose pages the kernel may move is refused.
    #[error("this kernel does not balance pages of memory with a policy: that needs Linux 6.9")]
    Policy(#[source] SysError),
    /// A setting that this process may not see or change.
    #[error("cannot open {}: it takes root", file.display())]
    NotAllowed {
        /// Which.
        file: PathBuf,
    },
    /// A value that the kernel refuses.
    #[error(
        "the kernel refuses {value:?} in {} (tiering needs Linux 6.9, DAMON 6.11)",
        file.display()
    )]
    Refused {
        /// Which.
        file: PathBuf,
        /// What it was to be.
        value: String,
        /// What writing said.
        #[source]
        source: io::Error,
    },
    /// There is no shell to put settings back.
    #[error("cannot start `sh`, which puts the kernel's settings back when this process has ended")]
    Keeper(#[source] io::Error),
    /// Somebody else has DAMON.
    #[error(
        "DAMON is in use ({} is {found}): stop who uses it, or write 0 there",
        file.display()
    )]
    DamonInUse {
        /// Where it says so.
        file: PathBuf,
        /// Its number of monitors.
        found: String,
    },
    /// What is placed is small beside what the kernel keeps free.
    #[error(
        "the kernel keeps {step_bytes} bytes of near memory more or less free, beside which the {near_bytes} that may be \
         near are nothing: place more, or lower vm.min_free_kbytes"
    )]
    TooSmall {
        /// What may be near.
        near_bytes: u64,
        /// Between two watermarks.
        step_bytes: u64,
    },
    /// Near memory is full already.
    #[error(
        "nodes {nodes} have {available_bytes} bytes left, and {wanted_bytes} are to be left for what is placed: end \
         other processes there, or ask for a smaller share"
    )]
    NoRoom {
        /// The near nodes.
        nodes: String,
        /// What they have left.
        available_bytes: u64,
        /// What is to be left.
        wanted_bytes: u64,
    },
    /// The ballast was not to be had.
    #[error(
        "nodes {nodes} have {available_bytes} bytes left where {wanted_bytes} were to be: the kernel has reserved fewer \
         huge pages than it was asked for, so that near memory would not be scarce; free memory there, or start after a \
         reboot"
    )]
    NotScarce {
        /// The near nodes.
        nodes: String,
        /// What they have left.
        available_bytes: u64,
        /// What was to be left.
        wanted_bytes: u64,
    },
    /// The ballast would not fit the control group.
    #[error(
        "the ballast and what is placed take {wanted_bytes} bytes, and {} leaves {available_bytes}: raise it",
        file.display()
    )]
    Cgroup {
        /// Both together.
        wanted_bytes: u64,
        /// What the group has left.
        available_bytes: u64,
        /// Its limit.
        file: PathBuf,
    },
    /// The machine does not say what its nodes have left, or what they are.
    #[error("the machine does not say {what}")]
    Unknown {
        /// What.
        what: &'static str,
    },
    /// No memory for the ballast.
    #[error(
        "cannot lock {bytes} bytes of nodes {nodes} to make near memory scarce: it takes root, or `ulimit -l`"
    )]
    Ballast {
        /// The near nodes.
        nodes: String,
        /// Bytes of this step.
        bytes: usize,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
}

impl KernelTieringError {
    /// Whether there is not enough memory, as opposed to a mechanism that this machine or this user does not have.
    #[must_use]
    pub fn is_lack_of_memory(&self) -> bool {
        matches!(
            self,
            Self::NoRoom { .. }
                | Self::NotScarce { .. }
                | Self::Cgroup { .. }
                | Self::Ballast { .. }
        )
    }
}
