//! Rows that are on their way.

use std::ops::Range;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use nearfar_memory::AppendArea;
use nearfar_table::segment::{ColumnSegment, SegmentMemory};

use crate::scan::charge::{Arrival, PartitionCosts};
use crate::scan::cooperative::{CopiedColumn, CopyEnds};

/// Columns of the rows that a scan reads which were brought near.
#[derive(Debug, Default)]
pub struct AheadColumns {
    /// By column, whether an emulated engine has read it; none where it is empty.
    modelled: Vec<bool>,
    /// Those that were copied.
    pub copies: Vec<CopiedColumn>,
}

impl AheadColumns {
    /// Whether a column is near in the model, though it is read where it is.
    pub fn is_modelled(&self, column: usize) -> bool {
        self.modelled.get(column) == Some(&true)
    }
}

/// A column of which rows are copied to an area, behind those before them.
#[derive(Debug)]
pub struct Landing {
    pub column: usize,
    pub far: Arc<ColumnSegment>,
    pub area: Arc<AppendArea>,
    /// Bytes of the area when they are there.
    pub end_bytes: usize,
}

impl Landing {
    /// The column with the rows that have landed. None where they have not, since a thread has died.
    fn copy(self) -> Option<CopiedColumn> {
        if self.area.len() < self.end_bytes {
            return None;
        }
        let memory = SegmentMemory::Appended(self.area.prefix(self.end_bytes));
        let near = self.far.with_codes_in(memory).ok()?;
        Some(CopiedColumn {
            column: self.column,
            near: Arc::new(near),
            far: self.far,
        })
    }
}

/// How rows come near.
#[derive(Debug)]
pub enum Way {
    /// By an emulated engine, which reads these columns.
    Modelled(Vec<bool>, Arrival),
    /// By a thread, which says when it ends.
    Copied(Vec<Landing>, CopyEnds),
}

/// Rows of one part, and how their columns come near.
#[derive(Debug)]
pub struct Stretch {
    pub part: usize,
    pub rows: Range<usize>,
    /// None once the scan has what it brings.
    pub way: Option<Way>,
}

/// Whether rows have come.
pub enum Arrived {
    /// They have, with these columns near.
    Now(AheadColumns),
    /// They will when this ends.
    When(BoxFuture<'static, ()>),
}

impl Stretch {
    /// Whether it has a row.
    pub fn has(&self, part: usize, row: usize) -> bool {
        self.part == part && self.rows.contains(&row)
    }

    /// What ends when all that it brings is there. None where that is.
    fn wait(&self, costs: &PartitionCosts) -> Option<BoxFuture<'static, ()>> {
        match self.way.as_ref()? {
            Way::Modelled(_, arrival) => costs.waits_for(arrival),
            Way::Copied(_, ends) => {
                let waits = ends.clone().now_or_never().is_none();
                waits.then(|| ends.clone().map(drop).boxed())
            }
        }
    }

    /// Whether all that it brings is there.
    pub fn is_there(&self, costs: &PartitionCosts) -> bool {
        self.wait(costs).is_none()
    }

    /// What it brings, or what ends when that is there. None once it was told.
    pub fn arrive(&mut self, costs: &PartitionCosts) -> Option<Arrived> {
        if let Some(waits) = self.wait(costs) {
            return Some(Arrived::When(waits));
        }
        Some(Arrived::Now(match self.way.take()? {
            Way::Copied(landings, _) => AheadColumns {
                modelled: Vec::new(),
                copies: landings.into_iter().filter_map(Landing::copy).collect(),
            },
            Way::Modelled(modelled, _) => AheadColumns {
                modelled,
                copies: Vec::new(),
            },
        }))
    }
}
