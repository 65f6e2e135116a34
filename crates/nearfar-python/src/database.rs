//! An engine with the threads that its statements run on, and work on them that a caller waits for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use nearfar_durable::checkpoint::pooled::TablePoolOptions;
use nearfar_durable::log::DataOptions;
use nearfar_memory::{GlobalHeaps, NearfarAllocator};
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_table::transaction::CommitGate;
use nearfar_topology::units::parse_bytes;
use nearfar_topology::{Profile, Topology};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;

use crate::failure::Failure;

/// Statements of every depth that is not refused fit on it.
const WORKER_STACK_BYTES: usize = 64 << 20;
/// How long the end of a database waits for queries that were given up.
const LAST_WAIT: Duration = Duration::from_millis(500);
/// How often whoever waits looks for an interrupt.
pub const LOOK_UP: Duration = Duration::from_millis(50);

/// How a database is opened.
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    /// Where tables are kept; in memory only without it.
    pub path: Option<PathBuf>,
    /// A built-in profile or a file with one, whose far memory is emulated.
    pub profile: Option<String>,
    /// Bytes of tiers, such as `near` and `64MiB`.
    pub budgets: Vec<(String, String)>,
    /// The pool that main storage is in.
    pub pool: Option<PathBuf>,
    /// The pool's size where it is made.
    pub pool_bytes: Option<String>,
    /// Threads that run queries.
    pub threads: Option<usize>,
    /// What operators of all queries may take together.
    pub memory_limit: Option<String>,
}

/// An engine and its threads.
#[derive(Debug)]
pub struct Database {
    /// Until it is closed: a data directory is free for others once the engine is gone.
    engine: Mutex<Option<Arc<Engine>>>,
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
    process: u32,
    id: u64,
}

/// Those that are open, so that a driver can be given the one of a connection.
static OPEN: LazyLock<Mutex<OpenDatabases>> = LazyLock::new(Mutex::default);

#[derive(Debug, Default)]
struct OpenDatabases {
    last_id: u64,
    by_id: BTreeMap<u64, Weak<Database>>,
}

impl Database {
    /// Opens what `options` say.
    pub fn open(options: &OpenOptions) -> Result<Arc<Self>, Failure> {
        let engine = Engine::new(engine_options(options)?)?;
        // The heaps of a process are those of its first engine: the near tiers of all are the same.
        if let Err(error) = NearfarAllocator::install(engine.system(), GlobalHeaps::default()) {
            drop(error);
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(engine.threads())
            .thread_stack_size(WORKER_STACK_BYTES)
            .thread_name("nearfar-worker")
            .enable_all()
            .build()
            .map_err(|error| Failure::Internal(format!("cannot start threads: {error}")))?;
        let mut open = OPEN.lock();
        open.last_id += 1;
        let id = open.last_id;
        let database = Arc::new(Self {
            engine: Mutex::new(Some(engine)),
            handle: runtime.handle().clone(),
            runtime: Mutex::new(Some(runtime)),
            process: std::process::id(),
            id,
        });
        open.by_id.retain(|_, database| database.strong_count() > 0);
        open.by_id.insert(id, Arc::downgrade(&database));
        Ok(database)
    }

    /// The database of this number, which [`Self::id`] gives.
    pub fn of_id(id: u64) -> Result<Arc<Self>, Failure> {
        let found = OPEN.lock().by_id.get(&id).and_then(Weak::upgrade);
        found.ok_or(Failure::Closed("database"))
    }

    /// Its number in this process.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The engine, in the process that has opened it.
    pub fn engine(&self) -> Result<Arc<Engine>, Failure> {
        self.check_process()?;
        let engine = self.engine.lock().clone();
        engine.ok_or(Failure::Closed("database"))
    }

    /// Refuses to go on in a process that was forked.
    pub fn check_process(&self) -> Result<(), Failure> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(Failure::Forked {
                opened_in: self.process,
            }),
        }
    }

    /// Where its futures run.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Starts `work` on its threads.
    pub fn start<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<Pending<T>, Failure> {
        self.check_process()?;
        if self.runtime.lock().is_none() {
            return Err(Failure::Closed("database"));
        }
        let (sender, receiver) = sync_channel(1);
        let task = self.handle.spawn(async move {
            // Nobody waits for what was given up.
            let _gone = sender.send(work.await);
        });
        Ok(Pending { receiver, task })
    }

    /// Ends its threads and what is written. What is open of it fails from now on.
    pub fn close(&self) {
        if self.check_process().is_err() {
            return;
        }
        if let Some(runtime) = self.runtime.lock().take() {
            runtime.shutdown_timeout(LAST_WAIT);
        }
        if let Some(engine) = self.engine.lock().take() {
            engine.close();
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let runtime = self.runtime.get_mut().take();
        match self.process == std::process::id() {
            true => runtime.into_iter().for_each(Runtime::shutdown_background),
            // The threads are the parent's.
            false => std::mem::forget(runtime),
        }
    }
}

fn engine_options(options: &OpenOptions) -> Result<EngineOptions, Failure> {
    let topology =
        Topology::this_machine().map_err(|error| Failure::Argument(error.to_string()))?;
    let mut engine = EngineOptions::new(topology);
    if let Some(name) = &options.profile {
        let profile =
            Profile::resolve(name).map_err(|error| Failure::Argument(error.to_string()))?;
        engine.profile = Some(profile);
    }
    if let Some(threads) = options.threads {
        if threads == 0 {
            return Err(Failure::Argument("threads must be at least 1".to_owned()));
        }
        engine.threads = threads;
    }
    for (tier, text) in &options.budgets {
        engine.budgets = engine.budgets.with(tier, bytes("a budget", text)?);
    }
    if let Some(text) = &options.memory_limit {
        engine.memory_limit_bytes = Some(bytes("memory_limit", text)?);
    }
    engine.data = options.path.as_ref().map(DataOptions::new);
    if let Some(path) = &options.pool {
        let mut pool = TablePoolOptions::new(path);
        if let Some(text) = &options.pool_bytes {
            pool.bytes = Some(bytes("pool_bytes", text)?);
        }
        engine.pool = Some(pool);
    }
    Ok(engine)
}

/// A number of bytes, such as `64MiB`.
pub fn bytes(what: &str, text: &str) -> Result<u64, Failure> {
    let told = || Failure::Argument(format!("{what} {text:?} is no size: write bytes, or 64MiB"));
    parse_bytes(text).ok_or_else(told)
}

/// Work that was started, which ends when this is dropped.
pub struct Pending<T> {
    receiver: Receiver<T>,
    task: JoinHandle<()>,
}

impl<T> Pending<T> {
    /// Waits a while; nothing where it is not done yet.
    pub fn poll(&self, wait: Duration) -> Result<Option<T>, Failure> {
        match self.receiver.recv_timeout(wait) {
            Ok(done) => Ok(Some(done)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Failure::Internal(
                "a statement has ended without a result".to_owned(),
            )),
        }
    }

    /// Waits for the end, with a look at `interrupt` now and then. Work that is not committed yet when that
    /// fails is given up; what is committed already goes on to its end.
    pub fn wait(
        &self,
        gate: &CommitGate,
        mut interrupt: impl FnMut() -> Result<(), Failure>,
    ) -> Result<T, Failure> {
        let mut is_given_up = false;
        loop {
            if let Some(done) = self.poll(LOOK_UP)? {
                return Ok(done);
            }
            if !is_given_up && let Err(failure) = interrupt() {
                if gate.close() {
                    return Err(failure);
                }
                is_given_up = true;
            }
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}
