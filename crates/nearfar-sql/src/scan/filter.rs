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
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns, split_conjunction};
use std::sync::Arc;

use super::costly::is_costly;
use super::like::LikePattern;
use super::literals::literal;
use super::steps::dictionary_bytes;
use crate::error::EngineError;
use nearfar_table::segment::{
    CodeRange, Codes, ColumnSegment, Encoding, Verdict, ZONE_ROWS, integers, with_codes,
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
    kind: FilterKind,
    like: Option<Arc<LikePattern>>,
    is_costly: bool,
}

/// How a filter can be decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterKind {
    /// Values of one integer-like column between two bounds, both included.
    Range {
        /// The smallest value that passes.
        low: i128,
        /// The largest value that passes.
        high: i128,
    },
    /// An expression over one column.
    OneColumn,
    /// Anything else.
    General,
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
        let kind = match (range_of(expr), columns.len()) {
            (Some((low, high)), 1) => FilterKind::Range { low, high },
            (_, 1) => FilterKind::OneColumn,
            _ => FilterKind::General,
        };
        Ok(Self {
            expr: Arc::clone(expr),
            columns,
            compact,
            compact_schema,
            kind,
            like: LikePattern::of(expr).map(Arc::new),
            is_costly: is_costly(expr),
        })
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

    /// How it can be decided.
    pub fn kind(&self) -> FilterKind {
        self.kind
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
            match (self.kind, segment.encoding()) {
                (FilterKind::Range { low, high }, Encoding::Narrow { base, .. }) => {
                    let range = CodeRange::of_values(low, high, *base);
                    return Bound::Zone(ZoneFilter {
                        segment,
                        accept: Accept::Range(range),
                    });
                }
                (_, Encoding::Narrow { base, .. }) => {
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
        let null = self.verdicts(new_null_array(data_type, 1)).ok()?;
        Some(Domain {
            low,
            table: table.into(),
            null: null[0],
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
        let table = self.verdicts(values)?;
        let first = table.iter().position(|p| *p == 1);
        let last = table.iter().rposition(|p| *p == 1);
        if accept_null == 0 {
            match (first, last) {
                (None, _) | (_, None) => return Ok(Accept::Range(CodeRange::EMPTY)),
                (Some(first), Some(last)) if table[first..=last].iter().all(|p| *p == 1) => {
                    return Ok(Accept::Range(CodeRange {
                        low: first as u64,
                        high: last as u64,
                    }));
                }
                _ => {}
            }
        }
        Ok(Accept::Table {
            table: table.into(),
            first: 0,
            null: accept_null,
        })
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
    /// Per value from `low` on, 1 or 0.
    table: Arc<[u8]>,
    null: u8,
}

impl Domain {
    /// The verdicts on the codes of a segment whose code 0 stands for `base`.
    fn accept_from(&self, base: i128) -> Accept {
        let first = (base - self.low) as usize;
        Accept::Table {
            table: Arc::clone(&self.table),
            first,
            null: self.null,
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

#[derive(Debug)]
enum Accept {
    Range(CodeRange),
    /// Per code 1 or 0, code 0 at `first`, and the same for null.
    Table {
        table: Arc<[u8]>,
        first: usize,
        null: u8,
    },
    /// For strings: those that match.
    Like(Arc<LikePattern>),
}

impl ZoneFilter {
    /// What the zone map says of zone `zone`.
    pub fn verdict(&self, zone: usize) -> Verdict {
        match &self.accept {
            Accept::Range(range) => match self.segment.zones().verdict(zone, *range) {
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

    /// Clears the mask of the rows from `start` on that do not pass.
    pub fn restrict(&self, start: usize, mask: &mut [u8]) {
        if let (Accept::Like(like), Encoding::Strings { values }) =
            (&self.accept, self.segment.encoding())
        {
            return like.restrict(values, start, mask);
        }
        let Some(codes) = self.segment.codes() else {
            return;
        };
        let nulls = self.segment.nulls();
        match &self.accept {
            Accept::Like(_) => {}
            Accept::Range(range) => {
                with_codes!(codes, codes => range.restrict(&codes[start..start + mask.len()], mask));
                if let Some(nulls) = nulls {
                    for (offset, keep) in mask.iter_mut().enumerate() {
                        *keep &= u8::from(nulls.is_valid(start + offset));
                    }
                }
            }
            Accept::Table { table, first, null } => match nulls {
                None => restrict_by_table(codes, &table[*first..], start, mask),
                Some(nulls) => {
                    for (row, keep) in (start..).zip(mask.iter_mut()) {
                        let code = first + codes.get(row) as usize;
                        *keep &= if nulls.is_null(row) {
                            *null
                        } else {
                            table[code]
                        };
                    }
                }
            },
        }
    }
}

fn restrict_by_table(codes: &Codes, table: &[u8], start: usize, mask: &mut [u8]) {
    with_codes!(codes, codes => {
        for (keep, code) in mask.iter_mut().zip(&codes[start..]) {
            *keep &= table[*code as usize];
        }
    });
}

fn is_true(expr: &Arc<dyn PhysicalExpr>) -> bool {
    expr.downcast_ref::<Literal>()
        .is_some_and(|l| *l.value() == ScalarValue::Boolean(Some(true)))
}

/// The inclusive bounds that a comparison of an integer-like column with a literal stands for.
fn range_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(i128, i128)> {
    let binary = expr.downcast_ref::<BinaryExpr>()?;
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
        Operator::Eq => Some((value, value)),
        Operator::Lt => Some((i128::MIN, value - 1)),
        Operator::LtEq => Some((i128::MIN, value)),
        Operator::Gt => Some((value + 1, i128::MAX)),
        Operator::GtEq => Some((value, i128::MAX)),
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
