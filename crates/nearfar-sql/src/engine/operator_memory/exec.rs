//! The plan nodes around an operator whose heap is on a tier.

use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use nearfar_memory::{ThreadTier, TierId};
use std::fmt;
use std::sync::Arc;

use super::stream::{InputStream, OperatorStream};
use super::usage::Usage;
use crate::memory::watching;
use crate::transparent::transparent;

/// Runs its input, an operator, with the operator's allocations on the heap's tier.
#[derive(Debug)]
pub struct OperatorMemoryExec {
    input: Arc<dyn ExecutionPlan>,
    usage: Arc<Usage>,
}

/// What an operator's input is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    /// The rows of a join's table.
    Build,
    /// The rows that look for partners in it.
    Probe,
    /// The only input.
    Rows,
}

/// Runs its input with allocations near, below an operator whose heap is elsewhere.
#[derive(Debug)]
pub struct OperatorInputExec {
    input: Arc<dyn ExecutionPlan>,
    usage: Arc<Usage>,
    role: Input,
}

impl OperatorMemoryExec {
    /// Puts the allocations of `input` where `usage` says.
    pub fn new(input: Arc<dyn ExecutionPlan>, usage: Arc<Usage>) -> Self {
        Self { input, usage }
    }

    /// The operator's use of the heap.
    pub fn usage(&self) -> &Arc<Usage> {
        &self.usage
    }
}

impl OperatorInputExec {
    /// An input of the operator whose use of the heap is `usage`.
    pub fn new(input: Arc<dyn ExecutionPlan>, usage: Arc<Usage>, role: Input) -> Self {
        Self { input, usage, role }
    }
}

impl DisplayAs for OperatorMemoryExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let modelled = if self.usage.model.is_some() {
            ", modelled estimate"
        } else {
            ""
        };
        match format {
            DisplayFormatType::TreeRender => {
                writeln!(f, "heap on {}{modelled}", self.usage.tier_name)
            }
            _ => write!(
                f,
                "OperatorMemoryExec: tier={}{modelled}",
                self.usage.tier_name
            ),
        }
    }
}

impl DisplayAs for OperatorInputExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = match self.role {
            Input::Build => "build",
            Input::Probe => "probe",
            Input::Rows => "rows",
        };
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "{role}"),
            _ => write!(f, "OperatorInputExec: {role}"),
        }
    }
}

impl ExecutionPlan for OperatorMemoryExec {
    fn name(&self) -> &str {
        "OperatorMemoryExec"
    }

    transparent!(|this: &Self, input| Self::new(input, Arc::clone(&this.usage)));

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.usage.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let operator = {
            let _tier = ThreadTier::enter(self.usage.tier);
            let _watched = watching(Some(self.usage.held_bytes(partition)));
            self.input.execute(partition, context)?
        };
        Ok(Box::pin(OperatorStream::new(
            operator,
            Arc::clone(&self.usage),
            partition,
        )))
    }
}

impl ExecutionPlan for OperatorInputExec {
    fn name(&self) -> &str {
        "OperatorInputExec"
    }

    transparent!(|this: &Self, input| Self::new(input, Arc::clone(&this.usage), this.role));

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = {
            let _tier = ThreadTier::enter(TierId::NEAR);
            let _unwatched = watching(None);
            self.input.execute(partition, context)?
        };
        let usage = Arc::clone(&self.usage);
        Ok(Box::pin(InputStream::new(
            input, usage, self.role, partition,
        )))
    }
}
