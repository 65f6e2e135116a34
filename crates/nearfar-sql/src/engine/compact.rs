//! Views of strings between joins, over few buffers.
//!
//! A view array keeps a list of buffers, and Arrow's kernels make lists longer: a join's table has the
//! buffers of all batches of its input, each batch that the join makes has those of the table and of
//! the rows that look for partners, and putting small batches together adds the lists up, without a
//! look at which buffers are the same or whether any view needs them. So lists multiply from join to
//! join, and a dozen joins of small tables take all memory of a machine.

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use arrow::error::ArrowError;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec,
    SymmetricHashJoinExec,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ReplaceChildrenOptions,
};
use futures::StreamExt;
use hashbrown::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::plan_rule::PlanRule;
use crate::transparent::transparent;

/// A column of a batch may have as many buffers: copying strings costs more than a short list.
const BUFFERS_MAX: usize = 16;

/// Puts a [`CompactExec`] over every input of a join that comes from another join, and over that other
/// join itself: what stands between them multiplies lists of buffers too.
pub const COMPACT_VIEWS: PlanRule = PlanRule {
    name: "compact_views",
    rewrite: |plan| {
        let compact = plan.transform_down(|node| match is_join(node.as_ref()) {
            true => over_inputs(node),
            false => Ok(Transformed::no(node)),
        })?;
        Ok(compact.data)
    },
};

/// Whether a node is a join of any kind.
pub(super) fn is_join(node: &dyn ExecutionPlan) -> bool {
    node.is::<HashJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<CrossJoinExec>()
        || node.is::<PiecewiseMergeJoinExec>()
        || node.is::<SymmetricHashJoinExec>()
}

fn has_join(node: &dyn ExecutionPlan) -> bool {
    let mut children = node.children().into_iter();
    is_join(node) || children.any(|child| has_join(child.as_ref()))
}

fn has_views(node: &dyn ExecutionPlan) -> bool {
    let schema = node.schema();
    let mut types = schema.fields().iter().map(|field| field.data_type());
    types.any(|data_type| matches!(data_type, DataType::Utf8View | DataType::BinaryView))
}

/// `node`, a join, with its inputs compacted that have joins below them.
fn over_inputs(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let mut changed = false;
    let mut inputs = Vec::new();
    for input in node.children() {
        if !has_join(input.as_ref()) {
            inputs.push(Arc::clone(input));
            continue;
        }
        changed = true;
        inputs.push(compacted(over_joins(Arc::clone(input))?));
    }
    if !changed {
        return Ok(Transformed::no(node));
    }
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    Ok(Transformed::yes(node.replace_children(inputs, same)?))
}

/// `node` with its next joins compacted, where something stands above them that makes lists longer.
fn over_joins(node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if is_join(node.as_ref()) || !has_join(node.as_ref()) {
        return Ok(node);
    }
    let inputs = node.children().into_iter().map(|input| {
        let input = over_joins(Arc::clone(input))?;
        Ok(match is_join(input.as_ref()) {
            true => compacted(input),
            false => input,
        })
    });
    let inputs = inputs.collect::<Result<_>>()?;
    let same = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    node.replace_children(inputs, same)
}

fn compacted(node: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match has_views(node.as_ref()) {
        true => Arc::new(CompactExec { input: node }),
        false => node,
    }
}

/// Hands on its input's batches, those with long lists of buffers over a few new ones.
#[derive(Debug)]
struct CompactExec {
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for CompactExec {
    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match format {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("CompactExec"),
        }
    }
}

impl ExecutionPlan for CompactExec {
    fn name(&self) -> &str {
        "CompactExec"
    }

    transparent!(|_: &Self, input| Self { input });

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let compact = input.map(|batch| Ok(compact_batch(batch?)?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, compact)))
    }
}

/// `batch` with at most [`BUFFERS_MAX`] buffers for the views of each column, or with no more than its
/// views need where copying them would take more memory than that.
fn compact_batch(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.columns().iter().any(has_many_buffers) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(|column| {
        Ok(match column.data_type() {
            DataType::Utf8View if has_many_buffers(column) => {
                Arc::new(compact::<StringViewType>(column.as_string_view())?) as ArrayRef
            }
            DataType::BinaryView if has_many_buffers(column) => {
                Arc::new(compact::<BinaryViewType>(column.as_binary_view())?)
            }
            _ => Arc::clone(column),
        })
    });
    let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
    // Without columns there are no views.
    RecordBatch::try_new(batch.schema(), columns)
}

fn has_many_buffers(column: &ArrayRef) -> bool {
    let buffers = match column.data_type() {
        DataType::Utf8View => column.as_string_view().data_buffers().len(),
        DataType::BinaryView => column.as_binary_view().data_buffers().len(),
        _ => 0,
    };
    buffers > BUFFERS_MAX
}

fn compact<T: ByteViewType>(
    array: &GenericByteViewArray<T>,
) -> Result<GenericByteViewArray<T>, ArrowError> {
    let distinct = Distinct::of(array);
    // One long string may have many views.
    match array.total_buffer_bytes_used() <= distinct.bytes {
        true => Ok(array.gc()),
        false => distinct.array(array),
    }
}

