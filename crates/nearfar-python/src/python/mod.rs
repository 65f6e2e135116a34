//! The module `nearfar._nearfar`: what the Python files of the package stand on.

mod errors;
mod from_python;
mod interruptible;
mod session;
mod stream;
mod to_python;

pub use errors::{raised, register as register_errors};
pub use interruptible::run_interruptibly;
pub use session::{PyDatabase, PyRows, PySession, PyStatement};
