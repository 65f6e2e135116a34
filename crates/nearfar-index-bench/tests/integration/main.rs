//! Every contestant under the same operations, and runs of them.

mod bench;
mod maps;
mod modelled;
mod real_time;
mod reproduce;
mod testbed;
