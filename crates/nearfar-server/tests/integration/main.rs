//! The server as its clients see it.

mod access;
mod catalog;
mod copy;
mod ends;
mod hostile;
mod statements;
mod support;
mod tpch;
mod transport;
