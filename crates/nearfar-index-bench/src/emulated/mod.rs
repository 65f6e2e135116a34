//! Our trees on this machine, with far memory that is emulated: real threads work on real trees, and
//! each is delayed for as long as the far tier of a profile would have kept it waiting, see
//! [`nearfar_model::emulation`].
//!
//! Nodes on the far tier are those at its heap's addresses. After a few operations their thread
//! charges its accesses, which is not timed, and waits. Placement runs as threads of its own, at its
//! own intervals, and what it moves passes the tier's link too.
//!
//! What comes out is *modelled*: the processor's part is this machine's, far memory's the profile's.

mod run;
mod worker;

pub use run::{loaded_bytes, run};
