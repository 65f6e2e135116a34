//! A scan as DataFusion's plans hold it.

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{SplitPoint, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr, PhysicalSortExpr,
    RangePartitioning,
};
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use std::fmt;
use std::sync::{Arc, OnceLock};

use super::ahead::CopyEngine;
use super::by_index::FoundRows;
use super::charge::{PartitionCosts, Reader, ScanCosts};
use super::cooperative::{CooperativeScans, is_far};
use super::filter::Filter;
use super::literals::scalar;
use super::partitions::Partitions;
use super::selectivity::selectivity;
use super::statistics::statistics;
use super::stream::{DynamicFilter, Lookup, PartitionScan, RowConsumer, ScanStream};
use crate::error::EngineError;
use crate::settings::{ReadAheadBy, Settings};
use nearfar_table::table::{ColumnSlot, ColumnSummary, Segment, Snapshot, Table};
use nearfar_table::traffic::{Task, TrafficAccount};
use nearfar_table::transaction::Transaction;

/// The column of a row's identity, which no table has and statements that change rows read.
pub const ROW_ID: &str = "nearfar row id";

/// Rows that an index has led to once the query ran.
const LOOKED_UP_METRIC: &str = "rows_looked_up";

/// Bytes of columns that count as another row.
const BYTES_PER_ROW: u64 = 64;

/// Share of the rows that pass filters which can't be tried while planning.
const UNKNOWN_SELECTIVITY: f64 = 0.2;

/// Which rows a scan reads, before filters.
#[derive(Debug, Clone)]
pub enum ScannedRows {
    /// All, divided among at most so many threads.
    All {
        /// The threads.
        partitions: usize,
    },
    /// Those that an index has led to.
    Found(FoundRows),
}

impl ScannedRows {
    /// Those that were found, or else all.
    pub fn of(found: Option<FoundRows>, partitions: usize) -> Self {
        found.map_or(Self::All { partitions }, Self::Found)
    }
}

/// What the rows of a scan have to pass.
#[derive(Debug, Clone, Copy)]
pub struct ScanFilters<'a> {
    /// All of these, over the table's columns.
    pub exprs: &'a [Arc<dyn PhysicalExpr>],
    /// The share of the rows that does, where it has been estimated before.
    pub share: Option<f64>,
}

impl<'a> ScanFilters<'a> {
    /// Filters whose share is to be estimated.
    pub fn untried(exprs: &'a [Arc<dyn PhysicalExpr>]) -> Self {
        Self { exprs, share: None }
    }
}

/// What was found out of a scan, which is asked for again and again. A clone of the scan is made to be changed, so that
/// nothing is known of it.
#[derive(Debug)]
struct Told<T>(OnceLock<T>);

impl<T> Default for Told<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T> Clone for Told<T> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A scan of one table: which columns, which rows, in how many partitions.
#[derive(Debug, Clone)]
pub struct TableScan {
    table: Arc<Table>,
    /// The table's columns; where rows are to be known again, the identity of a row behind them.
    table_schema: SchemaRef,
    snapshot: Snapshot,
    rows: ScannedRows,
    partitions: Arc<Partitions>,
    projection: Vec<usize>,
    schema: SchemaRef,
    filters: Vec<Filter>,
    /// What follows from them for single columns.
    implied: Vec<Filter>,
    dynamic: Vec<Arc<dyn PhysicalExpr>>,
    fetch: Option<usize>,
    /// Rows that are expected to pass the filters, where there are any.
    rows_expected: Option<usize>,
    /// What the planner was told, which it asks for each operator above.
    statistics: Told<Arc<Statistics>>,
    costs: Arc<ScanCosts>,
    count_accesses: bool,
    in_any_order: bool,
    /// Whether columns that are read lie far.
    is_far: Told<bool>,
    metrics: ExecutionPlanMetricsSet,
}

impl TableScan {
    /// The scan that an operator is, if it is one of a table.
    pub fn of(operator: &dyn ExecutionPlan) -> Option<&Self> {
        let source = operator.downcast_ref::<DataSourceExec>()?;
        source.data_source().downcast_ref()
    }

