//! The scan and the plain read in virtual time.

use nearfar_measure::scan::{ModelledColumns, PlannedColumns};
use nearfar_topology::Profile;

use super::contest::Contestant;
use super::error::ScanBenchError;
use super::run::{Round, ScanBenchOptions, ScanBenchOutcome, check};

/// What of a comparison is modelled, on the machine of a profile, ready to run. Copies and Arrow's kernels are not: the model
/// knows nothing of how they store.
#[derive(Debug, Clone)]
pub struct ScanModel {
    options: ScanBenchOptions,
    profile: String,
    columns: PlannedColumns,
}

impl ScanModel {
    /// Places columns and positions on the machine of `profile`; runs nothing. Its scans have the widest instructions, and
    /// each runs once, as nothing disturbs them.
    ///
    /// # Errors
    /// [`ScanBenchError::Options`] and [`ScanBenchError::Model`].
    pub fn plan(options: &ScanBenchOptions, profile: &Profile) -> Result<Self, ScanBenchError> {
        check(options)?;
        let columns = ModelledColumns {
            threads: options.threads.get(),
            column_bytes: options.column_bytes as u64,
            columns: options.columns.clone(),
            positions: options.positions.clone(),
        };
        Ok(Self {
            options: options.clone(),
            profile: profile.name.clone(),
            columns: columns.plan(profile)?,
        })
    }

    /// Runs all that is modelled. `progress` is told what comes next.
    ///
    /// # Errors
    /// [`ScanBenchError::Model`].
    pub fn run(
        &self,
        mut progress: impl FnMut(Contestant),
    ) -> Result<ScanBenchOutcome, ScanBenchError> {
        let scans = self.options.matches_per_mille.iter();
        let scans = scans.map(|&matches_per_mille| Contestant::Scan { matches_per_mille });
        let mut rounds = Vec::new();
        for contestant in std::iter::once(Contestant::Read).chain(scans) {
            progress(contestant);
            let bytes_per_s = match contestant.matches_per_mille() {
                None => self.columns.read_bytes_per_s(),
                Some(matches) => self.columns.scan_bytes_per_s(f64::from(matches) / 1000.0),
            };
            let round = Round {
                bytes_per_s: bytes_per_s?,
                waited_share: None,
            };
            rounds.push((contestant, vec![round]));
        }
        Ok(ScanBenchOutcome {
            options: self.options.clone(),
            model: Some(self.profile.clone()),
            rounds,
        })
    }
}
