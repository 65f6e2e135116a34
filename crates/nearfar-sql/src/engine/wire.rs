//! Plans for other machines: DataFusion's operators, and functions that every session knows by their names.
//!
//! Casts and checked operators are functions that stand in plans without that a session knows them. For a cluster
//! they get names that tell all that they are made of, and workers know all functions of such names.

use arrow::datatypes::{DataType, FieldRef, IntervalUnit};
use datafusion::common::exec_err;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::{Arc, LazyLock};

use super::metering::Concatenated;
use crate::datafusion_names::SINGLE_DISTINCT;
use crate::optimize::{single_row, varying, varying_order};
use crate::values::{UnnamedFunction, hidden_functions};

/// The largest precision of decimals.
const PRECISION_MAX: u8 = 38;

static WIRED: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
    let mut targets = vec![
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Float32,
        DataType::Float64,
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Binary,
        DataType::LargeBinary,
        DataType::BinaryView,
        DataType::Interval(IntervalUnit::YearMonth),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
    ];
    targets.extend((1..=PRECISION_MAX).flat_map(|precision| {
        (0..=precision).map(move |scale| DataType::Decimal128(precision, scale as i8))
    }));
    let casts = targets.into_iter().flat_map(|target| {
        [true, false].map(|is_own| UnnamedFunction::Cast(target.clone(), is_own))
    });
    let operators = ["+", "-", "*", "/", "%"].map(UnnamedFunction::Checked);
    let functions = casts.chain(operators).chain([UnnamedFunction::Negated]);
    let functions = functions.map(|function| Arc::new(Wired::of(function.udf())));
    let hidden = hidden_functions().into_iter().map(Arc::new);
    let others = hidden.chain([Arc::new(single_row()), Concatenated::function()]);
    functions.chain(others).collect()
});

/// The functions that a worker has to know beside those of its sessions.
pub fn wired_functions() -> &'static [Arc<ScalarUDF>] {
    &WIRED
}

/// `rules`, with which no plan has functions that are not known by their names.
pub(super) fn shippable_rules(
    mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    // It adds up sums by an aggregate that has the name of another.
    rules.retain(|rule| rule.name() != SINGLE_DISTINCT);
    rules.push(Arc::new(WiredFunctions));
    rules
}

/// A function under a name that tells what it is made of.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Wired {
    inner: Arc<ScalarUDF>,
    name: String,
}

impl Wired {
    fn of(function: ScalarUDF) -> ScalarUDF {
        let name = match UnnamedFunction::of(&function) {
            Some(UnnamedFunction::Cast(target, true)) => format!("nearfar cast apart {target}"),
            Some(UnnamedFunction::Cast(target, false)) => format!("nearfar cast {target}"),
            Some(UnnamedFunction::Checked(operator)) => format!("nearfar {operator}"),
            Some(UnnamedFunction::Negated) => String::from("nearfar negative"),
            None => return function,
        };
        ScalarUDF::from(Self {
            inner: Arc::new(function),
            name,
        })
    }
}

impl ScalarUDFImpl for Wired {
    fn name(&self) -> &str {
        &self.name
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        self.inner.schema_name(arguments)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        self.inner.return_field_from_args(arguments)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(arguments)
    }
}

/// Puts functions with such names in the place of those without.
#[derive(Debug)]
struct WiredFunctions;

impl OptimizerRule for WiredFunctions {
    fn name(&self) -> &'static str {
        "nearfar_wired_functions"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        plan.map_expressions(|expr| expr.transform_up(|expr| Ok(wired(expr))))
    }
}

fn wired(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(call) if UnnamedFunction::of(&call.func).is_some() => {
            let function = Wired::of(call.func.as_ref().clone());
            Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(
                Arc::new(function),
                call.args,
            )))
        }
        other => Transformed::no(other),
    }
}

/// The bytes of an operator of Nearfar's that another machine may have to run.
pub fn encode_operator(node: &dyn ExecutionPlan) -> Option<Vec<u8>> {
    varying_order(node).map(|keeps_order| vec![u8::from(keeps_order)])
}

/// The operator over `inputs` that [`encode_operator`] gave `bytes` for.
///
/// # Errors
/// An operator of another version.
pub fn decode_operator(
    bytes: &[u8],
    inputs: &[Arc<dyn ExecutionPlan>],
) -> Result<Arc<dyn ExecutionPlan>> {
    match (bytes, inputs) {
        ([keeps_order], [input]) => Ok(varying(Arc::clone(input), *keeps_order == 1)),
        _ => exec_err!("an operator of another version"),
    }
}