    /// A scan of `projection` of those of `rows` in `snapshot` of `table` that pass `filters`. Columns are those of `table_schema`: the table's,
    /// and perhaps [`ROW_ID`] behind them.
    ///
    /// # Errors
    /// A filter that can't be evaluated.
    pub fn try_new(
        table: &Arc<Table>,
        snapshot: Snapshot,
        table_schema: &SchemaRef,
        projection: Vec<usize>,
        filters: ScanFilters<'_>,
        rows: ScannedRows,
        costs: &Arc<ScanCosts>,
    ) -> Result<Self, EngineError> {
        let partitions = match &rows {
            ScannedRows::All { partitions } => {
                Partitions::of(&snapshot, table.schema(), *partitions)
            }
            ScannedRows::Found(found) => Partitions::of_places(&found.places),
        };
        let mut scan = Self {
            partitions: Arc::new(partitions),
            rows,
            schema: Arc::new(table_schema.project(&projection)?),
            projection,
            filters: Vec::new(),
            implied: Vec::new(),
            dynamic: Vec::new(),
            fetch: None,
            rows_expected: None,
            statistics: Told::default(),
            costs: Arc::clone(costs),
            count_accesses: true,
            in_any_order: false,
            is_far: Told::default(),
            metrics: ExecutionPlanMetricsSet::new(),
            table: Arc::clone(table),
            table_schema: Arc::clone(table_schema),
            snapshot,
        };
        scan.add_filters(filters)?;
        Ok(scan)
    }

    /// The same scan, ending after `limit` rows of each partition.
    #[must_use]
    pub fn limited(mut self, limit: Option<usize>) -> Self {
        self.fetch = limit;
        self.statistics = Told::default();
        self
    }

    /// The same scan, which counts accesses only if told to.
    #[must_use]
    pub fn counting(mut self, count_accesses: bool) -> Self {
        self.count_accesses = count_accesses;
        self
    }

    /// The same scan, the order of whose rows nobody relies on: with far rows, it reads what other scans read at the time. None
    /// where nothing is far, and where rows are to be locked, for which all statements come in one order.
    #[must_use]
    pub fn in_any_order(&self) -> Option<Self> {
        let is_possible = matches!(self.rows, ScannedRows::All { .. })
            && self.fetch.is_none()
            && !self.in_any_order
            && self.table_schema.fields().len() == self.table.schema().fields().len();
        (is_possible && self.reads_far()).then(|| Self {
            in_any_order: true,
            ..self.clone()
        })
    }

    /// Whether columns that are read lie far.
    fn reads_far(&self) -> bool {
        self.costs.cooperative().is_some() && *self.is_far.0.get_or_init(|| self.finds_far())
    }

    fn finds_far(&self) -> bool {
        let filtered = self.filters.iter().flat_map(Filter::columns);
        let columns: Vec<&usize> = self.projection.iter().chain(filtered).collect();
        let parts = self.snapshot.parts().iter();
        let mut segments = parts.map(|part| &part.segment);
        segments.any(|segment| {
            let is_written = segment.written().is_some();
            let slots = columns.iter().filter_map(|at| segment.columns().get(**at));
            !is_written && slots.map(ColumnSlot::tier_bytes).any(is_far)
        })
    }

    /// The table that is scanned.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Smallest and largest value of an output column, where it is integer-like.
    pub fn bounds(&self, column: usize) -> Option<(i128, i128)> {
        self.column(column)?.2.bounds
    }

    /// The table's column that an output column is, its type, and what is known of it.
    pub fn column(&self, column: usize) -> Option<(usize, &DataType, &ColumnSummary)> {
        let column = *self.projection.get(column)?;
        let summary = self.snapshot.summary().columns.get(column)?;
        let data_type = self.table_schema.field(column).data_type();
        Some((column, data_type, summary))
    }

    /// How many rows are expected to pass its filters, and how many there are.
    pub fn rows(&self) -> (usize, usize) {
        let all = self.snapshot.rows();
        (self.rows_expected.unwrap_or(all), all)
    }

    /// Whether a filter looks at this output column and no other.
    pub fn is_filtered_by(&self, column: usize) -> bool {
        let column = self.projection.get(column);
        let mut filters = self.filters.iter();
        filters.any(|filter| column.is_some_and(|column| filter.columns() == [*column]))
    }

    /// Whether it ends after some rows.
    pub fn is_limited(&self) -> bool {
        self.fetch.is_some()
    }

    /// What reading the scan's columns takes: its rows, and more for long texts.
    pub fn work_rows(&self) -> u64 {
        if let ScannedRows::Found(found) = &self.rows {
            return found.places.len() as u64;
        }
        let mut columns = self.projection.clone();
        columns.extend(self.filters.iter().flat_map(Filter::columns));
        columns.sort_unstable();
        columns.dedup();
        let parts = self.snapshot.parts().iter();
        let bytes = parts.map(|part| {
            // The column behind the last is made of nothing.
            let slots = columns
                .iter()
                .filter_map(|c| part.segment.columns().get(*c));
            slots.map(|slot| slot.bytes() as u64).sum::<u64>()
        });
        self.snapshot.rows() as u64 + bytes.sum::<u64>() / BYTES_PER_ROW
    }

