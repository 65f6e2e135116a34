//! Code whose memory accesses run on a machine of a profile, in virtual time.

use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::ops::Range;
use std::ptr;

use nearfar_model::Probe;
use nearfar_model::simulation::{
    Machine, MachineError, Outcome, PlacedBuffer, TierName, VirtualProbe,
};
use nearfar_topology::Profile;

use crate::failure::{Failure, Status, array, guarded, result, results, text};
use crate::handles::{Handle, Handles};
use crate::texts;

/// The most bytes of one access that a program reports.
pub const ACCESS_BYTES_MAX: usize = 1 << 20;
/// The most lines of one critical section.
pub const SECTION_LINES_MAX: usize = 1024;

static MODELS: Handles<Machine> = Handles::new("model");

/// How many profiles are built in.
///
/// # Safety
/// `count` points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_profile_count(count: *mut usize) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        *unsafe { result(count, "count") }? = Profile::builtin_names().count();
        Ok(())
    })
}

/// The name of a profile by its place, cut where `bytes` of `name` have no room for it with its zero byte.
///
/// # Safety
/// `name` points to `bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_profile_name(
    index: usize,
    name: *mut c_char,
    bytes: usize,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let name = unsafe { results(name, bytes, "name") }?;
        let none = || Failure::new(Status::Name, format!("there is no profile {index}"));
        let found = Profile::builtin_names().nth(index).ok_or_else(none)?;
        texts::copy(found, name);
        Ok(())
    })
}

/// A machine in virtual time.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ModelInfo {
    /// Its cores.
    pub cores: u32,
    /// The most threads of a run; those beyond the cores share them.
    pub threads_max: u32,
    /// Devices of near memory.
    pub near_devices: u32,
    /// Devices of far memory.
    pub far_devices: u32,
    /// Devices of the other socket's memory; 0 where the profile has none.
    pub remote_devices: u32,
    /// Bytes of the last-level cache.
    pub last_level_cache_bytes: u64,
}

/// Opens the machine of a profile that is built in, or in a file.
///
/// # Safety
/// `profile` ends with a zero byte, and `model` points to a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_model_open(profile: *const c_char, model: *mut Handle) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (model, name) = unsafe { (result(model, "model")?, text(profile, "profile")?) };
        let profile = Profile::resolve(name).map_err(Failure::of(Status::Name))?;
        *model = MODELS.add(Machine::new(&profile).map_err(|error| refused(&error))?);
        Ok(())
    })
}

fn refused(error: &MachineError) -> Failure {
    let status = match error {
        MachineError::NoTier { .. } | MachineError::NoSuchDevice { .. } => Status::Name,
        MachineError::Threads { .. } => Status::Argument,
        _ => Status::Unavailable,
    };
    Failure::new(status, error)
}

/// What the machine has.
///
/// # Safety
/// `info` points to an info.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_model_describe(model: Handle, info: *mut ModelInfo) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let info = unsafe { result(info, "info") }?;
        let machine = MODELS.get(model)?;
        *info = ModelInfo {
            cores: machine.cores,
            threads_max: machine.threads_max() as u32,
            near_devices: devices(&machine, TierName::Near),
            far_devices: devices(&machine, TierName::Far),
            remote_devices: devices(&machine, TierName::Remote),
            last_level_cache_bytes: machine.l3_bytes,
        };
        Ok(())
    })
}

fn devices(machine: &Machine, name: TierName) -> u32 {
    let found = machine.tiers.iter().find(|(tier, _)| *tier == name);
    found.map_or(0, |(_, tier)| tier.devices)
}

/// Closes it. Runs go on to their end.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_close(model: Handle) -> Status {
    guarded(|| MODELS.remove(model))
}

/// A range of addresses, and where its pages lie in the model. Nothing is read or written there: it need not be
/// memory.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ModelBuffer {
    /// Its first byte.
    pub address: *const c_void,
    /// How many bytes it has.
    pub bytes: usize,
    /// `near`, `far` or `remote`.
    pub tier: *const c_char,
    /// On how many of the tier's devices its pages lie in turn; 0 for all.
    pub devices: u32,
}

/// What a thread of the machine does: it tells each of its accesses, by `nearfar_model_read` and those beside
/// it. It gets its number, from 0 on, and what the caller gave. Programs are called on threads of the library, one
/// at a time and in the order of virtual time: one that waits for another, but by accesses that it tells, waits
/// forever. It must not end by an exception or `longjmp`.
pub type ModelProgram = Option<unsafe extern "C" fn(thread: u32, context: *mut c_void)>;

/// What a tier moved, prefetches and write-backs included.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelTraffic {
    /// Lines of 64 bytes that were read.
    pub lines_read: u64,
    /// Lines that were written.
    pub lines_written: u64,
}

