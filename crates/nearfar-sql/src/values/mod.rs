//! Values and types as PostgreSQL has them, where DataFusion has others.
//!
//! Three places share the work. What decides types happens while a statement is planned
//! (`planner`, `integers`, and functions that take the place of DataFusion's). What only decides values comes
//! when types are known (`rule`): arithmetic that does not go around, casts that round and refuse.
//! Declared lengths of texts are kept with columns and applied where rows are written ([`declared`]).

mod arithmetic;
mod as_inner;
mod bytes;
mod calendar;
mod cases;
mod cast;
mod checked_expr;
mod count;
mod decimal;
pub mod declared;
mod error;
mod extract;
mod extremes;
mod few_groups;
mod frames;
mod function;
mod integer_expr;
mod integers;
mod interval;
mod json;
mod length;
mod math;
mod mixed;
mod named;
mod numeric;
mod planner;
mod rule;
mod similar;
pub mod stored;
mod sum;
pub mod text;
mod to_char;
mod typed;
mod unnamed;

pub use arithmetic::operator_of;
pub use cases::with_declared_cases;
pub use checked_expr::without_calls;
pub use declared::Declared;
pub use error::ValueError;
pub use frames::takes_all_rows;
pub use integer_expr::{IntegerExpr, OneRow};
pub use integers::with_small_integers;
pub use interval::with_units;
pub use json::is_json;
pub use named::has_expr;
pub use planner::ValuePlanner;
pub use sum::sum_of_sums;
pub use typed::TYPED;
pub use unnamed::UnnamedFunction;

use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use std::sync::Arc;

use crate::datafusion_names::TYPE_COERCION;

/// DataFusion's rules that settle types, with ours before and behind them.
pub fn analyzer_rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    let coercion = rules.iter().position(|rule| rule.name() == TYPE_COERCION);
    rules.insert(coercion.unwrap_or_default(), Arc::new(mixed::MixedNumbers));
    rules.push(Arc::new(rule::CheckedValues));
    rules
}

/// The functions of SQL that take the place of DataFusion's, or that it lacks.
pub fn functions() -> Vec<ScalarUDF> {
    let mut functions = math::all();
    functions.extend([
        declared::CHAR,
        declared::VARCHAR,
        decimal::DIVIDE,
        decimal::MULTIPLY,
        extract::DATE_PART,
        extract::EXTRACT,
        interval::BETWEEN,
        interval::DIVIDE,
        interval::LENGTH,
        interval::MULTIPLY,
        numeric::NUMERIC,
        similar::SIMILAR,
        to_char::TO_CHAR,
    ]);
    functions.extend(interval::JUSTIFY);
    let mut functions: Vec<ScalarUDF> =
        functions.into_iter().map(function::Function::udf).collect();
    functions.extend([length::length(), length::octet_length(), typed::typed()]);
    functions.extend(json::all());
    functions
}

/// The functions that stand in plans only, and that SQL does not have.
pub fn hidden_functions() -> Vec<ScalarUDF> {
    vec![decimal::AVERAGE.udf(), math::POWER.udf()]
}

/// The same of aggregates.
pub fn aggregates() -> Vec<AggregateUDF> {
    let [min, max] = extremes::extremes();
    vec![count::count(), sum::sum(), min, max]
}