    /// Whether another scan reads the same rows and columns, in the same partitions.
    pub fn is_same(&self, other: &Self) -> bool {
        let all = |scan: &Self| match scan.rows {
            ScannedRows::All { partitions } => Some(partitions),
            ScannedRows::Found(_) => None,
        };
        let is_dynamic = !(self.dynamic.is_empty() && other.dynamic.is_empty());
        let mut filters = self.filters.iter().zip(&other.filters);
        Arc::ptr_eq(&self.table, &other.table)
            && self.snapshot.is(&other.snapshot)
            && all(self).is_some()
            && all(self) == all(other)
            && !is_dynamic
            && self.projection == other.projection
            && self.schema == other.schema
            && self.fetch == other.fetch
            && self.count_accesses == other.count_accesses
            && self.filters.len() == other.filters.len()
            && filters.all(|(one, other)| one.expr() == other.expr())
    }

    fn add_filters(&mut self, filters: ScanFilters<'_>) -> Result<(), EngineError> {
        if filters.exprs.is_empty() {
            return Ok(());
        }
        let schema = &self.table_schema;
        for filter in filters.exprs {
            let filters = Filter::conjuncts(filter, schema)?;
            for filter in &filters {
                self.implied.extend(filter.implied(schema)?);
            }
            self.filters.extend(filters);
        }
        let rows = match &self.rows {
            ScannedRows::Found(found) => found.places.len(),
            ScannedRows::All { .. } => {
                let tried = || selectivity(&self.snapshot, schema, &self.filters).ok();
                // A filter on a subquery's result can't be tried before that has run.
                let share = filters.share.or_else(tried).unwrap_or(UNKNOWN_SELECTIVITY);
                (self.snapshot.rows() as f64 * share).round() as usize
            }
        };
        self.rows_expected = Some(rows);
        self.statistics = Told::default();
        Ok(())
    }

    /// What is known of the rows that the scan yields, or one of its partitions.
    fn yielded(&self, partition: Option<usize>) -> Statistics {
        let columns = self.projection.iter().copied();
        let mut statistics = statistics(self.snapshot.summary(), &self.table_schema, columns);
        if let Some(rows) = self.rows_expected {
            statistics = statistics.to_inexact();
            statistics.num_rows = Precision::Inexact(rows);
            for column in &mut statistics.column_statistics {
                column.distinct_count = column.distinct_count.map(|distinct| distinct.min(rows));
            }
        }
        if partition.is_some() {
            let share = self.partitions.pieces.len();
            statistics = statistics.to_inexact();
            statistics.num_rows = statistics.num_rows.map(|rows| rows / share);
        }
        if let Some(fetch) = self.fetch {
            statistics = statistics.to_inexact();
            statistics.num_rows = statistics.num_rows.map(|rows| rows.min(fetch));
        }
        statistics.total_byte_size = statistics
            .num_rows
            .map(|rows| rows * row_bytes(&self.schema))
            .to_inexact();
        statistics
    }

    /// What the texts and arrays of a row take, of columns that are read and whose values have `bytes_min` on average. Rows
    /// as they were written are not told by columns: all of such a row counts, where it has as much.
    pub fn long_bytes(&self, bytes_min: u64) -> u64 {
        let fields = self.table_schema.fields();
        let is_of_any_size =
            |column: &usize| fields[*column].data_type().primitive_width().is_none();
        let columns = self.projection.iter().copied().filter(is_of_any_size);
        let columns: Vec<usize> = columns.collect();
        if columns.is_empty() {
            return 0;
        }
        let segments = self.snapshot.parts().iter().map(|part| &*part.segment);
        let (written, stored): (Vec<&Segment>, Vec<&Segment>) =
            segments.partition(|segment| segment.written().is_some());
        let is_long = |bytes: &u64| *bytes >= bytes_min;
        let of_column =
            |column: usize| average(&stored, |segment| segment.columns()[column].bytes() as u64);
        let of_stored: u64 = columns.into_iter().map(of_column).filter(is_long).sum();
        let of_written = Some(average(&written, Segment::bytes)).filter(is_long);
        of_stored.max(of_written.unwrap_or(0))
    }

    /// `expr`, whose columns are those of the scan's output, over the table's columns.
    fn over_table(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let schema = &self.table_schema;
        let moved = Arc::clone(expr).transform_up(|node| {
            Ok(match node.downcast_ref::<Column>() {
                Some(column) => {
                    let index = self.projection[column.index()];
                    Transformed::yes(Arc::new(Column::new(schema.field(index).name(), index)) as _)
                }
                None => Transformed::no(node),
            })
        })?;
        Ok(moved.data)
    }

