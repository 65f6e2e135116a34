//! The machine that is simulated.

use nearfar_topology::{Known, Profile, SimulatedCores, SimulatedTier};

use super::network::DeviceIndex;

/// Most devices of all tiers together.
const DEVICES_MAX: u32 = 64;

/// Most virtual threads of one simulation.
pub const THREADS_MAX: usize = 64;

/// One of a machine's tiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TierName {
    /// Local memory.
    Near,
    /// Far memory.
    Far,
    /// Memory of the other socket.
    Remote,
}

impl TierName {
    /// Its word in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Remote => "remote",
        }
    }
}

/// A machine whose every number the simulation needs is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Name of the profile.
    pub profile: String,
    /// Physical cores; further threads share them two by two.
    pub cores: u32,
    /// Last-level cache.
    pub l3_bytes: u64,
    /// Cores and what they share.
    pub core: SimulatedCores,
    /// Tiers by name.
    pub tiers: Vec<(TierName, SimulatedTier)>,
    /// Cores that are parts of shared ones.
    parts: Parts,
    /// See [`Machine::counting_slots`].
    pub(crate) counts_slots: Option<f64>,
}

/// The first cores, which are each a part of a core that threads share (see
/// [`Machine::with_a_core_per_thread`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    cores: u32,
    /// Parts of each shared core.
    of: u32,
}

/// Why a machine cannot be simulated.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The profile lacks what the simulation needs.
    #[error("profile {profile} cannot be simulated: {what} is unavailable ({reason})")]
    Unavailable {
        /// Name of the profile.
        profile: String,
        /// The key.
        what: &'static str,
        /// Why the profile does not have it.
        reason: String,
    },
    /// More devices than the simulation tells apart.
    #[error("profile {profile} has {devices} devices, at most {DEVICES_MAX} can be simulated")]
    TooManyDevices {
        /// Name of the profile.
        profile: String,
        /// Devices of all tiers.
        devices: u32,
    },
    /// A tier that the machine does not have.
    #[error("profile {profile} has no {tier} tier")]
    NoTier {
        /// Name of the profile.
        profile: String,
        /// The tier.
        tier: &'static str,
    },
    /// More devices than the tier has.
    #[error("profile {profile}: the {tier} tier has {has} device(s), {asked} were asked for")]
    NoSuchDevice {
        /// Name of the profile.
        profile: String,
        /// The tier.
        tier: &'static str,
        /// Its devices.
        has: u32,
        /// The number asked for.
        asked: u32,
    },
    /// A number of threads that the machine does not have.
    #[error(
        "profile {profile}: {threads} threads asked for, there are 1 to {max} (cores times threads \
         per core, and at most {THREADS_MAX})"
    )]
    Threads {
        /// Name of the profile.
        profile: String,
        /// The number asked for.
        threads: usize,
        /// The most that can be had.
        max: usize,
    },
}

impl Machine {
    /// The machine that a profile describes.
    ///
    /// # Errors
    /// [`MachineError::Unavailable`] where the profile has no simulation or does not know its
    /// last-level cache; [`MachineError::TooManyDevices`].
    pub fn new(profile: &Profile) -> Result<Self, MachineError> {
        let missing = |what, reason: Option<&str>| MachineError::Unavailable {
            profile: profile.name.clone(),
            what,
            reason: reason.unwrap_or_default().to_owned(),
        };
        let simulation = match &profile.simulation {
            Known::Value(simulation) => simulation,
            other => return Err(missing("simulation", other.reason())),
        };
        let l3_bytes = profile
            .cache_bytes
            .get()
            .ok_or_else(|| missing("cache_bytes", profile.cache_bytes.reason()))?;
        // Profiles of fewer devices have the simulation of the machine that has all of them.
        let far = SimulatedTier {
            devices: simulation.far.devices.min(profile.far.devices),
            ..simulation.far.clone()
        };
        let mut tiers = vec![
            (TierName::Near, simulation.near.clone()),
            (TierName::Far, far),
        ];
        tiers.extend(
            simulation
                .remote
                .clone()
                .map(|remote| (TierName::Remote, remote)),
        );
        let devices = tiers.iter().map(|(_, tier)| tier.devices).sum();
        if devices > DEVICES_MAX {
            return Err(MachineError::TooManyDevices {
                profile: profile.name.clone(),
                devices,
            });
        }
        Ok(Self {
            profile: profile.name.clone(),
            cores: profile.cores,
            l3_bytes,
            core: simulation.core.clone(),
            tiers,
            parts: Parts { cores: 0, of: 1 },
            counts_slots: None,
        })
    }

    /// The first `count` devices of a tier, for page cycles.
    ///
    /// # Errors
    /// [`MachineError::NoTier`] and [`MachineError::NoSuchDevice`].
    pub fn devices(&self, name: TierName, count: u32) -> Result<Vec<DeviceIndex>, MachineError> {
        let mut first = 0;
        for (tier, parameters) in &self.tiers {
            if *tier != name {
                first += parameters.devices;
                continue;
            }
            if count == 0 || count > parameters.devices {
                return Err(MachineError::NoSuchDevice {
                    profile: self.profile.clone(),
                    tier: name.name(),
                    has: parameters.devices,
                    asked: count,
                });
            }
            return Ok((first..first + count)
                .map(|device| device as DeviceIndex)
                .collect());
        }
        Err(MachineError::NoTier {
            profile: self.profile.clone(),
            tier: name.name(),
        })
    }

