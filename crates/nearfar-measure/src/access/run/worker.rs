//! One thread of a task.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use nearfar_memory::sys::{SysError, pin_thread};
use nearfar_model::Direction;

use super::delays::Delays;
use super::execute::Until;
use super::memory::{Accessed, Emulated};
use super::queue::{Batch, Queue};
use crate::access::kernels::{
    Accesses, Chain, CopyKernel, Kernel, Operation, Pattern, Target, Ticks, fence, sampled, timed,
};
use crate::access::noise::ThreadNoise;
use crate::access::plan::PlannedRun;
use crate::access::spec::{Length, StepSpec, TaskSpec};

/// Bytes between two looks at the clock.
const SLICE_BYTES: u64 = 128 << 10;

/// Bytes of one kind in a mix, and between two waits of a limited task.
pub(in crate::access) const GRAIN_BYTES: u64 = 4 << 10;

/// Samples that one thread keeps.
const SAMPLES_MAX: usize = 4 << 20;

/// What all threads of a repetition see.
pub(super) struct Shared<'a> {
    pub run: &'a PlannedRun,
    pub targets: &'a [Accessed<'a>],
    pub emulated: &'a [Emulated<'a>],
    pub ticks: &'a Ticks,
    pub start: Barrier,
    pub began: OnceLock<Instant>,
    /// Threads of tasks that are not in the background and have not ended.
    pub busy: AtomicUsize,
    pub until: Until<'a>,
    pub seed: u64,
}

/// What one thread did.
#[derive(Debug, Clone)]
pub(crate) struct Worked {
    pub bytes: u64,
    pub accesses: u64,
    pub elapsed: Duration,
    /// Nanoseconds of single accesses.
    pub samples_ns: Vec<f32>,
    pub noise: ThreadNoise,
}

/// A step with what it needs to run.
struct Step<'a> {
    spec: &'a StepSpec,
    made_by: MadeBy,
    /// Stores for the mix.
    write: Option<Kernel>,
}

/// The instructions of a step.
enum MadeBy {
    Accesses(Kernel),
    Copies(CopyKernel),
}

