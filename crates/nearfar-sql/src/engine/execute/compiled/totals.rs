//! Aggregates over all rows that a statement finds.

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::PhysicalExpr;
use std::ops::Range;
use std::sync::Arc;

use super::expressions::{RowValues, is_plain};
use crate::error::EngineError;

/// Functions whose values take neither much time nor much memory, and don't depend on an order.
const FUNCTIONS: [&str; 4] = ["sum", "count", "min", "max"];

/// Aggregates, and what is shown of them.
#[derive(Debug)]
pub struct Totals {
    /// The arguments of all functions.
    arguments: RowValues,
    /// Each with the place of its arguments.
    functions: Vec<(AggregateFunctionExpr, Range<usize>)>,
    /// Over the values of the functions.
    shown: RowValues,
}

/// Whether all aggregates of a plan, whose types are not decided yet, are of [`FUNCTIONS`].
pub fn are_plain(aggregate: &Aggregate) -> bool {
    aggregate.aggr_expr.iter().all(|expr| {
        function_of(expr).is_some_and(|function| {
            let params = &function.params;
            #[expect(deprecated, reason = "what count(*) is read as")]
            let is_argument = |arg: &Expr| is_plain(arg) || matches!(arg, Expr::Wildcard { .. });
            FUNCTIONS.contains(&function.func.name())
                && params.filter.is_none()
                && params.order_by.is_empty()
                && params.null_treatment.is_none()
                && params.args.iter().all(is_argument)
        })
    })
}

fn function_of(expr: &Expr) -> Option<&AggregateFunction> {
    match expr {
        Expr::Alias(alias) => function_of(&alias.expr),
        Expr::AggregateFunction(function) => Some(function),
        _ => None,
    }
}

impl Totals {
    /// The aggregates of a plan, whose types are decided, over rows of `schema`, and `shown` over them. None for
    /// what can't be evaluated by itself.
    pub fn of(
        state: &SessionState,
        aggregate: &Aggregate,
        shown: &[Expr],
        schema: &DFSchema,
    ) -> Option<Self> {
        let functions = aggregate.aggr_expr.iter().map(function_of);
        let functions = functions.collect::<Option<Vec<_>>>()?;
        let arguments = functions.iter().flat_map(|function| &function.params.args);
        let arguments = RowValues::of(state, arguments, schema)?;
        let kinds = arguments.data_types()?;
        let fields = kinds.into_iter().enumerate();
        let fields = fields.map(|(at, kind)| Field::new(format!("{at}"), kind, true));
        let values = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let mut start = 0;
        let functions = functions.into_iter().map(|function| {
            let places = start..start + function.params.args.len();
            start = places.end;
            Some((accumulated(function, places.clone(), &values)?, places))
        });
        Some(Self {
            functions: functions.collect::<Option<_>>()?,
            arguments,
            shown: RowValues::of(state, shown, &aggregate.schema)?,
        })
    }

    /// The columns of a row that are taken, by their places.
    pub fn columns(&self) -> &[usize] {
        self.arguments.columns()
    }

    /// Whether the values of parameters have the types that it is made for.
    pub fn take(&self, parameters: &[ScalarValue]) -> bool {
        self.arguments.take(parameters) && self.shown.take(parameters)
    }

    /// Columns of the names of `shown` and the types of the values.
    pub fn schema_of(&self, shown: &SchemaRef) -> Option<SchemaRef> {
        self.shown.schema_of(shown)
    }

    /// What is shown, one row, of as many `rows` of the columns that are taken.
    ///
    /// # Errors
    /// Those of the functions and their arguments.
    pub fn of_rows(
        &self,
        rows: (&[ArrayRef], usize),
        parameters: &[ScalarValue],
    ) -> Result<Vec<ArrayRef>, EngineError> {
        let values = self.arguments.evaluate(rows, parameters)?;
        let totals = self.functions.iter().map(|(function, arguments)| {
            let mut total = function.create_accumulator()?;
            total.update_batch(&values[arguments.clone()])?;
            total.evaluate()?.to_array()
        });
        let totals: Vec<ArrayRef> = totals.collect::<Result<_, _>>()?;
        let places = self.shown.columns().iter();
        let taken: Vec<ArrayRef> = places.map(|at| Arc::clone(&totals[*at])).collect();
        Ok(self.shown.evaluate((&taken, 1), parameters)?)
    }
}

/// A function whose arguments are in these places of `values`.
fn accumulated(
    function: &AggregateFunction,
    places: Range<usize>,
    values: &SchemaRef,
) -> Option<AggregateFunctionExpr> {
    let column = |at: usize| Arc::new(Column::new(values.field(at).name(), at));
    let arguments = places.map(|at| column(at) as Arc<dyn PhysicalExpr>);
    AggregateExprBuilder::new(Arc::clone(&function.func), arguments.collect())
        .schema(Arc::clone(values))
        .alias(function.func.name())
        .with_distinct(function.params.distinct)
        .build()
        .ok()
}
