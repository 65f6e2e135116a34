//! Copies by work queues of the kernel's driver idxd, for Intel's Data Streaming Accelerator.
//!
//! A queue that the driver gives to programs is a file, to which commands of 64 bytes are written; the kernel checks them and
//! hands them to the device. That reads and writes the memory of the process by its own addresses, and says in a record in
//! that memory how it went. Layouts and numbers are those of the kernel's `include/uapi/linux/idxd.h`, names in sysfs those
//! of its `Documentation/ABI/stable/sysfs-driver-dma-idxd`.
//!
//! What a device does not copy, since its queue is full or a page is not there, the processor copies.

use std::fs::{self, File, OpenOptions};
use std::hint::spin_loop;
use std::io::Write;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::bytes::through_caches;

/// `DSA_OPCODE_MEMMOVE`.
const MEMORY_MOVE: u32 = 3;
/// `IDXD_OP_FLAG_CRAV`: there is an address of a record.
const HAS_RECORD: u32 = 0x04;
/// `IDXD_OP_FLAG_RCR`: it is written.
const WANTS_RECORD: u32 = 0x08;
/// `IDXD_OP_FLAG_CC`: what is written goes to the caches.
const TO_CACHES: u32 = 0x100;

/// `DSA_COMP_STATUS_MASK`.
const STATUS_MASK: u8 = 0x7f;
/// `DSA_COMP_SUCCESS`.
const SUCCESS: u8 = 1;
/// `DSA_COMP_PAGE_FAULT_NOBOF`: a page was not there.
const PAGE_FAULT: u8 = 3;

/// Times that a command is given to a queue that is full.
const TRIES: usize = 3;
/// Looks at a record before the thread sleeps between them: the core is to work while the device copies.
const SPINS: usize = 1_000;
/// How long it sleeps then. A command takes some ten microseconds for each 256 KiB.
const SLEEP: Duration = Duration::from_micros(20);
/// How long a queue has for its first command.
const ANSWERS_IN: Duration = Duration::from_millis(100);

/// A command: `struct dsa_hw_desc`.
///
/// ```text
///   0      4             8          16      24      32     36        40            64
///   | whose | flags, code | record   | from  | to    | bytes| handles | of the code |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Command([u8; 64]);

impl Command {
    /// Does nothing.
    fn nothing(record: &Record) -> Self {
        Self::new(HAS_RECORD | WANTS_RECORD, [0; 2], 0, record)
    }

    /// Moves `from` to `to`, which are as long.
    fn memory_move(from: &[u8], to: &mut [u8], record: &Record) -> Self {
        let addresses = [
            from.as_ptr().expose_provenance(),
            to.as_mut_ptr().expose_provenance(),
        ];
        let bytes = u32::try_from(from.len().min(to.len())).unwrap_or(u32::MAX);
        let flags_and_code = HAS_RECORD | WANTS_RECORD | TO_CACHES | MEMORY_MOVE << 24;
        Self::new(flags_and_code, addresses, bytes, record)
    }

    fn new(flags_and_code: u32, addresses: [usize; 2], bytes: u32, record: &Record) -> Self {
        let record = std::ptr::from_ref(record).expose_provenance();
        let mut command = [0; 64];
        // The kernel fills in whose memory it is.
        command[4..8].copy_from_slice(&flags_and_code.to_le_bytes());
        for (at, address) in [(8, record), (16, addresses[0]), (24, addresses[1])] {
            command[at..at + 8].copy_from_slice(&(address as u64).to_le_bytes());
        }
        command[32..36].copy_from_slice(&bytes.to_le_bytes());
        Self(command)
    }
}

/// How a command went: `struct dsa_completion_record`, which the device writes, its status last.
#[derive(Debug, Default)]
#[repr(C, align(32))]
pub(super) struct Record {
    /// 0 until the command has ended.
    status: AtomicU8,
    result: AtomicU8,
    reserved: AtomicU16,
    bytes: AtomicU32,
    fault: AtomicU64,
    of_code: [AtomicU64; 2],
}