    /// The order of the output, where the sorted column is part of it. That column has no nulls, so
    /// they come first as truly as last.
    fn ordering(&self, nulls_first: bool) -> Option<LexOrdering> {
        let sorted = self.partitions.sorted.as_ref()?;
        let index = self
            .projection
            .iter()
            .position(|column| *column == sorted.column)?;
        let column = Column::new(self.schema.field(index).name(), index);
        let options = SortOptions {
            descending: false,
            nulls_first,
        };
        LexOrdering::new([PhysicalSortExpr::new(Arc::new(column), options)])
    }

    fn range_partitioning(&self) -> Option<Partitioning> {
        let sorted = self.partitions.sorted.as_ref()?;
        let data_type = self.table.schema().field(sorted.column).data_type();
        let splits = sorted
            .splits
            .as_ref()?
            .iter()
            .map(|value| Some(SplitPoint::new(vec![scalar(*value, data_type)?])))
            .collect::<Option<Vec<_>>>()?;
        RangePartitioning::try_new(self.ordering(true)?, splits)
            .ok()
            .map(Partitioning::Range)
    }

    /// Who reads, as the context of a query says.
    fn reader(&self, context: &TaskContext) -> Reader {
        let extensions = &context.session_config().options().extensions;
        let of_session = extensions.get::<Settings>().map(Settings::traffic);
        Reader {
            account: match of_session {
                Some(account) => Arc::clone(account),
                None => TrafficAccount::of_engine(self.costs.traffic()),
            },
            task: match self.rows {
                ScannedRows::All { .. } => Task::Scan,
                ScannedRows::Found(_) => Task::Point,
            },
        }
    }

    /// The scans that this one joins.
    fn cooperative(&self, context: &TaskContext) -> Option<Arc<CooperativeScans>> {
        let extensions = &context.session_config().options().extensions;
        let settings = extensions.get::<Settings>();
        let joins = matches!(self.rows, ScannedRows::All { .. })
            && self.fetch.is_none()
            && settings.is_some_and(Settings::cooperative_scans)
            && self.reads_far();
        self.costs.cooperative().filter(|_| joins).cloned()
    }

    /// What brings near what it reads, if something does.
    fn engine(&self, context: &TaskContext) -> Option<CopyEngine> {
        let extensions = &context.session_config().options().extensions;
        let by = extensions.get::<Settings>().map(Settings::read_ahead)?;
        let reads_all = matches!(self.rows, ScannedRows::All { .. }) && self.fetch.is_none();
        match reads_all && by != ReadAheadBy::Off && self.reads_far() {
            true => self.costs.engine(by),
            false => None,
        }
    }

    /// Whether more than half of the rows are expected to pass all filters.
    fn passes_most(&self) -> bool {
        let passing = self.rows_expected.unwrap_or(usize::MAX);
        self.dynamic.is_empty() && passing > self.snapshot.rows() / 2
    }

    /// Opens a partition, whose rows `consumer` takes if there is one.
    pub(crate) fn open_for(
        &self,
        partition: usize,
        context: &TaskContext,
        consumer: Option<Box<dyn RowConsumer>>,
    ) -> SendableRecordBatchStream {
        let transaction = context.session_config().get_extension::<Transaction>();
        let may_look_up = matches!(self.rows, ScannedRows::All { .. })
            && !self.dynamic.is_empty()
            && !self.snapshot.indexes().is_empty();
        let lookup = transaction
            .filter(|_| may_look_up)
            .map(|transaction| Lookup {
                transaction,
                table: Arc::clone(&self.table),
                rows: MetricBuilder::new(&self.metrics).counter(LOOKED_UP_METRIC, partition),
            });
        Box::pin(ScanStream::new(PartitionScan {
            lookup,
            cooperative: self.cooperative(context),
            engine: self.engine(context),
            scan_id: Arc::as_ptr(&self.partitions).addr(),
            in_any_order: self.in_any_order,
            passes_most: self.passes_most(),
            snapshot: self.snapshot.clone(),
            pieces: self.partitions.pieces[partition].clone().into(),
            table_schema: Arc::clone(&self.table_schema),
            schema: Arc::clone(&self.schema),
            projection: match &consumer {
                Some(consumer) => consumer.columns(),
                None => self.projection.clone(),
            },
            filters: self.filters.clone(),
            implied: self.implied.clone(),
            dynamic: self
                .dynamic
                .iter()
                .cloned()
                .map(DynamicFilter::new)
                .collect(),
            fetch: self.fetch,
            consumer,
            costs: PartitionCosts::new(
                &self.costs,
                (self.count_accesses, self.reader(context)),
                &self.metrics,
                partition,
            ),
            metrics: BaselineMetrics::new(&self.metrics, partition),
        }))
    }

