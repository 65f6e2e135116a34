//! Placement of trees as zhao-2026 (SIDLE) evaluates it, in virtual time.
//!
//! The paper draws its throughput and states ranges of it in the text; these are the published values
//! (`claims.csv`, with the section of each). A [`Claim`] is a policy's gain over another one in one workload, or a
//! worker's share of the processor time, and the range that the text gives for it. [`run`] runs both in the model of a
//! profile, and says whether the range holds the result or how far from it that is. Figures whose
//! values are only drawn have no claims.

mod claim;
mod outcome;
mod run;

pub use claim::{Claim, Figure, Quantity};
pub use outcome::{ClaimOutcome, FigureOutcome};
pub use run::{FigureOptions, run};
