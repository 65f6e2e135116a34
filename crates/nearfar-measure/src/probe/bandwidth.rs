//! The bandwidth figures.

use std::io;
use std::ops::{Deref, Range};
use std::panic::resume_unwind;
use std::sync::{Barrier, OnceLock, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use nearfar_model::{EmulatedTier, Pattern};

use super::kernels::AccessKernel;
use super::waiting::{Run, Waiting};
use super::{CHUNK_BYTES, ProbeOptions};

/// Word that the write figure stores.
const WORD: u64 = 0x5555_AAAA_5555_AAAA;

/// Sequential access by several threads, each in its part of the memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bandwidth<'a> {
    pub kernel: AccessKernel,
    pub emulated: Option<&'a EmulatedTier>,
    pub options: &'a ProbeOptions,
}

impl Bandwidth<'_> {
    /// Bytes per second that all threads together read in one run.
    pub(super) fn read(&self, memory: &[u8], attempt: usize) -> io::Result<Run> {
        let parts = memory.chunks_exact(self.part_bytes(memory.len()));
        self.run(parts, attempt, |part, range, pattern| {
            let chunk = &part[range];
            if let Some(tier) = self.emulated {
                tier.read(pattern, chunk.len() as u64);
            }
            self.kernel.read(chunk);
        })
    }

    /// Bytes per second that all threads together store in one run.
    pub(super) fn write(&self, memory: &mut [u8], attempt: usize) -> io::Result<Run> {
        let part_bytes = self.part_bytes(memory.len());
        self.run(
            memory.chunks_exact_mut(part_bytes),
            attempt,
            |part, range, pattern| {
                let chunk = &mut part[range];
                self.kernel.write(chunk, WORD);
                if let Some(tier) = self.emulated {
                    tier.write(pattern, chunk.len() as u64);
                }
            },
        )
    }

    /// Bytes of each thread's part: a whole number of chunks.
    fn part_bytes(&self, bytes: usize) -> usize {
        bytes / self.options.threads.get() as usize / CHUNK_BYTES * CHUNK_BYTES
    }

    /// Lets one thread per part pass over it, chunk by chunk, until the run is over; adds up their
    /// rates. Each attempt begins in another eighth of the part, where the last one left nothing in
    /// the caches. Fails when a thread cannot be started.
    fn run<P: Deref<Target = [u8]> + Send>(
        &self,
        parts: impl Iterator<Item = P>,
        attempt: usize,
        access: impl Fn(&mut P, Range<usize>, Pattern) + Sync,
    ) -> io::Result<Run> {
        let threads = self.options.threads.get() as usize;
        let start = Barrier::new(threads);
        let first_start = OnceLock::new();
        // A thread that waits at the barrier for one that could not be started would do so for ever.
        let all_started = RwLock::new(false);
        let (start, first_start, access) = (&start, &first_start, &access);
        let all_started = &all_started;
        thread::scope(|scope| {
            let mut decided = all_started.write().unwrap_or_else(PoisonError::into_inner);
            let workers: io::Result<Vec<_>> = parts
                .take(threads)
                .map(|mut part| {
                    thread::Builder::new().spawn_scoped(scope, move || {
                        if !*all_started.read().unwrap_or_else(PoisonError::into_inner) {
                            return None;
                        }
                        let chunks = part.len() / CHUNK_BYTES;
                        let mut chunk = attempt * 5 % 8 * chunks / 8;
                        let mut pattern = Pattern::First;
                        start.wait();
                        let began = match self.emulated {
                            Some(_) => *first_start.get_or_init(Instant::now),
                            None => Instant::now(),
                        };
                        let mut clock = RunClock::start(began, self.options.run_time);
                        while !clock.is_over() {
                            let first = chunk * CHUNK_BYTES;
                            access(&mut part, first..first + CHUNK_BYTES, pattern.advance());
                            clock.count();
                            chunk = (chunk + 1) % chunks;
                        }
                        Some(match self.emulated {
                            Some(_) => clock.rate_of_link(),
                            None => clock.rate_of_thread(),
                        })
                    })
                })
                .collect();
            *decided = workers.is_ok();
            drop(decided);
            let run = workers?
                .into_iter()
                .filter_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
                .reduce(|all, one| Run {
                    figure: all.figure + one.figure,
                    waited_share: all
                        .waited_share
                        .zip(one.waited_share)
                        .map(|(a, b)| a.max(b)),
                })
                .unwrap_or(Run {
                    figure: 0.0,
                    waited_share: None,
                });
            Ok(run)
        })
    }
}

/// Counts the bytes of one thread until its run is over.
#[derive(Debug)]
struct RunClock {
    waiting: Waiting,
    began: Instant,
    run_time: Duration,
    /// Ends of the last chunk and of the one before it.
    ends: (Duration, Duration),
    chunks: u64,
}

impl RunClock {
    fn start(began: Instant, run_time: Duration) -> Self {
        let waiting = Waiting::start();
        let now = began.elapsed();
        Self {
            waiting,
            began,
            run_time,
            ends: (now, now),
            chunks: 0,
        }
    }

    /// Counts a chunk and looks at the time.
    fn count(&mut self) {
        self.chunks += 1;
        self.ends = (self.began.elapsed(), self.ends.0);
    }

    fn is_over(&self) -> bool {
        self.ends.0 >= self.run_time
    }

    /// The rate over the time that the thread ran.
    fn rate_of_thread(&self) -> Run {
        let waited = self.waiting.elapsed();
        let ran = self.ends.0.saturating_sub(waited.unwrap_or_default());
        self.run(self.chunks as f64, ran, waited)
    }

    /// The thread's part of the rate of a shared link, which serves the others while the thread
    /// waits: over the run, whose beginning and end are the same for all threads. Of the chunk that
    /// lies across the end, the part before it counts.
    fn rate_of_link(&self) -> Run {
        let (last, previous) = self.ends;
        let beyond = last.saturating_sub(self.run_time).as_secs_f64();
        let took = last.saturating_sub(previous).as_secs_f64();
        let beyond_share = if took > 0.0 {
            (beyond / took).min(1.0)
        } else {
            0.0
        };
        let chunks = (self.chunks as f64 - beyond_share).max(0.0);
        self.run(chunks, self.run_time, self.waiting.elapsed())
    }

    fn run(&self, chunks: f64, time: Duration, waited: Option<Duration>) -> Run {
        Run {
            figure: chunks * CHUNK_BYTES as f64 / time.as_secs_f64(),
            waited_share: waited.map(|waited| waited.div_duration_f64(self.ends.0)),
        }
    }
}
