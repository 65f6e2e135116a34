//! Every contestant under the same operations, and runs of them.

mod bench;
mod maps;
mod modelled;
mod paced;
mod reproduce;