    fn projected(&self, projection: Vec<usize>) -> Result<Self> {
        Ok(Self {
            schema: Arc::new(self.table_schema.project(&projection)?),
            projection,
            ..self.clone()
        })
    }
}

impl DataSource for TableScan {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        Ok(self.open_for(partition, &context, None))
    }

    fn fmt_as(&self, format: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> = self
            .schema
            .fields()
            .iter()
            .map(|c| c.name().as_str())
            .collect();
        match format {
            DisplayFormatType::TreeRender => writeln!(f, "table={}", self.table.name())?,
            _ => write!(
                f,
                "table={}, columns=[{}]",
                self.table.name(),
                columns.join(", ")
            )?,
        }
        if let ScannedRows::Found(found) = &self.rows {
            write!(f, ", index={}", found.index.definition().name)?;
        }
        let filters = self.filters.iter().map(Filter::expr).chain(&self.dynamic);
        let filters: Vec<String> = filters.map(ToString::to_string).collect();
        if !filters.is_empty() {
            write!(f, ", filters=[{}]", filters.join(", "))?;
        }
        if self.in_any_order {
            write!(f, ", order=any")?;
        }
        self.fetch
            .map_or(Ok(()), |fetch| write!(f, ", fetch={fetch}"))
    }

    fn output_partitioning(&self) -> Partitioning {
        self.range_partitioning()
            .unwrap_or(Partitioning::UnknownPartitioning(
                self.partitions.pieces.len(),
            ))
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        let orderings = [true, false].map(|nulls_first| {
            let is_kept = !self.in_any_order;
            is_kept.then(|| self.ordering(nulls_first)).flatten()
        });
        EquivalenceProperties::new_with_orderings(
            Arc::clone(&self.schema),
            orderings.into_iter().flatten(),
        )
    }

    fn partition_statistics(&self, partition: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(match partition {
            Some(_) => Arc::new(self.yielded(partition)),
            None => {
                let told = &self.statistics.0;
                Arc::clone(told.get_or_init(|| Arc::new(self.yielded(None))))
            }
        })
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        Some(Arc::new(Self {
            fetch: limit,
            ..self.clone()
        }))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn metrics(&self) -> ExecutionPlanMetricsSet {
        self.metrics.clone()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn DataSource>>> {
        let columns: Option<Vec<usize>> = projection
            .iter()
            .map(|p| {
                let column = p.expr.downcast_ref::<Column>()?;
                (column.name() == p.alias).then(|| self.projection[column.index()])
            })
            .collect();
        columns
            .map(|columns| Ok(Arc::new(self.projected(columns)?) as Arc<dyn DataSource>))
            .transpose()
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn DataSource>>> {
        if filters.is_empty() || self.fetch.is_some() {
            let declined = vec![PushedDown::No; filters.len()];
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(
                declined,
            ));
        }
        let mut scan = self.clone();
        let mut fixed = Vec::new();
        let mut answers = Vec::with_capacity(filters.len());
        for filter in &filters {
            // The scan tries a filter once per value, not once per row.
            if filter.exists(|node| Ok(node.is_volatile_node()))? {
                answers.push(PushedDown::No);
                continue;
            }
            answers.push(PushedDown::Yes);
            let filter = self.over_table(filter)?;
            if filter.is::<DynamicFilterPhysicalExpr>() {
                scan.dynamic.push(filter);
            } else {
                fixed.push(filter);
            }
        }
        scan.add_filters(ScanFilters::untried(&fixed))?;
        Ok(
            FilterPushdownPropagation::with_parent_pushdown_result(answers)
                .with_updated_node(Arc::new(scan) as _),
        )
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in self.filters.iter().map(Filter::expr).chain(&self.dynamic) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

/// What a row takes of what `bytes` tells of segments.
fn average(segments: &[&Segment], bytes: impl Fn(&Segment) -> u64) -> u64 {
    let all: u64 = segments.iter().map(|segment| bytes(segment)).sum();
    let rows: usize = segments.iter().map(|segment| segment.rows()).sum();
    all / (rows as u64).max(1)
}

/// Bytes of one decoded row; strings count as their view and as many bytes again.
fn row_bytes(schema: &Schema) -> usize {
    const STRING_BYTES: usize = 32;
    let width = |f: &arrow::datatypes::FieldRef| f.data_type().primitive_width();
    schema
        .fields()
        .iter()
        .map(|f| width(f).unwrap_or(STRING_BYTES))
        .sum()
}
