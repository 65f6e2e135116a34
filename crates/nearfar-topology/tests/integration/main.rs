//! Integration tests of `nearfar-topology`.

mod discovery;
mod profiles;
mod support;
mod testbed;
