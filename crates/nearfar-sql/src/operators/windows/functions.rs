//! The functions that are known, and what they are evaluated over.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use std::sync::Arc;

use crate::values::takes_all_rows;

/// The windows of an operator, which have the same partitions and order.
#[derive(Debug)]
pub struct Windows {
    pub partition_by: Vec<PhysicalExprRef>,
    pub order_by: Vec<PhysicalExprRef>,
    pub functions: Vec<Function>,
}

/// A function over windows. The results of aggregates are of a fixed width.
#[derive(Debug)]
pub enum Function {
    Number(Number),
    /// An aggregate over all rows of a partition.
    Whole(AggregateFunctionExpr),
    /// An aggregate over the rows of a partition up to each of them.
    Running(AggregateFunctionExpr, Combine),
    /// An aggregate over the rows of a partition up to the last peer of each of them.
    RunningPeers(AggregateFunctionExpr, Combine),
}

/// A number that rows have in their partition, from 1 on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// Of the row.
    Row,
    /// Of the first peer of the row.
    Rank,
    /// Of the peers, as each of them has it.
    DenseRank,
}

/// How results over rows, and over those behind them, become one over both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Combine {
    Add,
    Least,
    Greatest,
}

/// Up to which rows a batch can be evaluated before those behind it are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needed {
    /// Up to its end.
    Nothing,
    /// Up to its last row that has other values in the order than the one before.
    Peers,
    /// Up to the first row of its last partition.
    Partitions,
}

impl Windows {
    /// Those of an operator over sorted rows, if all are known.
    pub fn of(plan: &dyn ExecutionPlan) -> Option<Self> {
        let windows = if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            window.window_expr()
        } else {
            let window = plan.downcast_ref::<BoundedWindowAggExec>();
            window
                .filter(|window| window.input_order_mode == InputOrderMode::Sorted)?
                .window_expr()
        };
        let (first, others) = windows.split_first()?;
        let has_same = |other: &Arc<dyn WindowExpr>| {
            other.partition_by() == first.partition_by() && other.order_by() == first.order_by()
        };
        if !others.iter().all(has_same) {
            return None;
        }
        let order_by = first.order_by().iter().map(|order| Arc::clone(&order.expr));
        let (partition_by, order_by) = (first.partition_by().to_vec(), order_by.collect());
        let input = plan.children().first()?.schema();
        let can_be_compared = |key: &PhysicalExprRef| {
            key.data_type(&input)
                .is_ok_and(|data_type| !data_type.is_nested())
        };
        if !partition_by.iter().chain(&order_by).all(can_be_compared) {
            return None;
        }
        Some(Self {
            partition_by,
            order_by,
            functions: windows.iter().map(Function::of).collect::<Option<_>>()?,
        })
    }

    /// What the functions need to be evaluated.
    pub fn needed(&self) -> Needed {
        let needed = self.functions.iter().map(Function::needed);
        needed.max().unwrap_or(Needed::Nothing)
    }

    /// Whether a function depends on which rows are peers.
    pub fn needs_peers(&self) -> bool {
        self.functions.iter().any(|function| match function {
            Function::Number(number) => *number != Number::Row,
            Function::Whole(_) | Function::Running(..) => false,
            Function::RunningPeers(..) => true,
        })
    }
}

impl Function {
    fn of(window: &Arc<dyn WindowExpr>) -> Option<Self> {
        let result = window.field().ok()?;
        if let Some(standard) = window.as_any().downcast_ref::<StandardWindowExpr>() {
            let function = standard.get_standard_func_expr().as_any();
            let function = function.downcast_ref::<WindowUDFExpr>()?.fun();
            let number = match function.name() {
                "row_number" => Number::Row,
                "rank" => Number::Rank,
                "dense_rank" => Number::DenseRank,
                _ => return None,
            };
            return (*result.data_type() == DataType::UInt64).then_some(Self::Number(number));
        }
        let plain = window.as_any().downcast_ref::<PlainAggregateWindowExpr>()?;
        let function = plain.get_aggregate_expr();
        let is_known = takes_all_rows(function.fun())
            && !function.is_distinct()
            && !function.ignore_nulls()
            && function.order_bys().is_empty()
            && function.groups_accumulator_supported()
            && is_sure(function.fun().name(), result.data_type());
        if !is_known {
            return None;
        }
        let aggregate = function.clone();
        let frame = window.get_window_frame();
        let has_order = !window.order_by().is_empty();
        if !frame.start_bound.is_unbounded() {
            return None;
        }
        match (frame.units, &frame.end_bound) {
            (_, end) if end.is_unbounded() => Some(Self::Whole(aggregate)),
            (WindowFrameUnits::Range, WindowFrameBound::CurrentRow) if !has_order => {
                Some(Self::Whole(aggregate))
            }
            (units, WindowFrameBound::CurrentRow) => {
                let combine = Combine::of(function.fun().name())?;
                match units {
                    WindowFrameUnits::Rows => Some(Self::Running(aggregate, combine)),
                    WindowFrameUnits::Range => Some(Self::RunningPeers(aggregate, combine)),
                    WindowFrameUnits::Groups => None,
                }
            }
            _ => None,
        }
    }

    fn needed(&self) -> Needed {
        match self {
            Self::Number(_) | Self::Running(..) => Needed::Nothing,
            Self::RunningPeers(..) => Needed::Peers,
            Self::Whole(_) => Needed::Partitions,
        }
    }
}

/// Digits of sums that no number of rows makes too large for 128 bits.
const SUM_DIGITS_MAX: u8 = 36;

/// Whether groups of an aggregate give just what windows have to.
fn is_sure(function: &str, result: &DataType) -> bool {
    match (function, result) {
        // Other sums are watched, from the beginning of each partition on.
        ("sum", DataType::Decimal128(digits, _)) => *digits <= SUM_DIGITS_MAX,
        // Groups do not order what is no number.
        ("min" | "max", result) => result.is_primitive() && !result.is_floating(),
        (_, result) => result.is_primitive(),
    }
}

impl Combine {
    fn of(function: &str) -> Option<Self> {
        match function {
            "sum" | "count" => Some(Self::Add),
            "min" => Some(Self::Least),
            "max" => Some(Self::Greatest),
            _ => None,
        }
    }
}
