//! Expressions of statements that are not planned again, made to be evaluated.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr::expressions::Column as TakenColumn;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::load::NewValue;
use crate::values::{IntegerExpr, OneRow, without_calls};

/// The function that gives the time at which a statement began.
const NOW: &str = "now";

/// The time at which a statement began, among what its expressions take.
const NOW_COLUMN: &str = "$now";

/// Parts of an expression at most: threads that evaluate it may have small stacks.
const NODES_MAX: usize = 128;

/// Expressions at most of which constants are kept: more are those of rows that are loaded, seldom twice.
const KEPT_MAX: usize = 64;

/// Bytes of a constant that is kept at most.
const KEPT_BYTES_MAX: usize = 512;

/// Functions that give another value for each row.
const DRAWN: [&str; 2] = ["nextval", "uuid"];

/// Whether an expression of a statement means the same each time that it is evaluated with the same
/// columns and parameters, but for [`NOW`], and takes neither time nor memory worth counting.
pub fn is_plain(expr: &Expr) -> bool {
    is_plain_with(expr, false)
}

/// The same of what rows are given that are added, which may be [`DRAWN`].
pub fn is_given(expr: &Expr) -> bool {
    is_plain_with(expr, true)
}

fn is_plain_with(expr: &Expr, draws: bool) -> bool {
    let mut nodes = 0;
    let is_plain_node = |expr: &Expr| match expr {
        Expr::Alias(_)
        | Expr::Column(_)
        | Expr::Literal(..)
        | Expr::Placeholder(_)
        | Expr::Not(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNotFalse(_)
        | Expr::IsNotUnknown(_)
        | Expr::Negative(_)
        | Expr::Between(_)
        | Expr::Case(_)
        | Expr::InList(_)
        | Expr::Cast(_) => true,
        Expr::BinaryExpr(binary) => is_plain_operator(binary.op),
        Expr::ScalarFunction(function) => {
            let name = function.func.name();
            (name == NOW && function.args.is_empty()) || (draws && DRAWN.contains(&name))
        }
        _ => false,
    };
    let is_other = expr.exists(|node| {
        nodes += 1;
        Ok(nodes > NODES_MAX || !is_plain_node(node))
    });
    !is_other.unwrap_or(true)
}

fn is_plain_operator(operator: Operator) -> bool {
    use Operator::{And, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq, Or};
    operator.is_numerical_operators()
        || matches!(operator, And | Or | Eq | NotEq | Lt | LtEq | Gt | GtEq)
        || matches!(operator, IsDistinctFrom | IsNotDistinctFrom)
}

/// The parameter that a placeholder stands for, counted from 0.
pub fn parameter_of(placeholder: &Placeholder) -> Option<usize> {
    let number = placeholder.id.strip_prefix('$')?.parse::<usize>().ok()?;
    number.checked_sub(1)
}

/// `plan` with the types of everything in it decided, where its parameters have the types of `values`, whichever
/// may be expected of them: as if the values stood in the plan. None where a parameter has no value.
pub fn with_types(
    state: &SessionState,
    plan: &LogicalPlan,
    values: &[ScalarValue],
) -> Option<LogicalPlan> {
    let typed = plan.clone().transform_up(|node| {
        let node =
            node.map_expressions(|expr| expr.transform_up(|expr| with_type(expr, values)))?;
        // The types of what stands above follow from those of the parameters.
        node.map_data(|node| match node {
            LogicalPlan::Values(rows) => LogicalPlanBuilder::values(rows.values)?.build(),
            other => other.recompute_schema(),
        })
    });
    let analyzer = state.analyzer();
    let options = state.config_options();
    analyzer
        .execute_and_check(typed.ok()?.data, options, |_, _| {})
        .ok()
}

fn with_type(expr: Expr, values: &[ScalarValue]) -> Result<Transformed<Expr>> {
    let Expr::Placeholder(mut placeholder) = expr else {
        return Ok(Transformed::no(expr));
    };
    let value = parameter_of(&placeholder).and_then(|at| values.get(at));
    let Some(given) = value.map(ScalarValue::data_type) else {
        return Err(DataFusionError::Plan("no value".to_owned()));
    };
    placeholder.field = Some(Arc::new(Field::new(&placeholder.id, given, true)));
    Ok(Transformed::yes(Expr::Placeholder(placeholder)))
}

/// Expressions over columns and parameters.
#[derive(Debug)]
pub struct RowValues {
    /// Of what they take: columns, parameters, the time.
    schema: SchemaRef,
    /// The columns, by their places among all that there are.
    columns: Vec<usize>,
    /// The parameters, counted from 0, and their types.
    parameters: Vec<(usize, DataType)>,
    now: Option<Now>,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Where the value of each comes from.
    sources: Vec<Source>,
}

/// Where the value of an expression comes from.
#[derive(Debug)]
enum Source {
    /// It is one of those that are taken, at this place.
    Taken(usize),
    /// It is always the same: that of a single row, once there was one.
    Constant(OnceLock<ArrayRef>),
    /// It is computed each time, for a single row without arrays where it is an integer of others.
    Computed(Option<IntegerExpr>),
}

impl Source {
    /// Of an expression over what is taken, of `schema`.
    fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema, are_kept: bool) -> Self {
        if let Some(column) = expr.downcast_ref::<TakenColumn>() {
            return Self::Taken(column.index());
        }
        match are_kept && collect_columns(expr).is_empty() && !is_volatile(expr) {
            true => Self::Constant(OnceLock::new()),
            false => Self::Computed(IntegerExpr::of(expr, schema)),
        }
    }

    /// Keeps the `value` of a single row, if it is that of each.
    fn keep(&self, value: &ArrayRef) {
        let Self::Constant(kept) = self else {
            return;
        };
        // Texts are made with room for many.
        let value = match value.data_type() {
            DataType::Utf8View => Arc::new(value.as_string_view().gc()),
            _ => Arc::clone(value),
        };
        if value.get_array_memory_size() <= KEPT_BYTES_MAX {
            // Another thread's is the same.
            let _ = kept.set(value);
        }
    }
}

