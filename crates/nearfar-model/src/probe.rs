//! How kernels and trees tell a model what they access.

/// Receives the memory accesses of a kernel or a tree operation.
///
/// Code that is to be modelled takes a `P: Probe` and reports each access beside making it. The
/// calls describe what the processor would see: `addr` is the address of the first byte, `bytes`
/// the length, and no access is reported twice. With [`Native`] all calls vanish. No method has a
/// default: a model that would charge a call otherwise than others has to say so.
pub trait Probe {
    /// A read of `bytes` at `addr` whose result is used soon: a load.
    fn read(&self, addr: usize, bytes: usize);

    /// A write of `bytes` at `addr`: a store that fetches the line first.
    fn write(&self, addr: usize, bytes: usize);

    /// A write of `bytes` at `addr` past the caches: a non-temporal store, which fetches nothing.
    fn write_non_temporal(&self, addr: usize, bytes: usize);

    /// A sequential read of `bytes` from `addr` on, which hardware prefetchers follow.
    fn stream(&self, addr: usize, bytes: usize);

    /// A software prefetch of `bytes` at `addr`: starts a transfer and waits for nothing.
    fn prefetch(&self, addr: usize, bytes: usize);

    /// The next access needs the results of the reads before it: they may overlap with each other,
    /// and nothing may overlap across this point but prefetches and writes.
    fn depends(&self);

    /// A load on the wrong path, behind a branch that was predicted wrong: it brings its line and
    /// is never completed.
    fn wrong_path_load(&self, addr: usize, bytes: usize);

    /// The branch that the reads before decide was predicted wrong: what comes next begins when they
    /// are there and the pipeline is filled again.
    fn branch_mispredict(&self);

    /// A critical section under the lock at `addr`, which all threads share: whoever comes meanwhile
    /// waits. It touches `lines` lines, that of the lock included, which come from whoever was in it
    /// before. They are not reported as reads or writes.
    fn critical_section(&self, addr: usize, lines: usize);

    /// The lock word at `addr` is taken, for which other threads wait until [`Probe::unlock`]: a read and a
    /// write in one step. What it protects is reported as ever.
    fn lock(&self, addr: usize);

    /// The lock word at `addr` is written and given back, once all that was written before can be seen. If the
    /// word has another version then, since something has `changed`, readers find out.
    fn unlock(&self, addr: usize, changed: bool);

    /// What was read since the lock word at `addr` was read is used if nobody has the lock or has changed
    /// something since. Whoever finds it so begins again, and does not report that again: it was so when the code
    /// ran, and will be so in the model or not.
    fn validate(&self, addr: usize);
}

/// The probe of ordinary execution: does nothing and compiles to nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Native;

impl Probe for Native {
    #[inline(always)]
    fn read(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn write(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn write_non_temporal(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn stream(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn prefetch(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn depends(&self) {}

    #[inline(always)]
    fn wrong_path_load(&self, _addr: usize, _bytes: usize) {}

    #[inline(always)]
    fn branch_mispredict(&self) {}

    #[inline(always)]
    fn critical_section(&self, _addr: usize, _lines: usize) {}

    #[inline(always)]
    fn lock(&self, _addr: usize) {}

    #[inline(always)]
    fn unlock(&self, _addr: usize, _changed: bool) {}

    #[inline(always)]
    fn validate(&self, _addr: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_native_probe_holds_nothing() {
        assert_eq!(size_of::<Native>(), 0);
        let probe = Native;
        probe.read(0, 8);
        probe.write(0, 8);
        probe.write_non_temporal(0, 64);
        probe.stream(0, 64);
        probe.prefetch(0, 64);
        probe.depends();
    }
}
