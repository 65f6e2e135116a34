//! What can go wrong while a machine is regulated.

use std::io;
use std::path::PathBuf;

/// Why nothing was, or is no longer, regulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegulateError {
    /// The machine does not have a knob.
    #[error("{knob} is unavailable: {reason}")]
    Unavailable {
        /// The knob or observer.
        knob: &'static str,
        /// Why.
        reason: String,
    },
    /// Limits are no shares, and nothing tells what they have to be lowered from.
    #[error(
        "the limits of {resource} are absolute on this machine: say what the group moves in a domain when nothing limits it"
    )]
    Absolute {
        /// The resource of resctrl.
        resource: &'static str,
    },
    /// A group or processor is gone, or never was.
    #[error("{} is not there: has its group ended, or lost its controller?", path.display())]
    Vanished {
        /// The file.
        path: PathBuf,
    },
    /// A file may not be read or written.
    #[error("no right to {right} {}: run as its owner, or have the group delegated", path.display())]
    Denied {
        /// The file.
        path: PathBuf,
        /// `read` or `write`.
        right: &'static str,
    },
    /// A file holds what it should not.
    #[error("{}: {content:?} is not {expected}", path.display())]
    Garbled {
        /// The file.
        path: PathBuf,
        /// What it holds.
        content: String,
        /// What it should hold.
        expected: &'static str,
    },
    /// Another regulator runs with the same journal, or changes what this one would reach: the group, one within it or
    /// one that it is within, bandwidth or frequencies.
    #[error("another regulator holds {}: end it first", path.display())]
    Busy {
        /// What it has locked.
        path: PathBuf,
    },
    /// The journal cannot be written, so that nothing may be changed.
    #[error("cannot write the journal {}, so nothing is changed: {source}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A name that is no name of a group.
    #[error("{name:?} is no group: give a path below the root of the groups, without ..")]
    Group {
        /// The name.
        name: String,
    },
    /// A group that is another one or within it.
    #[error("{inner:?} is {outer:?} or within it: name one of them")]
    Overlap {
        /// The group.
        inner: String,
        /// The one that it is within.
        outer: String,
    },
    /// A server of a group that cannot be asked.
    #[error("{server:?} is no server of a group: {problem}")]
    Server {
        /// What was written.
        server: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// A number of the victim's own that is not there, or not any more.
    #[error("nothing is known of the victim: {reason}")]
    Metric {
        /// Why.
        reason: String,
    },
    /// A goal that cannot be met.
    #[error("{what} of {value}: {allowed}")]
    Goal {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        allowed: &'static str,
    },
    /// A line of a trace.
    #[error("trace, line {line}: {problem}")]
    Trace {
        /// From 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// Groups that no trace can have.
    #[error("no trace can begin with {head:?}: {problem}")]
    Record {
        /// What its first line would be.
        head: String,
        /// What is wrong.
        problem: String,
    },
    /// The machine of a profile cannot be simulated.
    #[error(transparent)]
    Machine(#[from] nearfar_model::simulation::MachineError),
    /// Anything else about a file.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}
