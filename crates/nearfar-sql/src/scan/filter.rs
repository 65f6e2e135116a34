//! Filters, bound to the encoding of each segment they meet.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, StringViewArray,
    new_null_array,
};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns, split_conjunction};
use nearfar_model::StreamedRun;
use std::ops::Range;
use std::sync::Arc;

use super::costly::is_costly;
use super::implied;
use super::like::LikePattern;
use super::literals::literal;
use super::steps::dictionary_bytes;
use crate::error::EngineError;
use nearfar_table::segment::{
    CodeRange, Codes, ColumnSegment, Encoding, Ranges, Selector, Verdict, ZONE_ROWS, integers,
    with_codes,
};

/// One conjunct of what a scan has to filter by. Columns are those of the whole table.
#[derive(Debug, Clone)]
pub struct Filter {
    expr: Arc<dyn PhysicalExpr>,
    /// The columns the expression reads, ascending.
    columns: Vec<usize>,
    /// The expression over a batch of just those columns, and that batch's schema.
    compact: Arc<dyn PhysicalExpr>,
    compact_schema: SchemaRef,
    /// The values that pass, where that is a few ranges of an integer-like column, without null.
    ranges: Option<Ranges>,
    like: Option<Arc<LikePattern>>,
    is_costly: bool,
}

impl Filter {
    /// The conjuncts of `expr`, whose columns are those of `schema`.
    ///
    /// # Errors
    /// A column that `schema` does not have.
    pub fn conjuncts(
        expr: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
    ) -> Result<Vec<Self>, EngineError> {
        split_conjunction(expr)
            .into_iter()
            .filter(|conjunct| !is_true(conjunct))
            .map(|conjunct| Self::new(conjunct, schema))
            .collect()
    }

