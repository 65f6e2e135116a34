//! Statements that are given up while a thread works on them.
//!
//! A task that is given up ends where it awaits something. Reading and planning await nothing for as long
//! as they take, so they ask at every step that is ours whether their statement was given up
//! ([`check`]). Which statement a thread works for is known by thread: [`Interrupt::run`].

use parking_lot::{Condvar, Mutex};
use std::cell::RefCell;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

use crate::error::EngineError;

/// What planning may take without a turn. Nearly all statements are planned in less.
const SHORT_PLANNING: Duration = Duration::from_millis(50);

/// Between looks at whether a statement that waits for its turn was given up.
const GLANCE: Duration = Duration::from_millis(20);

/// How many statements may be planned at the same time that take long to plan: one less than there are
/// threads, so that a processor is left to all others.
#[derive(Debug)]
pub struct PlanningTurns {
    free: Mutex<usize>,
    given_back: Condvar,
}

impl PlanningTurns {
    /// Turns for a machine on which so many threads run queries.
    pub fn new(threads: usize) -> Arc<Self> {
        Arc::new(Self {
            free: Mutex::new(threads.saturating_sub(1).max(1)),
            given_back: Condvar::new(),
        })
    }

    /// Turns that nobody has.
    pub fn free(&self) -> usize {
        *self.free.lock()
    }

    /// Waits for a turn on the calling thread, but not for longer than a glance.
    fn try_take(self: &Arc<Self>) -> Option<Turn> {
        let mut free = self.free.lock();
        if *free == 0 {
            self.given_back.wait_for(&mut free, GLANCE);
        }
        *free = free.checked_sub(1)?;
        Some(Turn(Arc::clone(self)))
    }
}

/// A turn, which is given back when it is dropped.
#[derive(Debug)]
struct Turn(Arc<PlanningTurns>);

impl Drop for Turn {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.given_back.notify_one();
    }
}

#[derive(Debug)]
struct Planning {
    began: Instant,
    turn: Option<Turn>,
}

/// Tells a statement that it is given up.
#[derive(Debug)]
pub struct Interrupt {
    turns: Arc<PlanningTurns>,
    /// What it is planned with, while it is.
    planning: Mutex<Option<Planning>>,
    is_given_up: AtomicBool,
    told: Notify,
}

thread_local! {
    static CURRENT: RefCell<Option<Arc<Interrupt>>> = const { RefCell::new(None) };
}

impl Interrupt {
    /// One for a statement that has not begun, whose planning takes turns of `turns`.
    pub fn new(turns: &Arc<PlanningTurns>) -> Arc<Self> {
        Arc::new(Self {
            turns: Arc::clone(turns),
            planning: Mutex::new(None),
            is_given_up: AtomicBool::new(false),
            told: Notify::new(),
        })
    }

    /// Gives the statement up. [`Self::run`] ends soon, which need not be now.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
        self.told.notify_one();
    }

    /// Whether it was given up.
    pub fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// Runs `work` as that of the statement, and drops it where it awaits something once the statement
    /// was given up.
    ///
    /// # Errors
    /// Those of `work`; [`EngineError::Cancelled`] where it was given up first.
    pub async fn run<T>(
        self: &Arc<Self>,
        work: impl Future<Output = Result<T, EngineError>>,
    ) -> Result<T, EngineError> {
        let mut work = pin!(work);
        let marked = std::future::poll_fn(|cx| {
            let _current = Current::enter(self);
            work.as_mut().poll(cx)
        });
        tokio::select! {
            biased;
            () = self.told.notified() => Err(cancelled()),
            // What a step says that was given up is not why the statement fails.
            done = marked => match done {
                Err(_) if self.is_given_up() => Err(cancelled()),
                done => done,
            },
        }
    }

    fn check(&self) -> Result<(), EngineError> {
        loop {
            if self.is_given_up() {
                return Err(cancelled());
            }
            let mut planning = self.planning.lock();
            let Some(planning) = planning.as_mut() else {
                return Ok(());
            };
            if planning.turn.is_some() || planning.began.elapsed() < SHORT_PLANNING {
                return Ok(());
            }
            planning.turn = self.turns.try_take();
        }
    }
}

fn cancelled() -> EngineError {
    EngineError::Cancelled {
        what: "the statement".to_owned(),
    }
}

/// Has the thread work for a statement until it is dropped.
struct Current(Option<Arc<Interrupt>>);

impl Current {
    fn enter(interrupt: &Arc<Interrupt>) -> Self {
        Self(CURRENT.replace(Some(Arc::clone(interrupt))))
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

fn current() -> Option<Arc<Interrupt>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Ends the step of the statement that the thread works for, if it was given up; waits for its turn if
/// its planning takes long.
///
/// # Errors
/// [`EngineError::Cancelled`].
pub fn check() -> Result<(), EngineError> {
    CURRENT.with_borrow(|current| match current {
        Some(interrupt) => interrupt.check(),
        None => Ok(()),
    })
}

/// Says that the statement is being planned, until the guard is dropped.
pub fn planning() -> PlanningGuard {
    let interrupt = current();
    if let Some(interrupt) = &interrupt {
        *interrupt.planning.lock() = Some(Planning {
            began: Instant::now(),
            turn: None,
        });
    }
    PlanningGuard(interrupt)
}

/// Planning, until it is dropped.
pub struct PlanningGuard(Option<Arc<Interrupt>>);

impl Drop for PlanningGuard {
    fn drop(&mut self) {
        if let Some(interrupt) = &self.0 {
            *interrupt.planning.lock() = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interrupt() -> Arc<Interrupt> {
        Interrupt::new(&PlanningTurns::new(2))
    }

    #[tokio::test]
    async fn steps_end_once_the_statement_was_given_up() {
        let interrupt = interrupt();
        let own = Arc::clone(&interrupt);
        let work = async move {
            check()?;
            own.give_up();
            check()
        };
        assert!(interrupt.run(work).await.is_err());
        assert!(check().is_ok(), "the thread works for nobody any more");
    }

    #[tokio::test]
    async fn work_ends_where_it_awaits() {
        let interrupt = interrupt();
        let own = Arc::clone(&interrupt);
        tokio::spawn(async move { own.give_up() });
        let never = interrupt.run(std::future::pending::<Result<(), EngineError>>());
        assert!(never.await.is_err());
    }

    #[tokio::test]
    async fn long_planning_takes_turns_and_is_given_up_while_it_waits() {
        let turns = PlanningTurns::new(2);
        let plan_long = |interrupt: Arc<Interrupt>| async move {
            interrupt
                .run(async {
                    let planning = planning();
                    check()?;
                    std::thread::sleep(SHORT_PLANNING);
                    check()?;
                    Ok(planning)
                })
                .await
        };
        let first = plan_long(Interrupt::new(&turns)).await.expect("a turn");
        assert_eq!(turns.free(), 0);
        let second = Interrupt::new(&turns);
        let given_up = Arc::clone(&second);
        let giving_up = std::thread::spawn(move || {
            std::thread::sleep(2 * SHORT_PLANNING);
            given_up.give_up()
        });
        assert!(plan_long(second).await.is_err());
        giving_up.join().expect("no panic");
        drop(first);
        assert_eq!(turns.free(), 1);
    }
}
