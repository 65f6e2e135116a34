//! Memory that mimalloc allocates from, charged to a tier as it is used.
//!
//! mimalloc takes address space in slices of 64 KiB and tells when it starts and stops using some.
//! Exactly then the tier's budget is charged, so that a heap can reserve far more address space
//! than its tier has bytes, and a slice that the budget does not allow is refused to mimalloc,
//! whose allocation then fails.
//!
//! mimalloc never forgets an arena, so that its address space can never be unmapped. An arena whose
//! heap is gone gives its pages and bytes back and waits for the next heap of the same shape.
//!
//! On a DAX device all of it is charged when the heap is made, since pages of the device are far larger
//! than slices; the arena keeps them.

use std::ffi::{c_int, c_long, c_void};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use libmimalloc_sys as mimalloc;

use crate::ledger::Taker;
use crate::sys::{Advice, Mapping};
use crate::system::MemorySystem;
use crate::tier::TierId;

/// mimalloc's unit of memory (`MI_ARENA_SLICE_SIZE`).
pub(super) const SLICE_BYTES: usize = 64 << 10;
/// What the size and the start of an arena must be multiples of: one chunk of mimalloc's bitmaps.
pub(super) const ARENA_ALIGN: usize = 32 << 20;
/// The largest arena. mimalloc's own limit is 16 GiB less its records, of which it must be able to
/// allocate as one object.
pub(super) const ARENA_BYTES_MAX: usize = 12 << 30;

/// mimalloc's option numbers that its crate does not name (`mi_option_e` of version 3.3).
const OPTION_ARENA_PURGE_MULT: mimalloc::mi_option_t = 24;
const OPTION_PURGE_DELAY: mimalloc::mi_option_t = 15;
const OPTION_ARENA_MAX_OBJECT_SIZE: mimalloc::mi_option_t = 45;

/// Milliseconds after which mimalloc would give freed memory back unasked: a month. It is given back
/// when a budget runs out, or by a trim, and not before, since faulting it in again is dear.
const PURGE_DELAY_MS: c_long = 30 * 24 * 3600 * 1000;

type CommitFunction = unsafe extern "C" fn(
    commit: bool,
    start: *mut c_void,
    bytes: usize,
    is_zero: *mut bool,
    arena: *mut c_void,
) -> bool;

unsafe extern "C" {
    /// `mi_manage_memory` of mimalloc 3.3, which its crate does not declare.
    fn mi_manage_memory(
        start: *mut c_void,
        bytes: usize,
        is_committed: bool,
        is_pinned: bool,
        is_zero: bool,
        numa_node: c_int,
        exclusive: bool,
        commit: Option<CommitFunction>,
        commit_argument: *mut c_void,
        id: *mut mimalloc::mi_arena_id_t,
    ) -> bool;
}

/// Sets mimalloc's process-wide options, before the first arena.
pub(super) fn set_options() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let object_kib = (ARENA_BYTES_MAX / 1024) as c_long;
        // SAFETY: setting options is safe at any time; the numbers are those of the version built.
        unsafe {
            mimalloc::mi_option_set(OPTION_PURGE_DELAY, PURGE_DELAY_MS);
            mimalloc::mi_option_set(OPTION_ARENA_PURGE_MULT, 1);
            mimalloc::mi_option_set(OPTION_ARENA_MAX_OBJECT_SIZE, object_kib);
        }
    });
}

/// Address space that mimalloc manages as one arena.
pub(super) struct Arena {
    map: Arc<Mapping>,
    /// The bytes of the mapping that are the arena's.
    range: Range<usize>,
    id: mimalloc::mi_arena_id_t,
    /// Whether all of it was charged before, and has pages of a device that stay.
    is_prepaid: bool,
    state: Mutex<State>,
}

// SAFETY: the raw arena id is a handle that mimalloc takes from any thread.
unsafe impl Send for Arena {}
// SAFETY: as above; everything else is behind the lock or immutable.
unsafe impl Sync for Arena {}

