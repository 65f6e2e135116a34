//! Regulation of tasks that take memory bandwidth from others (mao-2025, section V).
//!
//! An [`observe::Observer`] says how much a victim has of what it has undisturbed. A
//! [`control::Controller`] decides what share of its speed the aggressor keeps, and a [`knob::Knob`]
//! grants it. Every change of the machine is written to a [`journal::Journal`] before it is made, and
//! undone when the regulator ends, by the next one that starts, or by [`journal::Journal::recover`].
//!
//! Of several candidates, an [`attribution::Attribution`] tells what each moves to the slow tier, and
//! [`control::Shares`] names those that are the cause and splits among them what the controller grants.
//!
//! The same controllers run in virtual time ([`virtual_time`]), on what the simulator of
//! `nearfar-model` says that victims and aggressors have.
//!
//! ```
//! use nearfar_regulate::control::{Controller, Goal, TierAware};
//!
//! let mut controller = TierAware::new(Goal::default());
//! assert_eq!(controller.decide(0.0, 1.0), 1.0);
//! assert!(controller.decide(50.0, 0.2) < 1.0);
//! ```

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod attribution;
pub mod bucket;
pub mod control;
pub mod error;
pub mod journal;
pub mod knob;
pub mod machine;
pub mod observe;
pub mod regulator;
pub mod report;
pub mod virtual_time;