/// One thread of a task.
pub(super) struct Worker<'a> {
    shared: &'a Shared<'a>,
    task: &'a TaskSpec,
    queue: &'a Queue,
    pin: Option<u32>,
    thread: usize,
    steps: Vec<Step<'a>>,
    delays: Option<Delays<'a>>,
    bytes: u64,
    accesses: u64,
    samples: Vec<f32>,
    /// Stores that the mix owes.
    owed_writes: f64,
    since_clock: u64,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        shared: &'a Shared<'a>,
        task: usize,
        thread: usize,
        queue: &'a Queue,
    ) -> Self {
        let spec = &shared.run.spec.tasks[task];
        let step = |step: &'a StepSpec| Step {
            spec: step,
            made_by: match step.operation.copies() {
                true => MadeBy::Copies(CopyKernel::new(step.operation, step.access_bytes)),
                false => MadeBy::Accesses(Kernel::new(step.operation, step.access_bytes)),
            },
            write: spec
                .writes_share
                .map(|_| Kernel::new(Operation::Write, step.access_bytes)),
        };
        let steps = spec.steps.iter();
        let regions = steps.flat_map(|step| step.regions.iter().chain(&step.source));
        let regions: Vec<usize> = regions.copied().collect();
        Self {
            shared,
            task: spec,
            queue,
            pin: shared.run.pins[task][thread],
            thread,
            steps: spec.steps.iter().map(step).collect(),
            delays: Delays::of_regions(shared.emulated, &regions),
            bytes: 0,
            accesses: 0,
            samples: Vec::new(),
            owed_writes: 0.0,
            since_clock: 0,
        }
    }

    /// Works until the run is over.
    pub(super) fn run(mut self) -> Result<Worked, (u32, SysError)> {
        let pinned = self.pin.map_or(Ok(()), |cpu| {
            pin_thread(&[cpu]).map_err(|error| (cpu, error))
        });
        let noise = ThreadNoise::now();
        // All threads come here, also those that could not be pinned, or the others would wait.
        self.shared.start.wait();
        let began = *self.shared.began.get_or_init(Instant::now);
        if pinned.is_ok() {
            match self.shared.targets[self.task.steps[0].regions[0]] {
                Accessed::Chain(chain) => self.chase(&chain, began),
                Accessed::Plain(_) => self.work(began),
            }
            fence();
        }
        let elapsed = began.elapsed();
        if !self.task.background {
            self.shared.busy.fetch_sub(1, Ordering::Relaxed);
        }
        pinned?;
        Ok(Worked {
            bytes: self.bytes,
            accesses: self.accesses,
            elapsed,
            samples_ns: self.samples,
            noise: ThreadNoise::now().since(&noise),
        })
    }

    fn is_over(&self, began: Instant) -> bool {
        if self.shared.until.is_over() {
            return true;
        }
        let others_are_done = self.task.background && self.shared.busy.load(Ordering::Relaxed) == 0;
        match self.shared.run.spec.length {
            Length::Time(time) => began.elapsed() >= time || others_are_done,
            Length::Volume(_) => others_are_done,
        }
    }

    fn work(&mut self, began: Instant) {
        while let Some(batch) = self.queue.take() {
            let mut done = 0;
            while done < batch.elements {
                let elements = self.slice_elements().min(batch.elements - done);
                self.slice(batch, done, elements);
                done += elements;
                if self.look_up(began, elements * self.queue.element_bytes()) {
                    return;
                }
            }
        }
    }

    /// Elements that are made in one go.
    fn slice_elements(&self) -> u64 {
        let is_fine = self.task.writes_share.is_some() || self.task.limit_bytes_per_s.is_some();
        let bytes = if is_fine { GRAIN_BYTES } else { SLICE_BYTES };
        let elements = (bytes / self.queue.element_bytes()).max(1);
        self.task
            .sample_every
            .map_or(elements, |every| elements.min(every))
    }

    /// Counts, waits for the limit, and looks at the clock; whether the run is over.
    fn look_up(&mut self, began: Instant, bytes: u64) -> bool {
        self.bytes += bytes;
        self.since_clock += bytes;
        if let Some(limit) = self.task.limit_bytes_per_s {
            let own = limit / self.task.threads as f64;
            let due = Duration::from_secs_f64(self.bytes as f64 / own);
            while began.elapsed() < due {
                std::hint::spin_loop();
                if self.is_over(began) {
                    return true;
                }
            }
        }
        if self.since_clock < SLICE_BYTES {
            return false;
        }
        self.since_clock = 0;
        self.is_over(began)
    }

    /// The elements `done..done + elements` of a batch.
    fn slice(&mut self, batch: Batch, done: u64, elements: u64) {
        if self.steps.len() == 1 {
            let sample = self.due_sample(elements);
            let plain = elements - u64::from(sample);
            self.step(0, batch, done, plain);
            if sample {
                self.sample(batch, done + plain);
            }
            self.accesses += elements;
            return;
        }
        let accesses = self.steps.iter().map(|step| step.spec.count as u64).sum();
        for element in done..done + elements {
            if self.due_sample(accesses) {
                let ticks = timed(|| self.pass(batch, element));
                self.samples.push(self.shared.ticks.ns(ticks) as f32);
            } else {
                self.pass(batch, element);
            }
            self.accesses += accesses;
        }
    }

    /// Once through the chain.
    fn pass(&mut self, batch: Batch, element: u64) {
        for step in 0..self.steps.len() {
            let count = self.steps[step].spec.count as u64;
            self.step(step, batch, element * count, count);
        }
    }

    /// Whether the last of the next `elements` accesses is one to be timed.
    fn due_sample(&self, elements: u64) -> bool {
        let is_due = |every: u64| self.accesses / every != (self.accesses + elements) / every;
        self.task.sample_every.is_some_and(is_due) && self.samples.len() < SAMPLES_MAX
    }

    /// `count` accesses of a step, of which `first` of this batch were made before.
    fn step(&mut self, step: usize, batch: Batch, first: u64, count: u64) {
        let spec = self.steps[step].spec;
        let (region, target, batch_index) = self.region(spec, batch);
        let slots = (self.copied_bytes(spec, &target) / spec.access_bytes) as u64;
        let per_batch = self.queue.batch_elements() * spec.count as u64;
        let mut slot = (batch_index * per_batch + first) % slots;
        let mut left = count;
        while left > 0 {
            let count = match spec.pattern {
                Pattern::Sequential => left.min(slots - slot),
                Pattern::Random => left,
            };
            let accesses = Accesses {
                pattern: spec.pattern,
                first_bytes: match spec.pattern {
                    Pattern::Sequential => slot as usize * spec.access_bytes,
                    Pattern::Random => 0,
                },
                count: count as usize,
                access_bytes: spec.access_bytes,
                seed: self.seed(step, batch, first),
            };
            self.make(step, region, &target, &accesses);
            left -= count;
            slot = 0;
        }
    }

    /// Which region a batch accesses, and the number of the batch in it.
    fn region(&self, spec: &StepSpec, batch: Batch) -> (usize, Target<'a>, u64) {
        let regions = spec.regions.len() as u64;
        let region = spec.regions[(batch.index % regions) as usize];
        (region, self.target(region), batch.index / regions)
    }

    /// Bytes of a region that its accesses reach: a copy reaches no more than its source has.
    fn copied_bytes(&self, spec: &StepSpec, target: &Target<'_>) -> usize {
        let source = spec.source.map(|source| self.target(source).bytes());
        source.map_or(target.bytes(), |bytes| bytes.min(target.bytes()))
    }

    fn target(&self, region: usize) -> Target<'a> {
        match self.shared.targets[region] {
            Accessed::Plain(target) => target,
            Accessed::Chain(chain) => chain.target(),
        }
    }

    /// A different number for every slice, well mixed.
    fn seed(&self, step: usize, batch: Batch, first: u64) -> u64 {
        let words = [self.shared.seed, step as u64, batch.index, first];
        words.into_iter().fold(0x9E37_79B9_7F4A_7C15, |hash, word| {
            let mixed = (hash ^ word).wrapping_mul(0xD6E8_FEB8_6659_FD93);
            mixed ^ mixed >> 32
        })
    }

    fn make(&mut self, step: usize, region: usize, target: &Target<'_>, accesses: &Accesses) {
        let Step {
            spec,
            made_by,
            write,
        } = &self.steps[step];
        let kernel = match made_by {
            MadeBy::Accesses(kernel) => kernel,
            MadeBy::Copies(kernel) => return self.copy(kernel, spec, region, target, accesses),
        };
        let is_store = match self.task.writes_share {
            Some(share) => {
                self.owed_writes += share;
                let owes = self.owed_writes >= 1.0;
                self.owed_writes -= f64::from(u8::from(owes));
                owes
            }
            None => spec.operation.writes(),
        };
        let kernel = match (write, is_store) {
            (Some(write), true) => write,
            _ => kernel,
        };
        if self.task.fence {
            kernel.run_fenced(target, accesses);
        } else if spec.depends {
            kernel.run_dependent(target, accesses);
        } else {
            kernel.run(target, accesses);
        }
        if let Some(delays) = &self.delays {
            let direction = if is_store {
                Direction::Write
            } else {
                Direction::Read
            };
            delays.accessed(region, target.bytes(), accesses, direction);
        }
    }

    fn copy(
        &self,
        kernel: &CopyKernel,
        spec: &StepSpec,
        region: usize,
        target: &Target<'_>,
        accesses: &Accesses,
    ) {
        let Some(from) = spec.source else {
            unreachable!("a copy is resolved with its source");
        };
        let source = self.target(from);
        kernel.run(&source, target, accesses);
        if let Some(delays) = &self.delays {
            delays.accessed(from, source.bytes(), accesses, Direction::Read);
            delays.accessed(region, target.bytes(), accesses, Direction::Write);
        }
    }

    /// Times one access.
    fn sample(&mut self, batch: Batch, first: u64) {
        let Step { spec, made_by, .. } = &self.steps[0];
        let MadeBy::Accesses(kernel) = made_by else {
            unreachable!("no copy is resolved with samples");
        };
        let (_, target, batch_index) = self.region(spec, batch);
        let slots = (target.bytes() / spec.access_bytes) as u64;
        let slot = match spec.pattern {
            Pattern::Sequential => (batch_index * self.queue.batch_elements() + first) % slots,
            Pattern::Random => self.seed(0, batch, first) % slots,
        };
        let offset = slot as usize * spec.access_bytes;
        let ticks = sampled(kernel, spec.operation, &target, offset);
        self.samples.push(self.shared.ticks.ns(ticks) as f32);
    }

    /// Follows a chain, each thread from another place of it.
    fn chase(&mut self, chain: &Chain<'_>, began: Instant) {
        let region = self.task.steps[0].regions[0];
        let mut at = chain.start(self.thread as f64 / self.task.threads as f64);
        let hops = self.task.hops as u64;
        let hops = self.task.sample_every.map_or(hops, |every| hops.min(every));
        while let Some(batch) = self.queue.take() {
            let mut done = 0;
            while done < batch.elements {
                let now = hops.min(batch.elements - done);
                at = self.hops(chain, region, at, now);
                done += now;
                self.bytes += now * 8;
                if self.is_over(began) {
                    std::hint::black_box(at);
                    return;
                }
            }
        }
        std::hint::black_box(at);
    }

    fn hops(&mut self, chain: &Chain<'_>, region: usize, from: usize, hops: u64) -> usize {
        let mut at = from;
        if let Some(delays) = &self.delays {
            let mut started = delays.now();
            for _ in 0..hops {
                let place = at;
                at = chain.hop(at);
                let ended = delays.hop(region, place, started);
                if self
                    .task
                    .sample_every
                    .is_some_and(|every| self.accesses.is_multiple_of(every))
                    && self.samples.len() < SAMPLES_MAX
                {
                    self.samples.push(ended.since_ns(started) as f32);
                }
                self.accesses += 1;
                started = ended;
            }
            return at;
        }
        let sample = self.due_sample(hops);
        at = chain.follow(at, (hops - u64::from(sample)) as usize);
        if sample {
            let ticks;
            (at, ticks) = chain.sampled(at);
            self.samples.push(self.shared.ticks.ns(ticks) as f32);
        }
        self.accesses += hops;
        at
    }
}