/// The time at which a statement began, in a time zone.
#[derive(Debug, Clone)]
struct Now {
    zone: Option<Arc<str>>,
}

impl Now {
    fn data_type(&self) -> DataType {
        DataType::Timestamp(TimeUnit::Nanosecond, self.zone.clone())
    }

    fn value(&self) -> ScalarValue {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let now = since.and_then(|since| since.as_nanos().try_into().ok());
        ScalarValue::TimestampNanosecond(now, self.zone.clone())
    }
}

/// What expressions take, while it is collected.
#[derive(Default)]
struct Taken {
    columns: BTreeSet<usize>,
    parameters: BTreeMap<usize, DataType>,
    now: Option<Now>,
}

impl RowValues {
    /// `exprs`, whose types are decided, over the columns of `schema`. None for what can't be evaluated by
    /// itself.
    pub fn of<'a>(
        state: &SessionState,
        exprs: impl IntoIterator<Item = &'a Expr>,
        schema: &DFSchema,
    ) -> Option<Self> {
        let mut taken = Taken::default();
        let exprs = exprs.into_iter().map(|expr| {
            let taken = expr.clone().transform_up(|expr| taken.take(expr, schema));
            Some(taken.ok()?.data)
        });
        let exprs = exprs.collect::<Option<Vec<Expr>>>()?;
        let schema = taken.schema(schema)?;
        let (properties, context) = (state.execution_props(), PhysicalPlanningContext::default());
        let exprs = exprs.iter();
        let exprs = exprs.map(|expr| {
            let expr = create_physical_expr(expr, &schema, properties, &context).ok()?;
            without_calls(expr).ok()
        });
        let exprs = exprs.collect::<Option<Vec<_>>>()?;
        let are_kept = exprs.len() <= KEPT_MAX;
        let source = |expr| Source::of(expr, schema.inner(), are_kept);
        Some(Self {
            sources: exprs.iter().map(source).collect(),
            exprs,
            schema: Arc::clone(schema.inner()),
            columns: taken.columns.into_iter().collect(),
            parameters: taken.parameters.into_iter().collect(),
            now: taken.now,
        })
    }

    /// The columns that are taken, by their places.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The column that each expression is, if all are nothing but columns.
    pub fn plain_columns(&self) -> Option<Vec<usize>> {
        let column = |source: &Source| match source {
            Source::Taken(at) => self.columns.get(*at).copied(),
            Source::Constant(_) | Source::Computed(_) => None,
        };
        self.sources.iter().map(column).collect()
    }

    /// Whether the expression at the place of a column, of those that there are, is nothing but this column.
    pub fn keep(&self, column: usize) -> bool {
        let source = self.sources.get(column);
        matches!(source, Some(Source::Taken(at)) if self.columns.get(*at) == Some(&column))
    }

    /// Whether there are no expressions.
    pub fn is_empty(&self) -> bool {
        self.exprs.is_empty()
    }

    /// Columns of the names of `shown` and the types of the expressions.
    pub fn schema_of(&self, shown: &SchemaRef) -> Option<SchemaRef> {
        let fields = shown.fields().iter().zip(&self.exprs).map(|(field, expr)| {
            let kind = expr.data_type(&self.schema).ok()?;
            Some(field.as_ref().clone().with_data_type(kind))
        });
        let fields = fields.collect::<Option<Vec<Field>>>()?;
        Some(Arc::new(Schema::new(fields)))
    }

    /// The types of the expressions.
    pub fn data_types(&self) -> Option<Vec<DataType>> {
        let kinds = self.exprs.iter();
        kinds
            .map(|expr| expr.data_type(&self.schema).ok())
            .collect()
    }

    /// Whether the values of parameters have the types that the expressions are made for.
    pub fn take(&self, values: &[ScalarValue]) -> bool {
        let mut parameters = self.parameters.iter();
        parameters.all(|(at, kind)| values.get(*at).is_some_and(|v| v.data_type() == *kind))
    }

    /// The value of each expression for as many `rows` of the columns that are [taken](Self::columns).
    ///
    /// # Errors
    /// Those of the expressions.
    pub fn evaluate(
        &self,
        (columns, rows): (&[ArrayRef], usize),
        parameters: &[ScalarValue],
    ) -> Result<Vec<ArrayRef>> {
        // Most statements of single rows get by without arrays of parameters.
        let (mut taken, mut batch) = (None, None);
        let mut values = Vec::with_capacity(self.exprs.len());
        for (expr, source) in self.exprs.iter().zip(&self.sources) {
            if let Some(known) = self.soon(source, (columns, rows), parameters) {
                values.push(known);
                continue;
            }
            let taken = match &mut taken {
                Some(taken) => taken,
                none => none.insert(self.taken((columns, rows), parameters)?),
            };
            if let Source::Taken(at) = source {
                values.push(Arc::clone(&taken[*at]));
                continue;
            }
            let batch = match &mut batch {
                Some(batch) => batch,
                none => none.insert(self.batch(taken.clone(), rows)?),
            };
            values.push(computed((expr, source), batch)?);
        }
        Ok(values)
    }

    /// The value of an expression for as many `rows`, where that takes no expression to be evaluated over a batch.
    fn soon(
        &self,
        source: &Source,
        (columns, rows): (&[ArrayRef], usize),
        parameters: &[ScalarValue],
    ) -> Option<ArrayRef> {
        match source {
            Source::Taken(at) => columns.get(*at).cloned(),
            Source::Constant(known) => known.get().filter(|_| rows == 1).cloned(),
            Source::Computed(Some(integer)) if rows == 1 => integer.evaluate(OneRow {
                columns,
                parameters,
                taken: &self.parameters,
            }),
            Source::Computed(_) => None,
        }
    }

    /// The value of each expression of a single row, where none takes a column.
    ///
    /// # Errors
    /// Those of the expressions.
    pub fn of_one_row<'a>(&self, parameters: &'a [ScalarValue]) -> Result<Vec<NewValue<'a>>> {
        let mut batch = None;
        let mut values = Vec::with_capacity(self.exprs.len());
        for (expr, source) in self.exprs.iter().zip(&self.sources) {
            let given = match source {
                Source::Taken(at) => self.parameters.get(*at),
                _ => None,
            };
            if let Some((parameter, _)) = given {
                values.push(NewValue::Scalar(&parameters[*parameter]));
                continue;
            }
            if let Some(known) = self.soon(source, (&[], 1), parameters) {
                values.push(NewValue::Array(known));
                continue;
            }
            let batch = match &mut batch {
                Some(batch) => batch,
                none => none.insert(self.batch(self.taken((&[], 1), parameters)?, 1)?),
            };
            values.push(NewValue::Array(computed((expr, source), batch)?));
        }
        Ok(values)
    }

    /// Those of as many `rows` of the columns that are taken for which all expressions are true. An expression is
    /// evaluated for rows only for which those before it are true.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn passing(
        &self,
        (columns, rows): (&[ArrayRef], usize),
        parameters: &[ScalarValue],
    ) -> Result<Vec<usize>> {
        let mut passing: Vec<usize> = (0..rows).collect();
        if self.exprs.is_empty() || rows == 0 {
            return Ok(passing);
        }
        let mut batch = self.batch(self.taken((columns, rows), parameters)?, rows)?;
        for expr in &self.exprs {
            let value = expr.evaluate(&batch)?.into_array(batch.num_rows())?;
            let Some(is_true) = value.as_boolean_opt() else {
                return Ok(Vec::new());
            };
            let is_true = match is_true.null_count() {
                0 => is_true.clone(),
                _ => prep_null_mask_filter(is_true),
            };
            if is_true.true_count() < passing.len() {
                let mut each = is_true.values().iter();
                passing.retain(|_| each.next() == Some(true));
                batch = filter_record_batch(&batch, &is_true)?;
            }
            if passing.is_empty() {
                break;
            }
        }
        Ok(passing)
    }

    /// What the expressions take: columns, parameters, the time.
    fn taken(
        &self,
        (columns, rows): (&[ArrayRef], usize),
        parameters: &[ScalarValue],
    ) -> Result<Vec<ArrayRef>> {
        let mut arrays = Vec::with_capacity(self.schema.fields().len());
        arrays.extend_from_slice(columns);
        for (at, _) in &self.parameters {
            arrays.push(parameters[*at].to_array_of_size(rows)?);
        }
        if let Some(now) = &self.now {
            arrays.push(now.value().to_array_of_size(rows)?);
        }
        Ok(arrays)
    }

    fn batch(&self, taken: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, taken, &options)?)
    }
}

