//! What share of a table's rows pass its filters, found by trying them on a sample of zones.

use arrow::datatypes::SchemaRef;
use std::sync::Arc;

use super::charge::PartitionCosts;
use super::filter::Filter;
use super::rows::{ActiveFilter, BoundSegment};
use crate::error::StoreError;
use crate::segment::ZONE_ROWS;
use crate::table::Snapshot;

/// Zones looked at, spread evenly over the table.
const SAMPLED_ZONES: usize = 8;

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
) -> Result<f64, StoreError> {
    if filters.is_empty() || snapshot.summary.rows == 0 {
        return Ok(1.0);
    }
    let mut active: Vec<ActiveFilter> = filters
        .iter()
        .map(|filter| ActiveFilter::new(filter.clone(), false))
        .collect();
    let mut costs = PartitionCosts::uncounted();
    let (mut seen, mut passed) = (0, 0);
    for (segment, zone) in sample(snapshot) {
        let segment = Arc::clone(&snapshot.segments[segment]);
        let rows = 0..segment.rows();
        let mut bound = BoundSegment::new(segment, &active);
        let selected = bound.select(zone, &rows, &mut active, schema, &mut costs)?;
        passed += selected.as_rows().len();
        seen += ZONE_ROWS.min(rows.end - zone * ZONE_ROWS);
    }
    Ok((passed as f64).max(0.5) / seen.max(1) as f64)
}

/// Segments and zones, evenly spread.
fn sample(snapshot: &Snapshot) -> Vec<(usize, usize)> {
    let zones: Vec<(usize, usize)> = snapshot
        .segments
        .iter()
        .enumerate()
        .flat_map(|(index, s)| (0..s.rows().div_ceil(ZONE_ROWS)).map(move |zone| (index, zone)))
        .collect();
    let wanted = SAMPLED_ZONES.min(zones.len());
    (0..wanted)
        .map(|i| zones[(2 * i + 1) * zones.len() / (2 * wanted)])
        .collect()
}
