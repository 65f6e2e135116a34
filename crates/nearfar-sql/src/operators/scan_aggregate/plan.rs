//! What an aggregate of DataFusion computes of the rows of a scan.

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use nearfar_table::segment::is_integer_like;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::program::{Operand, Program};
use super::totals::{Fold, TotalPlan};
use crate::optimize::{Bounds, NarrowDecimal};
use crate::scan::TableScan;

/// Rows are of this many groups at most, as far as statistics tell: totals of more fit no cache.
pub const GROUPS_MAX: u64 = 1 << 16;

/// The most groups by texts that are kept to the end.
const KEPT_TEXTS_MAX: u64 = 1 << 10;

/// An aggregate of the rows of a scan.
#[derive(Debug)]
pub struct AggregatePlan {
    /// What is read of the table. All other columns are places among these.
    pub columns: Vec<ReadColumn>,
    /// What rows are grouped by.
    pub keys: Vec<usize>,
    /// What is computed of each row.
    pub program: Program,
    /// What is kept of it.
    pub totals: Vec<TotalPlan>,
    /// How many rows are counted that have values in all of these columns.
    pub counts: Vec<BTreeSet<usize>>,
    /// What is given, behind the keys.
    pub outputs: Vec<Output>,
    /// The keys and the outputs.
    pub schema: SchemaRef,
    /// Whether a group may be given more than once.
    pub is_partial: bool,
}

/// A column of the table of which something is read.
#[derive(Debug)]
pub struct ReadColumn {
    /// Which it is of the table's.
    pub column: usize,
    /// The type of its values.
    pub data_type: DataType,
    /// Whether values are read, and not only which of them are null.
    pub has_values: bool,
}

/// What is given of each group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A total, null without values.
    Total(usize),
    /// A count.
    Count(usize),
}

/// A value of each row.
struct Value {
    operand: Operand,
    bounds: Bounds,
    /// The scale of decimals, that of integers being 0. None of all else.
    scale: Option<i8>,
    /// The columns of those it is null with.
    nullable: BTreeSet<usize>,
}

impl Value {
    /// Whether a cast to `target` gives the same number.
    fn is_kept_as(&self, target: &DataType) -> bool {
        let (scale, low, high) = match target {
            DataType::Int16 => (0, i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => (0, i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => (0, i64::MIN.into(), i64::MAX.into()),
            DataType::Decimal128(precision, scale) => {
                let Some(end) = 10_i128.checked_pow((*precision).into()) else {
                    return false;
                };
                (*scale, 1 - end, end - 1)
            }
            _ => return false,
        };
        self.scale == Some(scale) && low <= self.bounds.0 && self.bounds.1 <= high
    }
}

impl AggregatePlan {
    /// The plan of `aggregate`, if it is of a scan and there is one.
    pub fn of(aggregate: &AggregateExec) -> Option<Self> {
        let (projections, scan) = scanned(aggregate.input())?;
        let is_partial = match aggregate.mode() {
            AggregateMode::Partial => true,
            AggregateMode::Single | AggregateMode::SinglePartitioned => false,
            _ => return None,
        };
        let groups = aggregate.group_expr();
        let is_plain = *aggregate.input_order_mode() == InputOrderMode::Linear
            && aggregate.limit_options().is_none()
            && aggregate.dynamic_expressions_produced().is_empty()
            && aggregate.filter_expr().iter().all(Option::is_none)
            && !groups.has_grouping_set();
        if !is_plain || scan.is_limited() {
            return None;
        }
        let mut planner = Planner::new(projections, scan, aggregate.schema(), is_partial);
        for (expr, _) in groups.expr() {
            planner.add_key(expr)?;
        }
        if !planner.are_groups_few() {
            return None;
        }
        for function in aggregate.aggr_expr() {
            planner.add_function(function)?;
        }
        let plan = planner.plan;
        let columns = plan.keys.len() + plan.outputs.len();
        (columns == plan.schema.fields().len()).then_some(plan)
    }
}

/// The scan whose rows come through `plan`, if nothing but projections is above it.
pub fn scan_of(plan: &Arc<dyn ExecutionPlan>) -> Option<&TableScan> {
    scanned(plan).map(|(_, scan)| scan)
}

/// The scan whose rows come through `plan`, and what it computes of them, the last first.
fn scanned(plan: &Arc<dyn ExecutionPlan>) -> Option<(Vec<&ProjectionExec>, &TableScan)> {
    let mut projections = Vec::new();
    let mut plan = plan;
    while let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        projections.push(projection);
        plan = projection.input();
    }
    Some((projections, TableScan::of(plan.as_ref())?))
}

struct Planner<'a> {
    projections: Vec<&'a ProjectionExec>,
    scan: &'a TableScan,
    plan: AggregatePlan,
    /// Groups at most, as far as statistics tell.
    groups: u64,
    has_texts: bool,
}