const _: () = assert!(size_of::<Record>() == 32);

impl Record {
    /// Waits until the command has ended: the memory is the device's until then. How many bytes of so many were copied
    /// from the first on.
    fn wait(&self, bytes: usize) -> usize {
        let mut looks = 0;
        let status = loop {
            match self.status() {
                None if looks < SPINS => spin_loop(),
                None => thread::sleep(SLEEP),
                Some(status) => break status,
            }
            looks += 1;
        };
        match status {
            SUCCESS => bytes,
            PAGE_FAULT => bytes.min(self.bytes.load(Ordering::Relaxed) as usize),
            _ => 0,
        }
    }

    /// How the command has ended, once it has.
    fn status(&self) -> Option<u8> {
        // Pairs with the device's own order: the status is the last that it writes.
        let status = self.status.load(Ordering::Acquire);
        (status != 0).then_some(status & STATUS_MASK)
    }
}

/// Where commands are written.
pub(super) trait Portal {
    /// Writes a command. Whether the queue took it.
    fn submit(&self, command: &Command) -> bool;
}

/// A work queue.
pub(super) struct Queue<P> {
    portal: P,
    /// Commands that may still be given: a queue of one program forgets those that it has no entry for.
    free: AtomicUsize,
    bytes_max: usize,
}

impl<P: Portal> Queue<P> {
    /// A queue of so many entries, whose commands copy so many bytes at most.
    pub(super) fn new(portal: P, entries: usize, bytes_max: usize) -> Self {
        Self {
            portal,
            free: AtomicUsize::new(entries),
            bytes_max: bytes_max.clamp(1, u32::MAX as usize),
        }
    }

    /// Whether the device does what it is told.
    fn answers(&self) -> bool {
        let record: Box<Record> = Box::default();
        if !self.portal.submit(&Command::nothing(&record)) {
            return false;
        }
        let begun = Instant::now();
        while record.status().is_none() && begun.elapsed() < ANSWERS_IN {
            thread::yield_now();
        }
        match record.status() {
            Some(status) => status == SUCCESS,
            None => {
                // A device that is late writes to it all the same.
                mem::forget(record);
                false
            }
        }
    }

    /// Copies all bytes of `from` to `to`, which are as many.
    pub(super) fn copy(&self, from: &[u8], to: &mut [u8]) {
        for (from, to) in from
            .chunks(self.bytes_max)
            .zip(to.chunks_mut(self.bytes_max))
        {
            let copied = self.copied_by_device(from, to);
            through_caches(&from[copied..], &mut to[copied..]);
        }
    }

    /// How many bytes the device has copied.
    fn copied_by_device(&self, from: &[u8], to: &mut [u8]) -> usize {
        let taken = self
            .free
            .fetch_update(Ordering::Acquire, Ordering::Relaxed, |free| {
                free.checked_sub(1)
            });
        if taken.is_err() {
            return 0;
        }
        let record = Record::default();
        let command = Command::memory_move(from, to, &record);
        let is_taken = (0..TRIES).any(|_| self.portal.submit(&command));
        let copied = if is_taken { record.wait(from.len()) } else { 0 };
        self.free.fetch_add(1, Ordering::Release);
        copied
    }
}

/// A work queue as sysfs shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Its file.
    pub(super) file: PathBuf,
    pub(super) entries: usize,
    pub(super) bytes_max: usize,
}