/// What a run gave. All of it is modelled.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ModelOutcome {
    /// Virtual time.
    pub elapsed_ns: f64,
    /// Bytes that programs loaded.
    pub load_bytes: u64,
    /// Bytes that programs stored.
    pub store_bytes: u64,
    /// Lines that programs touched.
    pub lines: u64,
    /// What near memory moved.
    pub near: ModelTraffic,
    /// What far memory moved.
    pub far: ModelTraffic,
    /// What the other socket's memory moved.
    pub remote: ModelTraffic,
    /// Requests that had an entry of the table that all cores share.
    pub table_requests: u64,
    /// How long they had it, one after the other.
    pub table_occupancy_ns: f64,
}

/// What a program is told to, and where it is found on the program's thread.
struct Context(*mut c_void);

// SAFETY: programs run one at a time, and the caller answers for what they do with it on the library's threads.
unsafe impl Send for Context {}

/// Runs programs, one for each of `threads` threads, over caches that are empty at the start, and waits for the
/// end. Accesses outside of the buffers, which may be null if there are none, are of near memory. The same
/// programs over the same buffers give the same outcome on every machine, if the buffers begin at the same
/// places of their pages.
///
/// # Safety
/// `buffers` points to `buffer_count` buffers whose tiers end with a zero byte, `program` may be called on any
/// thread with `context`, and `outcome` points to an outcome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearfar_model_run(
    model: Handle,
    buffers: *const ModelBuffer,
    buffer_count: usize,
    program: ModelProgram,
    context: *mut c_void,
    threads: u32,
    outcome: *mut ModelOutcome,
) -> Status {
    guarded(|| {
        // SAFETY: the caller says so.
        let (outcome, buffers) = unsafe {
            (
                result(outcome, "outcome")?,
                array(buffers, buffer_count, "buffers")?,
            )
        };
        let null = || Failure::new(Status::NullPointer, "program is null");
        let program = program.ok_or_else(null)?;
        let machine = MODELS.get(model)?;
        // SAFETY: the caller says so.
        let placed = buffers
            .iter()
            .map(|buffer| unsafe { placed(&machine, buffer) });
        let placed = placed.collect::<Result<Vec<_>, _>>()?;
        check_apart(&placed)?;
        let programs = (0..threads).map(|thread| {
            let context = Context(context);
            move |probe: &VirtualProbe| {
                let context = context;
                let _current = Current::begin(probe);
                // SAFETY: the caller says that it may be called with this context on any thread.
                unsafe { program(thread, context.0) }
            }
        });
        let ran = machine.run(&placed, programs.collect());
        *outcome = told(&machine, &ran.map_err(|error| refused(&error))?);
        Ok(())
    })
}

/// # Safety
/// The name of its tier ends with a zero byte.
unsafe fn placed(machine: &Machine, buffer: &ModelBuffer) -> Result<PlacedBuffer, Failure> {
    // SAFETY: the caller says so.
    let name = unsafe { text(buffer.tier, "a buffer's tier") }?;
    let tiers = [TierName::Near, TierName::Far, TierName::Remote];
    let no_tier = || {
        let message = format!("there is no tier {name:?} in a model: near, far, remote");
        Failure::new(Status::Name, message)
    };
    let tier = tiers.into_iter().find(|tier| tier.name() == name);
    let tier = tier.ok_or_else(no_tier)?;
    let count = match buffer.devices {
        0 => devices(machine, tier).max(1),
        count => count,
    };
    let cycle = machine.devices(tier, count);
    Ok(PlacedBuffer {
        addresses: range(buffer.address.addr(), buffer.bytes)?,
        cycle: cycle.map_err(|error| refused(&error))?,
    })
}

fn range(address: usize, bytes: usize) -> Result<Range<usize>, Failure> {
    let beyond = || Failure::new(Status::Argument, "it ends beyond the last address");
    Ok(address..address.checked_add(bytes).ok_or_else(beyond)?)
}

fn check_apart(buffers: &[PlacedBuffer]) -> Result<(), Failure> {
    let mut ranges: Vec<_> = buffers.iter().map(|one| one.addresses.clone()).collect();
    ranges.sort_by_key(|range| range.start);
    match ranges.is_sorted_by(|one, next| one.end <= next.start) {
        true => Ok(()),
        false => Err(Failure::new(Status::Argument, "two buffers overlap")),
    }
}

fn told(machine: &Machine, ran: &Outcome) -> ModelOutcome {
    let traffic = |name: TierName| {
        let before = machine.tiers.iter().take_while(|(tier, _)| *tier != name);
        let first: u32 = before.map(|(_, tier)| tier.devices).sum();
        let count = devices(machine, name) as usize;
        let lines = |all: &[u64]| all.iter().skip(first as usize).take(count).sum();
        ModelTraffic {
            lines_read: lines(&ran.lines_read),
            lines_written: lines(&ran.lines_written),
        }
    };
    ModelOutcome {
        elapsed_ns: ran.elapsed_ns,
        load_bytes: ran.load_bytes,
        store_bytes: ran.store_bytes,
        lines: ran.lines,
        near: traffic(TierName::Near),
        far: traffic(TierName::Far),
        remote: traffic(TierName::Remote),
        table_requests: ran.table.admitted,
        table_occupancy_ns: ran.table.occupancy_ns,
    }
}

