//! Processes that are killed at any moment: what they have acknowledged is there, once and whole,
//! and what they have not is there whole or not at all.
//!
//! A child process ([`child`]) opens what is kept, says what it finds of each client's tables, changes
//! them at random, and says on a pipe what it is about to commit and what was acknowledged. It is
//! killed ([`round`]), and what the next child finds is compared with a model ([`client_record`]). Children are
//! also killed while they open, while another takes the pool from them, and while they take it.
//!
//! With a pool alone, a publication is what is acknowledged: what a later process finds is what was
//! committed at one moment since the last.

mod child;
mod client_record;
mod counts;
mod model;
mod process;
mod round;

use std::time::Instant;

use counts::Counts;
use model::Random;
use round::{Layout, Round};

/// What the children do and when they are killed, as far as the machine lets it be said.
const SEED: &str = "NEARFAR_CRASH_SEED";
/// How often the long run kills.
const KILLS: &str = "NEARFAR_CRASHES";
/// Kills of one folder in the long run, so that tables stay small.
const KILLS_PER_ROUND: u64 = 25;

fn number_of(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is no number")),
    )
}

fn seed() -> u64 {
    number_of(SEED).unwrap_or_else(|| u64::from(std::process::id()))
}

fn say(line: &str) {
    use std::io::Write;
    let mut out = std::io::stdout().lock();
    // A pipe whose reader has gone means that the test is over.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Kills so many processes of one layout, and has a last one check what they left.
fn crash(layout: Layout, kills: u64, seed: u64, counts: &mut Counts) {
    let mut round = Round::new(layout, Random(seed), counts);
    round.kill(kills);
    round.check();
}

fn crash_once(layout: Layout, kills: u64) {
    let (seed, mut counts, begun) = (seed(), Counts::default(), Instant::now());
    say(&format!("{layout:?}: seed {seed}"));
    crash(layout, kills, seed, &mut counts);
    say(&counts.text(begun.elapsed()));
}

#[test]
fn nothing_acknowledged_is_lost_twice_or_torn_when_the_process_is_killed() {
    crash_once(Layout::Data, 20);
}

#[test]
fn nothing_acknowledged_is_lost_when_a_process_with_a_pool_and_a_log_is_killed() {
    crash_once(Layout::Both, 12);
}

#[test]
fn what_was_published_is_there_and_whole_when_a_process_with_a_pool_is_killed() {
    crash_once(Layout::Pool, 10);
}

#[test]
fn nothing_acknowledged_is_lost_when_processes_are_killed_while_they_hand_over() {
    crash_once(Layout::HandOver, 14);
}

#[test]
#[ignore = "takes minutes: .ci/nightly crash"]
fn a_long_run_of_kills_loses_nothing() {
    let (wanted, seed, begun) = (number_of(KILLS).unwrap_or(1000), seed(), Instant::now());
    let (mut random, mut counts) = (Random(seed), Counts::default());
    for layout in Layout::ALL.into_iter().cycle() {
        let kills = KILLS_PER_ROUND.min(wanted.saturating_sub(counts.kills()));
        if kills == 0 {
            break;
        }
        crash(layout, kills, random.below(u64::MAX), &mut counts);
        let (kills, seconds) = (counts.kills(), begun.elapsed().as_secs());
        say(&format!(
            "seed {seed}: {kills} of {wanted} kills after {seconds} s"
        ));
    }
    say(&format!("seed {seed}\n{}", counts.text(begun.elapsed())));
}