    fn new(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Self, EngineError> {
        let mut columns: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        columns.sort_unstable();
        columns.dedup();
        // Nullable whatever the column is: dictionaries are tried with null as well.
        let nullable = |i: &usize| schema.field(*i).clone().with_nullable(true);
        let compact_schema = Arc::new(Schema::new(
            columns.iter().map(nullable).collect::<Vec<_>>(),
        ));
        let compact = reassign_expr_columns(Arc::clone(expr), &compact_schema)?;
        let is_of_one = columns.len() == 1;
        let ranges = is_of_one.then(|| ranges_of(expr)).flatten();
        Ok(Self {
            expr: Arc::clone(expr),
            columns,
            compact,
            compact_schema,
            ranges,
            like: LikePattern::of(expr).map(Arc::new),
            is_costly: is_costly(expr),
        })
    }

    /// Filters of one column each that let all rows through that this one does, which is of several columns, and that can
    /// be decided on codes.
    ///
    /// # Errors
    /// A column that `schema` does not have.
    pub fn implied(&self, schema: &Schema) -> Result<Vec<Self>, EngineError> {
        if self.columns.len() == 1 {
            return Ok(Vec::new());
        }
        let columns = self.columns.iter();
        let of_columns = columns.filter_map(|column| implied::of_column(&self.expr, *column));
        let filters = of_columns.map(|expr| Self::new(&expr, schema));
        let is_by_codes = |filter: &Self| {
            let text = |column: &usize| schema.field(*column).data_type().is_string();
            filter.is_of_ranges() || filter.columns.iter().all(text)
        };
        filters
            .filter(|filter| filter.as_ref().map_or(true, is_by_codes))
            .collect()
    }

    /// The expression, as it was pushed down.
    pub fn expr(&self) -> &Arc<dyn PhysicalExpr> {
        &self.expr
    }

    /// The columns it reads.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether trying it on a value may take long.
    pub fn is_costly(&self) -> bool {
        self.is_costly
    }

    /// Whether it is decided on the codes of integers without having been tried on any value.
    pub fn is_of_ranges(&self) -> bool {
        self.ranges.is_some()
    }

    /// The filter for one segment: on its encoded values where that is possible. `column` gives the
    /// segment's columns.
    pub fn bind(
        &self,
        column: impl Fn(usize) -> Option<Arc<ColumnSegment>>,
        domain: Option<&Domain>,
    ) -> Bound {
        if let [index] = self.columns[..]
            && let Some(segment) = column(index)
        {
            match (&self.ranges, segment.encoding()) {
                (Some(ranges), Encoding::Narrow { base, .. }) => {
                    let accept = Accept::Ranges(ranges.codes(*base));
                    return Bound::Zone(ZoneFilter { segment, accept });
                }
                (None, Encoding::Narrow { base, .. }) => {
                    if let Some(domain) = domain {
                        let accept = domain.accept_from(*base);
                        return Bound::Zone(ZoneFilter { segment, accept });
                    }
                }
                (_, Encoding::Dictionary { values, .. }) if self.may_try_all(values) => {
                    // A value that the filter fails on need not be that of a row it is asked of.
                    if let Ok(accept) = self.accept_table(Arc::new(values.clone())) {
                        return Bound::Zone(ZoneFilter { segment, accept });
                    }
                }
                (_, Encoding::Strings { .. }) => {
                    if let Some(like) = &self.like {
                        let accept = Accept::Like(Arc::clone(like));
                        return Bound::Zone(ZoneFilter { segment, accept });
                    }
                }
                _ => {}
            }
        }
        Bound::Rows
    }

    /// The filter's verdict on every value that an integer-like column of `data_type` with these
    /// `bounds` can have. Nothing for filters over several columns, and for those that fail on a
    /// value, since no row need have it.
    pub fn domain(&self, bounds: (i128, i128), data_type: &DataType) -> Option<Domain> {
        let (low, high) = bounds;
        let size = usize::try_from(high.checked_sub(low)?).ok()?;
        let most = match self.is_costly {
            true => COSTLY_VALUES_MAX,
            false => DOMAIN_VALUES_MAX,
        };
        if self.columns.len() != 1 || size >= most {
            return None;
        }
        let mut table = Vec::with_capacity(size + 1);
        while table.len() <= size {
            let count = (size + 1 - table.len()).min(DOMAIN_VALUES_AT_ONCE);
            let values = integers(low + table.len() as i128, count, data_type);
            table.extend(self.verdicts(values).ok()?);
        }
        let null = self.verdicts(new_null_array(data_type, 1)).ok()?[0];
        Some(Domain {
            low,
            accept: Accept::of_verdicts(table, null),
        })
    }

    /// Whether the filter is tried on all of these values in one go.
    fn may_try_all(&self, values: &StringViewArray) -> bool {
        !self.is_costly
            || values.len() <= COSTLY_VALUES_MAX && dictionary_bytes(values) <= COSTLY_BYTES_MAX
    }

    /// For each value of the filter's one column 1 where it passes, else 0.
    fn verdicts(&self, values: ArrayRef) -> Result<Vec<u8>, EngineError> {
        let rows = values.len();
        let mask = self.evaluate(vec![values], rows)?;
        let pass = |i: usize| u8::from(mask.is_valid(i) && mask.value(i));
        Ok((0..rows).map(pass).collect())
    }

    /// Which dictionary values pass, and whether null does.
    fn accept_table(&self, values: ArrayRef) -> Result<Accept, EngineError> {
        let accept_null = self.verdicts(new_null_array(values.data_type(), 1))?[0];
        Ok(Accept::of_verdicts(self.verdicts(values)?, accept_null))
    }

    /// Which of `rows` rows pass, from the values of the filter's own columns, in their order; null
    /// is no.
    ///
    /// # Errors
    /// What evaluating the expression reports.
    pub fn evaluate(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
    ) -> Result<BooleanArray, EngineError> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.compact_schema);
        let batch = RecordBatch::try_new_with_options(schema, columns, &options)?;
        let mask = self.compact.evaluate(&batch)?.into_array(rows)?;
        Ok(mask.as_boolean().clone())
    }
}

/// Of longer lists it is not asked whether they are few ranges.
const LIST_MAX: usize = 64;

/// `AND` and `OR` below each other of which it is asked what ranges they are.
const RANGES_DEPTH_MAX: usize = 64;

/// More values than this are never tried one by one.
const DOMAIN_VALUES_MAX: usize = 1 << 24;

/// The same for values and their bytes where trying one may take long.
const COSTLY_VALUES_MAX: usize = 1 << 18;
const COSTLY_BYTES_MAX: usize = 8 << 20;

