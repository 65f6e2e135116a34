//! Aggregate functions over the states of groups.
//!
//! DataFusion has a mode of its aggregate that makes states of states, which spills. In the mode that makes states of rows,
//! an aggregate over states hands on early what memory has no room for, as the one whose states they are.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::datafusion_names::ORDERED_AGGREGATES;

/// For each of `functions`, the one whose values are the states of that function, and whose states are states of it, by
/// the same name. Their states follow each other in `schema` from the column `first` on.
pub fn over_states(
    functions: &[Arc<AggregateFunctionExpr>],
    first: usize,
    schema: &SchemaRef,
) -> Result<Vec<Arc<AggregateFunctionExpr>>> {
    let mut next = first;
    let over = functions.iter().map(|function| {
        let columns = next..next + function.state_fields()?.len();
        next = columns.end;
        let states = columns.map(|index| {
            let column = Column::new(schema.field(index).name(), index);
            Arc::new(column) as Arc<dyn PhysicalExpr>
        });
        let merged = Merged {
            function: Arc::clone(function),
            signature: Signature::variadic_any(Volatility::Immutable),
        };
        let merged = Arc::new(AggregateUDF::from(merged));
        let merged = AggregateExprBuilder::new(merged, states.collect())
            .alias(function.name())
            .schema(Arc::clone(schema));
        merged.build().map(Arc::new)
    });
    over.collect()
}

/// Whether the state of a function is as small for many rows as for a few, and the same in whichever order they come.
pub fn has_small_state(function: &AggregateFunctionExpr) -> bool {
    let keeps_one = matches!(function.fun().name(), "min" | "max");
    let is_fixed = |field: &FieldRef| {
        let data_type = field.data_type();
        data_type.is_primitive() || *data_type == DataType::Boolean
    };
    let states = function.state_fields();
    !function.is_distinct()
        && function.order_bys().is_empty()
        && !ORDERED_AGGREGATES.contains(&function.fun().name())
        && states.is_ok_and(|fields| keeps_one || fields.iter().all(is_fixed))
}

/// The function of whose states `function` makes states, if it was made by [`over_states`].
pub fn merged(function: &AggregateFunctionExpr) -> Option<&Arc<AggregateFunctionExpr>> {
    let merged = function.fun().inner().downcast_ref::<Merged>()?;
    Some(&merged.function)
}

#[derive(Debug)]
struct Merged {
    function: Arc<AggregateFunctionExpr>,
    signature: Signature,
}

impl PartialEq for Merged {
    fn eq(&self, other: &Self) -> bool {
        self.function == other.function
    }
}

impl Eq for Merged {}

impl Hash for Merged {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.function.name().hash(hasher);
    }
}

impl AggregateUDFImpl for Merged {
    fn name(&self) -> &'static str {
        "merged_states"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.function.field().data_type().clone())
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.function.state_fields()
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let inner = self.function.create_accumulator()?;
        Ok(Box::new(MergedRows { inner }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(
        &self,
        _: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let function = Arc::clone(&self.function);
        let inner = match function.groups_accumulator_supported() {
            true => function.create_groups_accumulator()?,
            false => Box::new(GroupsAccumulatorAdapter::new(move || {
                function.create_accumulator()
            })),
        };
        Ok(Box::new(MergedGroups { inner }))
    }
}

#[derive(Debug)]
struct MergedRows {
    inner: Box<dyn Accumulator>,
}

impl Accumulator for MergedRows {
    fn update_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.inner.evaluate()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.inner.merge_batch(states)
    }
}

struct MergedGroups {
    inner: Box<dyn GroupsAccumulator>,
}

impl GroupsAccumulator for MergedGroups {
    /// Aggregates over states have no filters.
    fn update_batch(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        _: Option<&BooleanArray>,
        count: usize,
    ) -> Result<()> {
        self.inner.merge_batch(states, groups, count)
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        self.inner.evaluate(emit)
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        self.inner.state(emit)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], count: usize) -> Result<()> {
        self.inner.merge_batch(states, groups, count)
    }

    fn convert_to_state(
        &self,
        states: &[ArrayRef],
        _: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        Ok(states.to_vec())
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}
