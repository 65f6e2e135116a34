//! One client: from the begin of its connection to its end.

mod connection;
mod copy;
mod copying;
mod depth;
mod extended;
mod failure;
mod interrupt;
mod login;
mod rows;
mod settings;
mod simple;
mod statement;
mod values;

pub use connection::serve;
pub use interrupt::CancelKeys;
pub use rows::described;
pub use settings::SERVER_VERSION;
