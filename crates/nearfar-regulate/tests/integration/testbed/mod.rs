//! Knobs on a real kernel: each module runs on the virtual machine of its name (`cargo xtask testbed
//! NAME`), as root.

mod far_node;
mod one_node;

use nearfar_regulate::error::RegulateError;
use nearfar_regulate::observe::{Observer, Sureness};

/// A victim that has so much, whatever is done.
struct Constant(f64);

impl Observer for Constant {
    fn tells(&self) -> &'static str {
        "always the same"
    }

    fn sureness(&self) -> Sureness {
        Sureness::Counted
    }

    fn victim(&mut self, _now_ms: f64) -> Result<f64, RegulateError> {
        Ok(self.0)
    }
}