/// Who pays, and for which slices.
struct State {
    owner: Option<(Arc<MemorySystem>, TierId)>,
    /// One bit per slice that mimalloc uses.
    used: Vec<u64>,
    used_slices: usize,
}

/// These locks are taken within an allocator: they neither allocate nor are held over a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arena {
    /// Charges a retired arena to a new owner; false when its budget does not allow it.
    pub(super) fn adopt(&self, system: &Arc<MemorySystem>, tier: TierId) -> bool {
        if self.is_prepaid {
            return true;
        }
        let mut state = lock(&self.state);
        let bytes = (state.used_slices * SLICE_BYTES) as u64;
        let taken = system.ledger().try_take(Taker::Heap, tier, bytes);
        if taken {
            state.owner = Some((Arc::clone(system), tier));
        }
        taken
    }

    /// A new arena in `range` of `map`, whose use is charged to `owner`, or to nobody where all of the
    /// range was charged before. `None` when the budget does not allow for mimalloc's
    /// records, or mimalloc has as many arenas as it supports.
    pub(super) fn create(
        map: &Arc<Mapping>,
        range: Range<usize>,
        owner: Option<(Arc<MemorySystem>, TierId)>,
    ) -> Option<&'static Self> {
        assert!(range.end <= map.len(), "an arena lies inside its mapping");
        let is_prepaid = owner.is_none();
        let state = State {
            owner,
            used: vec![0; (range.len() / SLICE_BYTES).div_ceil(64)],
            used_slices: 0,
        };
        let arena = Box::into_raw(Box::new(Self {
            map: Arc::clone(map),
            range: range.clone(),
            id: std::ptr::null_mut(),
            is_prepaid,
            state: Mutex::new(state),
        }));
        let mut id: mimalloc::mi_arena_id_t = std::ptr::null_mut();
        // SAFETY: the range is zero, readable and writable, aligned as mimalloc asks, and ours; it
        // is never unmapped once mimalloc has accepted it, since `arena` is then leaked. The
        // callback gets that very pointer.
        let managed = unsafe {
            mi_manage_memory(
                map.base().as_ptr().add(range.start).cast(),
                range.len(),
                false,
                false,
                true,
                -1,
                true,
                Some(commit_or_discard),
                arena.cast(),
                &raw mut id,
            )
        };
        if managed {
            // SAFETY: nobody else knows the pointer yet but the callback, which mimalloc calls on
            // behalf of heaps in this arena only, and there is none yet.
            unsafe { (*arena).id = id };
            // SAFETY: the arena was leaked above and lives for ever.
            return Some(unsafe { &*arena });
        }
        // SAFETY: mimalloc refused the range and keeps no pointer to the arena.
        drop(unsafe { Box::from_raw(arena) });
        None
    }

    /// mimalloc's handle.
    pub(super) fn id(&self) -> mimalloc::mi_arena_id_t {
        self.id
    }

    /// Charges the arena to nobody until a later heap adopts it.
    ///
    /// Before: the arena's heap is destroyed and what it freed was given back
    /// ([`collect`](crate::collection::collect)). What is
    /// left are mimalloc's records, of the arena and of threads that have not noticed yet.
    pub(super) fn retire(&self) {
        let mut state = lock(&self.state);
        let bytes = (state.used_slices * SLICE_BYTES) as u64;
        if let Some((system, tier)) = state.owner.take() {
            system.ledger().give_back(Taker::Heap, tier, bytes);
        }
    }

    /// Charges the slices of a range that are not used yet. `None` when the budget does not allow
    /// it, else whether all of the range was unused, and so is zero.
    fn commit(&self, slices: Range<usize>) -> Option<bool> {
        let mut state = lock(&self.state);
        let fresh = slices
            .clone()
            .filter(|slice| !state.is_used(*slice))
            .count();
        if let Some((system, tier)) = &state.owner {
            let bytes = (fresh * SLICE_BYTES) as u64;
            if !system.ledger().try_take(Taker::Heap, *tier, bytes) {
                return None;
            }
        }
        state.used_slices += fresh;
        for slice in slices.clone() {
            state.used[slice / 64] |= 1 << (slice % 64);
        }
        // Pages that stay keep what was in them.
        Some(fresh == slices.len() && !self.is_prepaid)
    }

    /// Gives the pages and the bytes of a range back.
    fn discard(&self, slices: Range<usize>) -> bool {
        let mut state = lock(&self.state);
        let bytes = self.range.start + slices.start * SLICE_BYTES
            ..self.range.start + slices.end * SLICE_BYTES;
        if !self.is_prepaid && self.map.advise(bytes, Advice::Discard).is_err() {
            return false;
        }
        let used = slices.clone().filter(|slice| state.is_used(*slice)).count();
        state.used_slices -= used;
        for slice in slices {
            state.used[slice / 64] &= !(1 << (slice % 64));
        }
        if let Some((system, tier)) = &state.owner {
            system
                .ledger()
                .give_back(Taker::Heap, *tier, (used * SLICE_BYTES) as u64);
        }
        true
    }
}

