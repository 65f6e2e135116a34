//! Expressions of statements that are not planned again, made to be evaluated.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::error::DataFusionError;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::values::without_calls;

/// The function that gives the time at which a statement began.
const NOW: &str = "now";

/// The time at which a statement began, among what its expressions take.
const NOW_COLUMN: &str = "$now";

/// Parts of an expression at most: threads that evaluate it may have small stacks.
const NODES_MAX: usize = 128;

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

/// The column that an expression is, whatever its name.
fn column_of(expr: &Expr) -> Option<&Column> {
    match expr {
        Expr::Column(column) => Some(column),
        Expr::Alias(alias) => column_of(&alias.expr),
        _ => None,
    }
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
    takes_time: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Where each expression is among the columns that are taken, if all are nothing but columns.
    plain: Option<Vec<usize>>,
}

/// What expressions take, while it is collected.
#[derive(Default)]
struct Taken {
    columns: BTreeSet<usize>,
    parameters: BTreeMap<usize, DataType>,
    time: Option<DataType>,
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
        let plain = exprs.iter().map(|expr| {
            let at = schema.index_of_column(column_of(expr)?).ok()?;
            taken.columns.iter().position(|column| *column == at)
        });
        let plain = plain.collect();
        let schema = taken.schema(schema)?;
        let (properties, context) = (state.execution_props(), PhysicalPlanningContext::default());
        let exprs = exprs.iter();
        let exprs = exprs.map(|expr| {
            let expr = create_physical_expr(expr, &schema, properties, &context).ok()?;
            without_calls(expr).ok()
        });
        Some(Self {
            exprs: exprs.collect::<Option<_>>()?,
            schema: Arc::clone(schema.inner()),
            columns: taken.columns.into_iter().collect(),
            parameters: taken.parameters.into_iter().collect(),
            takes_time: taken.time.is_some(),
            plain,
        })
    }

    /// The columns that are taken, by their places.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The column that each expression is, if all are nothing but columns.
    pub fn plain_columns(&self) -> Option<Vec<usize>> {
        let plain = self.plain.as_ref()?;
        Some(plain.iter().map(|at| self.columns[*at]).collect())
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
        if let Some(plain) = &self.plain {
            return Ok(plain.iter().map(|at| Arc::clone(&columns[*at])).collect());
        }
        let batch = self.taken((columns, rows), parameters)?;
        let value = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(rows);
        self.exprs.iter().map(value).collect()
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
        let mut batch = self.taken((columns, rows), parameters)?;
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

    fn taken(
        &self,
        (columns, rows): (&[ArrayRef], usize),
        parameters: &[ScalarValue],
    ) -> Result<RecordBatch> {
        let mut arrays = columns.to_vec();
        for (at, _) in &self.parameters {
            arrays.push(parameters[*at].to_array_of_size(rows)?);
        }
        if self.takes_time {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let now = since
                .ok()
                .and_then(|since| since.as_nanos().try_into().ok());
            let kind = self.schema.field(arrays.len()).data_type();
            let now = ScalarValue::TimestampNanosecond(now, None).cast_to(kind)?;
            arrays.push(now.to_array_of_size(rows)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
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
                self.time = Some(call.get_type(schema)?);
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
        let time = self.time.iter().map(|kind| own(NOW_COLUMN, kind));
        let fields = columns.chain(parameters).chain(time).collect();
        DFSchema::new_with_metadata(fields, HashMap::new()).ok()
    }
}

fn parameter_column(at: usize) -> Column {
    Column::new_unqualified(format!("${}", at + 1))
}
