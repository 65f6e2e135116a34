//! What `EXPLAIN ANALYZE` says of tiers, below the plan.

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use nearfar_topology::TierKind;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Engine;
use crate::engine::operator_memory::{OPERATOR_WAIT_METRIC, OperatorMemoryExec};
use crate::memory::QueryMemory;
use crate::scan::{BYTES_READ_METRIC, WAIT_METRIC};
use nearfar_topology::units::Bytes;

/// The kind of plan under which the summary is given.
const SUMMARY: &str = "Memory by tier";

/// `batches` of `plan`, with a summary behind them if it is an `EXPLAIN ANALYZE`.
pub fn with_summary(
    engine: &Arc<Engine>,
    plan: &Arc<dyn ExecutionPlan>,
    memory: &Arc<QueryMemory>,
    batches: SendableRecordBatchStream,
) -> SendableRecordBatchStream {
    let Some(analyzed) = plan
        .downcast_ref::<AnalyzeExec>()
        .map(|node| Arc::clone(node.input()))
    else {
        return batches;
    };
    let schema = batches.schema();
    let (engine, memory) = (Arc::clone(engine), Arc::clone(memory));
    let summary = {
        let schema = Arc::clone(&schema);
        async move {
            batch(
                &schema,
                Totals::of(analyzed.as_ref()).text(&engine, &memory),
            )
        }
    };
    let all = batches.chain(futures::stream::once(summary));
    Box::pin(RecordBatchStreamAdapter::new(schema, all))
}

fn batch(schema: &SchemaRef, text: String) -> Result<RecordBatch> {
    let columns =
        [SUMMARY.to_owned(), text].map(|text| Arc::new(StringArray::from(vec![text])) as _);
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.to_vec())?)
}

/// Sums over a plan.
#[derive(Debug, Default)]
struct Totals {
    bytes_read: BTreeMap<String, u64>,
    wait: BTreeMap<String, Duration>,
    operator_wait: Duration,
    /// The tier of the operators' heap, where that is not near.
    heap_tier: Option<String>,
}

impl Totals {
    fn of(plan: &dyn ExecutionPlan) -> Self {
        let mut totals = Self::default();
        totals.add(plan);
        totals
    }

    fn add(&mut self, plan: &dyn ExecutionPlan) {
        if let Some(heap) = plan.downcast_ref::<OperatorMemoryExec>() {
            self.heap_tier = Some(heap.usage().tier_name.clone());
        }
        let metrics = plan.metrics().unwrap_or_default();
        for metric in metrics.iter() {
            let (name, value) = (metric.value().name(), metric.value().as_usize() as u64);
            if let Some(tier) = name.strip_prefix(BYTES_READ_METRIC) {
                *self.bytes_read.entry(tier.to_owned()).or_default() += value;
            } else if let Some(tier) = name.strip_prefix(WAIT_METRIC) {
                *self.wait.entry(tier.to_owned()).or_default() += Duration::from_nanos(value);
            } else if name == OPERATOR_WAIT_METRIC {
                self.operator_wait += Duration::from_nanos(value);
            }
        }
        plan.children()
            .into_iter()
            .for_each(|child| self.add(child.as_ref()));
    }

    /// A line per tier, near to far, and one for the heap.
    fn text(&self, engine: &Engine, memory: &QueryMemory) -> String {
        let modelled = |kind: TierKind| kind == TierKind::Modelled;
        let line = |name: &String, kind: TierKind| {
            let read = self.bytes_read.get(name).copied().unwrap_or(0);
            let mut line = format!("{name}: {} read by scans", Bytes(read));
            if let Some(wait) = self.wait.get(name).filter(|_| modelled(kind)) {
                line += &format!(", modelled wait {} over all threads", Millis(*wait));
            }
            line
        };
        let tiers = engine.system().tiers();
        let mut lines: Vec<String> = tiers.map(|(_, info)| line(&info.name, info.kind)).collect();
        let peak = Bytes(memory.peak_bytes());
        lines.push(match &self.heap_tier {
            Some(tier) if self.operator_wait.is_zero() => format!("operator memory: peak {peak}, on {tier}"),
            Some(tier) => format!(
                "operator memory: peak {peak}, on {tier}, modelled estimate of its wait {} over all threads",
                Millis(self.operator_wait)
            ),
            None => format!("operator memory: peak {peak}, near"),
        });
        lines.extend(spilled_line(engine, memory));
        lines.join("\n")
    }
}

/// What was spilled where, if anything was.
fn spilled_line(engine: &Engine, memory: &QueryMemory) -> Option<String> {
    let spilled = memory.spilled();
    if spilled.files() == 0 {
        return None;
    }
    let tier = spilled.tier().map(|tier| engine.tablespaces().name(tier));
    let in_memory = tier.map(|tier| {
        let modelled = match spilled.modelled_wait() {
            Duration::ZERO => String::new(),
            wait => format!(" (modelled wait {} over all threads)", Millis(wait)),
        };
        format!("{} to {tier}{modelled}, ", Bytes(spilled.memory_bytes()))
    });
    Some(format!(
        "spilled: {}{} to disk, in {} files",
        in_memory.unwrap_or_default(),
        Bytes(spilled.disk_bytes()),
        spilled.files()
    ))
}

struct Millis(Duration);

impl std::fmt::Display for Millis {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} ms", self.0.as_secs_f64() * 1e3)
    }
}
