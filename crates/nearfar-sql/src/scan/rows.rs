//! Which rows of a piece pass the filters, zone by zone.

use arrow::array::Array;
use arrow::array::ArrayRef;
use arrow::datatypes::Schema;
use std::ops::Range;
use std::sync::Arc;

use super::ahead::AheadColumns;
use super::charge::PartitionCosts;
use super::cooperative::NearColumns;
use super::filter::{Bound, Domain, Filter, ZoneFilter};
use super::steps::{rows_by_bytes, text_bytes};
use crate::error::EngineError;
use nearfar_model::StreamedRun;
use nearfar_table::segment::{ColumnSegment, RowSet, Selector, Verdict, ZONE_ROWS};
use nearfar_table::table::{ColumnSlot, DeleteVector, Part, Segment, TableSummary};

/// Rows of which a cache line has the codes, in most columns.
const LINE_ROWS: usize = 16;

/// Rows a filter that may be left out is tried on before it is judged.
const TRIAL_ROWS: usize = 2 * ZONE_ROWS;

/// A filter that may be left out is, when more than this share of the rows pass it.
const USEFUL_SHARE: f64 = 0.75;

/// For how many rows it is left out then, before it is tried again: rows that lie together are often alike. Twice as many
/// each time, up to the most.
const PAUSE_ROWS: usize = 4 * ZONE_ROWS;
const PAUSE_ROWS_MAX: usize = 64 * ZONE_ROWS;

/// How a filter that may be left out has done.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// Rows that met it since it was last judged, and how many of them passed.
    rows: usize,
    passed: usize,
    /// Rows that it is left out for still.
    pause_rows: usize,
    next_pause_rows: usize,
    /// All rows that met it.
    rows_tried: usize,
}

impl Default for Trial {
    fn default() -> Self {
        Self {
            rows: 0,
            passed: 0,
            pause_rows: 0,
            next_pause_rows: PAUSE_ROWS,
            rows_tried: 0,
        }
    }
}

impl Trial {
    fn add(&mut self, rows: usize, passed: usize) {
        self.rows_tried += rows;
        self.rows += rows;
        self.passed += passed;
        if self.rows < TRIAL_ROWS {
            return;
        }
        let is_useless = self.passed as f64 > USEFUL_SHARE * self.rows as f64;
        (self.rows, self.passed) = (0, 0);
        if is_useless {
            self.pause_rows = self.next_pause_rows;
            self.next_pause_rows = (2 * self.next_pause_rows).min(PAUSE_ROWS_MAX);
        } else {
            self.next_pause_rows = PAUSE_ROWS;
        }
    }

    /// Rows that it may be left out for come past.
    fn pass_by(&mut self, rows: usize) {
        self.pause_rows = self.pause_rows.saturating_sub(rows);
    }
}

/// A filter, whether the scan may leave it out, and how it has done so far.
#[derive(Debug)]
pub struct ActiveFilter {
    pub filter: Filter,
    /// A join, a top-k or another filter checks these rows again: leaving the filter out changes no result.
    pub optional: bool,
    /// Whether it follows from others, so that it is of use only where it is decided on codes.
    is_implied: bool,
    trial: Trial,
    /// Its verdict on every value of its column, once that has paid.
    domain: Option<Domain>,
    /// Whether the verdict on every value has been asked for.
    domain_tried: bool,
}

/// A filter is tried on all values of its column when the scan has this many times as many rows,
/// and once it has been tried on one row for this many values: a filter that changes with every
/// batch never gets there.
const DOMAIN_SHARE: usize = 4;

impl ActiveFilter {
    /// A filter that has not been tried yet.
    pub fn new(filter: Filter, optional: bool) -> Self {
        Self {
            filter,
            optional,
            is_implied: false,
            trial: Trial::default(),
            domain: None,
            domain_tried: false,
        }
    }

    /// A filter that follows from others.
    pub fn implied(filter: Filter) -> Self {
        Self {
            is_implied: true,
            ..Self::new(filter, true)
        }
    }

    /// Whether it follows from others.
    pub fn is_implied(&self) -> bool {
        self.is_implied
    }

