//! Passes over columns in virtual time: the filtering scan of `nearfar-kernels` on virtual threads, and a plain read.
//!
//! Each thread passes once over a column of its own, as in weisgut-2025, section 5.2, and all begin at the same time; their
//! rates are added. No cache has anything of a column, so that only columns can be modelled that caches do not hold.
//! Columns that are long are followed in part, with pages that are smaller by as much: the pages of a placement come in the
//! same order and in the same proportion.

use std::collections::BTreeMap;

use nearfar_kernels::{Scan, Stores};
use nearfar_memory::PlacementSpec;
use nearfar_model::Probe;
use nearfar_model::simulation::pattern::mix;
use nearfar_model::simulation::{
    Caches, FilterProbe, Machine, MachineError, PlacedBuffer, PositionStores, VirtualProbe,
};
use nearfar_topology::Profile;

use crate::access::{DevicePages, DeviceTiers, HUGE_PAGE_BYTES, Mistake, PAGE_BYTES, place};

/// Bytes of a column that are followed, of one thread and of all of them, at most: a second or less of one core's time.
const FOLLOWED_BYTES_MAX: u64 = 32 << 20;
const FOLLOWED_BYTES_IN_ALL: u64 = 256 << 20;

/// Columns that have at least this many times the bytes of all caches are not found in them.
const CACHES_FACTOR: u64 = 2;

/// Values of a line.
const LINE_VALUES: usize = 16;

/// Addresses between the columns, and between a column and its positions, in the model.
const SPACING_BYTES: usize = 1 << 34;

/// Columns of threads, and where they lie.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelledColumns {
    /// Threads, each with a column of its own.
    pub threads: usize,
    /// Bytes of each column, a multiple of 4096; as many again for its positions.
    pub column_bytes: u64,
    /// Where columns lie.
    pub columns: PlacementSpec,
    /// Where positions are written.
    pub positions: PlacementSpec,
}

/// Columns that cannot be modelled.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ModelledColumnsError {
    /// The profile cannot be simulated, or has not so many threads.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// A placement names a tier that the profile has not.
    #[error("{field}: {reason}")]
    UnknownTier {
        /// Of what.
        field: &'static str,
        /// Which, and which there are.
        reason: String,
    },
    /// Columns that do not fit, or of which the model knows nothing.
    #[error("{field}: {reason}")]
    Refused {
        /// What is wrong.
        field: &'static str,
        /// Why, and what to do.
        reason: String,
    },
}

/// Columns on the devices of a machine, ready to be passed over.
#[derive(Debug, Clone)]
pub struct PlannedColumns {
    machine: Machine,
    threads: usize,
    column_bytes: u64,
    /// Bytes of each column that are followed.
    followed_bytes: usize,
    columns: Vec<DevicePages>,
    positions: Vec<DevicePages>,
}

impl ModelledColumns {
    /// Places the columns on the machine of `profile`; runs nothing.
    ///
    /// # Errors
    /// [`ModelledColumnsError`].
    ///
    /// ```
    /// use nearfar_measure::scan::ModelledColumns;
    /// use nearfar_topology::Profile;
    ///
    /// let columns = ModelledColumns {
    ///     threads: 2,
    ///     column_bytes: 128 << 20,
    ///     columns: "far".parse()?,
    ///     positions: "near".parse()?,
    /// };
    /// let planned = columns.plan(&Profile::builtin("cxl-blades-1")?)?;
    /// assert!(planned.scan_bytes_per_s(0.001)? <= planned.read_bytes_per_s()? * 1.05);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan(&self, profile: &Profile) -> Result<PlannedColumns, ModelledColumnsError> {
        let machine = Machine::new(profile)?;
        machine.check_threads(self.threads)?;
        self.check_bytes(&machine)?;
        let tiers = DeviceTiers::new(&machine, profile)?;
        let followed = self.followed_bytes();
        let of = |field: &'static str, spec: &PlacementSpec, bytes, page_bytes| {
            place(spec, &tiers, bytes, page_bytes).map_err(|mistake| refused(field, &mistake))
        };
        let mut needed = BTreeMap::new();
        for (field, spec) in self.placements() {
            for part in of(field, spec, self.column_bytes, HUGE_PAGE_BYTES)? {
                (0..self.threads).for_each(|_| part.add_bytes(&mut needed));
            }
        }
        tiers
            .check(&needed)
            .map_err(|reason| ModelledColumnsError::Refused {
                field: "column",
                reason,
            })?;
        let page_bytes = self.page_bytes(followed);
        let [columns, positions] = self
            .placements()
            .map(|(field, spec)| of(field, spec, followed, page_bytes));
        Ok(PlannedColumns {
            machine,
            threads: self.threads,
            column_bytes: self.column_bytes,
            followed_bytes: followed as usize,
            columns: columns?,
            positions: positions?,
        })
    }

    fn placements(&self) -> [(&'static str, &PlacementSpec); 2] {
        [("placement", &self.columns), ("positions", &self.positions)]
    }

    /// Refuses columns that caches would hold in part, and those of which too little would be followed.
    fn check_bytes(&self, machine: &Machine) -> Result<(), ModelledColumnsError> {
        let cores = self.threads.min(machine.cores as usize);
        let caches = machine.l3_bytes + cores as u64 * machine.core.l2_bytes;
        let least = CACHES_FACTOR * caches / self.threads as u64;
        // Pages are no smaller than those of the model.
        let most = HUGE_PAGE_BYTES / PAGE_BYTES * self.followed_bytes();
        let (bytes, profile) = (self.column_bytes, &machine.profile);
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let reason = if !bytes.is_multiple_of(PAGE_BYTES) {
            format!("{bytes} bytes: give a multiple of {PAGE_BYTES}")
        } else if bytes < least {
            format!(
                "{bytes} bytes: caches of profile {profile} would hold part of it, which is not modelled; give \
                 at least {} MiB",
                mib(least)
            )
        } else if bytes > most {
            format!("{bytes} bytes: give at most {} MiB", mib(most))
        } else {
            return Ok(());
        };
        let field = "column";
        Err(ModelledColumnsError::Refused { field, reason })
    }

    fn followed_bytes(&self) -> u64 {
        let of_thread = FOLLOWED_BYTES_IN_ALL / self.threads as u64;
        let most = FOLLOWED_BYTES_MAX.min(of_thread) / PAGE_BYTES * PAGE_BYTES;
        self.column_bytes.min(most)
    }

    /// Bytes of a page, smaller where less is followed.
    fn page_bytes(&self, followed: u64) -> u64 {
        let scaled = HUGE_PAGE_BYTES as f64 * (followed as f64 / self.column_bytes as f64);
        (scaled / PAGE_BYTES as f64).round() as u64 * PAGE_BYTES
    }
}

