//! Interference: what one task takes from another that shares the machine's memory (mao-2025).
//!
//! * A [`Matrix`] has a [`Point`] for everything under test, alone and beside every background, for
//!   all numbers of threads, and for every pair that cannot be run the reason.
//! * [`Native`] runs it on this machine: accesses of pinned threads, storage by `fio`, and any program.
//!   [`Modelled`] runs it in virtual time on the machine of a profile.
//! * A [`Table`] is made of the figures of points, also of those that were kept: per pair the curve,
//!   the largest change, and its class ([`Effect`]).

mod application;
mod cause_table;
mod causes;
mod effect;
mod error;
mod execute;
mod in_use;
mod machine_state;
mod matrix;
mod modelled;
mod native;
mod native_run;
mod outcome;
mod page;
mod presets;
mod storage;
mod table;
mod traffic;

pub use self::application::{Application, ApplicationError, ApplicationMetric};
pub use self::cause_table::{CauseChange, unavailable};
pub use self::effect::Effect;
pub use self::error::InterferenceError;
pub use self::execute::InterferenceObserver;
pub use self::machine_state::MachineState;
pub use self::matrix::{Ground, Matrix, MissingCell, Point, Selection};
pub use self::modelled::Modelled;
pub(crate) use self::modelled::{
    SPAN, access, bandwidths, drive_gb_per_s, storage, written_storage,
};
pub(crate) use self::native::one_of_each_core;
pub use self::native::{Native, NativeOptions};
pub use self::native_run::NativePlan;
pub use self::outcome::PointOutcome;
pub use self::presets::{ApplicationType, PresetInputs};
pub use self::storage::{StorageError, StorageOptions};
pub use self::table::{Cell, Curve, CurvePoint, Figure, Table};
pub use self::traffic::{CopyOperation, MemoryOperation, StoragePattern, Traffic};
