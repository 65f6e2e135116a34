//! Aggregates of window frames.
//!
//! DataFusion takes the largest values so far for rising with nulls behind, but a frame without values, which
//! has none, comes before those with some; and a count of the last rows for rising, which falls where a partition
//! begins, or where nulls come. It would leave out sorts by them.

use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{AggregateUDF, AggregateUDFImpl, GroupsAccumulator};
use std::sync::Arc;

use super::as_inner::as_inner;

/// The function as windows have it, if it is one of these; `takes_all` where it has no `FILTER`, which nothing tells once
/// it is planned.
pub fn of_frames(function: &Arc<AggregateUDF>, takes_all: bool) -> Option<Arc<AggregateUDF>> {
    let is_known = ["max", "min", "count", "sum", "avg"].contains(&function.name());
    is_known.then(|| {
        let inner = Arc::clone(function);
        Arc::new(AggregateUDF::from(OfFrames { inner, takes_all }))
    })
}

/// Whether an aggregate of windows is known to have no `FILTER`.
pub fn takes_all_rows(function: &AggregateUDF) -> bool {
    let of_frames = function.inner().downcast_ref::<OfFrames>();
    of_frames.is_some_and(|of_frames| of_frames.takes_all)
}

/// A function of which nothing is known but what it gives, and whether it has a `FILTER`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfFrames {
    inner: Arc<AggregateUDF>,
    takes_all: bool,
}

impl AggregateUDFImpl for OfFrames {
    as_inner!();

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(arguments)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }
}
