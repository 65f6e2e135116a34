//! Panics that end in an error.

use std::cell::Cell;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use crate::error::Panicked;

thread_local! {
    /// Calls of [`caught_now`] that this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Whether a panic of this thread would be caught now, so that a hook of panics need not tell it.
pub fn is_caught_here() -> bool {
    DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(false)
}

/// Calls `work`. After a panic nothing of it is used again.
///
/// # Errors
/// A panic of it.
pub fn caught_now<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    let _inside = Inside::enter();
    // What was under way when it panicked is dropped and never used again.
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| Panicked::of(panic.as_ref()))
}

/// Runs `work`. After a panic nothing of it is used again.
///
/// # Errors
/// A panic of it.
pub async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Panicked> {
    let mut work = Box::pin(work);
    poll_fn(move |cx| match caught_now(|| work.as_mut().poll(cx)) {
        Ok(polled) => polled.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

struct Inside;

impl Inside {
    fn enter() -> Self {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panics_are_errors_and_told_as_such() {
        let seen = caught(async {
            tokio::task::yield_now().await;
            is_caught_here()
        });
        assert_eq!(seen.await, Ok(true));
        assert!(!is_caught_here());
        let panicked = caught(async {
            tokio::task::yield_now().await;
            panic!("no such {}\nand more", "width");
        });
        let panicked: Result<(), Panicked> = panicked.await;
        assert_eq!(
            panicked.map_err(|error| error.to_string()),
            Err("no such width".to_owned())
        );
        assert!(!is_caught_here());
    }
}