    /// The machine with a core for each of `threads` threads. Those that have to share a core have
    /// each its part of what its threads share: fill buffers, queue, instruction window and private
    /// caches, in which each also finds what the other has brought. Those that have a core for themselves,
    /// as long as there are any, have all of it.
    ///
    /// Threads of one core run in one program order here, so that chains of dependent reads do not
    /// overlap: code that waits for memory most of its time runs on such a machine. Its threads do
    /// not share execution units, and neither does what one of them leaves unused serve the other.
    #[must_use]
    pub fn with_a_core_per_thread(&self, threads: usize) -> Self {
        let per_core = self.core.threads_per_core.max(1);
        let further = (threads as u32).saturating_sub(self.cores);
        let mut machine = self.clone();
        machine.cores = self.cores + further;
        machine.core.threads_per_core = 1;
        // Each further thread joins those of a core.
        let shared_cores = further.div_ceil(per_core.saturating_sub(1).max(1));
        machine.parts = Parts {
            cores: (further + shared_cores).min(machine.cores),
            of: if further > 0 { per_core } else { 1 },
        };
        machine
    }

    /// The machine with simulations that count where issue slots go, which takes a little longer: see
    /// [`Simulation::slot_times`](super::Simulation::slot_times).
    ///
    /// An access's core time is that of its way through the core, not of instructions: of these, programs tell
    /// as core time what they know, and `access_instructions_ns` is the core time of those that belong to an
    /// access and that they do not tell.
    #[must_use]
    pub fn counting_slots(&self, access_instructions_ns: f64) -> Self {
        Self {
            counts_slots: Some(access_instructions_ns),
            ..self.clone()
        }
    }

    /// The machine with prefetchers switched off.
    #[must_use]
    pub fn without_prefetchers(&self) -> Self {
        let mut machine = self.clone();
        machine.core.streamer_distance_lines = 0;
        machine
    }

    /// Whether there are prefetchers.
    pub(crate) fn has_prefetchers(&self) -> bool {
        self.core.streamer_distance_lines > 0
    }

    /// Whether the core of a thread is a part of one that it shares.
    pub(crate) fn is_part(&self, thread: usize) -> bool {
        thread < self.parts.cores as usize
    }

    /// Which private caches the core of a thread uses: those that are parts of one core have the same.
    pub(crate) fn caches_of(&self, thread: usize) -> usize {
        let (parts, of) = (self.parts.cores as usize, self.parts.of as usize);
        if thread < parts {
            thread / of
        } else {
            parts / of + (thread - parts)
        }
    }

    /// Threads that use the private caches of a thread's core.
    pub(crate) fn sharers_of(&self, thread: usize) -> u32 {
        if self.is_part(thread) {
            self.parts.of
        } else {
            1
        }
    }

    /// What the core of a thread has: of what it shares, its part.
    pub(crate) fn core_of(&self, thread: usize) -> SimulatedCores {
        let mut core = self.core.clone();
        if self.is_part(thread) {
            let of = self.parts.of;
            core.fill_buffers = (core.fill_buffers / of).max(1);
            core.l2_queue_entries = (core.l2_queue_entries / of).max(1);
            core.window_lines = (core.window_lines / of).max(1);
            core.l1_bytes /= u64::from(of);
            core.l2_bytes /= u64::from(of);
        }
        core
    }

    /// Parts of those cores that are shared; 1 where none is.
    pub fn parts_of_shared_cores(&self) -> u32 {
        self.parts.of
    }

    /// Private caches of so many threads' cores together.
    pub fn l2_bytes_of(&self, threads: usize) -> u64 {
        (0..threads)
            .map(|thread| self.core_of(thread).l2_bytes)
            .sum()
    }

    /// Threads that can run concurrently.
    pub fn threads_max(&self) -> usize {
        ((self.cores * self.core.threads_per_core) as usize).min(THREADS_MAX)
    }

    /// Checks a number of threads.
    ///
    /// # Errors
    /// [`MachineError::Threads`].
    pub fn check_threads(&self, threads: usize) -> Result<(), MachineError> {
        let max = self.threads_max();
        if threads == 0 || threads > max {
            let profile = self.profile.clone();
            return Err(MachineError::Threads {
                profile,
                threads,
                max,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_memory_has_the_devices_of_the_profile() {
        for devices in 1..=4 {
            let profile = Profile::builtin(&format!("cxl-blades-{devices}")).unwrap();
            let machine = Machine::new(&profile).unwrap();
            assert!(machine.devices(TierName::Far, devices).is_ok());
            assert!(machine.devices(TierName::Far, devices + 1).is_err());
        }
    }

    #[test]
    fn only_threads_that_share_a_core_have_parts_of_one() {
        let machine = Machine::new(&Profile::builtin("cxl-blades-4").unwrap()).unwrap();
        let whole = machine.core.clone();
        for (threads, parts) in [(1, 0), (24, 0), (25, 2), (30, 12), (48, 48)] {
            let spread = machine.with_a_core_per_thread(threads);
            let cores: Vec<_> = (0..threads).map(|thread| spread.core_of(thread)).collect();
            let halves = cores
                .iter()
                .filter(|core| core.fill_buffers == whole.fill_buffers / 2);
            assert_eq!(halves.count(), parts, "{threads} threads");
            let caches: Vec<_> = (0..threads)
                .map(|thread| spread.caches_of(thread))
                .collect();
            assert_eq!(
                caches.last(),
                Some(&(threads.min(24) - 1)),
                "{threads} threads"
            );
            for (thread, own) in caches.iter().enumerate() {
                let sharers = caches.iter().filter(|other| *other == own).count();
                assert_eq!(
                    sharers,
                    spread.sharers_of(thread) as usize,
                    "{threads} threads"
                );
            }
            assert!(spread.check_threads(threads).is_ok());
            let l2_bytes = threads.min(24) as u64 * whole.l2_bytes;
            assert_eq!(spread.l2_bytes_of(threads), l2_bytes, "{threads} threads");
        }
    }
}
