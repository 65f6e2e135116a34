//! The probe that calls a function.

use crate::Probe;

/// Calls a function at each access, such as one that counts them.
#[derive(Debug, Clone, Copy)]
pub struct EachAccess<F>(pub F);

impl<F: Fn()> Probe for EachAccess<F> {
    fn read(&self, _addr: usize, _bytes: usize) {
        self.0();
    }

    fn write(&self, _addr: usize, _bytes: usize) {
        self.0();
    }

    fn write_non_temporal(&self, _addr: usize, _bytes: usize) {
        self.0();
    }

    fn stream(&self, _addr: usize, _bytes: usize) {
        self.0();
    }

    fn prefetch(&self, _addr: usize, _bytes: usize) {
        self.0();
    }

    fn depends(&self) {}

    fn wrong_path_load(&self, _addr: usize, _bytes: usize) {}

    fn branch_mispredict(&self) {}

    fn critical_section(&self, _addr: usize, _lines: usize) {}

    fn lock(&self, addr: usize) {
        self.write(addr, size_of::<u64>());
    }

    fn unlock(&self, _addr: usize, _changed: bool) {}

    fn validate(&self, _addr: usize) {}
}
