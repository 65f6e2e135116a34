//! What share of a table's rows pass its filters, found by trying them on a sample of zones.

use arrow::datatypes::SchemaRef;
use std::time::{Duration, Instant};

use super::charge::PartitionCosts;
use super::cooperative::NearColumns;
use super::filter::Filter;
use super::rows::{ActiveFilter, BoundSegment};
use super::steps::Steps;
use crate::error::EngineError;
use crate::interrupt;
use nearfar_table::segment::ZONE_ROWS;
use nearfar_table::table::Snapshot;

/// Zones looked at, spread evenly over those whose rows may pass.
const SAMPLED_ZONES: usize = 8;

/// Tables of so many parts are asked in all of them where rows may pass: filters are bound to each part for that.
const PARTS_MAX: usize = 16;

/// The longest that filters are tried which take long.
const SAMPLING: Duration = Duration::from_millis(200);

/// The estimated share, in 0..=1, of the rows of `snapshot` that pass `filters`. A sample in which
/// no row passes counts as half a row passing, since an estimate of zero would make any plan look
/// free.
///
/// # Errors
/// What evaluating a filter reports.
pub fn selectivity(
    snapshot: &Snapshot,
    schema: &SchemaRef,
    filters: &[Filter],
) -> Result<f64, EngineError> {
    if filters.is_empty() || snapshot.rows() == 0 {
        return Ok(1.0);
    }
    let mut active: Vec<ActiveFilter> = filters
        .iter()
        .map(|filter| ActiveFilter::new(filter.clone(), false))
        .collect();
    let mut costs = PartitionCosts::uncounted();
    let (mut seen, mut passed) = (0, 0);
    let is_costly = filters.iter().any(Filter::is_costly);
    let (mut steps, began) = (Steps::new(is_costly), Instant::now());
    let mut parts = Parts::new(snapshot);
    if !is_costly && snapshot.parts().len() <= PARTS_MAX {
        parts.bind_all(&active)?;
    }
    let (zones, possible_share) = parts.possible_zones();
    for (part, zone) in sample(&zones) {
        let bound = parts.bound(part, &active)?;
        let rows = bound.part.segment.rows();
        if !is_costly {
            let selected = bound.select(zone, &(0..rows), &mut active, schema, &mut costs)?;
            passed += selected.as_rows().len();
            seen += bound.rows_left(zone);
            continue;
        }
        let mut next = zone * ZONE_ROWS;
        let end = (next + ZONE_ROWS).min(rows);
        while next < end && began.elapsed() < SAMPLING {
            interrupt::check()?;
            let step = next..end.min(next + steps.rows(bound.step_rows()));
            let since = Instant::now();
            let selected = bound.select(zone, &step, &mut active, schema, &mut costs)?;
            steps.done(step.len(), since);
            passed += selected.as_rows().len();
            seen += step.len();
            next = step.end;
        }
    }
    let share = passed as f64 / seen.max(1) as f64 * possible_share;
    let least = 0.5 / seen.max(snapshot.rows().min(ZONE_ROWS * SAMPLED_ZONES)) as f64;
    Ok(share.max(least))
}

/// The parts of a table with the filters bound to some of them.
struct Parts<'a> {
    snapshot: &'a Snapshot,
    bound: Vec<Option<BoundSegment>>,
}

impl<'a> Parts<'a> {
    fn new(snapshot: &'a Snapshot) -> Self {
        Self {
            snapshot,
            bound: snapshot.parts().iter().map(|_| None).collect(),
        }
    }

    fn bound(
        &mut self,
        part: usize,
        active: &[ActiveFilter],
    ) -> Result<&mut BoundSegment, EngineError> {
        let bound = match self.bound[part].take() {
            Some(bound) => bound,
            None => {
                let part = self.snapshot.parts()[part].clone();
                BoundSegment::new(part, NearColumns::default(), active)?
            }
        };
        Ok(self.bound[part].insert(bound))
    }

    fn bind_all(&mut self, active: &[ActiveFilter]) -> Result<(), EngineError> {
        (0..self.bound.len()).try_for_each(|part| self.bound(part, active).map(drop))
    }

    /// The zones, by part and number, that may have rows that pass, and which share of all rows they have.
    fn possible_zones(&self) -> (Vec<(usize, usize)>, f64) {
        let (mut zones, mut possible, mut all) = (Vec::new(), 0, 0);
        for (index, bound) in self.bound.iter().enumerate() {
            let rows = self.snapshot.parts()[index].segment.rows();
            all += rows;
            for zone in 0..rows.div_ceil(ZONE_ROWS) {
                if bound.as_ref().is_none_or(|bound| bound.may_pass(zone)) {
                    zones.push((index, zone));
                    possible += ZONE_ROWS.min(rows - zone * ZONE_ROWS);
                }
            }
        }
        (zones, possible as f64 / all.max(1) as f64)
    }
}

/// Some of these zones, evenly spread.
fn sample(zones: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let wanted = SAMPLED_ZONES.min(zones.len());
    (0..wanted)
        .map(|i| zones[(2 * i + 1) * zones.len() / (2 * wanted)])
        .collect()
}