    /// Tries the filter on every value its column can have, if that is cheaper than trying it on
    /// the rows of the scan; says whether it did.
    pub fn try_domain(
        &mut self,
        summary: &TableSummary,
        schema: &Schema,
        rows_of_scan: usize,
    ) -> bool {
        let [column] = self.filter.columns()[..] else {
            return false;
        };
        let Some((low, high)) = summary.columns[column].bounds else {
            return false;
        };
        let rows_tried = (self.trial.rows_tried * DOMAIN_SHARE) as i128;
        let rows_worth = (rows_of_scan / DOMAIN_SHARE) as i128;
        let pays = high
            .checked_sub(low)
            .is_some_and(|size| size < rows_tried.min(rows_worth));
        // A range is decided on codes as it is.
        let is_range = self.filter.is_of_ranges();
        if self.domain_tried || is_range || !pays || !self.is_on() {
            return false;
        }
        self.domain_tried = true;
        self.domain = self
            .filter
            .domain((low, high), schema.field(column).data_type());
        self.domain.is_some()
    }

    fn is_on(&self) -> bool {
        !self.optional || self.trial.pause_rows == 0
    }

    /// Whether it is left out for the `rows` that come next.
    fn is_left_out(&mut self, rows: usize) -> bool {
        let is_on = self.is_on();
        self.trial.pass_by(rows);
        !is_on
    }
}

/// The rows that pass, as an owned set.
#[derive(Debug, PartialEq, Eq)]
pub enum Selected {
    None,
    Run(Range<usize>),
    Positions(Vec<u32>),
}

/// One part of a table with the filters bound to it.
pub struct BoundSegment {
    pub part: Part,
    current: Vec<Option<Arc<ColumnSegment>>>,
    /// Those of `current` that the table has far.
    near: NearColumns,
    /// Columns of the rows that are read now which were brought near ahead.
    ahead: AheadColumns,
    /// Per column, rows that were read so far.
    rows_read: Vec<usize>,
    /// Per column, the run of rows that filters have read last.
    read_by_filters: Vec<Range<usize>>,
    zones: Vec<(usize, ZoneFilter)>,
    rows: Vec<usize>,
    /// Rows whose texts may be looked at in one step.
    step_rows: usize,
    selector: Selector,
}

impl BoundSegment {
    /// Binds `filters` to `part`, of which these columns are `near`.
    ///
    /// # Errors
    /// Columns of filters that can't be brought to memory.
    pub fn new(
        part: Part,
        near: NearColumns,
        filters: &[ActiveFilter],
    ) -> Result<Self, EngineError> {
        Self::bind(part, near, AheadColumns::default(), filters)
    }

    fn bind(
        part: Part,
        near: NearColumns,
        ahead: AheadColumns,
        filters: &[ActiveFilter],
    ) -> Result<Self, EngineError> {
        let columns = part.segment.columns().len();
        let mut current = vec![None; columns];
        let copies = ahead.copies.iter().map(|copy| (copy.column, &copy.near));
        for (column, segment) in near.iter().chain(copies) {
            current[column] = Some(Arc::clone(segment));
        }
        let mut bound = Self {
            current,
            near,
            ahead,
            rows_read: vec![0; columns],
            read_by_filters: vec![0..0; columns],
            part,
            zones: Vec::new(),
            rows: Vec::new(),
            step_rows: ZONE_ROWS,
            selector: Selector::default(),
        };
        for (index, active) in filters.iter().enumerate() {
            for column in active.filter.columns() {
                let segment = bound.column(*column)?;
                if active.filter.is_costly() {
                    let row_bytes = text_bytes(&segment, bound.segment().rows());
                    bound.step_rows = bound.step_rows.min(rows_by_bytes(row_bytes));
                }
            }
            let of = |column: usize| bound.current[column].clone();
            match active.filter.bind(of, active.domain.as_ref()) {
                Bound::Zone(filter) => bound.add_zone_filter(index, filter, filters),
                Bound::Rows if active.is_implied => {}
                Bound::Rows => bound.rows.push(index),
            }
        }
        Ok(bound)
    }

