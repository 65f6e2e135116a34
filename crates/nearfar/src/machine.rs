//! From arguments to an engine, and the runtime that its queries run on.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use nearfar_durable::checkpoint::pooled::TablePoolOptions;
use nearfar_durable::log::{DataOptions, RecoveryObserver};
use nearfar_memory::{Budgets, GlobalHeaps, NearfarAllocator};
use nearfar_sql::engine::{Engine, EngineOptions};
use nearfar_sql::error::EngineError;
use nearfar_topology::{FAR, Profile, Topology};
use tokio::runtime::{Handle, Runtime};
use tokio::task::JoinHandle;

use crate::args::{MachineArgs, MemoryHostArgs};
use crate::exit::{Exit, Failed};
use crate::memory_hosts::MemoryHosts;
use crate::progress::{self, Live};

/// Where tables outlive the process, if anywhere.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    pub data: Option<DataOptions>,
    pub pool: Option<TablePoolOptions>,
}

/// The engine that `args` describe, on this machine. To be called once: it gives the global
/// allocator its heaps.
pub fn engine(
    args: &MachineArgs,
    profile: Option<Profile>,
    kept: Kept,
) -> anyhow::Result<Arc<Engine>> {
    let options = engine_options(args, profile, kept)?;
    start(options)
}

/// The same with the memory of other hosts.
pub fn engine_with_hosts(
    mut options: EngineOptions,
    hosts: &MemoryHostArgs,
) -> anyhow::Result<Arc<Engine>> {
    let hosts = MemoryHosts::plan(hosts, &mut options)?;
    let engine = start(options)?;
    hosts.connect(&engine)?;
    Ok(engine)
}

/// How the engine is to be that `args` describe.
pub fn engine_options(
    args: &MachineArgs,
    profile: Option<Profile>,
    kept: Kept,
) -> anyhow::Result<EngineOptions> {
    let mut options = EngineOptions::new(Topology::this_machine()?);
    if let Some(threads) = args.threads {
        options.threads = threads.get() as usize;
    }
    let budget = |budgets: Budgets, (tier, bytes): (&str, u64)| budgets.with(tier, bytes);
    let budgets = args
        .budgets
        .iter()
        .map(|budget| (budget.tier.as_str(), budget.bytes));
    options.budgets = budgets.fold(options.budgets, budget);
    options.profile = profile;
    options.whole_device = args.whole_device;
    options.memory_limit_bytes = args.memory_limit.map(|size| size.0);
    options.data = kept.data;
    options.pool = kept.pool;
    Ok(options)
}

/// An engine, and the heaps of the global allocator. Once. Says how far it is while what was kept is
/// read.
pub fn start(mut options: EngineOptions) -> anyhow::Result<Arc<Engine>> {
    let live = Live::default();
    if let Some(pool) = &options.pool {
        live.say(format!("attaching {}", pool.path.display()));
    }
    if let Some(data) = &mut options.data {
        live.say(format!("opening {}", data.directory.display()));
        let told = live.clone();
        let observer = move |progress| told.say(progress::recovering(&progress));
        data.progress = Some(RecoveryObserver::new(observer));
    }
    let spinner = live.spinner();
    let engine = Engine::new(options);
    drop(spinner);
    let engine = engine?;
    NearfarAllocator::install(engine.system(), GlobalHeaps::default())
        .context("the allocator has its heaps already")?;
    Ok(engine)
}

/// Has a pool without a data directory keep what was committed, which nothing else does: where that
/// fails, it is an error and not only a warning.
pub fn publish_at_end(engine: &Engine) -> anyhow::Result<()> {
    if engine.data_directory().is_none() {
        engine
            .publish()
            .context("what was changed last is not in the pool, and lost")?;
    }
    Ok(())
}

/// Modelled where the machine has no far tier and no profile is asked for.
const DEFAULT_PROFILE: &str = "cxl-blades-1";
/// The value of `--profile` that means the machine's own far tier.
const NO_PROFILE: &str = "none";

/// The profile asked for, or one that makes up for a far tier that the machine has not.
pub fn far_profile(asked: Option<&str>) -> anyhow::Result<Option<Profile>> {
    Ok(match asked {
        Some(NO_PROFILE) => None,
        Some(name) => Some(Profile::resolve(name)?),
        None if Topology::this_machine()?.tier(FAR).is_ok() => None,
        None => Some(Profile::builtin(DEFAULT_PROFILE)?),
    })
}