/// Values that are tried in one batch.
const DOMAIN_VALUES_AT_ONCE: usize = 1 << 16;

/// A zone whose codes span more than this is not looked up in a table of verdicts to rule it out: that
/// would take longer than to try its rows.
const CODES_LOOKED_UP_MAX: u64 = 8 * ZONE_ROWS as u64;

/// A filter's verdict on every value a column can have.
#[derive(Debug, Clone)]
pub struct Domain {
    low: i128,
    /// On codes from `low` on.
    accept: Accept,
}

impl Domain {
    /// The verdicts on the codes of a segment whose code 0 stands for `base`.
    fn accept_from(&self, base: i128) -> Accept {
        let above = base - self.low;
        match &self.accept {
            Accept::Ranges(ranges) => Accept::Ranges(ranges.codes(above)),
            Accept::Table { table, first, null } => Accept::Table {
                table: Arc::clone(table),
                first: first + above as usize,
                null: *null,
            },
            Accept::Like(like) => Accept::Like(Arc::clone(like)),
        }
    }
}

/// A filter as one segment can decide it.
#[derive(Debug)]
pub enum Bound {
    /// From the encoded values of one column, zone by zone.
    Zone(ZoneFilter),
    /// By evaluating the expression on rows.
    Rows,
}

/// A filter on the encoded values of one column segment.
#[derive(Debug)]
pub struct ZoneFilter {
    pub segment: Arc<ColumnSegment>,
    accept: Accept,
}

#[derive(Debug, Clone)]
enum Accept {
    /// The codes that pass. Null does not.
    Ranges(Ranges),
    /// Per code 1 or 0, code 0 at `first`, and the same for null.
    Table {
        table: Arc<[u8]>,
        first: usize,
        null: u8,
    },
    /// For strings: those that match.
    Like(Arc<LikePattern>),
}

impl Accept {
    /// What these verdicts on the codes from 0 on and on null say, 1 or 0 each.
    fn of_verdicts(table: Vec<u8>, null: u8) -> Self {
        let ranges = (null == 0).then(|| Ranges::of_verdicts(&table, Selector::ranges_max()));
        match ranges.flatten() {
            Some(ranges) => Self::Ranges(ranges),
            None => Self::Table {
                table: table.into(),
                first: 0,
                null,
            },
        }
    }
}

impl ZoneFilter {
    /// What the zone map says of zone `zone`.
    pub fn verdict(&self, zone: usize) -> Verdict {
        match &self.accept {
            Accept::Ranges(ranges) => match ranges.verdict(self.segment.zones().bounds(zone)) {
                Verdict::All if self.segment.null_count() > 0 => Verdict::Some,
                verdict => verdict,
            },
            Accept::Table { table, first, null } => {
                let CodeRange { low, high } = self.segment.zones().bounds(zone);
                if *null == 1 || high - low >= CODES_LOOKED_UP_MAX {
                    return Verdict::Some;
                }
                // A dictionary of nothing but nulls has no values.
                let met = table.get(first + low as usize..=first + high as usize);
                match memchr::memchr(1, met.unwrap_or_default()) {
                    None => Verdict::None,
                    Some(_) => Verdict::Some,
                }
            }
            Accept::Like(_) => Verdict::Some,
        }
    }

    /// Whether it runs in a kernel, which tells the probe what it reads.
    pub fn is_by_kernel(&self) -> bool {
        matches!(self.accept, Accept::Ranges(_))
    }

    /// Passes what `other` passes too, where both are ranges of codes of the same column; says whether
    /// they are.
    pub fn narrow(&mut self, other: &Self) -> bool {
        match (&mut self.accept, &other.accept) {
            (Accept::Ranges(own), Accept::Ranges(others))
                if Arc::ptr_eq(&self.segment, &other.segment) =>
            {
                *own = own.intersect(others);
                true
            }
            _ => false,
        }
    }

