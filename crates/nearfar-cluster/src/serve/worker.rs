//! How this node runs its part of a plan: with its own memory, budgets and tiers.

use async_trait::async_trait;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DistributedConfig, DistributedExt, Worker, WorkerPlanRewriteEvent,
    WorkerPlanRewriteEventResponse, WorkerQueryContext, WorkerSessionBuilder,
};
use std::sync::{Arc, Weak};

use crate::error::failed_query;
use crate::node::{Node, NodeLinks};
use crate::plan::ClusterCodec;

impl Node {
    /// The state in which parts of plans run. `config` is what came with the plan.
    pub(crate) fn worker_state(
        self: &Arc<Self>,
        mut config: SessionConfig,
    ) -> Result<SessionState> {
        let session = self.parts_session().clone();
        let distributed = config
            .options()
            .extensions
            .get::<DistributedConfig>()
            .cloned();
        let batch_size = config.options().execution.batch_size;
        *config.options_mut() = session.context().state().config_options().as_ref().clone();
        config.options_mut().execution.batch_size = batch_size;
        if let Some(distributed) = distributed {
            config.options_mut().extensions.insert(distributed);
        }
        config.set_distributed_user_codec(ClusterCodec(Arc::downgrade(self)));
        config.set_distributed_channel_resolver(NodeLinks(self.links.clone()));
        let rules = session.clone();
        config.set_distributed_worker_plan_rewrite_handler(
            move |event: WorkerPlanRewriteEvent<'_>| {
                let options = event.session_config.options();
                let plan = rules.worker_plan(event.plan, options)?;
                Ok(WorkerPlanRewriteEventResponse::new(plan))
            },
        );
        Ok(session.worker_state(&config))
    }

    /// The part of this node that runs parts of plans.
    pub(crate) fn make_worker(self: &Arc<Self>) -> Worker {
        Worker::from_session_builder(Builder(Arc::downgrade(self)))
            .with_version(env!("CARGO_PKG_VERSION"))
    }
}

struct Builder(Weak<Node>);

#[async_trait]
impl WorkerSessionBuilder for Builder {
    async fn build_session_state(
        &self,
        mut context: WorkerQueryContext,
    ) -> Result<SessionState, DataFusionError> {
        let node = self.0.upgrade();
        let node = node.ok_or_else(|| failed_query("the node is being stopped"))?;
        let config = context.builder.config().get_or_insert_default().clone();
        node.worker_state(config)
    }
}
