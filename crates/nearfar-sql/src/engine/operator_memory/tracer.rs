//! Tasks inherit the tier of the thread that spawns them.

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::BoxFuture;
use nearfar_memory::{ThreadTier, TierId};
use std::any::Any;
use std::sync::Once;

type Output = Box<dyn Any + Send>;

struct TierTracer;

impl JoinSetTracer for TierTracer {
    fn trace_future(&self, mut future: BoxFuture<'static, Output>) -> BoxFuture<'static, Output> {
        let tier = ThreadTier::current();
        if tier == TierId::NEAR {
            return future;
        }
        Box::pin(futures::future::poll_fn(move |context| {
            let _entered = ThreadTier::enter(tier);
            future.as_mut().poll(context)
        }))
    }

    fn trace_block(
        &self,
        block: Box<dyn FnOnce() -> Output + Send>,
    ) -> Box<dyn FnOnce() -> Output + Send> {
        let tier = ThreadTier::current();
        if tier == TierId::NEAR {
            return block;
        }
        Box::new(move || {
            let _entered = ThreadTier::enter(tier);
            block()
        })
    }
}

/// Has every task that DataFusion spawns in this process start on the tier of its spawner. Tasks
/// spawned near, as all are in a query whose heap is near, are left as they are.
pub fn inherit_tiers() {
    static ONCE: Once = Once::new();
    static TRACER: TierTracer = TierTracer;
    ONCE.call_once(|| {
        if set_join_set_tracer(&TRACER).is_err() {
            tracing::warn!("tasks are traced by someone else and won't inherit the heap's tier");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tier(output: Output) -> TierId {
        *output.downcast::<TierId>().expect("a tier")
    }

    #[test]
    fn tasks_run_on_the_tier_of_their_spawner() {
        let far = TierId::from_index(1).expect("a second tier");
        for spawner in [TierId::NEAR, far] {
            let current = || Box::new(ThreadTier::current()) as Output;
            let (block, future) = {
                let _entered = ThreadTier::enter(spawner);
                let later = async move {
                    tokio::task::yield_now().await;
                    current()
                };
                (
                    TierTracer.trace_block(Box::new(current)),
                    TierTracer.trace_future(Box::pin(later)),
                )
            };
            assert_eq!(tier(block()), spawner);
            let runtime = tokio::runtime::Builder::new_current_thread().build();
            let output = runtime.expect("a runtime").block_on(future);
            assert_eq!(tier(output), spawner);
            assert_eq!(ThreadTier::current(), TierId::NEAR);
        }
    }
}
