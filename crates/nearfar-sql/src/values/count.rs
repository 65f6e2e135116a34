//! `count`, which adds up the rows of a batch before it adds them to its groups.

use datafusion::error::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{AggregateUDF, AggregateUDFImpl, GroupsAccumulator};
use std::sync::Arc;

use super::as_inner::{as_inner, told_as_inner};
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
    told_as_inner!();

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
}
