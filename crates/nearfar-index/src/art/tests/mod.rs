//! Tests that look inside.

mod check;
mod failures;
mod model;
mod shapes;