    /// The same part, bound to other filters.
    ///
    /// # Errors
    /// Columns of filters that can't be brought to memory.
    pub fn rebound(self, filters: &[ActiveFilter]) -> Result<Self, EngineError> {
        let bound = Self::bind(self.part, self.near, self.ahead, filters)?;
        Ok(Self {
            rows_read: self.rows_read,
            ..bound
        })
    }

    /// The rows that are read from now on have these columns brought near ahead, and those before them are read no more. The
    /// filters are those that it is bound to.
    pub fn go_ahead(&mut self, ahead: AheadColumns, filters: &[ActiveFilter]) {
        let before = std::mem::replace(&mut self.ahead, ahead).copies;
        let left = before.iter().map(|copy| (copy.column, &copy.far));
        let copies = self.ahead.copies.iter();
        for (column, segment) in left.chain(copies.map(|copy| (copy.column, &copy.near))) {
            self.current[column] = Some(Arc::clone(segment));
            for (index, zone) in &mut self.zones {
                if filters[*index].filter.columns() == [column] {
                    zone.segment = Arc::clone(segment);
                }
            }
        }
    }

    /// Columns of it that are near though the table has them far.
    pub fn near(&self) -> &NearColumns {
        &self.near
    }

    /// Per column, rows that were read so far; of those that lie apart, all that their cache lines have.
    pub fn rows_read(&self) -> &[usize] {
        &self.rows_read
    }

    /// Two ranges of one column, such as the ends of `BETWEEN`, are one filter.
    fn add_zone_filter(&mut self, index: usize, filter: ZoneFilter, filters: &[ActiveFilter]) {
        let is_judged = |index: usize| filters[index].optional;
        let mut others = self.zones.iter_mut();
        let is_in_other = !is_judged(index)
            && others.any(|(other, own)| !is_judged(*other) && own.narrow(&filter));
        if !is_in_other {
            self.zones.push((index, filter));
        }
    }

    /// Rows whose texts may be looked at in one step, of a zone at most.
    pub fn step_rows(&self) -> usize {
        self.step_rows
    }

    /// Whether zone maps leave it open that rows of `zone` pass.
    pub fn may_pass(&self, zone: usize) -> bool {
        let mut filters = self.zones.iter();
        filters.all(|(_, filter)| filter.verdict(zone) != Verdict::None)
    }

    fn segment(&self) -> &Segment {
        &self.part.segment
    }

    /// The column as it is placed when the segment is first read, with the rows that were brought near ahead.
    ///
    /// # Errors
    /// A column that can't be brought to memory.
    pub fn column(&mut self, column: usize) -> Result<Arc<ColumnSegment>, EngineError> {
        if let Some(current) = &self.current[column] {
            return Ok(Arc::clone(current));
        }
        let current = self.part.segment.columns()[column].current()?;
        self.current[column] = Some(Arc::clone(&current));
        Ok(current)
    }

    /// The slot a column's counters are in.
    pub fn slot(&self, column: usize) -> &ColumnSlot {
        &self.segment().columns()[column]
    }

    /// Rows of `zone` that are not deleted.
    pub fn rows_left(&self, zone: usize) -> usize {
        let start = zone * ZONE_ROWS;
        let end = (start + ZONE_ROWS).min(self.segment().rows());
        let delete_vector = self.part.delete_vector.as_deref();
        let deleted =
            |delete_vector: &DeleteVector| delete_vector.rank(end) - delete_vector.rank(start);
        end - start - delete_vector.map_or(0, deleted)
    }

    /// The rows of `zone`, cut to `within`, that pass all filters.
    ///
    /// # Errors
    /// What evaluating a filter reports.
    pub fn select(
        &mut self,
        zone: usize,
        within: &Range<usize>,
        filters: &mut [ActiveFilter],
        schema: &Schema,
        costs: &mut PartitionCosts,
    ) -> Result<Selected, EngineError> {
        let start = (zone * ZONE_ROWS).max(within.start);
        let end = ((zone + 1) * ZONE_ROWS).min(within.end);
        let mut selected = self.select_by_zone(zone, start..end, filters, costs);
        for position in 0..self.rows.len() {
            let index = self.rows[position];
            if selected == Selected::None {
                break;
            }
            let filter = &mut filters[index];
            if !filter.is_left_out(selected.as_rows().len()) {
                selected = self.select_by_rows(selected, filter, schema, costs)?;
            }
        }
        Ok(selected)
    }

