//! Nearfar as a server: the PostgreSQL wire protocol, health and metrics over the tables of `nearfar-store`.
#![forbid(unsafe_code)]
