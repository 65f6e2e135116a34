//! Real code on virtual cores: closures whose accesses run in the simulation.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::{thread, vec};

use super::machine::{Machine, MachineError};
use super::network::DeviceIndex;
use super::placement::AddressMap;
use super::program::{Operation, Program};
use super::recorder::{AddressSpace, OperationCost, Recorder};
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

/// Placed buffers by address, and where they begin in the model.
#[derive(Debug, Clone)]
struct Buffers(Vec<(Range<usize>, u64)>);

impl Buffers {
    /// Lays the buffers out one after the other, from the second page of the model on. Where they
    /// begin follows from nothing but their order, lengths and places within a page.
    fn new(buffers: &[PlacedBuffer]) -> (Self, AddressMap) {
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
        (Self(bases), map)
    }
}

impl AddressSpace for Buffers {
    fn modelled(&self, address: usize) -> u64 {
        let after = self
            .0
            .partition_point(|(addresses, _)| addresses.start <= address);
        let found = after.checked_sub(1).map(|index| &self.0[index]);
        match found {
            Some((addresses, base)) if address < addresses.end => {
                base + (address - addresses.start) as u64
            }
            _ => UNPLACED + address as u64 % UNPLACED,
        }
    }
}

/// The probe of a virtual core: hands every access to the simulation.
#[derive(Debug)]
pub struct VirtualProbe {
    recorder: Recorder<Buffers>,
    batch_operations: usize,
    requests: Receiver<()>,
    batches: SyncSender<VecDeque<Operation>>,
}

impl VirtualProbe {
    /// Core time that the code takes before its next access, in picoseconds.
    pub fn compute_ps(&self, picoseconds: u32) {
        self.recorder.compute_ps(picoseconds);
    }

    /// Begins an operation, see [`Recorder::begin`]. Nothing of it is sampled.
    pub fn begin(&self, cost: OperationCost) {
        self.recorder.begin(cost, false);
        self.flush_if_full();
    }

    /// Waits until the simulation has taken all accesses so far. What closures share is then seen
    /// in the order of virtual time, such as the next piece of work of a pool.
    pub fn wait(&self) {
        self.flush();
    }

    fn flush_if_full(&self) {
        if self.recorder.len() >= self.batch_operations {
            self.flush();
        }
    }

    /// Hands the batch over and waits until the simulation wants the next.
    fn flush(&self) {
        // Where the simulation has ended early, nobody waits for what the closure still does.
        let _ = self.batches.send(self.recorder.take(self.batch_operations));
        let _ = self.requests.recv();
    }
}

impl Probe for VirtualProbe {
    fn read(&self, addr: usize, bytes: usize) {
        self.recorder.read(addr, bytes);
        self.flush_if_full();
    }

    fn write(&self, addr: usize, bytes: usize) {
        self.recorder.write(addr, bytes);
        self.flush_if_full();
    }

    fn write_non_temporal(&self, addr: usize, bytes: usize) {
        self.recorder.write_non_temporal(addr, bytes);
        self.flush_if_full();
    }

    fn stream(&self, addr: usize, bytes: usize) {
        self.recorder.stream(addr, bytes);
        self.flush_if_full();
    }

    fn prefetch(&self, addr: usize, bytes: usize) {
        self.recorder.prefetch(addr, bytes);
        self.flush_if_full();
    }

    fn depends(&self) {
        self.recorder.depends();
    }

    fn wrong_path_load(&self, addr: usize, bytes: usize) {
        self.recorder.wrong_path_load(addr, bytes);
        self.flush_if_full();
    }

    fn branch_mispredict(&self) {
        self.recorder.branch_mispredict();
        self.flush_if_full();
    }

    fn critical_section(&self, addr: usize, lines: usize) {
        self.recorder.critical_section(addr, lines);
        self.flush_if_full();
    }

    fn lock(&self, addr: usize) {
        self.recorder.lock(addr);
        self.flush_if_full();
    }

    fn unlock(&self, addr: usize, changed: bool) {
        self.recorder.unlock(addr, changed);
        self.flush_if_full();
    }

    fn validate(&self, addr: usize) {
        self.recorder.validate(addr);
        self.flush_if_full();
    }
}

/// The simulation's end of a closure.
struct Recorded {
    requests: SyncSender<()>,
    batches: Receiver<VecDeque<Operation>>,
    batch: vec::IntoIter<Operation>,
}

impl Program for Recorded {
    fn next_operation(&mut self) -> Option<Operation> {
        loop {
            if let Some(operation) = self.batch.next() {
                return Some(operation);
            }
            self.requests.send(()).ok()?;
            self.batch = Vec::from(self.batches.recv().ok()?).into_iter();
        }
    }

    fn next_operations(&mut self, operations: &mut Vec<Operation>) {
        operations.extend(self.next_operation());
        operations.extend(self.batch.by_ref());
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
        let (addresses, map) = Buffers::new(buffers);
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
                    recorder: Recorder::new(addresses.clone()),
                    batch_operations,
                    requests,
                    batches: batch,
                };
                workers.push(scope.spawn(move || {
                    if probe.requests.recv().is_ok() {
                        closure(&probe);
                        let _ = probe.batches.send(probe.recorder.take(0));
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