    /// Deselects those of `rows`, all of `zone`, that do not pass.
    pub fn select(
        &self,
        zone: usize,
        rows: Range<usize>,
        selector: &mut Selector,
        probe: &StreamedRun,
    ) {
        if let (Accept::Like(like), Encoding::Strings { values }) =
            (&self.accept, self.segment.encoding())
        {
            let mut mask = vec![1; rows.len()];
            like.restrict(values, rows.start, &mut mask);
            return selector.keep_where(mask);
        }
        let Some(codes) = self.segment.codes() else {
            return;
        };
        let nulls = self.segment.nulls();
        match &self.accept {
            Accept::Like(_) => {}
            Accept::Ranges(ranges) => {
                let bounds = self.segment.zones().bounds(zone);
                selector.keep_ranges(codes, rows.clone(), bounds, ranges, probe);
                if let Some(nulls) = nulls {
                    selector.keep_valid(nulls, rows.start);
                }
            }
            Accept::Table { table, first, null } => match nulls {
                None => keep_by_table(codes, &table[*first..], rows, selector),
                Some(nulls) => selector.keep_where(rows.map(|row| match nulls.is_null(row) {
                    true => *null,
                    false => table[first + codes.get(row) as usize],
                })),
            },
        }
    }
}

fn keep_by_table(codes: &Codes, table: &[u8], rows: Range<usize>, selector: &mut Selector) {
    with_codes!(codes, codes => {
        selector.keep_where(codes[rows].iter().map(|code| table[*code as usize]));
    });
}

fn is_true(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Literal>()
        .is_some_and(|l| *l.value() == ScalarValue::Boolean(Some(true)))
}

/// The values of an integer-like column that pass `expr`, which is over no other column, where they are
/// few ranges and null does not pass.
fn ranges_of(expr: &Arc<dyn PhysicalExpr>) -> Option<Ranges> {
    let ranges = ranges_below(expr, RANGES_DEPTH_MAX)?;
    (ranges.len() <= Selector::ranges_max()).then_some(ranges)
}

fn ranges_below(expr: &Arc<dyn PhysicalExpr>, depth: usize) -> Option<Ranges> {
    let deeper = depth.checked_sub(1)?;
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return ranges_of_list(list);
    }
    let binary = expr.downcast_ref::<BinaryExpr>()?;
    let side = |side| ranges_below(side, deeper);
    match binary.op() {
        Operator::And => Some(side(binary.left())?.intersect(&side(binary.right())?)),
        Operator::Or => Some(side(binary.left())?.union(&side(binary.right())?)),
        _ => range_of(binary),
    }
}

/// The values that an `IN` with few literals passes.
fn ranges_of_list(list: &InListExpr) -> Option<Ranges> {
    list.expr().downcast_ref::<Column>()?;
    if list.list().len() > LIST_MAX {
        return None;
    }
    let mut ranges = Ranges::default();
    for value in list.list() {
        let value = literal(value.downcast_ref::<Literal>()?.value())?;
        ranges = ranges.union(&Ranges::of(value, value));
    }
    Some(match list.negated() {
        true => ranges.complement(),
        false => ranges,
    })
}

/// The values that a comparison of an integer-like column with a literal passes.
fn range_of(binary: &BinaryExpr) -> Option<Ranges> {
    let (operator, value) = match (
        binary.left().downcast_ref::<Column>(),
        binary.right().downcast_ref::<Literal>(),
    ) {
        (Some(_), Some(value)) => (*binary.op(), value),
        _ => {
            binary.right().downcast_ref::<Column>()?;
            (
                binary.op().swap()?,
                binary.left().downcast_ref::<Literal>()?,
            )
        }
    };
    let value = literal(value.value())?;
    match operator {
        Operator::Eq => Some(Ranges::of(value, value)),
        Operator::NotEq => Some(Ranges::of(value, value).complement()),
        Operator::Lt => Some(Ranges::of(value, i128::MAX).complement()),
        Operator::LtEq => Some(Ranges::of(i128::MIN, value)),
        Operator::Gt => Some(Ranges::of(i128::MIN, value).complement()),
        Operator::GtEq => Some(Ranges::of(value, i128::MAX)),
        _ => None,
    }
}

/// Whether a filter's value depends on a subquery or parameter, which planning does not know.
pub fn has_subquery(expr: &Expr) -> bool {
    let mut found = false;
    let visited = expr.apply(|node| {
        found |= matches!(
            node,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::Placeholder(_)
        );
        Ok(TreeNodeRecursion::Continue)
    });
    visited.is_err() || found
}
