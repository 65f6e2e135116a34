//! On which processors threads run (sched_setaffinity(2)).

use super::SysError;

/// The most processors that are supported.
const CPUS_MAX: usize = 1024;

/// Lets the calling thread run on these processors only.
///
/// Before: nothing. After: the thread runs on one of `cpus`; threads that it starts later inherit
/// them.
///
/// # Errors
/// `EINVAL` when the machine, or the control group of this process, has none of `cpus`.
#[cfg(not(miri))]
pub fn pin_thread(cpus: &[u32]) -> Result<(), SysError> {
    let mut mask = [0_u64; CPUS_MAX / 64];
    for cpu in cpus {
        if let Some(word) = mask.get_mut(*cpu as usize / 64) {
            *word |= 1 << (cpu % 64);
        }
    }
    // SAFETY: the mask is as long as told and lives through the call, which only reads it.
    let code = unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
    if code == 0 {
        Ok(())
    } else {
        Err(SysError::last("sched_setaffinity"))
    }
}

/// The processors that the calling thread may run on, in ascending order.
///
/// # Errors
/// `EINVAL` on a machine with more than 1024 processors.
#[cfg(not(miri))]
pub fn allowed_cpus() -> Result<Vec<u32>, SysError> {
    let mut mask = [0_u64; CPUS_MAX / 64];
    // SAFETY: the mask is as long as told and lives through the call, which writes no more.
    let code = unsafe { libc::sched_getaffinity(0, size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if code < 0 {
        return Err(SysError::last("sched_getaffinity"));
    }
    let has = |cpu: &u32| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1;
    Ok((0..CPUS_MAX as u32).filter(has).collect())
}

#[cfg(miri)]
pub fn pin_thread(_cpus: &[u32]) -> Result<(), SysError> {
    Ok(())
}

#[cfg(miri)]
pub fn allowed_cpus() -> Result<Vec<u32>, SysError> {
    Ok((0..CPUS_MAX as u32).take(1).collect())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_stays_on_its_processors() {
        let all = allowed_cpus().unwrap();
        let last = *all.last().unwrap();
        std::thread::spawn(move || {
            pin_thread(&[last]).unwrap();
            assert_eq!(allowed_cpus(), Ok(vec![last]));
            assert!(pin_thread(&[]).is_err());
        })
        .join()
        .unwrap();
        assert_eq!(allowed_cpus(), Ok(all), "other threads are not pinned");
    }
}
