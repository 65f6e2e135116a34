//! Work of several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Has threads take parts until there are none; the sum of what they give.
pub(crate) fn divided<T: Send>(
    threads: usize,
    stop: &AtomicBool,
    parts: impl Iterator<Item = T> + Send,
    work: impl Fn(T) -> f64 + Sync,
) -> f64 {
    let parts = Mutex::new(parts);
    let next = || parts.lock().ok()?.next();
    let of_thread = || {
        let mut sum = 0.0;
        while !stop.load(Ordering::Relaxed)
            && let Some(part) = next()
        {
            sum += work(part);
        }
        sum
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(of_thread)).collect();
        let own = of_thread();
        let join = |other: std::thread::ScopedJoinHandle<'_, f64>| {
            other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        own + others.into_iter().map(join).sum::<f64>()
    })
}
