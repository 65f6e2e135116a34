//! Real code on virtual cores: closures whose accesses run in the simulation.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::machine::{Machine, MachineError};
use super::network::DeviceIndex;
use super::placement::AddressMap;
use super::program::{Access, Operation, Program};
use super::scheduler::{Caches, Outcome, Simulation};
use crate::Probe;

/// Operations that a closure is ahead of the simulation, at most.
const BATCH: usize = 512;
/// The same for a closure that is alone: nothing can depend on when it gets how far.
const BATCH_ALONE: usize = 8_192;
const PAGE_BYTES: u64 = 4096;
/// Addresses that are not of any placed buffer begin here, on near memory.
const UNPLACED: u64 = 1 << 44;

/// A buffer of the real process and where its pages lie in the modelled machine. Buffers do not
/// overlap.
#[derive(Debug, Clone)]
pub struct PlacedBuffer {
    /// Its addresses.
    pub addresses: Range<usize>,
    /// Devices of its pages, in turn (see [`Machine::devices`]).
    pub cycle: Vec<DeviceIndex>,
}

/// The probe of a virtual core: hands every access to the simulation.
#[derive(Debug)]
pub struct VirtualProbe {
    /// Placed buffers by address, and where they begin in the model.
    buffers: Vec<(Range<usize>, u64)>,
    batch: RefCell<Vec<Operation>>,
    batch_operations: usize,
    depends: Cell<bool>,
    compute_ps: Cell<u32>,
    requests: Receiver<()>,
    batches: SyncSender<Vec<Operation>>,
}

impl VirtualProbe {
    /// Core time that the code takes before its next access, in picoseconds.
    pub fn compute_ps(&self, picoseconds: u32) {
        self.compute_ps
            .set(self.compute_ps.get().saturating_add(picoseconds));
    }

    /// Waits until the simulation has taken all accesses so far. What closures share is then seen
    /// in the order of virtual time, such as the next piece of work of a pool.
    pub fn wait(&self) {
        self.flush();
    }

    /// Addresses that are the same in every run: those of placed buffers begin at fixed ones.
    fn modelled(&self, addr: usize) -> u64 {
        let after = self
            .buffers
            .partition_point(|(addresses, _)| addresses.start <= addr);
        let found = after.checked_sub(1).map(|index| &self.buffers[index]);
        match found {
            Some((addresses, base)) if addr < addresses.end => {
                base + (addr - addresses.start) as u64
            }
            _ => UNPLACED + addr as u64 % UNPLACED,
        }
    }

    fn push(&self, access: Access, addr: usize, bytes: usize) {
        let mut at = self.modelled(addr);
        let mut left = bytes as u64;
        while left > 0 {
            // A page is the longest that one operation covers.
            let part = left.min(PAGE_BYTES - at % PAGE_BYTES);
            let mut operation = Operation::new(access, at, part as u32);
            operation.depends = self.depends.take();
            operation.compute_ps = self.compute_ps.take();
            self.batch.borrow_mut().push(operation);
            at += part;
            left -= part;
            if self.batch.borrow().len() >= self.batch_operations {
                self.flush();
            }
        }
    }

    /// Hands the batch over and waits until the simulation wants the next.
    fn flush(&self) {
        // Where the simulation has ended early, nobody waits for what the closure still does.
        let next = Vec::with_capacity(self.batch_operations);
        let _ = self.batches.send(self.batch.replace(next));
        let _ = self.requests.recv();
    }
}

impl Probe for VirtualProbe {
    fn read(&self, addr: usize, bytes: usize) {
        self.push(Access::Load, addr, bytes);
    }

    fn write(&self, addr: usize, bytes: usize) {
        self.push(Access::Store, addr, bytes);
    }

    fn write_non_temporal(&self, addr: usize, bytes: usize) {
        self.push(Access::NonTemporalStore, addr, bytes);
    }

    fn stream(&self, addr: usize, bytes: usize) {
        self.push(Access::Load, addr, bytes);
    }

    fn prefetch(&self, addr: usize, bytes: usize) {
        self.push(Access::Prefetch, addr, bytes);
    }

    fn depends(&self) {
        self.depends.set(true);
    }
}

/// The simulation's end of a closure.
struct Recorded {
    requests: SyncSender<()>,
    batches: Receiver<Vec<Operation>>,
    batch: std::vec::IntoIter<Operation>,
}

impl Program for Recorded {
    fn next_operation(&mut self) -> Option<Operation> {
        loop {
            if let Some(operation) = self.batch.next() {
                return Some(operation);
            }
            self.requests.send(()).ok()?;
            self.batch = self.batches.recv().ok()?.into_iter();
        }
    }
}