/// The profile whose model this machine's own far tier is compared with.
pub fn profile_to_compare(asked: Option<&str>) -> anyhow::Result<Profile> {
    let refuse = |exit, message: &str| Err(Failed::new(exit, message).into());
    let Some(name) = asked.filter(|name| *name != NO_PROFILE) else {
        let message = "--compare-model: give the --profile of a machine to compare with";
        return refuse(Exit::Usage, message);
    };
    let profile = Profile::resolve(name)?;
    if Topology::this_machine()?.tier(FAR).is_err() {
        let message = "--compare-model: this machine has no far tier to compare with the profile's; without \
                       --compare-model, that of the profile is modelled";
        return refuse(Exit::Unavailable, message);
    }
    Ok(profile)
}

/// One engine of several that follow each other. The first gives the global allocator its heaps: the
/// near tiers of all are the same.
pub fn one_of_several(options: EngineOptions) -> Result<Arc<Engine>, EngineError> {
    let engine = Engine::new(options)?;
    if let Err(error) = NearfarAllocator::install(engine.system(), GlobalHeaps::default()) {
        tracing::debug!(%error, "the heaps are those of the engine before");
    }
    Ok(engine)
}

/// What makes engines of this machine that follow each other, with so many threads, each with a data directory or
/// without.
pub fn engines(
    threads: usize,
) -> anyhow::Result<impl Fn(Option<DataOptions>) -> Result<Arc<Engine>, EngineError>> {
    let options = EngineOptions {
        threads,
        ..EngineOptions::new(Topology::this_machine()?)
    };
    Ok(move |data| {
        let options = options.clone();
        one_of_several(EngineOptions { data, ..options })
    })
}

/// The threads that run queries, one per thread of the engine.
///
/// They are apart from the thread that waits for them and listens for Ctrl-C, because an operator
/// may keep all of them busy for long without looking up.
pub struct Workers {
    runtime: Option<Runtime>,
    threads: usize,
}

impl Workers {
    /// Starts the threads for `engine`.
    pub fn start(engine: &Engine) -> anyhow::Result<Self> {
        let threads = engine.threads();
        let runtime = Some(many_threads(threads)?);
        Ok(Self { runtime, threads })
    }

    /// Runs `work` on them; it ends when the task is dropped, or else soon after.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> anyhow::Result<Task<T>> {
        Ok(Task(self.handle()?.spawn(work)))
    }

    /// Runs `work`, which blocks, beside them.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<Task<T>> {
        Ok(Task(self.handle()?.spawn_blocking(work)))
    }

    /// Replaces threads that may be busy with what was given up; they end when they next look up.
    pub fn renew(&mut self) -> anyhow::Result<()> {
        let fresh = many_threads(self.threads)?;
        if let Some(runtime) = self.runtime.replace(fresh) {
            runtime.shutdown_background();
        }
        Ok(())
    }

    fn handle(&self) -> anyhow::Result<&Handle> {
        Ok(self
            .runtime
            .as_ref()
            .context("the threads that run queries have ended")?
            .handle())
    }
}

/// How long the program waits at its end for queries that failed to remove what they have spilled.
const LAST_WAIT: Duration = Duration::from_millis(500);

impl Drop for Workers {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Nobody may wait for threads on one that drives tasks.
            match Handle::try_current() {
                Ok(_) => runtime.shutdown_background(),
                Err(_) => runtime.shutdown_timeout(LAST_WAIT),
            }
        }
    }
}

/// A runtime with so many worker threads.
pub fn many_threads(threads: usize) -> anyhow::Result<Runtime> {
    named_threads(threads, "nearfar-worker")
}

/// The same of threads of this name. Statements of every depth that is not refused fit on their stacks.
pub fn named_threads(threads: usize, name: &str) -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder
        .worker_threads(threads)
        .thread_stack_size(nearfar_server::WORKER_STACK_BYTES)
        .thread_name(name)
        .enable_all()
        .build()
        .context("cannot start threads")
}

/// A runtime on the calling thread, which waits for workers and listens for Ctrl-C.
pub fn front() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder
        .enable_all()
        .build()
        .context("cannot wait for Ctrl-C")
}

/// Work on other threads, which is given up when this is dropped.
pub struct Task<T>(JoinHandle<T>);

impl<T> Task<T> {
    /// Waits for its end. A panic of the work goes on here.
    pub async fn join(mut self) -> anyhow::Result<T> {
        match (&mut self.0).await {
            Ok(done) => Ok(done),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Err(error.into()),
            },
        }
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