/// The buffers that views need, each one time.
struct Distinct {
    buffers: Vec<Buffer>,
    bytes: usize,
    /// By the number that a buffer has in the array.
    numbers: Vec<Option<u32>>,
}

impl Distinct {
    fn of<T: ByteViewType>(array: &GenericByteViewArray<T>) -> Self {
        let mut distinct = Self {
            buffers: Vec::new(),
            bytes: 0,
            numbers: vec![None; array.data_buffers().len()],
        };
        let mut known = HashMap::new();
        for (row, view) in array.views().iter().enumerate() {
            if !is_long(*view) || array.is_null(row) {
                continue;
            }
            let at = number_of(*view);
            if distinct.numbers[at].is_some() {
                continue;
            }
            let buffer = &array.data_buffers()[at];
            let number = *known
                .entry((buffer.as_ptr(), buffer.len()))
                .or_insert_with(|| {
                    distinct.buffers.push(buffer.clone());
                    distinct.bytes += buffer.len();
                    distinct.buffers.len() as u32 - 1
                });
            distinct.numbers[at] = Some(number);
        }
        distinct
    }

    /// `array` over these buffers.
    fn array<T: ByteViewType>(
        self,
        array: &GenericByteViewArray<T>,
    ) -> Result<GenericByteViewArray<T>, ArrowError> {
        let mut views = array.views().to_vec();
        for (row, view) in views.iter_mut().enumerate() {
            if !is_long(*view) {
                continue;
            }
            *view = match self.numbers[number_of(*view)] {
                Some(number) if array.is_valid(row) => {
                    *view & !(NUMBER_MASK << NUMBER_SHIFT) | u128::from(number) << NUMBER_SHIFT
                }
                _ => 0,
            };
        }
        GenericByteViewArray::try_new(views.into(), self.buffers, array.nulls().cloned())
    }
}

/// Where a view has the number of its buffer, in Arrow's format.
const NUMBER_SHIFT: u32 = 64;
const NUMBER_MASK: u128 = u32::MAX as u128;

/// Whether the string of a view does not lie in the view.
fn is_long(view: u128) -> bool {
    const INLINE_BYTES_MAX: u32 = 12;
    view as u32 > INLINE_BYTES_MAX
}

fn number_of(view: u128) -> usize {
    (view >> NUMBER_SHIFT & NUMBER_MASK) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;
    use arrow::compute::{concat, take};
    use arrow::datatypes::{Field, Schema};

    fn batch_of(column: ArrayRef) -> RecordBatch {
        let field = Field::new("s", column.data_type().clone(), true);
        let schema = Arc::new(Schema::new(vec![field]));
        RecordBatch::try_new(schema, vec![column]).expect("a batch")
    }

    fn many(text: impl Fn(usize) -> Option<String>) -> ArrayRef {
        let arrays: Vec<ArrayRef> = (0..100)
            .map(|i| {
                Arc::new(StringViewArray::from(vec![
                    text(i),
                    Some("a long string here".into()),
                ])) as ArrayRef
            })
            .collect();
        let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
        concat(&arrays).expect("arrays of one type")
    }

    #[test]
    fn many_buffers_become_few_and_strings_stay() {
        let text = |i: usize| (!i.is_multiple_of(3)).then(|| format!("number {i} of many strings"));
        let before = many(text);
        assert!(before.as_string_view().data_buffers().len() > BUFFERS_MAX);
        let after = compact_batch(batch_of(Arc::clone(&before))).expect("compact");
        let after = after.column(0);
        assert!(after.as_string_view().data_buffers().len() <= BUFFERS_MAX);
        assert_eq!(after, &before);
    }

    #[test]
    fn buffers_that_no_view_needs_are_left_out() {
        let all = many(|i| Some(format!("{i}")));
        let short = arrow::array::UInt32Array::from_iter_values((0..100).map(|i| i * 2));
        let before = take(&all, &short, None).expect("rows");
        let after = compact_batch(batch_of(Arc::clone(&before))).expect("compact");
        assert_eq!(after.column(0).as_string_view().data_buffers().len(), 0);
        assert_eq!(after.column(0), &before);
    }

    #[test]
    fn a_long_string_with_many_views_is_not_copied() {
        let long = "long ".repeat(1000);
        let one: ArrayRef = Arc::new(StringViewArray::from(vec![
            long.as_str(),
            "another one, longer",
        ]));
        let arrays: Vec<&dyn Array> = std::iter::repeat_n(one.as_ref(), 100).collect();
        let before = concat(&arrays).expect("arrays of one type");
        let after = compact_batch(batch_of(Arc::clone(&before))).expect("compact");
        let views = after.column(0).as_string_view();
        assert_eq!(views.data_buffers().len(), 1);
        assert_eq!(
            views.data_buffers()[0].len(),
            one.as_string_view().data_buffers()[0].len()
        );
        assert_eq!(after.column(0), &before);
    }
}
