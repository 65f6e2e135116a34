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

/// Zones looked at, spread evenly over the table.
const SAMPLED_ZONES: usize = 8;

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
    for (part, zone) in sample(snapshot) {
        let part = snapshot.parts()[part].clone();
        let rows = part.segment.rows();
        let mut bound = BoundSegment::new(part, NearColumns::default(), &active)?;
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
    Ok((passed as f64).max(0.5) / seen.max(1) as f64)
}

/// Parts and zones, evenly spread.
fn sample(snapshot: &Snapshot) -> Vec<(usize, usize)> {
    let zones: Vec<(usize, usize)> = snapshot
        .parts()
        .iter()
        .enumerate()
        .flat_map(|(index, part)| {
            let zones = part.segment.rows().div_ceil(ZONE_ROWS);
            (0..zones).map(move |zone| (index, zone))
        })
        .collect();
    let wanted = SAMPLED_ZONES.min(zones.len());
    (0..wanted)
        .map(|i| zones[(2 * i + 1) * zones.len() / (2 * wanted)])
        .collect()
}
