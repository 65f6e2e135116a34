//! The rewrite that puts guarded calls where a function is not looked up by its name.

use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    AggregateUDF, BinaryExpr, Expr, ExprSchemable, Operator, WindowFunctionDefinition, WindowUDF,
};
use std::sync::Arc;

use super::aggregates::GuardedAggregate;
use super::concatenated::Concatenated;
use super::sizes::is_of_any_size;
use super::window_values::GuardedWindow;

/// Replaces the operator `||` of texts, aggregates that collect rows, and functions over windows whose
/// values can be large.
#[derive(Debug)]
pub struct GuardedCalls;

impl FunctionRewrite for GuardedCalls {
    fn name(&self) -> &'static str {
        "guarded_calls"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _config: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op: Operator::StringConcat,
                right,
            }) => {
                let args = vec![*left, *right];
                let function = ScalarFunction::new_udf(Concatenated::function(), args);
                Transformed::yes(Expr::ScalarFunction(function))
            }
            Expr::AggregateFunction(call) if collects(&call.func) => {
                let func = Arc::new(guarded_aggregate(&call.func));
                Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, ..call }))
            }
            Expr::WindowFunction(call) => guarded_window(call, schema),
            other => Transformed::no(other),
        })
    }
}

/// Whether an aggregate keeps the arrays of its rows, and is not guarded yet.
fn collects(aggregate: &AggregateUDF) -> bool {
    aggregate.name() == "array_agg" && !aggregate.inner().is::<GuardedAggregate>()
}

fn guarded_aggregate(aggregate: &Arc<AggregateUDF>) -> AggregateUDF {
    AggregateUDF::from(GuardedAggregate::new(Arc::clone(aggregate)))
}

fn guarded_window(mut call: Box<WindowFunction>, schema: &DFSchema) -> Transformed<Expr> {
    // Arguments that are not coerced yet may have no type of their own.
    let first = call.params.args.first();
    let argument = first.and_then(|argument| argument.get_type(schema).ok());
    let is_large = first.is_some() && argument.as_ref().is_none_or(is_of_any_size);
    let guarded = match &call.fun {
        WindowFunctionDefinition::AggregateUDF(aggregate) => {
            let collects = matches!(aggregate.name(), "array_agg" | "string_agg");
            let is_guarded = aggregate.inner().is::<GuardedAggregate>();
            ((is_large || collects) && !is_guarded).then(|| {
                WindowFunctionDefinition::AggregateUDF(Arc::new(guarded_aggregate(aggregate)))
            })
        }
        WindowFunctionDefinition::WindowUDF(function) => {
            let is_guarded = function.inner().is::<GuardedWindow>();
            (is_large && !is_guarded).then(|| {
                let guarded = WindowUDF::from(GuardedWindow::new(Arc::clone(function)));
                WindowFunctionDefinition::WindowUDF(Arc::new(guarded))
            })
        }
    };
    match guarded {
        Some(guarded) => {
            call.fun = guarded;
            Transformed::yes(Expr::WindowFunction(call))
        }
        None => Transformed::no(Expr::WindowFunction(call)),
    }
}
