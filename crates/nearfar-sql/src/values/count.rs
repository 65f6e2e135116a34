//! `count`, which adds up the rows of a batch before it adds them to its groups.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, ReversedUDAF,
    SetMonotonicity, StatisticsArgs,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

use super::as_inner::as_inner;
use super::few_groups::{FewGroups, Made};

/// The aggregate function.
pub fn count() -> AggregateUDF {
    AggregateUDF::from(Count {
        inner: count_udaf(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Count {
    /// DataFusion's, which does all else.
    inner: Arc<AggregateUDF>,
}

impl AggregateUDFImpl for Count {
    as_inner!();

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let is_distinct = arguments.is_distinct;
        let inner = self.inner.create_groups_accumulator(arguments)?;
        Ok(match is_distinct {
            true => inner,
            false => Box::new(FewGroups::new(inner, Made::Count)),
        })
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn value_from_stats(&self, statistics: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        self.inner.value_from_stats(statistics)
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