/// The value of an expression over a batch of what is taken.
fn computed(
    (expr, source): (&Arc<dyn PhysicalExpr>, &Source),
    batch: &RecordBatch,
) -> Result<ArrayRef> {
    let value = expr.evaluate(batch)?.into_array(batch.num_rows())?;
    if batch.num_rows() == 1 {
        source.keep(&value);
    }
    Ok(value)
}

impl Taken {
    /// `expr` as a column of what is taken.
    fn take(&mut self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        match expr {
            Expr::Column(column) => {
                self.columns.insert(schema.index_of_column(&column)?);
                Ok(Transformed::no(Expr::Column(column)))
            }
            Expr::Placeholder(placeholder) => {
                let field = placeholder.field.as_ref();
                let kind = field.map(|field| field.data_type().clone());
                let Some((at, kind)) = parameter_of(&placeholder).zip(kind) else {
                    return Err(DataFusionError::Plan("no type".to_owned()));
                };
                self.parameters.insert(at, kind);
                Ok(Transformed::yes(Expr::Column(parameter_column(at))))
            }
            Expr::ScalarFunction(function) if function.func.name() == NOW => {
                let call = Expr::ScalarFunction(function);
                let DataType::Timestamp(TimeUnit::Nanosecond, zone) = call.get_type(schema)? else {
                    return Err(DataFusionError::Plan("no time".to_owned()));
                };
                self.now = Some(Now { zone });
                let column = Column::new_unqualified(NOW_COLUMN);
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        }
    }

    fn schema(&self, columns: &DFSchema) -> Option<DFSchema> {
        let columns = self.columns.iter().map(|at| {
            let (qualifier, field) = columns.qualified_field(*at);
            (qualifier.cloned(), Arc::clone(field))
        });
        let own =
            |name: &str, kind: &DataType| (None, Arc::new(Field::new(name, kind.clone(), true)));
        let parameters = self.parameters.iter();
        let parameters = parameters.map(|(at, kind)| own(&parameter_column(*at).name, kind));
        let time = self.now.iter().map(|now| own(NOW_COLUMN, &now.data_type()));
        let fields = columns.chain(parameters).chain(time).collect();
        DFSchema::new_with_metadata(fields, HashMap::new()).ok()
    }
}

fn parameter_column(at: usize) -> Column {
    Column::new_unqualified(format!("${}", at + 1))
}
