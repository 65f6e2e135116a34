//! Time that threads of a run spent waiting for a processor.

use std::fs;
use std::num::NonZeroU32;
use std::time::Duration;

use crate::statistics::Summary;

/// A run in which no thread waited for longer than this share of it counts as undisturbed.
const UNDISTURBED_SHARE: f64 = 0.02;

/// Runs made at most for each one that is kept.
const ATTEMPTS_PER_RUN: usize = 8;

/// Where the kernel tells a thread's time on a processor, its time waiting for one, and how often
/// it ran.
const SCHEDULER_FILE: &str = "/proc/thread-self/schedstat";

/// Watches how long the calling thread waits for a processor.
#[derive(Debug, Clone, Copy)]
pub struct Waiting {
    before_ns: Option<u64>,
}

impl Waiting {
    /// Begins to watch.
    pub fn start() -> Self {
        Self {
            before_ns: waited_ns(),
        }
    }

    /// Time waited since the start; `None` where the kernel does not tell.
    pub fn elapsed(self) -> Option<Duration> {
        let waited_ns = waited_ns()?.saturating_sub(self.before_ns?);
        Some(Duration::from_nanos(waited_ns))
    }
}

fn waited_ns() -> Option<u64> {
    let line = fs::read_to_string(SCHEDULER_FILE).ok()?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// One run of a figure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub figure: f64,
    /// Share of the run that the thread which waited longest spent so.
    pub waited_share: Option<f64>,
}

/// The runs of a figure that were least disturbed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    pub figure: Summary,
    /// Largest of the kept runs' waited shares.
    pub waited_share: Option<f64>,
}

impl Runs {
    /// Runs until `keep` runs were undisturbed, but at most eight times as often, and keeps the
    /// least disturbed ones: what is kept does not depend on the figures. `run` gets the number of
    /// runs before it; its first error is the result.
    pub(super) fn take<E>(
        keep: NonZeroU32,
        mut run: impl FnMut(usize) -> Result<Run, E>,
    ) -> Result<Self, E> {
        let keep = keep.get() as usize;
        let first = run(0)?;
        let mut taken = vec![first];
        while taken.len() < keep * ATTEMPTS_PER_RUN {
            if taken
                .iter()
                .filter(|run| run.disturbance() <= UNDISTURBED_SHARE)
                .count()
                >= keep
            {
                break;
            }
            taken.push(run(taken.len())?);
        }
        taken.sort_by(|a, b| a.disturbance().total_cmp(&b.disturbance()));
        taken.truncate(keep);
        let shares = taken.iter().map(|run| run.waited_share);
        Ok(Self {
            figure: Summary::of_runs(taken[0].figure, taken[1..].iter().map(|run| run.figure)),
            waited_share: shares.reduce(|a, b| Some(a?.max(b?))).flatten(),
        })
    }
}

impl Run {
    /// The waited share; where it is unknown, every run is as good as any other.
    fn disturbance(&self) -> f64 {
        self.waited_share.unwrap_or(0.0)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn runs(keep: u32, outcomes: &[(f64, Option<f64>)]) -> (Runs, usize) {
        let mut made = 0;
        let runs = Runs::take(NonZeroU32::new(keep).unwrap(), |attempt| {
            let (figure, waited_share) = outcomes[attempt];
            made = attempt + 1;
            Ok::<_, Infallible>(Run {
                figure,
                waited_share,
            })
        });
        (runs.unwrap(), made)
    }

    #[test]
    fn quiet_machines_are_not_asked_twice() {
        let (runs, made) = runs(3, &[(1.0, Some(0.0)), (2.0, Some(0.01)), (3.0, Some(0.0))]);
        assert_eq!(made, 3);
        assert_eq!((runs.figure.median, runs.waited_share), (2.0, Some(0.01)));
    }

    #[test]
    fn disturbed_runs_are_replaced_or_told() {
        let busy = [
            (9.0, Some(0.5)),
            (1.0, Some(0.0)),
            (8.0, Some(0.3)),
            (1.0, Some(0.0)),
        ];
        let (quiet, made) = runs(2, &busy);
        assert_eq!(
            (made, quiet.figure.max, quiet.waited_share),
            (4, 1.0, Some(0.0))
        );
        let (told, made) = runs(1, &busy[..1].repeat(8));
        assert_eq!((made, told.waited_share), (8, Some(0.5)));
    }

    #[test]
    fn an_unknown_wait_stays_unknown() {
        let (runs, made) = runs(2, &[(1.0, None), (2.0, None)]);
        assert_eq!((made, runs.waited_share), (2, None));
    }
}