impl Machine {
    /// Runs closures on virtual cores, one thread each, over caches that are empty at the start.
    ///
    /// One closure runs at a time, and which one is decided by virtual time: with the same
    /// closures over the same placed buffers, every run is the same on every machine. A closure
    /// may therefore not wait for another otherwise than by accesses that it reports: it would
    /// wait forever. Accesses outside of `buffers` count as near memory.
    ///
    /// # Errors
    /// [`MachineError::Threads`].
    ///
    /// # Panics
    /// With the panic of a closure.
    ///
    /// ```
    /// use nearfar_model::Probe;
    /// use nearfar_model::simulation::{Machine, PlacedBuffer, TierName, VirtualProbe};
    /// use nearfar_topology::Profile;
    ///
    /// let machine = Machine::new(&Profile::builtin("cxl-blades-4")?)?;
    /// let data = vec![1_u64; 1 << 16];
    /// let range = data.as_ptr_range();
    /// let buffer = PlacedBuffer {
    ///     addresses: range.start.addr()..range.end.addr(),
    ///     cycle: machine.devices(TierName::Far, 4)?,
    /// };
    /// let sum = |probe: &VirtualProbe| {
    ///     for value in &data {
    ///         probe.read(std::ptr::from_ref(value).addr(), 8);
    ///     }
    /// };
    /// let outcome = machine.run(&[buffer], vec![sum])?;
    /// assert_eq!(outcome.load_bytes, 8 << 16);
    /// assert!(outcome.lines_read.iter().sum::<u64>() >= 8 << 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run<F>(
        &self,
        buffers: &[PlacedBuffer],
        closures: Vec<F>,
    ) -> Result<Outcome, MachineError>
    where
        F: FnOnce(&VirtualProbe) + Send,
    {
        self.run_with(Caches::Simulated, buffers, closures)
    }

    /// As [`Machine::run`], with a choice of how caches take part.
    ///
    /// # Errors
    /// [`MachineError::Threads`].
    ///
    /// # Panics
    /// With the panic of a closure.
    pub fn run_with<F>(
        &self,
        caches: Caches,
        buffers: &[PlacedBuffer],
        closures: Vec<F>,
    ) -> Result<Outcome, MachineError>
    where
        F: FnOnce(&VirtualProbe) + Send,
    {
        self.check_threads(closures.len())?;
        let mut map = AddressMap::new();
        let mut bases = Vec::new();
        let mut page = 1;
        for buffer in buffers {
            let bytes = buffer.addresses.len() as u64 + PAGE_BYTES;
            // The place within a page stays, so that lines begin where they do in the process.
            let base = page * PAGE_BYTES + buffer.addresses.start as u64 % PAGE_BYTES;
            map.add(page, bytes.div_ceil(PAGE_BYTES), buffer.cycle.clone());
            bases.push((buffer.addresses.clone(), base));
            page += bytes.div_ceil(PAGE_BYTES) + 1;
        }
        bases.sort_by_key(|(addresses, _)| addresses.start);
        map.add(UNPLACED / PAGE_BYTES, UNPLACED / PAGE_BYTES, vec![0]);
        thread::scope(|scope| {
            let mut programs: Vec<Box<dyn Program>> = Vec::new();
            let mut workers = Vec::new();
            let batch_operations = if closures.len() == 1 {
                BATCH_ALONE
            } else {
                BATCH
            };
            for closure in closures {
                let (request, requests) = sync_channel(0);
                let (batch, batches) = sync_channel(0);
                let probe = VirtualProbe {
                    buffers: bases.clone(),
                    batch: RefCell::new(Vec::with_capacity(batch_operations)),
                    batch_operations,
                    depends: Cell::new(false),
                    compute_ps: Cell::new(0),
                    requests,
                    batches: batch,
                };
                workers.push(scope.spawn(move || {
                    if probe.requests.recv().is_ok() {
                        closure(&probe);
                        let _ = probe.batches.send(probe.batch.take());
                    }
                }));
                let batch = Vec::new().into_iter();
                programs.push(Box::new(Recorded {
                    requests: request,
                    batches,
                    batch,
                }));
            }
            let simulation = Simulation::new(self, map, programs, caches)?;
            let outcome = simulation.run();
            for worker in workers {
                if let Err(panic) = worker.join() {
                    resume_unwind(panic);
                }
            }
            Ok(outcome)
        })
    }
}