impl State {
    fn is_used(&self, slice: usize) -> bool {
        self.used[slice / 64] >> (slice % 64) & 1 == 1
    }
}

/// mimalloc's word that it starts (`commit`) or stops using a range of an arena. True means, for a
/// start, that it may; for a stop, that it must ask again before it uses the range.
///
/// # Safety
/// `arena` is an [`Arena`] that lives for ever and `start..start + bytes` lies inside of it, claimed
/// by the caller alone; `is_zero` is null or writable.
unsafe extern "C" fn commit_or_discard(
    commit: bool,
    start: *mut c_void,
    bytes: usize,
    is_zero: *mut bool,
    arena: *mut c_void,
) -> bool {
    // SAFETY: the caller says so.
    let arena = unsafe { &*arena.cast::<Arena>() };
    let offset = start as usize - arena.map.addresses().start - arena.range.start;
    if !commit {
        // Only whole slices can be given back.
        let slices = offset.div_ceil(SLICE_BYTES)..(offset + bytes) / SLICE_BYTES;
        return arena.discard(slices);
    }
    match arena.commit(offset / SLICE_BYTES..(offset + bytes).div_ceil(SLICE_BYTES)) {
        Some(zero) => {
            if zero && !is_zero.is_null() {
                // SAFETY: the caller says that it is writable.
                unsafe { is_zero.write(true) };
            }
            true
        }
        None => false,
    }
}

// Not under Miri, which runs no C.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Names of options, values that their defaults differ from, and the numbers used here.
    const OPTIONS: [(&str, &str, c_long, mimalloc::mi_option_t); 3] = [
        ("MIMALLOC_PURGE_DELAY", "4711", 4711, OPTION_PURGE_DELAY),
        (
            "MIMALLOC_ARENA_PURGE_MULT",
            "47",
            47,
            OPTION_ARENA_PURGE_MULT,
        ),
        (
            "MIMALLOC_ARENA_MAX_OBJECT_SIZE",
            "471K",
            471,
            OPTION_ARENA_MAX_OBJECT_SIZE,
        ),
    ];

    /// mimalloc reads options by name from the environment of a process.
    #[test]
    fn option_numbers_are_those_of_the_version_built() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "heap::arena::tests::options_are_read_back",
                "--ignored",
            ])
            .envs(OPTIONS.map(|(name, value, ..)| (name, value)))
            .output()
            .unwrap();
        let output = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && output.contains("1 passed"),
            "{output}"
        );
    }

    #[test]
    #[ignore = "started in a process of its own by option_numbers_are_those_of_the_version_built"]
    fn options_are_read_back() {
        for (name, _, expected, number) in OPTIONS {
            // SAFETY: reading an option is safe at any time.
            let value = unsafe { mimalloc::mi_option_get(number) };
            assert_eq!(value, expected, "{name}");
        }
    }
}
