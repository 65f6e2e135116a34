//! Threads that copy stretches of columns near.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use arrow::buffer::Buffer;
use nearfar_kernels::copy::{Copier, CopyMethod, MethodCopier};
use nearfar_memory::{AppendArea, TierBytes};
use nearfar_table::tier_models::TierModels;
use tokio::sync::oneshot;

/// Cores for one thread that copies.
const CORES_PER_COPIER: usize = 4;

/// Bytes of a column that are to be copied to the same place of an area, behind all that were before.
#[derive(Debug)]
pub struct ColumnCopy {
    pub from: Buffer,
    pub bytes: Range<usize>,
    pub to: Arc<AppendArea>,
}

impl ColumnCopy {
    /// Copies them. What is between them and those before is any.
    fn make(&self, copier: &mut impl Copier) {
        let Self { from, bytes, to } = self;
        let between = bytes.start.saturating_sub(to.len());
        to.append_with(between, |_| ());
        to.append_with(bytes.len(), |to| copier.copy(&from[bytes.clone()], to));
    }
}

/// What one thread copies in one go.
#[derive(Debug)]
pub struct Job {
    pub copies: Vec<ColumnCopy>,
    /// The bytes on each tier, for which the thread is delayed where a tier is emulated.
    pub bytes: TierBytes,
    /// Dropped when all is copied, or never will be.
    pub ended: oneshot::Sender<()>,
}

/// Threads that copy, each its own jobs in the order in which it is given them.
#[derive(Debug)]
pub struct Copiers {
    /// Of each thread, of which there is one at least.
    senders: Vec<Sender<Job>>,
    given: AtomicUsize,
}

impl Copiers {
    /// Threads that copy by `method`: one for every four cores.
    ///
    /// # Errors
    /// This machine does not have the method, or no thread left.
    pub fn start(method: CopyMethod, models: &TierModels) -> io::Result<Self> {
        let copier = MethodCopier::new(method).map_err(io::Error::other)?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let start = |_| {
            let (sender, jobs) = channel();
            let models = models.clone();
            let thread = thread::Builder::new().name("nearfar-copier".to_owned());
            // It ends when nobody is left who could give it jobs.
            thread.spawn(move || work(&jobs, copier, &models))?;
            Ok(sender)
        };
        let senders = (0..cores.div_ceil(CORES_PER_COPIER)).map(start);
        Ok(Self {
            senders: senders.collect::<io::Result<_>>()?,
            given: AtomicUsize::new(0),
        })
    }

    /// Where one gives its jobs who has them done in order.
    pub fn sender(&self) -> Sender<Job> {
        let turn = self.given.fetch_add(1, Ordering::Relaxed);
        self.senders[turn % self.senders.len()].clone()
    }
}

fn work(jobs: &Receiver<Job>, mut copier: MethodCopier, models: &TierModels) {
    for job in jobs {
        for copy in &job.copies {
            copy.make(&mut copier);
        }
        models.transfer(job.bytes, TierBytes::ZERO);
        drop(job.ended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nearfar_memory::{MemorySystem, Placement, Region, RegionOptions, TierId, TierSpec};
    use nearfar_topology::TierKind;

    #[test]
    fn bytes_are_copied_to_where_they_were() {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], 1 << 20);
        let system = MemorySystem::from_specs(vec![near], &nearfar_memory::Budgets::new());
        let placement = Placement::Bind(TierId::NEAR);
        let options = RegionOptions::default();
        let region = Region::allocate(&system.expect("a system"), 1000, &placement, options);
        let to = Arc::new(AppendArea::whole(region.expect("a region")));
        let copiers = Copiers::start(CopyMethod::Cached, &TierModels::default()).expect("threads");
        let sender = copiers.sender();
        let from: Vec<u8> = (0..1000).map(|byte| byte as u8).collect();
        let from = Buffer::from_vec(from);
        for bytes in [100..200, 200..300, 500..600] {
            let (ended, ends) = oneshot::channel();
            let copy = ColumnCopy {
                from: from.clone(),
                bytes,
                to: Arc::clone(&to),
            };
            let job = Job {
                copies: vec![copy],
                bytes: TierBytes::ZERO,
                ended,
            };
            sender.send(job).expect("a thread that works");
            assert!(ends.blocking_recv().is_err(), "nothing is sent");
        }
        assert_eq!(to.len(), 600);
        for run in [100..300, 500..600] {
            assert_eq!(to.slice(run.clone()), &from[run]);
        }
    }
}