thread_local! {
    /// The probe of the program that this thread runs; null where it runs none.
    static PROBE: Cell<*const VirtualProbe> = const { Cell::new(ptr::null()) };
}

/// For as long as this is there, [`PROBE`] is a probe that lives.
struct Current<'a>(std::marker::PhantomData<&'a VirtualProbe>);

impl<'a> Current<'a> {
    fn begin(probe: &'a VirtualProbe) -> Self {
        PROBE.set(probe);
        Self(std::marker::PhantomData)
    }
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        PROBE.set(ptr::null());
    }
}

fn tell(what: impl FnOnce(&VirtualProbe) -> Result<(), Failure>) -> Status {
    guarded(|| {
        // SAFETY: a pointer that is not null was set by a `Current` of this thread that is still there, and which
        // borrows the probe.
        let probe = unsafe { PROBE.get().as_ref() };
        let none = || {
            Failure::new(
                Status::BadHandle,
                "no program of a model runs on this thread",
            )
        };
        what(probe.ok_or_else(none)?)
    })
}

fn access(
    address: *const c_void,
    bytes: usize,
    tell_probe: impl FnOnce(&VirtualProbe, usize, usize),
) -> Status {
    tell(|probe| {
        range(address.addr(), bytes)?;
        if bytes > ACCESS_BYTES_MAX {
            let message = format!("an access has at most {ACCESS_BYTES_MAX} bytes");
            return Err(Failure::new(Status::Argument, message));
        }
        tell_probe(probe, address.addr(), bytes);
        Ok(())
    })
}

/// Tells a read of `bytes` at `address`. This and what follows is for programs of `nearfar_model_run`, and
/// refused elsewhere. Nothing is read.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_read(address: *const c_void, bytes: usize) -> Status {
    access(address, bytes, Probe::read)
}

/// Tells a write, which fetches its lines first.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_write(address: *const c_void, bytes: usize) -> Status {
    access(address, bytes, Probe::write)
}

/// Tells a write past the caches, which fetches nothing.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_write_non_temporal(address: *const c_void, bytes: usize) -> Status {
    access(address, bytes, Probe::write_non_temporal)
}

/// Tells a prefetch, for which nobody waits.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_prefetch(address: *const c_void, bytes: usize) -> Status {
    access(address, bytes, Probe::prefetch)
}

/// Tells that the next access needs the results of the reads before it, as a chain of pointers does.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_depends() -> Status {
    tell(|probe| {
        probe.depends();
        Ok(())
    })
}

/// Tells how long the core computes before the next access, in picoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_compute(picoseconds: u32) -> Status {
    tell(|probe| {
        probe.compute_ps(picoseconds);
        Ok(())
    })
}

/// Tells a critical section under the lock at `address`, which touches `lines` lines, that of the lock included.
/// The core time that was told since the last access is spent within it.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_critical_section(address: *const c_void, lines: usize) -> Status {
    tell(|probe| {
        if !(1..=SECTION_LINES_MAX).contains(&lines) {
            let message = format!("a section has 1 to {SECTION_LINES_MAX} lines");
            return Err(Failure::new(Status::Argument, message));
        }
        probe.critical_section(address.addr(), lines);
        Ok(())
    })
}

fn lock_word(address: *const c_void, tell_probe: impl FnOnce(&VirtualProbe, usize)) -> Status {
    access(address, size_of::<u64>(), |probe, address, _| {
        tell_probe(probe, address)
    })
}

/// Tells that the lock word at `address` is taken, for which programs that take it too wait in virtual time until it
/// is given back.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_lock(address: *const c_void) -> Status {
    lock_word(address, Probe::lock)
}

/// Tells that the lock word at `address` is given back, and whether something has `changed` that others may have read
/// without the lock.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_unlock(address: *const c_void, changed: bool) -> Status {
    lock_word(address, |probe, address| probe.unlock(address, changed))
}

/// Tells that what was read since the lock word at `address` was read is used, as optimistic readers do: it is read
/// again, in virtual time, if somebody has changed something since.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_validate(address: *const c_void) -> Status {
    lock_word(address, Probe::validate)
}

/// Waits until the model has taken all accesses so far. What programs share, such as the next piece of work of a
/// pool, they then see in the order of virtual time.
#[unsafe(no_mangle)]
pub extern "C" fn nearfar_model_wait() -> Status {
    tell(|probe| {
        probe.wait();
        Ok(())
    })
}
