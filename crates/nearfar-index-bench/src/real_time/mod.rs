//! Our trees on this machine in real time: real threads work on real trees, and placement runs as threads of its
//! own, at its own intervals.
//!
//! Far memory is a tier of this machine, and what comes out is *measured*; or it is emulated, see
//! [`nearfar_model::emulation`]: both tiers are this machine's near memory, nodes on the far one are those at its
//! heap's addresses, and after a few operations their thread charges its accesses, which is not timed, and waits for as
//! long as the far tier of a profile would have kept it waiting. What placement moves passes the tier's link too. What
//! comes out then is *modelled*: the processor's part is this machine's, far memory's the profile's.

mod charges;
mod run;
mod watched;
mod worker;

pub use run::{NoFarMemory, OwnTiers, loaded_bytes, run_emulated, run_on};
