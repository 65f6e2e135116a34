use nearfar_model::VirtualClock;
use std::cell::Cell;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::*;

const MIB: u64 = 1 << 20;

fn far() -> TierId {
    TierId::from_index(1).expect("a tier")
}

fn on_far(bytes: u64) -> TierBytes {
    let mut all = TierBytes::ZERO;
    all[far()] = bytes;
    all
}

/// Traffic with a limit, by a clock that goes on only when it is told to.
fn limited(mib_per_s: u64) -> (Arc<TierTraffic>, Arc<VirtualClock>) {
    let clock = Arc::new(VirtualClock::new());
    let traffic = TierTraffic::with_clock(Some(mib_per_s * MIB), Arc::clone(&clock) as _);
    (traffic, clock)
}

/// How long the turn takes from now on.
fn left(turn: Option<&Turn>) -> Duration {
    turn.and_then(Turn::left)
        .map_or(Duration::ZERO, |(_, left)| left)
}

fn pass(clock: &VirtualClock, time: Duration) {
    clock.wait_until(clock.now().plus_ns(time.as_nanos() as u64));
}

fn is_about(time: Duration, expected_s: f64) -> bool {
    (time.as_secs_f64() - expected_s).abs() < 1e-3
}

#[test]
fn without_a_limit_nobody_waits_and_all_is_counted() {
    let traffic = TierTraffic::new(None);
    let account = TrafficAccount::of_session(&traffic, 7);
    assert!(account.turn(Task::Scan, &on_far(u64::MAX)).is_none());
    account.read(Task::Scan, &on_far(3));
    account.wrote(Task::Spill, &on_far(4));
    let rows = traffic.rows();
    let seen = rows.iter().map(|row| (row.session, row.tier, row.task));
    let seen: Vec<_> = seen.collect();
    assert_eq!(
        seen,
        [(Some(7), far(), Task::Scan), (Some(7), far(), Task::Spill)]
    );
    assert_eq!(rows[0].moved.read_bytes, 3);
    assert_eq!(rows[1].moved.written_bytes, 4);
    assert_eq!(traffic.bytes_read(far()), 3);
}

#[test]
fn bytes_take_as_long_as_the_limit_says_and_near_ones_nothing() {
    let (traffic, clock) = limited(100);
    let account = TrafficAccount::of_session(&traffic, 1);
    let mut near = TierBytes::ZERO;
    near[TierId::NEAR] = 1 << 40;
    assert!(account.turn(Task::Scan, &near).is_none());
    // A burst of 20 ms comes first.
    let turn = account.turn(Task::Scan, &on_far(102 * MIB));
    assert!(is_about(left(turn.as_ref()), 1.0));
    pass(&clock, Duration::from_millis(400));
    assert!(is_about(left(turn.as_ref()), 0.6));
    // Others come behind, also those that have moved nothing yet.
    let other = TrafficAccount::of_session(&traffic, 2);
    let new = other.turn_behind_others(Task::Scan, &on_far(1));
    let other = other.turn(Task::Scan, &on_far(50 * MIB));
    assert!(is_about(left(new.as_ref()), 0.6));
    assert!(is_about(left(other.as_ref()), 1.1));
    // A link of another tier is another.
    let mut farther = TierBytes::ZERO;
    farther[TierId::from_index(2).expect("a tier")] = MIB;
    assert!(account.turn(Task::Scan, &farther).is_none());
    pass(&clock, Duration::from_millis(600));
    assert_eq!(left(turn.as_ref()), Duration::ZERO);
}

#[test]
fn a_share_is_the_sessions_own() {
    let (traffic, _clock) = limited(100);
    let slow = TrafficAccount::of_session(&traffic, 1);
    slow.set_percent(25);
    let turn = slow.turn(Task::Scan, &on_far(100 * MIB));
    // A quarter of the limit, and of the burst.
    assert!(is_about(left(turn.as_ref()), 4.0 - 0.02));
    // The other session waits for what the limit of all has to do.
    let other = TrafficAccount::of_session(&traffic, 2);
    let other = other.turn(Task::Scan, &on_far(2 * MIB));
    assert!(is_about(left(other.as_ref()), 1.0));
    slow.set_percent(100);
    assert!(is_about(left(turn.as_ref()), 0.98));
}

#[test]
fn the_lower_limit_holds_and_who_waits_is_told_of_another() {
    let (traffic, _clock) = limited(100);
    let account = TrafficAccount::of_session(&traffic, 1);
    let turn = account.turn(Task::Scan, &on_far(102 * MIB));
    traffic.regulate(Some(50 * MIB));
    assert_eq!(traffic.limit(), Some(50 * MIB));
    assert!(left(turn.as_ref()) > Duration::from_millis(1900));
    traffic.regulate(Some(200 * MIB));
    assert_eq!(traffic.limit(), Some(100 * MIB));
    traffic.regulate(None);
    traffic.set_limit(Some(1000 * MIB));
    assert!(left(turn.as_ref()) < Duration::from_millis(110));
    traffic.set_limit(None);
    assert_eq!(left(turn.as_ref()), Duration::ZERO);
    assert_eq!(traffic.limit_at_first(), Some(100 * MIB));
    // A controller never stops anybody.
    traffic.regulate(Some(0));
    assert_eq!(traffic.limit(), Some(TierTraffic::LIMIT_MIN));
}