impl<'a> Planner<'a> {
    fn new(
        projections: Vec<&'a ProjectionExec>,
        scan: &'a TableScan,
        schema: SchemaRef,
        is_partial: bool,
    ) -> Self {
        Self {
            projections,
            scan,
            plan: AggregatePlan {
                columns: Vec::new(),
                keys: Vec::new(),
                program: Program::default(),
                totals: Vec::new(),
                counts: Vec::new(),
                outputs: Vec::new(),
                schema,
                is_partial,
            },
            groups: 1,
            has_texts: false,
        }
    }

    /// The column of the scan's output that an expression above the projections is.
    fn scan_column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let mut column = expr.downcast_ref::<Column>()?.index();
        for projection in &self.projections {
            let expr = &projection.expr().get(column)?.expr;
            column = expr.downcast_ref::<Column>()?.index();
        }
        Some(column)
    }

    /// A column of the scan's output as one that is read.
    fn column(&mut self, column: usize, has_values: bool) -> Option<usize> {
        let (column, data_type, _) = self.scan.column(column)?;
        let columns = &mut self.plan.columns;
        let known = columns.iter().position(|known| known.column == column);
        let at = known.unwrap_or_else(|| {
            columns.push(ReadColumn {
                column,
                data_type: data_type.clone(),
                has_values: false,
            });
            columns.len() - 1
        });
        columns[at].has_values |= has_values;
        Some(at)
    }

    fn add_key(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Option<()> {
        let column = self.scan_column(expr)?;
        let (_, data_type, summary) = self.scan.column(column)?;
        // Integers are few if they lie together.
        let values = match (data_type, summary.bounds) {
            (DataType::Utf8View, _) if summary.distinct > 0 => {
                self.has_texts = true;
                u64::try_from(summary.distinct).ok()?
            }
            (_, Some((low, high))) if is_integer_like(data_type) => {
                u64::try_from(high.checked_sub(low)?).ok()?.checked_add(1)?
            }
            _ => return None,
        };
        let of_null = u64::from(summary.null_count > 0);
        self.groups = self.groups.checked_mul(values.checked_add(of_null)?)?;
        let key = self.column(column, true)?;
        self.plan.keys.push(key);
        Some(())
    }

    /// Whether groups are few. Those that can't be handed over to another aggregate, and have texts of any length, have to be
    /// fewer.
    fn are_groups_few(&self) -> bool {
        self.groups
            <= match self.plan.is_partial || !self.has_texts {
                true => GROUPS_MAX,
                false => KEPT_TEXTS_MAX,
            }
    }

    fn add_function(&mut self, function: &AggregateFunctionExpr) -> Option<()> {
        let is_plain =
            !function.is_distinct() && !function.ignore_nulls() && function.order_bys().is_empty();
        let arguments = function.expressions();
        let [argument] = &arguments[..] else {
            return None;
        };
        let fold = match function.fun().name() {
            _ if !is_plain => return None,
            "count" => {
                let count = self.counted(argument)?;
                self.plan.outputs.push(Output::Count(count));
                return Some(());
            }
            "sum" => Fold::Sum,
            "min" => Fold::Min,
            "max" => Fold::Max,
            _ => return None,
        };
        let field = self.plan.keys.len() + self.plan.outputs.len();
        let given = self.plan.schema.fields().get(field)?.data_type();
        if !is_integer_like(given) {
            return None;
        }
        let value = self.value(argument, 0)?;
        let Operand::Step(step) = value.operand else {
            return None;
        };
        let total = TotalPlan {
            step,
            fold,
            rows_max: match fold {
                Fold::Sum => rows_max(value.bounds),
                Fold::Min | Fold::Max => usize::MAX,
            },
            count: self.count(value.nullable),
        };
        let totals = &mut self.plan.totals;
        let known = totals.iter().position(|known| *known == total);
        let total = known.unwrap_or_else(|| {
            totals.push(total);
            totals.len() - 1
        });
        self.plan.outputs.push(Output::Total(total));
        Some(())
    }

    /// The count of the rows for which `argument` is not null.
    fn counted(&mut self, argument: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        if let Some(literal) = argument.downcast_ref::<Literal>() {
            return (!literal.value().is_null()).then(|| self.count(BTreeSet::new()));
        }
        let nullable = match self.scan_column(argument) {
            Some(column) => self.nullable(column)?,
            None => self.value(argument, 0)?.nullable,
        };
        Some(self.count(nullable))
    }

    fn count(&mut self, columns: BTreeSet<usize>) -> usize {
        let counts = &mut self.plan.counts;
        let known = counts.iter().position(|known| *known == columns);
        known.unwrap_or_else(|| {
            counts.push(columns);
            counts.len() - 1
        })
    }

    /// A column of the scan's output, if it has nulls.
    fn nullable(&mut self, column: usize) -> Option<BTreeSet<usize>> {
        let (_, _, summary) = self.scan.column(column)?;
        if summary.null_count == 0 {
            return Some(BTreeSet::new());
        }
        Some(BTreeSet::from([self.column(column, false)?]))
    }

    /// The value of an expression over the columns of a projection, the first of which has all values of the aggregate.
    fn value(&mut self, expr: &Arc<dyn PhysicalExpr>, projection: usize) -> Option<Value> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return match self.projections.get(projection) {
                Some(above) => {
                    let expr = &above.expr().get(column.index())?.expr;
                    self.value(expr, projection + 1)
                }
                None => self.column_value(column.index()),
            };
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let value = self.value(cast.expr(), projection)?;
            return value.is_kept_as(cast.cast_type()).then_some(value);
        }
        let narrow = expr.downcast_ref::<NarrowDecimal>()?;
        let inputs = narrow.inputs().iter();
        let inputs = inputs.map(|input| self.value(input, projection));
        let inputs = inputs.collect::<Option<Vec<Value>>>()?;
        let operands: Vec<Operand> = inputs.iter().map(|input| input.operand).collect();
        Some(Value {
            operand: self.plan.program.node(narrow.root(), &operands),
            bounds: narrow.bounds(),
            scale: Some(narrow.scale()),
            nullable: inputs
                .into_iter()
                .flat_map(|input| input.nullable)
                .collect(),
        })
    }

    fn column_value(&mut self, column: usize) -> Option<Value> {
        let (_, data_type, summary) = self.scan.column(column)?;
        let bounds = summary.bounds.filter(|_| is_integer_like(data_type))?;
        let fits = |value: i128| i64::try_from(value).is_ok();
        if !(fits(bounds.0) && fits(bounds.1)) {
            return None;
        }
        let scale = match data_type {
            DataType::Decimal128(_, scale) => Some(*scale),
            data_type => data_type.is_integer().then_some(0),
        };
        let at = self.column(column, true)?;
        Some(Value {
            operand: self.plan.program.column(at),
            bounds,
            scale,
            nullable: self.nullable(column)?,
        })
    }
}

/// Rows of values within `bounds` whose sum is within 64 bits.
fn rows_max((low, high): Bounds) -> usize {
    let largest = low.unsigned_abs().max(high.unsigned_abs()).max(1);
    let rows = u128::from(i64::MAX.unsigned_abs()) / largest;
    usize::try_from(rows).unwrap_or(usize::MAX)
}
