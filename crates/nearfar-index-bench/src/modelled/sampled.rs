//! Runs of which most is followed and little is simulated.

use std::sync::Arc;
use std::time::Duration;

use nearfar_index::placement::PlacedTree;

use super::live::{Counts, LiveRun, Start};
use super::sampling::{Observed, SLICES_FACTOR_MAX, SLICES_MIN, Sampling};
use crate::map::MapError;
use crate::placed::{PlacedError, PlacedOutcome, SampledFigures};
use crate::workload::KeySpace;

/// Times that lines pass the caches that would fill them: before the first window, which tells how fast operations are;
/// before the measured time; and before the windows of each of its slices, which find the caches as the windows
/// before have left them.
const FILLS_FIRST: f64 = 0.5;
const FILLS_MEASURED: f64 = 2.0;
const FILLS_PER_SLICE: f64 = 0.1;
/// Operations that pass the caches between two looks at how full they are.
const WARMED_TOGETHER: u64 = 1 << 16;
/// Operations after which caches have been filled, for each line that they hold, however few came from memory: those
/// that a lookup finds in a core's own caches are not all that it asks for.
const OPERATIONS_PER_LINE: f64 = 0.25;

/// How far a sampled run is.
#[derive(Debug, Default)]
struct Course {
    /// The simulation's clock, which stands still but in windows.
    simulated: Duration,
    /// Time of the run.
    passed: Duration,
    /// What cores answer per second, as far as it is known.
    operations_per_s: f64,
    /// Operations that were carried out, and those for which they stand.
    followed: f64,
    stood_for: f64,
    counts: Counts,
}

impl<S: KeySpace, O: FnMut(f64), T: PlacedTree> LiveRun<'_, '_, S, O, T> {
    /// Follows the warm-up, and simulates windows of the measured time until their mean is as sure as it is to
    /// be.
    pub(super) fn sample(
        mut self,
        sampling: &Sampling,
        tree: &Arc<T>,
    ) -> Result<PlacedOutcome, PlacedError> {
        let options = self.run.options;
        let slices = |time: Duration| time.div_duration_f64(options.slice).ceil() as u32;
        let warm_up = slices(options.warm_up);
        let measured = slices(options.measured).max(SLICES_MIN);
        let mut course = Course::default();
        self.fill_caches(FILLS_FIRST);
        course.operations_per_s = self.window(sampling, &mut course);
        for slice in 0..warm_up {
            self.follow_slice(sampling, &mut course, tree);
            course.operations_per_s = self.window(sampling, &mut course);
            (self.run.observe)(f64::from(slice) / f64::from(warm_up + measured));
        }
        self.fill_caches(FILLS_MEASURED);
        let start = self.start(course.simulated);
        course.counts = (self.board.operations.get(), self.space.accesses());
        let (mut observed, mut series) = (Observed::default(), Vec::new());
        while !self.board.is_over.get()
            && (observed.count() < measured
                || observed.error_share() > sampling.error_share_max
                    && observed.count() < SLICES_FACTOR_MAX * measured)
        {
            self.follow_slice(sampling, &mut course, tree);
            self.fill_caches(FILLS_PER_SLICE);
            let windows = sampling.windows_per_slice.max(1);
            let rates = (0..windows).map(|_| self.window(sampling, &mut course));
            course.operations_per_s = rates.sum::<f64>() / f64::from(windows);
            observed.add(course.operations_per_s);
            let counts = (self.board.operations.get(), self.space.accesses());
            let before = std::mem::replace(&mut course.counts, counts);
            let mut moment = self.moment(course.passed, before, counts, tree);
            moment.operations_per_s = course.operations_per_s;
            series.push(moment);
            let done = f64::from(warm_up + observed.count());
            (self.run.observe)(
                done.min(f64::from(warm_up + measured)) / f64::from(warm_up + measured),
            );
        }
        let figures = figures(sampling, &course, &observed);
        let mut outcome = self.finish((course.simulated, start), series)?;
        outcome.operations_per_s = observed.mean();
        outcome.sampled = Some(figures);
        Ok(outcome)
    }

    /// Lets a slice pass: carries out what cores answer in it, as many of it as may be, and then lets placement
    /// do what came due.
    fn follow_slice(&mut self, sampling: &Sampling, course: &mut Course, tree: &Arc<T>) {
        let slice = self.run.options.slice;
        let answered = course.operations_per_s * slice.as_secs_f64();
        let followed = (answered as u64).min(sampling.followed_per_slice_max);
        course.followed += followed as f64;
        course.stood_for += answered;
        let result = self.untimed.follow(followed);
        self.note(result);
        course.passed += slice;
        self.migrator.follow(self.placed_for + course.passed);
        tree.memory().quiesce();
    }

    /// Takes operations through the caches until so many times as many lines as they hold have come from memory, or
    /// as many operations are carried out.
    fn fill_caches(&mut self, fills: f64) {
        let wanted = fills * self.cache_lines as f64;
        let most = (wanted * OPERATIONS_PER_LINE) as u64;
        let (mut brought, mut operations) = (0, 0);
        while (brought as f64) < wanted && operations < most && !self.board.is_over.get() {
            let together = WARMED_TOGETHER.min(most - operations);
            let result = self.untimed.warm(&mut self.simulation, together);
            brought += self.note(result).unwrap_or_default();
            operations += together;
        }
    }

    /// Simulates a window and what leads in to it; operations per second in the window.
    fn window(&mut self, sampling: &Sampling, course: &mut Course) -> f64 {
        let time = sampling.lead_in + sampling.window;
        let placed_for = self.placed_for + course.passed;
        self.migrator.feed((placed_for, time), &self.traffic);
        let taken = self.traffic.taken();
        course.simulated += sampling.lead_in;
        self.simulation
            .advance(u64::MAX, course.simulated.as_nanos() as f64);
        let before = self.board.operations.get();
        course.simulated += sampling.window;
        self.simulation
            .advance(u64::MAX, course.simulated.as_nanos() as f64);
        let taken = self.traffic.taken() - taken;
        self.migrator.take_back(time, taken, &self.traffic);
        (self.board.operations.get() - before) as f64 / sampling.window.as_secs_f64()
    }

    /// Ends the run where a map has taken a key no more.
    pub(super) fn note<R>(&self, result: Result<R, MapError>) -> Option<R> {
        result
            .inspect_err(|error| {
                self.board.failure.set(Some(*error));
                self.board.is_over.set(true);
            })
            .ok()
    }

    /// What the measured time begins with.
    pub(super) fn start(&self, now: Duration) -> Start {
        let sampled = self.samples.iter().map(|one| one.borrow().len());
        Start {
            at: now,
            operations: self.board.operations.get(),
            lines: self.simulation.memory_lines(),
            moved_bytes: self.migrator.moved_bytes(0),
            idle: self.traffic.idle(),
            worker_ns: self.migrator.busy_ns(&self.traffic),
            sampled: sampled.collect(),
        }
    }
}

fn figures(sampling: &Sampling, course: &Course, observed: &Observed) -> SampledFigures {
    let slices = observed.count();
    SampledFigures {
        windows: u64::from(slices) * u64::from(sampling.windows_per_slice.max(1)),
        slices,
        window: sampling.window,
        error_share: observed.error_share(),
        error_share_max: sampling.error_share_max,
        followed_share: course.followed / course.stood_for.max(1.0),
    }
}
