//! One client: from the begin of its connection to its end.

mod arrays;
mod connection;
mod copy;
mod copying;
mod direct;
mod extended;
mod failure;
mod interrupt;
mod login;
mod numeric;
mod rows;
mod running;
mod session;
mod settings;
mod shape;
mod simple;
mod statement;
mod values;
mod violation;

pub use connection::serve;
