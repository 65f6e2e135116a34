//! Operators over near and far buffers in virtual time (geyer-2023).
//!
//! A machine ([`OperatorMachine`]) has cores, near memory and one far tier. Threads go through phases of
//! work, of which each takes core time and bytes of both memories; what they ask for together beyond a
//! link's bandwidth or a core's time is divided among them, moment by moment (`fluid.rs`). No number is
//! fitted to a figure of the paper: bandwidths and latencies come from profiles, all else is assumed and
//! named in `machine.rs`.
//!
//! [`reproduce_geyer`] runs figures 2 to 5 and holds the shapes that the paper describes against them;
//! an [`OperatorGrid`] varies threads, shares, joins, pipelines and copies, in virtual time ([`GridOutcome::modelled`]) or
//! on this machine ([`native`]), and sets joins and pipelines beside the same with everything near. [`far_joins`] runs the join's own code in
//! the simulator.

mod aggregate;
mod far_join;
mod figures;
mod fluid;
mod grid;
mod grid_page;
mod joins;
mod machine;
pub mod native;
mod page;
mod pipelines;
mod pipelines_page;
mod shapes;

pub use self::far_join::{FarJoin, FarJoinStrategy, far_joins};
pub use self::figures::{Curve, GeyerFigure, GeyerOutcome, Map, reproduce_geyer};
pub use self::grid::{
    CopierCount, Copies, GridError, GridOutcome, JoinConfiguration, JoinPoint, OperatorGrid,
    SumPoint,
};
pub use self::joins::{Access, MODELLED_LARGE_BYTES, Placement};
pub use self::machine::{OperatorMachine, OperatorMachineError};
pub use self::pipelines::{PipelineConfiguration, PipelinePoint, PipelineWork, RingCopies};
pub use self::shapes::Shape;
