//! Every contestant under the same operations.

mod maps;
