//! Threads that share links and cores, in virtual time.
//!
//! A phase of a thread takes `alone_s` when nothing else runs, and then uses each of its resources at a
//! steady rate. When phases ask for more of a resource than there is, all of them are slowed down by the same
//! factor, those aside that something else slows down more: the resource with the smallest factor first
//! (max-min fairness). Between two ends of phases nothing changes.

use std::collections::VecDeque;

/// Shorter times than this are none: rates end phases only as exactly as their numbers are.
const MOMENT_S: f64 = 1e-12;

/// A part of a thread's work.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Phase {
    /// Its time when nothing else runs.
    pub alone_s: f64,
    /// Resources and how much of each it takes in all: bytes of links, seconds of cores.
    pub takes: Vec<(usize, f64)>,
    /// It begins when so many phases have signalled this event.
    pub waits_for: Option<(usize, usize)>,
    /// The event that it signals when it ends.
    pub signals: Option<usize>,
}

struct Running {
    thread: usize,
    phase: Phase,
    left_s: f64,
}

/// Runs threads, each phase after phase, over resources of so much per second. When each thread ends, in
/// seconds.
///
/// # Panics
/// Where threads wait for events that nobody signals.
pub(super) fn run(capacities: &[f64], threads: Vec<Vec<Phase>>, events: usize) -> Vec<f64> {
    let mut ends = vec![0.0; threads.len()];
    let mut signalled = vec![0_usize; events];
    let mut waiting: Vec<(usize, VecDeque<Phase>)> = threads
        .into_iter()
        .map(VecDeque::from)
        .enumerate()
        .filter(|(_, phases)| !phases.is_empty())
        .collect();
    let mut running: Vec<(Running, VecDeque<Phase>)> = Vec::new();
    let mut now_s = 0.0;
    while !waiting.is_empty() || !running.is_empty() {
        begin(&mut waiting, &mut running, &signalled);
        assert!(!running.is_empty(), "threads that wait for each other");
        let speeds = speeds(
            capacities,
            running.iter().map(|(running, _)| &running.phase),
        );
        let step_s = running
            .iter()
            .zip(&speeds)
            .map(|((running, _), speed)| running.left_s / speed)
            .fold(f64::INFINITY, f64::min);
        now_s += step_s;
        let before = std::mem::take(&mut running);
        for ((mut one, phases), speed) in before.into_iter().zip(speeds) {
            one.left_s -= step_s * speed;
            if one.left_s > MOMENT_S {
                running.push((one, phases));
                continue;
            }
            if let Some(event) = one.phase.signals {
                signalled[event] += 1;
            }
            ends[one.thread] = now_s;
            if !phases.is_empty() {
                waiting.push((one.thread, phases));
            }
        }
    }
    ends
}

/// Begins the next phase of all threads whose event has come.
fn begin(
    waiting: &mut Vec<(usize, VecDeque<Phase>)>,
    running: &mut Vec<(Running, VecDeque<Phase>)>,
    signalled: &[usize],
) {
    let can_begin = |phases: &VecDeque<Phase>| {
        let first = phases.front();
        first.is_some_and(|phase| {
            phase
                .waits_for
                .is_none_or(|(event, count)| signalled[event] >= count)
        })
    };
    for (thread, mut phases) in std::mem::take(waiting) {
        match can_begin(&phases).then(|| phases.pop_front()).flatten() {
            Some(phase) => {
                let left_s = phase.alone_s.max(MOMENT_S);
                let one = Running {
                    thread,
                    phase,
                    left_s,
                };
                running.push((one, phases));
            }
            None => waiting.push((thread, phases)),
        }
    }
}

/// The share of its own speed with which each phase goes on.
fn speeds<'a>(capacities: &[f64], phases: impl Iterator<Item = &'a Phase>) -> Vec<f64> {
    let rates: Vec<Vec<(usize, f64)>> = phases
        .map(|phase| {
            let alone_s = phase.alone_s.max(MOMENT_S);
            let takes = phase.takes.iter();
            takes
                .map(|(resource, amount)| (*resource, amount / alone_s))
                .collect()
        })
        .collect();
    let mut speeds = vec![1.0; rates.len()];
    let mut is_settled = vec![false; rates.len()];
    let mut left = capacities.to_vec();
    loop {
        let mut asked = vec![0.0; left.len()];
        for (rates, _) in rates
            .iter()
            .zip(&is_settled)
            .filter(|(_, settled)| !**settled)
        {
            for (resource, rate) in rates {
                asked[*resource] += rate;
            }
        }
        // What nobody asks for slows nobody down; without this, nothing over nothing would end the search.
        let factor = |(asked, left): (&f64, &f64)| match *asked > 0.0 {
            true => left / asked,
            false => f64::INFINITY,
        };
        let factors = asked.iter().zip(&left).map(factor);
        let tightest = factors.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((resource, factor)) = tightest.filter(|(_, factor)| *factor < 1.0) else {
            return speeds;
        };
        let factor = factor.max(1e-9);
        for (index, rates) in rates.iter().enumerate() {
            let uses = rates
                .iter()
                .any(|(used, rate)| *used == resource && *rate > 0.0);
            if is_settled[index] || !uses {
                continue;
            }
            speeds[index] = factor;
            is_settled[index] = true;
            for (used, rate) in rates {
                left[*used] = (left[*used] - rate * factor).max(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(alone_s: f64, takes: &[(usize, f64)]) -> Phase {
        Phase {
            alone_s,
            takes: takes.to_vec(),
            ..Phase::default()
        }
    }

    fn assert_ends(ends: &[f64], expected: &[f64]) {
        let close = ends
            .iter()
            .zip(expected)
            .all(|(end, expected)| (end - expected).abs() < 1e-6);
        assert!(
            close && ends.len() == expected.len(),
            "{ends:?} instead of {expected:?}"
        );
    }

    #[test]
    fn who_shares_a_link_waits_and_who_does_not_goes_on() {
        // Both want 10 of 10 per second; a third is alone on the other link.
        let threads = vec![
            vec![phase(1.0, &[(0, 10.0)])],
            vec![phase(1.0, &[(0, 10.0)])],
            vec![phase(1.0, &[(1, 5.0)])],
        ];
        assert_ends(&run(&[10.0, 10.0], threads, 0), &[2.0, 2.0, 1.0]);
    }

    #[test]
    fn what_one_leaves_over_is_for_the_others() {
        // The first needs 4 of 10 per second on link 1, and is slowed down to 2 by link 0.
        let threads = vec![
            vec![phase(1.0, &[(0, 10.0), (1, 4.0)])],
            vec![phase(1.0, &[(1, 8.0)])],
        ];
        assert_ends(&run(&[5.0, 10.0], threads, 0), &[2.0, 1.0]);
    }

    #[test]
    fn phases_begin_with_their_event() {
        let copy = Phase {
            signals: Some(0),
            ..phase(1.0, &[])
        };
        let needs = |count| Phase {
            waits_for: Some((0, count)),
            ..phase(0.5, &[])
        };
        let threads = vec![vec![copy.clone(), copy], vec![needs(1), needs(2)]];
        assert_ends(&run(&[], threads, 1), &[2.0, 2.5]);
    }

    #[test]
    #[should_panic(expected = "wait for each other")]
    fn nobody_waits_for_an_event_that_never_comes() {
        let waits = Phase {
            waits_for: Some((0, 1)),
            ..phase(1.0, &[])
        };
        run(&[], vec![vec![waits]], 1);
    }
}