    fn select_by_zone(
        &mut self,
        zone: usize,
        rows: Range<usize>,
        filters: &mut [ActiveFilter],
        costs: &mut PartitionCosts,
    ) -> Selected {
        let verdicts: Vec<Verdict> = self.zones.iter().map(|(_, f)| f.verdict(zone)).collect();
        if verdicts.contains(&Verdict::None) {
            return Selected::None;
        }
        let delete_vector = self.part.delete_vector.as_deref();
        let mut left = rows.len();
        let mut masked = false;
        if let Some(delete_vector) =
            delete_vector.filter(|delete_vector| delete_vector.touches(zone))
        {
            self.selector.begin(rows.len());
            self.selector.remove(delete_vector.words_from(rows.start));
            left = self.selector.count();
            masked = true;
            if left == 0 {
                return Selected::None;
            }
        }
        for ((index, filter), verdict) in self.zones.iter().zip(verdicts) {
            let active = &mut filters[*index];
            if verdict == Verdict::All || active.is_left_out(left) {
                continue;
            }
            if !masked {
                self.selector.begin(rows.len());
                masked = true;
            }
            let probe = StreamedRun::default();
            filter.select(zone, rows.clone(), &mut self.selector, &probe);
            let column = active.filter.columns()[0];
            let slot = &self.part.segment.columns()[column];
            let read = &mut self.read_by_filters[column];
            let probe = (!self.ahead.is_modelled(column)).then_some(&probe);
            if charge_filter(slot, filter, &rows, read, probe, costs) {
                note_read(
                    &mut self.rows_read,
                    &self.near,
                    column,
                    run_of(&rows),
                    costs,
                );
            }
            let before = std::mem::replace(&mut left, self.selector.count());
            if active.optional {
                active.trial.add(before, left);
            }
            if left == 0 {
                return Selected::None;
            }
        }
        if masked && left < rows.len() {
            Selected::Positions(self.selector.positions(rows.start).to_vec())
        } else {
            Selected::Run(rows)
        }
    }

    fn select_by_rows(
        &mut self,
        selected: Selected,
        active: &mut ActiveFilter,
        schema: &Schema,
        costs: &mut PartitionCosts,
    ) -> Result<Selected, EngineError> {
        let rows = selected.as_rows();
        let columns = active
            .filter
            .columns()
            .iter()
            .map(|column| self.read(*column, rows, schema, costs))
            .collect::<Result<Vec<_>, _>>()?;
        let mask = active.filter.evaluate(columns, rows.len())?;
        let passed = mask.true_count();
        active.trial.add(rows.len(), passed);
        if passed == rows.len() {
            return Ok(selected);
        }
        if passed == 0 {
            return Ok(Selected::None);
        }
        let mask = match mask.nulls() {
            Some(nulls) => mask.values() & nulls.inner(),
            None => mask.values().clone(),
        };
        let positions = mask.set_indices().map(|i| match rows {
            RowSet::Run { start, .. } => (start + i) as u32,
            RowSet::Positions(positions) => positions[i],
        });
        Ok(Selected::Positions(positions.collect()))
    }

    /// The values of `rows` of a column; of the column behind the last, the rows' identities.
    /// Charged unless filters have just read the column there: then they come from the cache and are
    /// only counted.
    ///
    /// # Errors
    /// What decoding reports, and a column that can't be brought to memory.
    pub fn read(
        &mut self,
        column: usize,
        rows: RowSet<'_>,
        schema: &Schema,
        costs: &mut PartitionCosts,
    ) -> Result<ArrayRef, EngineError> {
        if column == self.segment().columns().len() {
            return Ok(self.part.id_column(rows));
        }
        let segment = self.charged(column, rows, costs)?;
        Ok(segment.read(rows, schema.field(column).data_type())?)
    }

