//! The plan node over a subplan that several others read.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties,
    ReplaceChildrenOptions,
};
use parking_lot::Mutex;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};

use super::kept::Run;
use super::rows;

/// What all nodes over one subplan share: the subplan, and its runs.
#[derive(Debug)]
pub struct SharedPlan {
    number: usize,
    /// The subplan that runs. There is none until all rules are done with it.
    plan: OnceLock<Arc<dyn ExecutionPlan>>,
    readers: AtomicUsize,
    /// Runs that not all readers have begun to read, by what they run in.
    runs: Mutex<Vec<(Weak<TaskContext>, Arc<Run>)>>,
}

impl SharedPlan {
    /// The subplan of a number, by which it is known in the text of its plan.
    pub fn new(number: usize) -> Arc<Self> {
        Arc::new(Self {
            number,
            plan: OnceLock::new(),
            readers: AtomicUsize::new(0),
            runs: Mutex::default(),
        })
    }

    /// The run in `context`, which begins with this where no other reader has begun it.
    fn run(&self, plan: &Arc<dyn ExecutionPlan>, context: &Arc<TaskContext>) -> Result<Arc<Run>> {
        let mut runs = self.runs.lock();
        runs.retain(|(context, _)| context.strong_count() > 0);
        let own = Arc::downgrade(context);
        let at = match runs.iter().position(|(context, _)| context.ptr_eq(&own)) {
            Some(at) => at,
            None => {
                let run = Run::new(plan, context, self.readers.load(Relaxed))?;
                runs.push((own, run));
                runs.len() - 1
            }
        };
        let run = Arc::clone(&runs[at].1);
        // From then on it is for its readers to say how long its rows are kept.
        if run.is_last_begun() {
            runs.remove(at);
        }
        Ok(run)
    }
}

/// Gives the rows of a subplan, which is computed once for all nodes of the same number.
#[derive(Debug)]
pub struct SharedExec {
    shared: Arc<SharedPlan>,
    input: Arc<dyn ExecutionPlan>,
    /// Whether another node has the subplan as its input.
    is_again: bool,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedExec {
    /// A node over `input`, one of those that are equal.
    pub fn new(shared: Arc<SharedPlan>, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            shared,
            input,
            is_again: false,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Another reader of the subplan that a node before this one has, if there is one.
    pub fn again(&self) -> Option<Arc<dyn ExecutionPlan>> {
        let plan = self.shared.plan.get()?;
        self.shared.readers.fetch_add(1, Relaxed);
        Some(Arc::new(Self {
            is_again: true,
            ..Self::new(Arc::clone(&self.shared), Arc::clone(plan))
        }))
    }

    /// The first reader of a subplan, which is `plan`.
    pub fn first(&self, plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        self.shared.readers.fetch_add(1, Relaxed);
        let plan = self.shared.plan.get_or_init(|| plan);
        Arc::new(Self::new(Arc::clone(&self.shared), Arc::clone(plan)))
    }

    /// Lets go of runs that not all readers have begun to read.
    pub fn forget_runs(&self) {
        self.shared.runs.lock().clear();
    }

    /// The only reader of another subplan than that of the others, where it has got one.
    fn over(&self, input: Option<Arc<dyn ExecutionPlan>>) -> Self {
        let input = input.unwrap_or_else(|| Arc::clone(&self.input));
        let is_same = Arc::ptr_eq(&input, &self.input);
        let shared = match self.shared.plan.get().is_some() && !is_same {
            true => SharedPlan::new(self.shared.number),
            false => Arc::clone(&self.shared),
        };
        Self {
            is_again: self.is_again,
            ..Self::new(shared, input)
        }
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, readers) = (self.shared.number, self.shared.readers.load(Relaxed));
        match (format, self.is_again) {
            (DisplayFormatType::TreeRender, true) => writeln!(f, "subplan {number} again"),
            (DisplayFormatType::TreeRender, false) => writeln!(f, "subplan {number}"),
            (_, true) => write!(f, "SharedExec: subplan={number}, again"),
            (_, false) => write!(f, "SharedExec: subplan={number}, readers={readers}"),
        }
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true; self.children().len()]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; self.children().len()]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        match self.is_again {
            true => Vec::new(),
            false => vec![&self.input],
        }
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.over(children.pop())))
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let new = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, new)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if self.shared.plan.get().is_none() {
            return self.input.execute(partition, context);
        }
        let run = self.shared.run(&self.input, &context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        rows::read(run, partition, self.schema(), metrics)
    }
}
