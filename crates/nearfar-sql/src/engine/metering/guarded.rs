//! Functions that ask for the memory of their result.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::interval_arithmetic::Interval;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};
use datafusion::physical_expr::PhysicalExpr;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::scope::{Kept, charge};

/// How large the result of a function can be.
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    /// At most so many bytes for the rows of the arguments.
    pub bytes: fn(&[ColumnarValue], usize) -> u64,
    /// Whether a row may become large of nothing with arguments like these.
    pub is_unbounded: fn(&[Arc<dyn PhysicalExpr>]) -> bool,
}

/// A function of DataFusion's, in its own name, that asks first.
///
/// Its own simplifications are left out: they put the function itself in the place of this one.
#[derive(Debug)]
pub struct Guarded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl Guarded {
    /// Guards `inner`, whose results grow by `growth`.
    pub fn new(inner: Arc<ScalarUDF>, growth: Growth) -> Self {
        Self { inner, growth }
    }

    /// Whether a row may become large of nothing when the function is called with `args`.
    pub fn is_unbounded(&self, args: &[Arc<dyn PhysicalExpr>]) -> bool {
        (self.growth.is_unbounded)(args)
    }
}

impl PartialEq for Guarded {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for Guarded {}

impl Hash for Guarded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

/// The rows that a call makes, and how long what it makes is kept.
pub(super) fn rows_of(args: &ScalarFunctionArgs) -> (usize, Kept) {
    let is_constant = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
    match args.args.iter().all(is_constant) {
        true => (1, Kept::Statement),
        false => (args.number_rows, Kept::Batch),
    }
}

impl ScalarUDFImpl for Guarded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[datafusion::logical_expr::Expr]) -> Result<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let inner = self.inner.inner().with_updated_config(config)?;
        Some(Self::new(Arc::new(inner), self.growth).into())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (rows, kept) = rows_of(&args);
        let bytes = (self.growth.bytes)(&args.args, rows);
        let _taken = charge(&args.config_options, self.name(), bytes, kept)?;
        self.inner.invoke_with_args(args)
    }

    fn evaluate_bounds(&self, input: &[&Interval]) -> Result<Interval> {
        self.inner.evaluate_bounds(input)
    }

    fn propagate_constraints(
        &self,
        interval: &Interval,
        inputs: &[&Interval],
    ) -> Result<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.inner.output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.inner.strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}
