//! Threads that clients are served on, and those that their statements are read, planned and driven on.
//!
//! A client is served by one thread from its first message to its last: what comes soon after the message
//! before it finds its session in that processor's caches, and threads have nothing to hand to each other.
//! Statements that are not planned again run there too. Reading and planning a statement keeps a thread for as long as it takes, so that every statement has
//! one of its own: the kernel shares the processors among them, and none waits behind another. What
//! the operators of a query do is done elsewhere, in [`Lanes`].

use std::io;
use std::sync::Arc;

use nearfar_sql::engine::{Interrupt, Lanes};
use nearfar_sql::error::EngineError;
use nearfar_table::transaction::waiting_here;
use prometheus_client::metrics::gauge::Gauge;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, JoinSet};

use crate::WORKER_STACK_BYTES;

/// So many clients each have half of the threads before the other half serves any. On a machine that runs its clients
/// too, threads that few clients keep busy take its processors and are woken for every message, and threads that wait
/// awake for one of many clients take them from the others.
const CLIENTS_OF_FIRST: usize = 4;

/// A thread with so many clients is crowded: several have mostly sent something by the time that one is answered.
const CROWD: usize = 5;

/// The thread for one more client, where each has so many.
fn place(clients: &[usize]) -> Option<usize> {
    let idlest = |threads: usize| {
        let counted = clients.iter().take(threads).enumerate();
        counted.min_by_key(|(_, clients)| **clients)
    };
    let first = idlest(clients.len().div_ceil(2));
    let (place, _) = first
        .filter(|(_, clients)| **clients < CLIENTS_OF_FIRST)
        .or_else(|| idlest(clients.len()))?;
    Some(place)
}

/// Threads that serve clients.
pub struct ClientThreads(Vec<ClientThread>);

struct ClientThread {
    runtime: Option<Runtime>,
    clients: Seat,
}

/// Held by a thread and by each of the clients that it serves.
#[derive(Debug, Default, Clone)]
pub struct Seat(Arc<()>);

impl Seat {
    /// Clients of the thread.
    fn clients(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }

    /// Whether the thread serves no other client than who asks.
    pub fn is_only(&self) -> bool {
        self.clients() == 1
    }

    /// Whether the thread has so few clients that it may wait awake for one.
    pub fn has_few(&self) -> bool {
        self.clients() < CLIENTS_OF_FIRST
    }

    /// Whether the thread is crowded, by one client less where rows were changed for one, which takes longer than a
    /// query.
    pub fn is_crowded(&self, has_changed: bool) -> bool {
        self.clients() + usize::from(has_changed) >= CROWD
    }
}

impl ClientThreads {
    /// So many threads, one at least.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(threads: usize) -> io::Result<Self> {
        let start = |_| {
            let mut builder = Builder::new_multi_thread();
            builder
                .worker_threads(1)
                .thread_name("nearfar-client")
                .thread_stack_size(WORKER_STACK_BYTES)
                .enable_all();
            Ok(ClientThread {
                runtime: Some(builder.build()?),
                clients: Seat::default(),
            })
        };
        (0..threads.max(1))
            .map(start)
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// Has the thread with the fewest clients `serve` one more, as one of `tasks`: of half of them while those have
    /// few, and else of all.
    ///
    /// # Errors
    /// Those of the system.
    pub fn spawn<F>(
        &self,
        stream: TcpStream,
        tasks: &mut JoinSet<()>,
        serve: impl FnOnce(TcpStream, Seat) -> F + Send + 'static,
    ) -> io::Result<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stream = stream.into_std()?;
        let clients = self.0.iter().map(|thread| thread.clients.clients());
        let clients: Vec<usize> = clients.collect();
        let thread = place(&clients).map(|at| &self.0[at]);
        let Some((seat, runtime)) =
            thread.and_then(|thread| Some((thread.clients.clone(), thread.runtime.as_ref()?)))
        else {
            return Ok(());
        };
        let task = async move {
            // Here, where its socket is to be watched.
            match TcpStream::from_std(stream) {
                Ok(stream) => serve(stream, seat).await,
                Err(error) => tracing::warn!(%error, "a connection could not be served"),
            }
        };
        tasks.spawn_on(task, runtime.handle());
        Ok(())
    }
}

impl Drop for ClientThread {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Threads, as many as statements run at the same time.
pub struct StatementThreads {
    runtime: Option<Runtime>,
    lanes: Lanes,
    /// Statements that threads work on.
    busy: Gauge,
}

impl StatementThreads {
    /// At most `threads_max` threads, for statements whose tasks run on `lanes`. `busy` is kept up to
    /// date.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new(threads_max: usize, lanes: Lanes, busy: Gauge) -> io::Result<Self> {
        let mut builder = Builder::new_current_thread();
        builder
            .thread_name("nearfar-session")
            .thread_stack_size(WORKER_STACK_BYTES)
            .max_blocking_threads(threads_max.max(1));
        Ok(Self {
            runtime: Some(builder.build()?),
            lanes,
            busy,
        })
    }

    /// Runs `work` on a thread until its end, or until it awaits something after `interrupt` was given
    /// up. None when the server has ended.
    pub fn run<T: Send + 'static>(
        &self,
        interrupt: Arc<Interrupt>,
        work: impl Future<Output = Result<T, EngineError>> + Send + 'static,
    ) -> Option<JoinHandle<Result<T, EngineError>>> {
        let (tasks, busy) = (self.lanes.long.clone(), Busy::begin(&self.busy));
        let threads = self.runtime.as_ref()?;
        Some(threads.spawn_blocking(move || {
            let _busy = busy;
            waiting_here(|| tasks.block_on(interrupt.run(work)))
        }))
    }
}

impl Drop for StatementThreads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // What was given up may not have noticed yet.
            runtime.shutdown_background();
        }
    }
}

/// Counts a statement until it is dropped.
struct Busy(Gauge);

impl Busy {
    fn begin(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clients of each of so many threads, once as many have come.
    fn placed(threads: usize, clients: usize) -> Vec<usize> {
        let mut all = vec![0; threads];
        for _ in 0..clients {
            let at = place(&all).expect("a thread");
            all[at] += 1;
        }
        all
    }

    #[test]
    fn changes_crowd_a_thread_with_fewer_clients() {
        let seat = Seat::default();
        let mut clients = vec![seat.clone()];
        assert!(seat.is_only() && seat.has_few() && !seat.is_crowded(true));
        clients.resize(CLIENTS_OF_FIRST - 1, seat.clone());
        assert!(seat.has_few());
        clients.resize(CROWD - 1, seat.clone());
        assert!(seat.is_crowded(true) && !seat.is_crowded(false) && !seat.has_few());
        clients.push(seat.clone());
        assert!(seat.is_crowded(false));
    }

    #[test]
    fn few_clients_have_half_of_the_threads_and_many_all() {
        assert_eq!(placed(2, 4), [4, 0]);
        assert_eq!(placed(2, 5), [4, 1]);
        assert_eq!(placed(2, 16), [8, 8]);
        assert_eq!(placed(4, 3), [2, 1, 0, 0]);
        assert_eq!(placed(4, 100), [25, 25, 25, 25]);
        assert_eq!(placed(1, 7), [7]);
        assert_eq!(place(&[]), None);
        // Those that go leave room where others come.
        assert_eq!(place(&[1, 4, 3, 4]), Some(0));
        assert_eq!(place(&[4, 4, 3, 4]), Some(2));
    }
}
