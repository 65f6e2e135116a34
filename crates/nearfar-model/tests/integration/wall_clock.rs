//! The same rules by the machine's clock. Only lower bounds on time are asserted: another process
//! may delay a thread for longer than the model does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nearfar_model::{BandwidthShare, EmulatedTier, HeapAccess, Pattern};

use crate::simulation::parameters;

fn tier() -> Arc<EmulatedTier> {
    EmulatedTier::with_parameters(parameters(), BandwidthShare::Threads(2)).unwrap()
}

#[test]
fn threads_share_the_link() {
    const CHUNK: u64 = 64 << 10;
    const CHUNKS: u64 = 300;
    let tier = tier();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..CHUNKS {
                    tier.read(Pattern::Next, CHUNK);
                }
            });
        }
    });
    let modelled = Duration::from_secs_f64((2 * CHUNKS * CHUNK) as f64 / 4e9);
    assert!(
        started.elapsed() >= modelled.mul_f64(0.95),
        "{:?}",
        started.elapsed()
    );
}

#[test]
fn a_chase_takes_its_latencies() {
    const HOPS: u32 = 2_000;
    let tier = tier();
    let began = Instant::now();
    let mut started = tier.now();
    for _ in 0..HOPS {
        started = tier.dependent_read(started);
    }
    assert!(
        began.elapsed() >= Duration::from_nanos(490) * HOPS,
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn long_delays_sleep_and_end_in_time() {
    let tier = tier();
    let access = HeapAccess {
        random_reads: 1_000_000,
        random_writes: 0,
        table_bytes: 1 << 30,
        cache_bytes: 0,
    };
    let charge = tier.heap_delay(&access);
    assert!(charge > Duration::from_millis(10), "{charge:?}");
    let began = Instant::now();
    tier.delay(charge);
    assert!(
        began.elapsed() >= charge.mul_f64(0.999),
        "{:?} of {charge:?}",
        began.elapsed()
    );
}
