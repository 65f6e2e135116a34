//! Operators of Nearfar's own, in the place of DataFusion's.

pub mod key_join;
