//! The tiers that operators run on, and what reads of the far one cost.

use std::cell::Cell;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use nearfar_kernels::copy::{Copier, MethodCopier};
use nearfar_memory::sys::{SysError, ThreadPlaces, allowed_cpus};
use nearfar_memory::{
    Budgets, MemorySystem, PageSize, Placement, Region, RegionError, RegionOptions, SystemError,
    TierId,
};
use nearfar_model::{BandwidthShare, EmulatedTier, ParameterError, Pattern, StreamMeter};
use nearfar_topology::{Profile, Topology, UnknownTier};

use super::error::TierRunError;
use super::room::available_bytes;
use crate::interference::one_of_each_core;

/// The name of a machine's own far tier.
const FAR: &str = "far";
/// Bytes after which a thread is charged for what it has streamed.
const CHARGED_BYTES: u64 = 64 << 10;

/// Why there are no two tiers to run on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OperatorTiersError {
    /// The machine gives no memory system.
    #[error(transparent)]
    System(#[from] SystemError),
    /// It has no processors that this process may use.
    #[error(transparent)]
    Processors(#[from] SysError),
    /// The tier is not there.
    #[error(transparent)]
    Tier(#[from] UnknownTier),
    /// The profile's far tier cannot be emulated.
    #[error("profile {profile} cannot be emulated: {reason}")]
    Emulation {
        /// Its name.
        profile: String,
        /// What it does not say.
        reason: ParameterError,
    },
}

/// Near memory beside the machine's own far tier, or an emulated one.
#[derive(Debug)]
pub struct OperatorTiers {
    system: Arc<MemorySystem>,
    far: TierId,
    far_name: String,
    /// Its profile and its model, where it is emulated.
    emulated: Option<(String, Arc<EmulatedTier>)>,
    places: ThreadPlaces,
}

impl OperatorTiers {
    /// The machine's own far tier where it has one that gives memory; else that of `profile`, emulated, with the share
    /// of its bandwidth that as many of its cores have as there are processors.
    ///
    /// # Errors
    /// [`OperatorTiersError`].
    pub fn new(topology: Topology, profile: &Profile) -> Result<Self, OperatorTiersError> {
        let cpus = allowed_cpus()?;
        let own = topology.tier(FAR).is_ok_and(|tier| tier.allocatable);
        let topology = if own {
            topology
        } else {
            topology.with_profile(profile)
        };
        let system = MemorySystem::new(&topology, &Budgets::new())?;
        let share = BandwidthShare::Threads(u32::try_from(cpus.len()).unwrap_or(u32::MAX));
        let modelled = (!own).then(|| topology.modelled(profile).last()).flatten();
        let emulated = modelled.map(|(tier, modelled)| {
            let model = EmulatedTier::of_tier(profile, modelled, share);
            let model = model.map_err(|reason| OperatorTiersError::Emulation {
                profile: profile.name.clone(),
                reason,
            })?;
            Ok::<_, OperatorTiersError>((tier.name.clone(), model))
        });
        let (far_name, emulated) = match emulated.transpose()? {
            Some((name, model)) => (name, Some((profile.name.clone(), model))),
            None => (FAR.to_owned(), None),
        };
        Ok(Self {
            far: system.tier(&far_name)?,
            system,
            far_name,
            emulated,
            places: ThreadPlaces::new(cores_first(&cpus)),
        })
    }

    /// Where far columns are.
    pub fn far_name(&self) -> &str {
        &self.far_name
    }

    /// The profile whose far tier is emulated.
    pub fn profile(&self) -> Option<&str> {
        self.emulated.as_ref().map(|(profile, _)| &**profile)
    }

    /// Processors of this process.
    pub fn processors(&self) -> usize {
        self.places.len()
    }

    /// Refuses what does not fit on both tiers. An emulated one is part of near memory.
    pub(super) fn check_room(
        &self,
        options: &'static str,
        near_bytes: u64,
        far_bytes: u64,
    ) -> Result<(), TierRunError> {
        let needs = match self.emulated {
            Some(_) => [
                (TierId::NEAR, near_bytes.saturating_add(far_bytes)),
                (self.far, far_bytes),
            ],
            None => [(TierId::NEAR, near_bytes), (self.far, far_bytes)],
        };
        for (tier, needed_bytes) in needs {
            let available_bytes = available_bytes(&self.system, tier);
            if needed_bytes > available_bytes {
                return Err(TierRunError::Room {
                    options,
                    tier: self.system.name(tier),
                    needed_bytes,
                    available_bytes,
                });
            }
        }
        Ok(())
    }

    /// Pins the calling thread, one with this number: threads take processors one after the other, and then again.
    pub(super) fn pin(&self, thread: usize) -> Result<(), SysError> {
        self.places.pin(thread)
    }

    pub(super) fn near_region(&self, bytes: usize) -> Result<Region, RegionError> {
        self.region(TierId::NEAR, bytes)
    }

    pub(super) fn far_region(&self, bytes: usize) -> Result<Region, RegionError> {
        self.region(self.far, bytes)
    }

    fn region(&self, tier: TierId, bytes: usize) -> Result<Region, RegionError> {
        let options = RegionOptions {
            page_size: PageSize::Huge,
            ..RegionOptions::default()
        };
        Region::allocate(&self.system, bytes, &Placement::Bind(tier), options)
    }

    /// What charges reads of these addresses, which are far, to the calling thread, as an emulated tier would; nothing
    /// where they really are.
    pub(super) fn streams(&self, far: Range<usize>) -> StreamMeter<impl Fn(u64) + '_> {
        let (tier, pattern) = (self.model(), Cell::new(Pattern::First));
        StreamMeter::new(far, CHARGED_BYTES, move |bytes| {
            if let Some(tier) = tier {
                let mut advanced = pattern.get();
                tier.read(advanced.advance(), bytes);
                pattern.set(advanced);
            }
        })
    }

    /// A copier that reads far bytes.
    pub(super) fn copier(&self, copier: MethodCopier) -> FarCopier<'_> {
        FarCopier {
            copier,
            tier: self.model(),
            pattern: Pattern::First,
        }
    }

    fn model(&self) -> Option<&EmulatedTier> {
        self.emulated.as_ref().map(|(_, model)| &**model)
    }
}

/// One processor of each core, then the others.
fn cores_first(cpus: &[u32]) -> Vec<u32> {
    let mut ordered = one_of_each_core(cpus, Path::new("/sys"));
    let second = cpus.iter().filter(|cpu| !ordered.contains(cpu));
    let second: Vec<u32> = second.copied().collect();
    ordered.extend(second);
    ordered
}

/// The addresses of some bytes.
pub(super) fn addresses(bytes: &[u8]) -> Range<usize> {
    let range = bytes.as_ptr_range();
    range.start.addr()..range.end.addr()
}

/// Copies far bytes, as fast as an emulated tier would give them where it is one.
pub(super) struct FarCopier<'a> {
    copier: MethodCopier,
    tier: Option<&'a EmulatedTier>,
    pattern: Pattern,
}

impl Copier for FarCopier<'_> {
    fn copy(&mut self, from: &[u8], to: &mut [u8]) {
        self.copier.copy(from, to);
        if let Some(tier) = self.tier {
            tier.read(self.pattern.advance(), from.len() as u64);
        }
    }
}
