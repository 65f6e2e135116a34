//! Runs on this machine as it is: all contestants in turn, run by run, in one process.
//!
//! Before a run, the requests of every thread are drawn; what is timed is the requests alone. Each
//! run of all contestants answers the same requests, so that a ratio within a run is a fair one, and
//! what disturbs a shared machine for longer than a run disturbs all alike.

mod compare;
mod subject;

pub use compare::{Compared, Event, NativeError, NativeOptions, compare};
pub use subject::{Loading, Round};