#[test]
fn a_wait_that_is_given_up_is_counted_and_over() {
    let (traffic, clock) = limited(1);
    let account = TrafficAccount::of_session(&traffic, 1);
    let turn = account.turn(Task::Scan, &on_far(1000 * MIB));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .expect("a runtime");
    let _entered = runtime.enter();
    {
        let mut waiting = pin!(turn.expect("a turn").wait());
        let mut context = Context::from_waker(Waker::noop());
        assert_eq!(waiting.as_mut().poll(&mut context), Poll::Pending);
        assert_eq!(traffic.waiting(), 1);
        pass(&clock, Duration::from_secs(5));
    }
    assert_eq!(traffic.waiting(), 0);
    let moved = traffic.moved(far(), Task::Scan);
    assert_eq!(moved.waits, 1);
    assert!(is_about(moved.wait, 5.0));
}

#[test]
fn a_thread_waits_for_as_long_as_it_goes_on() {
    let (traffic, clock) = limited(1);
    let account = TrafficAccount::of_engine(&traffic);
    let asked = Cell::new(0);
    let go_on = || {
        asked.set(asked.get() + 1);
        asked.get() < 3
    };
    let turn = account.turn(Task::Merge, &on_far(1000 * MIB));
    turn.expect("a turn").wait_on_thread(&go_on);
    assert_eq!(asked.get(), 3);
    // And no longer than until its turn has come.
    let turn = account.turn(Task::Merge, &on_far(1));
    pass(&clock, Duration::from_secs(1001));
    turn.expect("a turn").wait_on_thread(&|| true);
    assert_eq!(traffic.moved(far(), Task::Merge).waits, 1);
}

#[test]
fn nothing_is_lost_of_sessions_that_end() {
    let traffic = TierTraffic::new(None);
    let first = TrafficAccount::of_session(&traffic, 1);
    let second = TrafficAccount::of_session(&traffic, 2);
    first.read(Task::Scan, &on_far(10));
    second.read(Task::Point, &on_far(20));
    TrafficAccount::of_engine(&traffic).wrote(Task::Merge, &on_far(5));
    let sum = |rows: &[TrafficRow]| -> (u64, u64) {
        let moved = rows.iter().map(|row| row.moved);
        moved.fold((0, 0), |(read, written), moved| {
            (read + moved.read_bytes, written + moved.written_bytes)
        })
    };
    assert_eq!(sum(&traffic.rows()), (30, 5));
    drop(first);
    let rows = traffic.rows();
    assert_eq!(sum(&rows), (30, 5));
    assert!(rows.iter().all(|row| row.session != Some(1)));
    drop(second);
    assert_eq!(sum(&traffic.rows()), (30, 5));
    assert_eq!(traffic.bytes_read(far()), 30);
}

#[test]
fn nobody_waits_longer_than_a_minute_for_what_was_moved_at_once() {
    let (traffic, clock) = limited(1);
    let one = TrafficAccount::of_session(&traffic, 1);
    // As of a statement that was given up, or that spills.
    drop(one.turn(Task::Spill, &on_far(10_000 * MIB)));
    let other = TrafficAccount::of_session(&traffic, 2);
    let waiting = other.turn_behind_others(Task::Scan, &on_far(MIB));
    assert!(is_about(left(waiting.as_ref()), 60.0));
    pass(&clock, Duration::from_secs(60));
    assert!(is_about(left(waiting.as_ref()), 0.0));
    // Nor is what was owed under a limit that is gone.
    drop(one.turn(Task::Spill, &on_far(10_000 * MIB)));
    traffic.set_limit(None);
    traffic.set_limit(Some(100 * MIB));
    let waiting = other.turn_behind_others(Task::Scan, &on_far(MIB));
    assert!(left(waiting.as_ref()) <= Duration::from_secs(61));
}

#[test]
fn no_limit_is_so_low_that_a_step_takes_for_ever() {
    for limit in [0, 1, TierTraffic::LIMIT_MIN] {
        let traffic = TierTraffic::new(Some(limit));
        assert_eq!(traffic.limit(), Some(TierTraffic::LIMIT_MIN));
        traffic.regulate(Some(0));
        assert_eq!(traffic.limit(), Some(TierTraffic::LIMIT_MIN));
    }
}

#[test]
fn what_never_waits_is_nothing_to_regulate_by() {
    let traffic = TierTraffic::new(None);
    let account = TrafficAccount::of_session(&traffic, 1);
    account.read(Task::Point, &on_far(5));
    assert_eq!(traffic.far_bytes(), TierBytes::ZERO);
    account.read(Task::Scan, &on_far(3));
    account.wrote(Task::Load, &on_far(4));
    assert_eq!(traffic.far_bytes(), on_far(7));
}
