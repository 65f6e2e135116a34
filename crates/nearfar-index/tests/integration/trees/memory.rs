//! Memory that counts what is live, can fail or panic at any request, and lets others run.

use std::alloc::Layout;
use std::panic::resume_unwind;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::thread;

use allocator_api2::alloc::{AllocError, Allocator, Global};
use nearfar_index::memory::{BlockAllocator, NodeMemory};
use nearfar_memory::TierId;

use super::mix;

/// What a panic says that was asked for.
pub const INJECTED: &str = "an injected fault";

/// What happens to requests for memory, on all tiers of one memory.
#[derive(Debug, Default)]
pub struct Faults {
    /// Requests that still succeed; none are counted where it is negative.
    left: AtomicI64,
    /// Whether later ones succeed again.
    is_once: AtomicBool,
    /// Whether it is a panic rather than a refusal.
    is_panic: AtomicBool,
    /// Whether only the threads of `Workers` fail.
    is_for_workers: AtomicBool,
    /// Whether requests let other threads run, now and then.
    yields: AtomicBool,
    requests: AtomicU64,
}

impl Faults {
    fn arm(&self, after: u64, is_once: bool, is_panic: bool) {
        self.is_once.store(is_once, Relaxed);
        self.is_panic.store(is_panic, Relaxed);
        self.left.store(after as i64, Relaxed);
    }

    /// Refuses all requests after so many.
    pub fn fail_from(&self, after: u64) {
        self.arm(after, false, false);
    }

    /// Refuses one request after so many.
    pub fn fail_once(&self, after: u64) {
        self.arm(after, true, false);
    }

    /// Panics at one request after so many.
    pub fn panic_once(&self, after: u64) {
        self.arm(after, true, true);
    }

    /// As [`Self::panic_once`], at a request of a worker.
    pub fn panic_in_a_worker(&self, after: u64) {
        self.is_for_workers.store(true, Relaxed);
        self.panic_once(after);
    }

    /// Lets all requests succeed.
    pub fn disarm(&self) {
        self.left.store(DISARMED, Relaxed);
    }

    fn strikes(&self) -> bool {
        if self.is_for_workers.load(Relaxed)
            && !thread::current()
                .name()
                .is_some_and(|name| name.starts_with("nearfar-"))
        {
            return false;
        }
        let is_once = self.is_once.load(Relaxed);
        let before = self.left.fetch_update(Relaxed, Relaxed, |left| match left {
            DISARMED => None,
            0 if is_once => Some(DISARMED),
            0 => None,
            _ => Some(left - 1),
        });
        before.unwrap_or_else(|left| left) == 0
    }

    fn request(&self) -> Result<(), AllocError> {
        let number = self.requests.fetch_add(1, Relaxed);
        if self.yields.load(Relaxed) && mix(number).is_multiple_of(3) {
            thread::yield_now();
        }
        if !self.strikes() {
            return Ok(());
        }
        if self.is_panic.load(Relaxed) {
            // Without a message and a backtrace, of which there would be thousands.
            resume_unwind(Box::new(INJECTED));
        }
        Err(AllocError)
    }
}

const DISARMED: i64 = -1;

/// A tier's allocator.
#[derive(Debug)]
struct Tier {
    live_bytes: AtomicU64,
    bytes_max: AtomicU64,
    faults: Arc<Faults>,
}

/// The handle that a memory gets.
struct Handle(Arc<Tier>);

// SAFETY: blocks come from the global allocator and stay valid wherever the handle is.
unsafe impl Allocator for Handle {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        let Tier {
            live_bytes,
            bytes_max,
            faults,
        } = &*self.0;
        faults.request()?;
        let live = live_bytes.fetch_add(layout.size() as u64, Relaxed) + layout.size() as u64;
        // At every moment, not only when somebody looks.
        assert!(live <= bytes_max.load(Relaxed), "over the budget");
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
        self.0.live_bytes.fetch_sub(layout.size() as u64, Relaxed);
        // SAFETY: the caller's promise; all blocks are from there.
        unsafe { Global.deallocate(block, layout) };
    }
}

/// A memory's tiers, seen from below.
#[derive(Debug, Clone)]
pub struct Watch {
    tiers: Vec<Arc<Tier>>,
    pub faults: Arc<Faults>,
}

impl Watch {
    /// Bytes of a tier that are not free.
    pub fn live_bytes(&self, tier: TierId) -> u64 {
        self.tiers[tier.index()].live_bytes.load(Relaxed)
    }

    /// Lets other threads run in the middle of operations.
    pub fn yield_in_requests(&self) {
        self.faults.yields.store(true, Relaxed);
    }

    /// Sets a tier's budget, also for the check below it.
    pub fn set_budget(&self, memory: &NodeMemory, tier: TierId, bytes: u64) {
        memory.set_budget(tier, bytes);
        self.tiers[tier.index()].bytes_max.store(bytes, Relaxed);
    }

    /// Has the ledger say what is really there, tier by tier, when nobody is at it.
    pub fn assert_ledger_is_true(&self, memory: &NodeMemory) {
        for index in 0..self.tiers.len() {
            let tier = TierId::from_index(index).unwrap();
            let ledger = memory.ledger(tier);
            assert_eq!(ledger.used_bytes(), self.live_bytes(tier), "{ledger:?}");
        }
    }
}

/// A memory with these budgets, none of which is ever exceeded, and what is under it.
pub fn watched(budgets_bytes: &[u64]) -> (NodeMemory, Watch) {
    let faults = Arc::new(Faults::default());
    faults.disarm();
    let tiers: Vec<_> = budgets_bytes
        .iter()
        .map(|bytes| {
            Arc::new(Tier {
                live_bytes: AtomicU64::new(0),
                bytes_max: AtomicU64::new(*bytes),
                faults: Arc::clone(&faults),
            })
        })
        .collect();
    let allocators = tiers.iter().zip(budgets_bytes).map(|(tier, bytes)| {
        let allocator: BlockAllocator = Box::new(Handle(Arc::clone(tier)));
        (allocator, *bytes)
    });
    (
        NodeMemory::on_allocators(allocators.collect()),
        Watch { tiers, faults },
    )
}
