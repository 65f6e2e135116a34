//! The machine's tiers, with budgets and accounts.

use std::ffi::c_char;
use std::sync::Arc;

use nearfar_memory::{Budgets, MemorySystem, TierId};
use nearfar_model::{BandwidthShare, EmulatedTier};
use nearfar_topology::{Profile, Topology};

use crate::failure::{Failure, Status, array, guarded, optional_text, result, text};
use crate::handles::{Handle, Handles};
use crate::texts;

/// Bytes of a tier's name with its zero byte.
pub const NAME_BYTES: usize = 64;

/// The most bytes that a tier may hold.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// The tier.
    pub tier: *const c_char,
    /// Its bytes.
    pub bytes: u64,
}

/// A tier.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Tier {
    /// Its name, which ends with a zero byte.
    pub name: [c_char; NAME_BYTES],
    /// The most bytes that can ever be placed there.
    pub capacity_bytes: u64,
    /// The most bytes that regions and heaps together may take.
    pub budget_bytes: u64,
    /// What they have taken.
    pub used_bytes: u64,
    /// Whether memory can be taken from it.
    pub is_allocatable: bool,
    /// Whether a profile's machine stands for its memory.
    pub is_modelled: bool,
}

/// The memory of a machine, and the models of those tiers that have one.
pub struct System {
    pub memory: Arc<MemorySystem>,
    pub models: Vec<(String, Arc<EmulatedTier>)>,
}

pub static SYSTEMS: Handles<System> = Handles::new("system");

/// Opens the memory of this machine. With `profile`, which may be null, the far memory of that machine is
/// added, modelled. `budgets` may be null if there are none.
///
/// # Safety
/// Texts end with a zero byte, and `budgets` points to `budget_count` budgets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_system_open(
    profile: *const c_char,
    budgets: *const Budget,
    budget_count: usize,
    system: *mut Handle,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let system = unsafe { result(system, "system") }?;
        let mut topology = Topology::this_machine().map_err(Failure::of(Status::Unavailable))?;
        // SAFETY: the caller says so.
        let profile = unsafe { optional_text(profile, "profile") }?;
        let profile = profile.map(Profile::resolve).transpose();
        let profile = profile.map_err(Failure::of(Status::Name))?;
        if let Some(profile) = &profile {
            topology = topology.with_profile(profile);
        }
        let mut limits = Budgets::new();
        // SAFETY: the caller says so.
        for budget in unsafe { array(budgets, budget_count, "budgets") }? {
            // SAFETY: the caller says so.
            let tier = unsafe { text(budget.tier, "a budget's tier") }?;
            limits = limits.with(tier, budget.bytes);
        }
        let memory = MemorySystem::new(&topology, &limits).map_err(Failure::of(Status::Name))?;
        let models = match &profile {
            Some(profile) => models(&topology, profile)?,
            None => Vec::new(),
        };
        *system = SYSTEMS.add(System { memory, models });
        Ok(())
    })
}

/// The models of a topology's tiers that are those of `profile`.
pub fn models(
    topology: &Topology,
    profile: &Profile,
) -> Result<Vec<(String, Arc<EmulatedTier>)>, Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = BandwidthShare::Threads(threads as u32);
    let models = topology.modelled(profile).map(|(tier, modelled)| {
        let model = EmulatedTier::of_tier(profile, modelled, share);
        Ok((tier.name.clone(), model.map_err(Failure::of(Status::Name))?))
    });
    models.collect()
}

/// Closes it. Regions, heaps and trees of it stay until they are freed.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_system_close(system: Handle) -> Status {
    guarded(|| SYSTEMS.remove(system))
}

/// How many tiers there are.
///
/// # Safety
/// `count` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_tier_count(system: Handle, count: *mut usize) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let count = unsafe { result(count, "count") }?;
        *count = SYSTEMS.get(system)?.memory.tiers().len();
        Ok(())
    })
}

/// A tier by its place, the nearest first.
///
/// # Safety
/// `tier` points to a tier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_tier(system: Handle, index: usize, tier: *mut Tier) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let tier = unsafe { result(tier, "tier") }?;
        let memory = Arc::clone(&SYSTEMS.get(system)?.memory);
        let count = memory.tiers().len();
        let found = memory.tiers().nth(index);
        let none = || Failure::new(Status::Name, format!("there is no tier {index} of {count}"));
        let (id, info) = found.ok_or_else(none)?;
        let usage = memory.usage(id);
        *tier = Tier {
            name: texts::array(&info.name),
            capacity_bytes: info.capacity_bytes,
            budget_bytes: usage.budget_bytes,
            used_bytes: usage.used_bytes(),
            is_allocatable: info.is_allocatable(),
            is_modelled: info.is_modelled(),
        };
        Ok(())
    })
}

/// The tier of a name.
pub fn tier_of(system: &System, name: &str) -> Result<TierId, Failure> {
    system.memory.tier(name).map_err(Failure::of(Status::Name))
}