    /// A column of the table of which `rows` are to be read, for which that is charged as by [`Self::read`].
    ///
    /// # Errors
    /// A column that can't be brought to memory.
    pub fn charged(
        &mut self,
        column: usize,
        rows: RowSet<'_>,
        costs: &mut PartitionCosts,
    ) -> Result<Arc<ColumnSegment>, EngineError> {
        let segment = self.column(column)?;
        let (span, cached) = (rows.span(), &self.read_by_filters[column]);
        if cached.start <= span.start && span.end <= cached.end {
            costs.count(self.slot(column), rows);
        } else {
            match self.ahead.is_modelled(column) {
                true => costs.count(self.slot(column), rows),
                false => costs.read(self.slot(column), &segment, rows),
            }
            note_read(&mut self.rows_read, &self.near, column, rows, costs);
        }
        Ok(segment)
    }
}

impl Selected {
    /// The same rows, borrowed.
    pub fn as_rows(&self) -> RowSet<'_> {
        match self {
            Self::None => RowSet::Positions(&[]),
            Self::Run(rows) => RowSet::Run {
                start: rows.start,
                len: rows.len(),
            },
            Self::Positions(positions) => RowSet::Positions(positions),
        }
    }
}

/// Charges what `filter` has read of its column for `rows`, and adds them to the run of those that
/// filters have `read`. What another has just read comes from the cache and is only counted, as is what is near, for which
/// there is no `probe`; whether no other had read it.
fn charge_filter(
    slot: &ColumnSlot,
    filter: &ZoneFilter,
    rows: &Range<usize>,
    read: &mut Range<usize>,
    probe: Option<&StreamedRun>,
    costs: &mut PartitionCosts,
) -> bool {
    let run = run_of(rows);
    if read.start <= rows.start && rows.end <= read.end {
        costs.count(slot, run);
        return false;
    }
    match probe {
        None => costs.count(slot, run),
        Some(probe) if filter.is_by_kernel() => costs.streamed(slot, &filter.segment, run, probe),
        Some(_) => costs.read(slot, &filter.segment, run),
    }
    extend(read, rows);
    true
}

fn run_of(rows: &Range<usize>) -> RowSet<'static> {
    RowSet::Run {
        start: rows.start,
        len: rows.len(),
    }
}

/// Notes that `rows` of a column were read, which another scan may have brought near.
fn note_read(
    rows_read: &mut [usize],
    near: &NearColumns,
    column: usize,
    rows: RowSet<'_>,
    costs: &mut PartitionCosts,
) {
    // A value alone moves a cache line, with its neighbours.
    rows_read[column] += match rows {
        RowSet::Run { len, .. } => len,
        RowSet::Positions(positions) => rows.span().len().min(positions.len() * LINE_ROWS),
    };
    if let Some(bytes) = near.saved(column, rows) {
        costs.saved(bytes);
    }
}

/// Makes `run` one with `next` where that follows it, else `next` alone.
fn extend(run: &mut Range<usize>, next: &Range<usize>) {
    if run.end == next.start || *run == *next {
        run.end = next.end;
    } else {
        *run = next.clone();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_were_left_out_are_tried_again() {
        let tried_of = |zones: usize, passed: &dyn Fn(usize) -> usize| {
            let mut trial = Trial::default();
            let tried = (0..zones).filter(|zone| {
                let is_on = trial.pause_rows == 0;
                trial.pass_by(ZONE_ROWS);
                if is_on {
                    trial.add(ZONE_ROWS, passed(*zone));
                }
                is_on
            });
            tried.collect::<Vec<usize>>()
        };
        let useless = tried_of(1000, &|_| ZONE_ROWS);
        assert_eq!(useless[..6], [0, 1, 6, 7, 16, 17]);
        assert!(useless.len() < 50, "{useless:?}");
        let useful_later = tried_of(100, &|zone| if zone < 10 { ZONE_ROWS } else { 0 });
        let expected: Vec<usize> = [0, 1, 6, 7].into_iter().chain(16..100).collect();
        assert_eq!(useful_later, expected);
    }

    #[test]
    fn runs_that_follow_each_other_are_one() {
        let mut run = 0..0;
        for (next, both) in [(0..8, 0..8), (8..16, 0..16), (24..32, 24..32)] {
            extend(&mut run, &next);
            assert_eq!(run, both);
        }
    }
}