fn refused(field: &'static str, mistake: &Mistake) -> ModelledColumnsError {
    let reason = mistake.message().to_owned();
    if mistake.is_unknown_tier() {
        ModelledColumnsError::UnknownTier { field, reason }
    } else {
        ModelledColumnsError::Refused { field, reason }
    }
}

impl PlannedColumns {
    /// Bytes of columns per second, all threads together, of the filtering scan where this share of the values match. Its
    /// instructions are those of 16 values at a time.
    ///
    /// # Errors
    /// [`ModelledColumnsError::Machine`].
    pub fn scan_bytes_per_s(&self, match_share: f64) -> Result<f64, ModelledColumnsError> {
        let values = FilteredValues::new(self.followed_bytes / size_of::<u32>(), match_share);
        let past_caches = Scan::new().writes_past_caches(self.column_bytes as usize);
        let (stores, reported) = match past_caches {
            true => (Stores::Streaming, PositionStores::NonTemporal),
            false => (Stores::Cached, PositionStores::Cached),
        };
        let scan = Scan::new().with_stores(stores);
        self.pass(|probe, addresses| {
            // As the real ones do, they begin at a line.
            let mut positions = vec![0_u32; values.values.len() + LINE_VALUES];
            let before = positions
                .as_ptr()
                .align_offset(LINE_VALUES * size_of::<u32>());
            let positions = &mut positions[before..];
            let mut filter = values.probe(probe, addresses).with_stores(reported);
            filter.begin(&values.values);
            scan.less_than(&values.values, values.bound, 0, positions, &filter)
                .expect("there is room for all positions");
        })
    }

    /// Bytes of columns per second, all threads together, where they are only read.
    ///
    /// # Errors
    /// [`ModelledColumnsError::Machine`].
    pub fn read_bytes_per_s(&self) -> Result<f64, ModelledColumnsError> {
        self.pass(|probe, (column, _)| {
            let pages = (0..self.followed_bytes).step_by(PAGE_BYTES as usize);
            pages.for_each(|page| probe.stream(column + page, PAGE_BYTES as usize));
        })
    }

    /// Lets every thread pass over its column, given where the model has that and its positions.
    fn pass(
        &self,
        over: impl Fn(&VirtualProbe, (usize, usize)) + Sync,
    ) -> Result<f64, ModelledColumnsError> {
        let over = &over;
        let mut buffers = Vec::new();
        let mut closures = Vec::new();
        for thread in 0..self.threads {
            let column = (2 * thread + 1) * SPACING_BYTES;
            let addresses = (column, column + SPACING_BYTES);
            let parts = [(addresses.0, &self.columns), (addresses.1, &self.positions)];
            buffers.extend(
                parts
                    .into_iter()
                    .flat_map(|(first, parts)| placed(first, parts)),
            );
            closures.push(move |probe: &VirtualProbe| over(probe, addresses));
        }
        let outcome = self
            .machine
            .run_with(Caches::Streaming, &buffers, closures)?;
        let cores = outcome.load_bytes_by_core.iter();
        let cores = cores.zip(&outcome.ended_ns_by_core);
        Ok(cores
            .map(|(bytes, ended_ns)| *bytes as f64 / (ended_ns * 1e-9))
            .sum())
    }
}

