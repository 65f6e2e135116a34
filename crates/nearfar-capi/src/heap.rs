//! Heaps on tiers.

use std::alloc::Layout;
use std::ffi::{c_char, c_void};
use std::ptr::NonNull;

use allocator_api2::alloc::Allocator;
use nearfar_memory::{Exhaustion, TierHeap};

use crate::failure::{Failure, Status, guarded, result, text};
use crate::handles::{Handle, Handles};
use crate::system::{SYSTEMS, tier_of};

/// How a heap is to be.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct HeapOptions {
    /// Address space to reserve, which bounds it; 0 for what the tier has.
    pub reserve_bytes: usize,
    /// Whether blocks come from the process's ordinary memory when the tier has no room; they are refused
    /// otherwise.
    pub spills: bool,
    /// Ask for transparent huge pages.
    pub huge_pages: bool,
}

struct Heap {
    heap: TierHeap,
    spills: bool,
}

static HEAPS: Handles<Heap> = Handles::new("heap");

/// A heap on a tier. `options` may be null.
///
/// # Safety
/// `tier` ends with a zero byte, `options` is null or points to options, and `heap` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_heap_create(
    system: Handle,
    tier: *const c_char,
    options: *const HeapOptions,
    heap: *mut Handle,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (heap, name) = unsafe { (result(heap, "heap")?, text(tier, "tier")?) };
        // SAFETY: the caller says so.
        let options = unsafe { options.as_ref() }.copied().unwrap_or_default();
        let system = SYSTEMS.get(system)?;
        let own = nearfar_memory::HeapOptions {
            reserve_bytes: (options.reserve_bytes > 0).then_some(options.reserve_bytes),
            exhaustion: match options.spills {
                true => Exhaustion::Spill,
                false => Exhaustion::Refuse,
            },
            huge_pages: options.huge_pages,
            kernel_moves: false,
        };
        let made = TierHeap::new(&system.memory, tier_of(&system, name)?, own);
        *heap = HEAPS.add(Heap {
            heap: made.map_err(Failure::of(Status::Memory))?,
            spills: options.spills,
        });
        Ok(())
    })
}

/// Takes a block of `bytes` bytes whose address is a multiple of `alignment`, a power of two. Of no bytes it is
/// a pointer that must not be followed.
///
/// # Safety
/// `block` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_heap_allocate(
    heap: Handle,
    bytes: usize,
    alignment: usize,
    block: *mut *mut c_void,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let block = unsafe { result(block, "block") }?;
        let layout = layout(bytes, alignment)?;
        let refused = |_| {
            let message = format!("the heap has no room for {bytes} bytes");
            Failure::new(Status::Memory, message)
        };
        let taken = HEAPS.get(heap)?.heap.allocate(layout).map_err(refused)?;
        *block = taken.as_ptr().cast();
        Ok(())
    })
}

/// Gives a block back, with the size and alignment that it was taken with. Null is refused, and so is a
/// pointer that lies outside of a heap that does not spill.
///
/// # Safety
/// The block was taken from this heap with this size and alignment, and not given back yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_heap_deallocate(
    heap: Handle,
    block: *mut c_void,
    bytes: usize,
    alignment: usize,
) -> Status {
    guarded(|| {
        let null = || Failure::new(Status::NullPointer, "block is null");
        let block = NonNull::new(block.cast::<u8>()).ok_or_else(null)?;
        let layout = layout(bytes, alignment)?;
        let heap = HEAPS.get(heap)?;
        if bytes > 0 && !heap.spills && !heap.heap.contains(block.as_ptr()) {
            return Err(Failure::new(
                Status::Argument,
                "the block is none of this heap",
            ));
        }
        // SAFETY: the caller says that it is a live block of this heap and layout.
        unsafe { heap.heap.deallocate(block, layout) };
        Ok(())
    })
}

fn layout(bytes: usize, alignment: usize) -> Result<Layout, Failure> {
    let wrong = |_| {
        let message = format!("{bytes} bytes at a multiple of {alignment} can't be");
        Failure::new(Status::Argument, message)
    };
    Layout::from_size_align(bytes, alignment).map_err(wrong)
}

/// Gives freed memory back to the tier.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_heap_trim(heap: Handle) -> Status {
    guarded(|| {
        HEAPS.get(heap)?.heap.trim();
        Ok(())
    })
}

/// Ends a heap with all of its blocks.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_heap_free(heap: Handle) -> Status {
    guarded(|| HEAPS.remove(heap))
}
