//! Whole joins.

use nearfar_model::Probe;

use super::filter::BloomFilter;
use super::matched::Matched;
use super::partition::Partitions;
use super::plan::JoinPlan;
use super::probing::{JoinKind, ProbeCursor};
use super::table::{JoinError, JoinTable, check_side, no_memory};
use crate::cancel::Cancel;
use crate::isa::{Isa, UnsupportedIsa};
use crate::key::Key;
use crate::line::Line;
use crate::line_table::NO_ROW;
use crate::memory::reserve;
use crate::selection::Selection;

/// A join of two columns of keys.
///
/// ```
/// use nearfar_kernels::{HashJoin, JoinKind, JoinPlan};
/// use nearfar_model::Native;
///
/// let join = HashJoin::new(JoinKind::Semi, JoinPlan::default());
/// let mut rows = Vec::new();
/// join.run((&[1_i64, 2], None), (&[2_i64, 7, 2], None), &Native, |matched| {
///     rows.extend_from_slice(&matched.probe_rows);
/// })?;
/// assert_eq!(rows, [0, 2]);
/// # Ok::<(), nearfar_kernels::JoinError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashJoin {
    kind: JoinKind,
    plan: JoinPlan,
    isa: Isa,
}

/// Keys of a side, and which of their rows have one; all where that is `None`.
pub type Side<'a, K> = (&'a [K], Option<&'a Selection>);

impl HashJoin {
    /// A join that is run in this way, with the widest instructions of the machine.
    pub fn new(kind: JoinKind, plan: JoinPlan) -> Self {
        Self {
            kind,
            plan,
            isa: Isa::widest(),
        }
    }

    /// With these instructions.
    ///
    /// # Errors
    /// [`UnsupportedIsa`] where the machine lacks them.
    pub fn with_isa(self, isa: Isa) -> Result<Self, UnsupportedIsa> {
        if isa.is_available() {
            Ok(Self { isa, ..self })
        } else {
            Err(UnsupportedIsa { isa })
        }
    }

    /// Joins the keys of the build side with those of the probe side, and hands `sink` the rows, about
    /// 8192 of them each time.
    ///
    /// # Errors
    /// [`JoinError`], before `sink` is called but for [`JoinError::NoMemory`] of a part of a join in parts.
    pub fn run<K: Key, P: Probe>(
        &self,
        build: Side<'_, K>,
        probed: Side<'_, K>,
        probe: &P,
        sink: impl FnMut(&Matched),
    ) -> Result<(), JoinError> {
        self.run_cancellable(build, probed, &Cancel::default(), probe, sink)
    }

    /// As [`Self::run`], until `cancel` ends it with [`JoinError::Cancelled`]; `sink` was handed what was found before.
    ///
    /// # Errors
    /// [`JoinError`].
    pub fn run_cancellable<K: Key, P: Probe>(
        &self,
        build: Side<'_, K>,
        probed: Side<'_, K>,
        cancel: &Cancel,
        probe: &P,
        mut sink: impl FnMut(&Matched),
    ) -> Result<(), JoinError> {
        check_side(probed.0.len(), probed.1)?;
        if self.plan.partitions_log2 > 0 {
            return self.run_partitioned(build, probed, cancel, probe, &mut sink);
        }
        let (keys, valid) = build;
        let mut table = JoinTable::build_near(self.isa, keys, valid, cancel, probe)?;
        if self.plan.is_filtered {
            let filter = BloomFilter::of_cancellable(keys, valid, cancel, probe)?;
            table = table.with_filter(filter);
        }
        self.probe_all(&table, probed, probe, sink)
    }

    fn probe_all<K: Key, L: AsRef<[Line]>, N: AsRef<[u32]>, P: Probe>(
        &self,
        table: &JoinTable<L, N>,
        (keys, valid): Side<'_, K>,
        probe: &P,
        mut sink: impl FnMut(&Matched),
    ) -> Result<(), JoinError> {
        let (mut cursor, mut matched) = (ProbeCursor::default(), Matched::default());
        loop {
            matched.clear();
            let is_done = table.probe(
                self.kind,
                self.plan.probing,
                keys,
                valid,
                &mut cursor,
                &mut matched,
                probe,
            )?;
            if !matched.probe_rows.is_empty() {
                sink(&matched);
            }
            if is_done {
                return Ok(());
            }
        }
    }

    fn run_partitioned<K: Key, P: Probe>(
        &self,
        build: Side<'_, K>,
        probed: Side<'_, K>,
        cancel: &Cancel,
        probe: &P,
        sink: &mut impl FnMut(&Matched),
    ) -> Result<(), JoinError> {
        let partitions_log2 = self.plan.partitions_log2;
        let divided = |(keys, valid): Side<'_, K>| {
            Partitions::of_cancellable(keys, valid, partitions_log2, cancel, probe)
        };
        let (build, probed) = (divided(build)?, divided(probed)?);
        let (mut lines, mut links) = (Vec::new(), Vec::new());
        let mut original = Matched::default();
        for index in 0..build.len() {
            let (build_keys, build_rows) = build.partition(index);
            let (probe_keys, probe_rows) = probed.partition(index);
            let refused = |refused| no_memory(build_keys.len(), refused);
            lines.clear();
            reserve(&mut lines, Line::count_for(build_keys.len())).map_err(refused)?;
            links.clear();
            reserve(&mut links, build_keys.len()).map_err(refused)?;
            lines.resize(Line::count_for(build_keys.len()), Line::default());
            links.resize(build_keys.len(), 0);
            let (lines, links) = (&mut lines[..], &mut links[..]);
            let table =
                JoinTable::build_with(self.isa, lines, links, build_keys, None, cancel, probe)?;
            self.probe_all(&table, (probe_keys, None), probe, |matched| {
                original.clear();
                let rows = matched.probe_rows.iter();
                let rows = rows.map(|row| probe_rows[*row as usize]);
                original.probe_rows.extend(rows);
                let rows = matched.build_rows.iter();
                let rows = rows.map(|row| build_rows.get(*row as usize).copied());
                original
                    .build_rows
                    .extend(rows.map(|row| row.unwrap_or(NO_ROW)));
                sink(&original);
            })?;
        }
        if matches!(self.kind, JoinKind::Anti | JoinKind::Left) && !probed.null_rows().is_empty() {
            original.clear();
            original.probe_rows.extend_from_slice(probed.null_rows());
            if self.kind == JoinKind::Left {
                original
                    .build_rows
                    .resize(original.probe_rows.len(), NO_ROW);
            }
            sink(&original);
        }
        Ok(())
    }
}