/// The first queue in the order of their names that this process can use, of the sysfs at this root and the device files at
/// that, or why there is none.
pub(super) fn find(sysfs: &Path, dev: &Path) -> Result<Found, String> {
    let folder = sysfs.join("bus/dsa/devices");
    let Ok(entries) = fs::read_dir(&folder) else {
        return Err(
            "the kernel has no bus of such accelerators: the driver idxd is not loaded".to_owned(),
        );
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut queues: Vec<String> = names.filter(|name| name.starts_with("wq")).collect();
    queues.sort_unstable();
    let mut reasons = Vec::new();
    for queue in queues {
        match usable(&folder.join(&queue), dev.join("dsa").join(&queue)) {
            Ok(found) => return Ok(found),
            Err(reason) => reasons.push(format!("{queue} {reason}")),
        }
    }
    match reasons.is_empty() {
        true => Err("the driver idxd has no work queue".to_owned()),
        false => Err(format!("no work queue can be used: {}", reasons.join(", "))),
    }
}

/// A queue of this folder of attributes, if this process can use it.
fn usable(attributes: &Path, file: PathBuf) -> Result<Found, String> {
    let read = |name: &str| {
        let text = fs::read_to_string(attributes.join(name));
        text.map(|text| text.trim().to_owned())
            .map_err(|error| format!("has no {name} ({error})"))
    };
    let number = |name: &str| {
        let text = read(name)?;
        let number = text.parse::<usize>();
        number.map_err(|_| format!("has the {name} {text:?}"))
    };
    for (name, wanted) in [("type", "user"), ("state", "enabled")] {
        let found = read(name)?;
        if found != wanted {
            return Err(format!("has the {name} {found}, not {wanted}"));
        }
    }
    let found = Found {
        entries: number("size")?,
        bytes_max: number("max_transfer_size")?,
        file,
    };
    let opened = OpenOptions::new().write(true).open(&found.file);
    let shown = found.file.display();
    opened.map_err(|error| format!("cannot be opened as {shown} ({error})"))?;
    Ok(found)
}

/// The file of a queue.
pub(super) struct QueueFile(File);

impl Portal for QueueFile {
    fn submit(&self, command: &Command) -> bool {
        (&self.0)
            .write(&command.0)
            .is_ok_and(|bytes| bytes == command.0.len())
    }
}

/// The queue that this process uses, opened when it is first asked for.
pub(super) fn queue() -> Result<&'static Queue<QueueFile>, &'static str> {
    static QUEUE: OnceLock<Result<Queue<QueueFile>, String>> = OnceLock::new();
    let queue = QUEUE.get_or_init(|| open(find(Path::new("/sys"), Path::new("/dev"))?));
    queue.as_ref().map_err(String::as_str)
}

/// Opens a queue, if its device answers.
fn open(found: Found) -> Result<Queue<QueueFile>, String> {
    let shown = found.file.display();
    let file = OpenOptions::new().read(true).write(true).open(&found.file);
    let file = file.map_err(|error| format!("{shown} cannot be opened ({error})"))?;
    let queue = Queue::new(QueueFile(file), found.entries, found.bytes_max);
    match queue.answers() {
        true => Ok(queue),
        false => Err(format!(
            "{shown} takes no commands that are written to it, as older kernels do not, or its device does not answer"
        )),
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use std::mem::offset_of;
    use std::ptr::{copy_nonoverlapping, with_exposed_provenance, with_exposed_provenance_mut};
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    #[test]
    fn layouts_are_those_of_the_header() {
        let record = [
            offset_of!(Record, status),
            offset_of!(Record, result),
            offset_of!(Record, bytes),
            offset_of!(Record, fault),
            offset_of!(Record, of_code),
        ];
        assert_eq!(record, [0, 1, 4, 8, 16]);
        assert_eq!((size_of::<Record>(), align_of::<Record>()), (32, 32));
        let (from, mut to, record) = ([1; 5], [0; 5], Record::default());
        let Command(command) = Command::memory_move(&from, &mut to, &record);
        assert_eq!(command[..8], [0, 0, 0, 0, 0x0c, 0x01, 0, 3]);
        assert_eq!(address(&command, 8), std::ptr::from_ref(&record).addr());
        assert_eq!(address(&command, 16), from.as_ptr().addr());
        assert_eq!(address(&command, 24), to.as_ptr().addr());
        assert_eq!(command[32..40], [5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(command[40..], [0; 24]);
        let Command(nothing) = Command::nothing(&record);
        assert_eq!(nothing[4..8], [0x0c, 0, 0, 0]);
    }

    fn address(command: &[u8; 64], at: usize) -> usize {
        let bytes = command[at..at + 8].try_into().unwrap();
        u64::from_le_bytes(bytes) as usize
    }

    /// What a device does with its next command.
    #[derive(Debug, Clone, Copy)]
    enum Does {
        Copies,
        /// A page is not there behind so many bytes, of which it tells even where the command has fewer.
        Faults(usize),
        /// It ends with this status, and may have written something.
        Fails(u8),
        /// Its queue is full.
        IsFull,
    }

    /// A device that is a thread, with commands in memory.
    struct Fake {
        does: Mutex<Vec<Does>>,
        commands: Mutex<Sender<(Command, Does)>>,
        under_way: AtomicUsize,
        under_way_max: AtomicUsize,
    }

    impl Portal for &Fake {
        fn submit(&self, command: &Command) -> bool {
            let mut does = self.does.lock().unwrap();
            let does = does.pop().unwrap_or(Does::Copies);
            if let Does::IsFull = does {
                return false;
            }
            let before = self.under_way.fetch_add(1, Ordering::Relaxed);
            self.under_way_max.fetch_max(before + 1, Ordering::Relaxed);
            self.commands
                .lock()
                .unwrap()
                .send((*command, does))
                .unwrap();
            true
        }
    }

    impl Fake {
        fn serve(&self, commands: &Receiver<(Command, Does)>) {
            for (Command(command), does) in commands {
                let record = with_exposed_provenance::<Record>(address(&command, 8));
                // SAFETY: the record lives until it has a status.
                let record = unsafe { &*record };
                let bytes = u32::from_le_bytes(command[32..36].try_into().unwrap()) as usize;
                let (copied, status) = match does {
                    Does::Copies => (bytes, SUCCESS),
                    Does::Faults(copied) => (copied, PAGE_FAULT | 0x80),
                    Does::Fails(status) => (bytes / 2, status),
                    Does::IsFull => unreachable!("it has no commands"),
                };
                // SAFETY: source and destination are the command's until its record has a status.
                unsafe {
                    copy_nonoverlapping(
                        with_exposed_provenance::<u8>(address(&command, 16)),
                        with_exposed_provenance_mut::<u8>(address(&command, 24)),
                        copied.min(bytes),
                    );
                }
                self.under_way.fetch_sub(1, Ordering::Relaxed);
                record.bytes.store(copied as u32, Ordering::Relaxed);
                record.status.store(status, Ordering::Release);
            }
        }
    }

    /// Runs `work` with a device that does these things, then copies. The most commands that it had at one time.
    fn with_device(mut does: Vec<Does>, work: impl FnOnce(&Fake)) -> usize {
        does.reverse();
        let (sender, commands) = channel();
        let fake = Fake {
            does: Mutex::new(does),
            commands: Mutex::new(sender),
            under_way: AtomicUsize::new(0),
            under_way_max: AtomicUsize::new(0),
        };
        thread::scope(|scope| {
            let fake = &fake;
            let device = scope.spawn(move || fake.serve(&commands));
            work(fake);
            // No sender is left then.
            *fake.commands.lock().unwrap() = channel().0;
            device.join().unwrap();
        });
        fake.under_way_max.into_inner()
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length)
            .map(|byte| (byte * 31) as u8 ^ (byte >> 5) as u8)
            .collect()
    }

    #[test]
    fn what_a_device_does_not_copy_is_copied() {
        let of_faults = [0, 1, 99, 100].map(Does::Faults);
        let all = [vec![], vec![Does::IsFull], vec![Does::IsFull; TRIES]];
        let all = all.into_iter().chain(of_faults.map(|fault| vec![fault]));
        let all = all.chain([vec![Does::Fails(0x13)], vec![Does::Copies, Does::Faults(7)]]);
        for does in all {
            for length in [0, 1, 99, 100, 101, 1000] {
                with_device(does.clone(), |device| {
                    let (from, mut to) = (bytes(length), vec![0; length]);
                    Queue::new(device, 4, 100).copy(&from, &mut to);
                    assert_eq!(to, from, "{does:?} {length}");
                });
            }
        }
    }

    #[test]
    fn a_queue_has_no_more_commands_than_entries() {
        let most = with_device(Vec::new(), |device| {
            let queue = Queue::new(device, 2, 64);
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let (from, mut to) = (bytes(5000), vec![0; 5000]);
                        queue.copy(&from, &mut to);
                        assert_eq!(to, from);
                    });
                }
            });
            assert_eq!(queue.free.load(Ordering::Relaxed), 2);
        });
        assert!((1..=2).contains(&most), "{most}");
        let none = with_device(Vec::new(), |device| {
            let (from, mut to) = (bytes(50), vec![0; 50]);
            Queue::new(device, 0, 64).copy(&from, &mut to);
            assert_eq!(to, from);
        });
        assert_eq!(none, 0);
    }

    #[test]
    fn devices_that_do_nothing_are_found_out() {
        for (does, answers) in [
            (Does::Copies, true),
            (Does::Fails(0x10), false),
            (Does::IsFull, false),
        ] {
            with_device(vec![does], |device| {
                assert_eq!(Queue::new(device, 4, 100).answers(), answers, "{does:?}");
            });
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "leaks what a late device writes to")]
    fn devices_that_say_nothing_are_found_out() {
        // No thread serves its commands.
        let (sender, _commands) = channel();
        let silent = Fake {
            does: Mutex::default(),
            commands: Mutex::new(sender),
            under_way: AtomicUsize::new(0),
            under_way_max: AtomicUsize::new(0),
        };
        assert!(!Queue::new(&silent, 4, 100).answers());
    }

    #[test]
    #[cfg_attr(miri, ignore = "writes files")]
    fn queues_are_found_or_refused_with_the_reason() {
        let root = std::env::temp_dir().join(format!("nearfar-idxd-{}", std::process::id()));
        let (sysfs, dev) = (root.join("sys"), root.join("dev"));
        let reason = || find(&sysfs, &dev).unwrap_err();
        assert!(reason().contains("not loaded"));
        let devices = sysfs.join("bus/dsa/devices");
        fs::create_dir_all(devices.join("dsa0")).unwrap();
        assert!(reason().contains("no work queue"));
        let queue = |name: &str, attributes: [&str; 4]| {
            let folder = devices.join(name);
            fs::create_dir_all(&folder).unwrap();
            let names = ["type", "state", "size", "max_transfer_size"];
            for (name, value) in names.into_iter().zip(attributes) {
                fs::write(folder.join(name), format!("{value}\n")).unwrap();
            }
        };
        queue("wq0.0", ["kernel", "enabled", "16", "4096"]);
        queue("wq0.1", ["user", "disabled", "16", "4096"]);
        queue("wq0.2", ["user", "enabled", "many", "4096"]);
        queue("wq0.3", ["user", "enabled", "8", "2147483648"]);
        let all = reason();
        for part in [
            "wq0.0 has the type kernel, not user",
            "wq0.1 has the state disabled, not enabled",
            "wq0.2 has the size \"many\"",
            "wq0.3 cannot be opened as",
        ] {
            assert!(all.contains(part), "{all}");
        }
        fs::create_dir_all(dev.join("dsa")).unwrap();
        let file = dev.join("dsa/wq0.3");
        fs::write(&file, "").unwrap();
        let found = Found {
            file,
            entries: 8,
            bytes_max: 1 << 31,
        };
        assert_eq!(find(&sysfs, &dev), Ok(found));
        queue("wq0.1", ["user", "enabled", "16", "4096"]);
        fs::write(dev.join("dsa/wq0.1"), "").unwrap();
        let first = find(&sysfs, &dev).unwrap();
        assert_eq!((first.entries, first.bytes_max), (16, 4096));
        // Files that take whatever is written to them are no devices.
        let refused = open(first).err().unwrap();
        assert!(refused.contains("does not answer"), "{refused}");
        fs::remove_dir_all(&root).unwrap();
    }
}
