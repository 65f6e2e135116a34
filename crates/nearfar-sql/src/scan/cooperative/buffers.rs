//! Near memory for copies, used again and again while scans run.

use nearfar_memory::{AppendArea, MemorySystem, Placement, Region, RegionOptions, TierId};
use parking_lot::Mutex;
use std::sync::{Arc, Weak};

/// Sizes of buffers are multiples of it, so that one fits many columns.
const GRAIN_BYTES: usize = 1 << 20;

/// A buffer is used for what fills at least this part of it.
const FILLED_PART: usize = 4;

/// Parts of the near tier's budget that copies leave to others.
const BUDGET_LEFT: u64 = 8;

/// Near memory of at most so many bytes.
#[derive(Debug)]
pub struct NearBuffers {
    system: Arc<MemorySystem>,
    bytes_max: u64,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    buffers: Vec<Arc<AppendArea>>,
    /// Those that were given back while somebody used them.
    released: Vec<Weak<AppendArea>>,
    /// Bytes of those that are being allocated.
    allocating_bytes: u64,
}

/// Why there is no buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoBuffer {
    /// All that there may be are in use.
    Full,
    /// There can be none of this size, or the near tier has no room for it.
    Refused,
}

impl NearBuffers {
    pub fn new(system: &Arc<MemorySystem>, bytes_max: u64) -> Self {
        Self {
            system: Arc::clone(system),
            bytes_max,
            held: Mutex::default(),
        }
    }

    /// A buffer for `bytes`, which is empty.
    ///
    /// # Errors
    /// Why there is none.
    pub fn empty(&self, bytes: usize) -> Result<Arc<AppendArea>, NoBuffer> {
        let size = bytes.max(1).next_multiple_of(GRAIN_BYTES);
        let Some(others_max) = self.bytes_max.checked_sub(size as u64) else {
            return Err(NoBuffer::Refused);
        };
        let mut held = self.held.lock();
        if let Some(buffer) = held.emptied(size) {
            return Ok(buffer);
        }
        let mut unused = held.make_room(others_max);
        if held.bytes() > others_max {
            return Err(NoBuffer::Full);
        }
        if !self.has_room(size) {
            unused.extend(held.make_room(0));
        }
        held.allocating_bytes += size as u64;
        drop(held);
        drop(unused);
        let buffer = self.allocate(size);
        let mut held = self.held.lock();
        held.allocating_bytes -= size as u64;
        held.buffers.extend(buffer.clone());
        buffer.ok_or(NoBuffer::Refused)
    }

    fn allocate(&self, size: usize) -> Option<Arc<AppendArea>> {
        if !self.has_room(size) {
            return None;
        }
        let near = Placement::Bind(TierId::NEAR);
        let region = Region::allocate(&self.system, size, &near, RegionOptions::default());
        let refused = |error: &_| tracing::debug!(%error, "scans read far memory by themselves");
        let region = region.inspect_err(refused).ok()?;
        Some(Arc::new(AppendArea::whole(region)))
    }

    /// Whether the near tier has more of its budget left than copies leave to others.
    fn has_room(&self, size: usize) -> bool {
        let usage = self.system.usage(TierId::NEAR);
        let most = usage.budget_bytes - usage.budget_bytes / BUDGET_LEFT;
        usage.used_bytes() + size as u64 <= most
    }

    /// Gives back all that nobody uses, and the rest once nobody does.
    pub fn release(&self) {
        let mut held = self.held.lock();
        let buffers = std::mem::take(&mut held.buffers);
        held.released.retain(|buffer| buffer.strong_count() > 0);
        held.released.extend(buffers.iter().map(Arc::downgrade));
        drop(held);
        drop(buffers);
    }
}

impl Held {
    /// Bytes that are held, and those that were given back and are still used.
    fn bytes(&self) -> u64 {
        let released = self.released.iter().filter_map(Weak::upgrade);
        let all = self.buffers.iter().cloned().chain(released);
        let bytes = all.map(|buffer| buffer.capacity_bytes() as u64);
        bytes.sum::<u64>() + self.allocating_bytes
    }