/// The parts of a column or of positions, one behind the other from this address on.
fn placed(first: usize, parts: &[DevicePages]) -> Vec<PlacedBuffer> {
    let mut address = first;
    let placed = parts.iter().map(|part| {
        let begins = address;
        address += (part.pages * PAGE_BYTES) as usize;
        PlacedBuffer {
            addresses: begins..address,
            cycle: part.cycle.clone(),
        }
    });
    placed.collect()
}

/// Uniformly distributed values, of which a share lies below a bound.
pub(crate) struct FilteredValues {
    pub values: Vec<u32>,
    pub bound: u32,
    match_share: f64,
}

impl FilteredValues {
    pub(crate) fn new(count: usize, match_share: f64) -> Self {
        let values = (0..count as u64).map(|index| (mix(index + 1) >> 32) as u32);
        Self {
            values: values.collect(),
            bound: (match_share * f64::from(u32::MAX)).round() as u32,
            match_share,
        }
    }

    /// Takes what a scan of pieces of the values reports to a virtual core, at these addresses of the model: of the column
    /// and of its positions.
    pub(crate) fn probe<'a>(
        &self,
        probe: &'a VirtualProbe,
        addresses: (usize, usize),
    ) -> FilterProbe<'a> {
        FilterProbe::new(probe, self.bound, self.match_share, addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(placement: &str, positions: &str) -> ModelledColumns {
        ModelledColumns {
            threads: 4,
            column_bytes: 40 << 20,
            columns: placement.parse().unwrap(),
            positions: positions.parse().unwrap(),
        }
    }

    fn planned(placement: &str, positions: &str) -> PlannedColumns {
        let profile = Profile::builtin("cxl-blades-1").unwrap();
        columns(placement, positions).plan(&profile).unwrap()
    }

    #[test]
    fn far_columns_and_positions_cost() {
        let scan = |placement, positions, share| {
            planned(placement, positions)
                .scan_bytes_per_s(share)
                .unwrap()
        };
        let near = scan("near", "near", 0.001);
        assert!(scan("far", "near", 0.001) < near * 0.7);
        // So few positions that it does not matter where they are.
        let positions = scan("near", "far", 0.001) / near;
        assert!((0.95..=1.01).contains(&positions), "{positions}");
        assert!(scan("near", "far", 1.0) < scan("near", "near", 1.0) * 0.85);
    }

    #[test]
    fn placements_lie_between_near_and_far() {
        let read = |placement| planned(placement, "near").read_bytes_per_s().unwrap();
        let (near, far) = (read("near"), read("far"));
        for placement in [
            "interleave:near,far",
            "weighted:near=3,far=1",
            "split:near=50%,far",
        ] {
            let between = read(placement);
            assert!(far < between && between < near, "{placement}: {between}");
        }
    }

    #[test]
    fn what_is_followed_has_the_shares_of_the_placement() {
        let mut columns = columns("weighted:near=3,far=1", "near");
        columns.threads = 24;
        columns.column_bytes = 256 << 20;
        let planned = columns
            .plan(&Profile::builtin("cxl-blades-1").unwrap())
            .unwrap();
        let mut bytes = BTreeMap::new();
        planned.columns[0].add_bytes(&mut bytes);
        let all: u64 = bytes.values().sum();
        let near = bytes[&0] as f64 / all as f64;
        assert!((0.74..=0.76).contains(&near), "{near}");
        assert!(planned.followed_bytes * 24 <= FOLLOWED_BYTES_IN_ALL as usize);
    }

    #[test]
    fn what_the_model_cannot_say_is_refused() {
        let profile = Profile::builtin("cxl-blades-1").unwrap();
        let error = |columns: ModelledColumns| columns.plan(&profile).unwrap_err();
        let unknown = error(columns("node4", "near"));
        assert!(
            matches!(
                unknown,
                ModelledColumnsError::UnknownTier {
                    field: "placement",
                    ..
                }
            ),
            "{unknown}"
        );
        let small = ModelledColumns {
            column_bytes: 1 << 20,
            ..columns("near", "near")
        };
        assert!(error(small).to_string().contains("column: 1048576 bytes"));
        for (column_bytes, told) in [
            ((20 << 20) + 4, "multiple of 4096"),
            (1 << 45, "at most 16384 MiB"),
        ] {
            let columns = ModelledColumns {
                column_bytes,
                ..columns("far", "near")
            };
            let message = error(columns).to_string();
            assert!(message.contains(told), "{message}");
        }
        let threads = ModelledColumns {
            threads: 1000,
            ..columns("near", "near")
        };
        assert!(matches!(error(threads), ModelledColumnsError::Machine(_)));
    }
}
