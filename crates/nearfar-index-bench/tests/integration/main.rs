//! Every contestant under the same operations, and runs of them.

mod bench;
mod emulated;
mod maps;
mod modelled;
mod reproduce;
