//! On which processors threads run (sched_setaffinity(2)), and who goes first (setpriority(2)).

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

/// Processors for threads that are numbered, such as the copiers of a copy: each is pinned to one, and those of higher
/// numbers than there are processors share them.
///
/// ```
/// use nearfar_memory::sys::{ThreadPlaces, allowed_cpus};
///
/// let places = ThreadPlaces::new(allowed_cpus()?);
/// std::thread::scope(|scope| {
///     for copier in 0..5 {
///         let places = &places;
///         scope.spawn(move || places.pin(copier));
///     }
/// });
/// # Ok::<(), nearfar_memory::sys::SysError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadPlaces {
    cpus: Vec<u32>,
}

impl ThreadPlaces {
    /// These processors, which the first threads take in this order.
    pub fn new(cpus: Vec<u32>) -> Self {
        Self { cpus }
    }

    /// Number of processors.
    pub fn len(&self) -> usize {
        self.cpus.len()
    }

    /// Whether there is no processor: then no thread is pinned.
    pub fn is_empty(&self) -> bool {
        self.cpus.is_empty()
    }

    /// Pins the calling thread, which has this number.
    ///
    /// # Errors
    /// As [`pin_thread`].
    pub fn pin(&self, thread: usize) -> Result<(), SysError> {
        match self.cpus.len() {
            0 => Ok(()),
            places => pin_thread(&self.cpus[thread % places..][..1]),
        }
    }
}

/// Gives the calling thread the least priority that a thread can have: others go first wherever they
/// want its processor.
///
/// Before: nothing. After: the nice value of the thread, not of its process, is 19; threads that it
/// starts later inherit it. It can't be raised again without privileges.
///
/// # Errors
/// The kernel names none for a thread that lowers its own priority; a sandbox may refuse the call.
#[cfg(not(miri))]
pub fn yield_to_others() -> Result<(), SysError> {
    const LEAST: libc::c_int = 19;
    // SAFETY: the call takes no memory; 0 names the calling thread.
    let code = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, LEAST) };
    match code {
        0 => Ok(()),
        _ => Err(SysError::last("setpriority")),
    }
}

/// Threads have no priorities there.
///
/// # Errors
/// None.
#[cfg(miri)]
pub fn yield_to_others() -> Result<(), SysError> {
    Ok(())
}

/// Accepted and forgotten.
///
/// # Errors
/// None.
#[cfg(miri)]
pub fn pin_thread(_cpus: &[u32]) -> Result<(), SysError> {
    Ok(())
}

/// One processor.
///
/// # Errors
/// None.
#[cfg(miri)]
pub fn allowed_cpus() -> Result<Vec<u32>, SysError> {
    Ok((0..CPUS_MAX as u32).take(1).collect())
}

// Not under Miri, which knows no processors and no priorities.
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

    #[test]
    fn numbered_threads_take_processors_in_turn() {
        let all = allowed_cpus().unwrap();
        let places = ThreadPlaces::new(all.clone());
        for thread in 0..2 * all.len() {
            let places = places.clone();
            let expected = vec![all[thread % all.len()]];
            let pinned = std::thread::spawn(move || {
                places.pin(thread).unwrap();
                allowed_cpus().unwrap()
            });
            assert_eq!(pinned.join().unwrap(), expected);
        }
        std::thread::spawn(move || {
            assert_eq!(ThreadPlaces::new(Vec::new()).pin(3), Ok(()));
            assert_eq!(
                allowed_cpus(),
                Ok(all),
                "nothing is pinned without a processor"
            );
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_thread_yields_alone() {
        let nice = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            let (_, fields) = stat.rsplit_once(") ").unwrap();
            // proc_pid_stat(5): the 19th field, and the third is the first after the name.
            fields.split(' ').nth(16).unwrap().parse::<i32>().unwrap()
        };
        let before = nice();
        let lowered = std::thread::spawn(move || {
            yield_to_others().unwrap();
            nice()
        });
        assert_eq!(lowered.join().unwrap(), 19);
        assert_eq!(nice(), before, "other threads keep their priority");
    }
}
