//! The server as its clients see it.

mod access;
mod answers;
mod asked;
mod catalog;
mod copy;
mod corpus;
mod differential;
mod doors;
mod drivers;
mod dump;
mod ends;
mod fairness;
mod hostile;
mod portals;
mod prepared;
mod rights;
mod statements;
mod support;
mod tpch;
mod traffic;
mod transport;
mod values;
mod waits;
