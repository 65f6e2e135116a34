//! Who may connect, and as what: users, their verifiers, and SCRAM-SHA-256.

mod scram;
mod throttle;
mod users;
mod verifier;

pub use scram::{ClientFirst, Exchange, ScramError};
pub use throttle::{Throttle, TooMany};
pub use users::{Role, User, UserError, Users};
pub use verifier::{random, same};