    /// A buffer for `size` bytes that nobody uses, emptied.
    fn emptied(&mut self, size: usize) -> Option<Arc<AppendArea>> {
        let fitting = self.buffers.iter_mut().filter(|buffer| {
            let capacity = buffer.capacity_bytes();
            capacity >= size && capacity <= size * FILLED_PART
        });
        for buffer in fitting {
            if let Some(unused) = Arc::get_mut(buffer) {
                unused.clear();
                return Some(Arc::clone(buffer));
            }
        }
        None
    }

    /// Takes buffers out that nobody uses until no more than `bytes_max` are held.
    fn make_room(&mut self, bytes_max: u64) -> Vec<Arc<AppendArea>> {
        let mut bytes = self.bytes();
        let unused = self.buffers.extract_if(.., |buffer| {
            let goes = bytes > bytes_max && Arc::strong_count(buffer) == 1;
            if goes {
                bytes -= buffer.capacity_bytes() as u64;
            }
            goes
        });
        unused.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_memory::Budgets;
    use nearfar_topology::Topology;

    const MIB: usize = 1 << 20;

    fn buffers(budgets: Budgets, bytes_max: usize) -> NearBuffers {
        let topology = Topology::this_machine().expect("this machine's topology");
        let system = MemorySystem::new(&topology, &budgets).expect("a system");
        NearBuffers::new(&system, bytes_max as u64)
    }

    /// A buffer of so many bytes, all written.
    fn filled(buffers: &NearBuffers, bytes: usize) -> Result<Arc<AppendArea>, NoBuffer> {
        let buffer = buffers.empty(bytes)?;
        let start = buffer.append_with(bytes, |bytes| bytes[0] = 7);
        assert_eq!(start, Some(0));
        Ok(buffer)
    }

    /// Why there is no buffer of so many bytes, if there is none.
    fn refused(buffers: &NearBuffers, bytes: usize) -> Option<NoBuffer> {
        filled(buffers, bytes).err()
    }

    #[test]
    fn buffers_are_used_again_and_never_more_than_there_may_be() {
        let buffers = buffers(Budgets::new(), 3 * MIB);
        let first = filled(&buffers, 2 * MIB).expect("room");
        assert_eq!(first.slice(0..1), [7]);
        assert_eq!(refused(&buffers, 2 * MIB), Some(NoBuffer::Full));
        assert_eq!(refused(&buffers, 4 * MIB), Some(NoBuffer::Refused));
        let address = first.slice(0..1).as_ptr();
        drop(first);
        let again = filled(&buffers, MIB + 1).expect("the same again");
        assert_eq!(again.slice(0..1).as_ptr(), address);
        drop(again);
        // It makes way for a larger one.
        let large = filled(&buffers, 3 * MIB).expect("room");
        buffers.release();
        assert_eq!(large.slice(0..1), [7]);
        assert_eq!(refused(&buffers, 1), Some(NoBuffer::Full), "it is used");
        drop(large);
        assert!(filled(&buffers, 3 * MIB).is_ok());
        assert_eq!(buffers.held.lock().bytes(), 3 * MIB as u64);
    }

    #[test]
    fn a_part_of_the_budget_is_left_to_others() {
        let buffers = buffers(Budgets::new().with("near", 16 << 20), 16 * MIB);
        let first = filled(&buffers, 8 * MIB).expect("room");
        let second = filled(&buffers, 6 * MIB).expect("room");
        assert_eq!(second.capacity_bytes(), 6 * MIB);
        assert_eq!(refused(&buffers, MIB), Some(NoBuffer::Refused));
        drop(first);
        // What nobody uses makes way.
        assert!(filled(&buffers, MIB).is_ok());
        assert_eq!(buffers.held.lock().bytes(), 7 * MIB as u64);
    }
}
