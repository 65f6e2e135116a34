//! Access patterns of benchmarks as programs.

pub use super::network::mix;
use super::program::{Access, Operation, Program};

/// Order of the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One access after the other, in batches.
    Sequential,
    /// Uniform random, aligned to the access size.
    Random,
}

/// A thread of an access benchmark.
#[derive(Debug, Clone)]
pub struct Pattern {
    access: Access,
    order: Order,
    bytes: u32,
    region_bytes: u64,
    /// Accesses that the region has place for.
    places: u64,
    batch_bytes: u64,
    threads: u64,
    batch: u64,
    /// Address of the batch, and the next offset in it.
    batch_address: u64,
    offset: u64,
    random: u64,
    dependent: bool,
    base: u64,
}

impl Pattern {
    /// Thread `thread` of `threads` over a region from address 0 on.
    pub fn new(
        access: Access,
        order: Order,
        bytes: u32,
        region_bytes: u64,
        thread: u64,
        threads: u64,
        seed: u64,
    ) -> Self {
        let batch_bytes = 64 << 20;
        let random = mix(mix(seed) ^ thread);
        // Threads are spread over their batches, as they are after the first few of them.
        let offset = (random % (batch_bytes >> 12)) << 12;
        Self {
            access,
            order,
            bytes,
            region_bytes,
            places: region_bytes / u64::from(bytes),
            batch_bytes,
            threads,
            batch: thread,
            batch_address: thread * batch_bytes % region_bytes,
            offset,
            random,
            dependent: false,
            base: 0,
        }
    }

    /// Moves the region to begin at `address`.
    #[must_use]
    pub fn from(mut self, address: u64) -> Self {
        self.base = address;
        self
    }

    /// Makes every access wait for the one before.
    #[must_use]
    pub fn dependent(mut self) -> Self {
        self.dependent = true;
        self
    }
}

impl Pattern {
    #[inline]
    fn operation(&mut self) -> Operation {
        let address = match self.order {
            Order::Sequential => {
                if self.offset + u64::from(self.bytes) > self.batch_bytes {
                    self.offset = 0;
                    self.batch += self.threads;
                    self.batch_address = self.batch * self.batch_bytes % self.region_bytes;
                }
                let mut at = self.batch_address + self.offset;
                while at >= self.region_bytes {
                    at -= self.region_bytes;
                }
                self.offset += u64::from(self.bytes);
                at
            }
            Order::Random => {
                self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let high = (u128::from(mix(self.random)) * u128::from(self.places)) >> 64;
                high as u64 * u64::from(self.bytes)
            }
        };
        let mut operation = Operation::new(self.access, self.base + address, self.bytes);
        operation.depends = self.dependent;
        operation
    }
}

/// Operations of a pattern that are listed together.
const LISTED: usize = 64;

impl Program for Pattern {
    fn next_operation(&mut self) -> Option<Operation> {
        Some(self.operation())
    }

    fn next_operations(&mut self, operations: &mut Vec<Operation>) {
        operations.extend((0..LISTED).map(|_| self.operation()));
    }
}
