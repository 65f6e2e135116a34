//! One spilled file: regions of a tier, and what they had no room for on disk.

use bytes::Bytes;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile, SpillWriter};
use futures::{Stream, StreamExt};
use nearfar_memory::{
    OverBudget, PageSize, Placement, Region, RegionError, RegionOptions, TierBytes,
};
use nearfar_model::{Direction, Pattern};
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use super::store::SpillStore;
use crate::datafusion_names::REPARTITION_FILE;
use crate::error::is_disk_full;
use nearfar_table::traffic::{Task, Turn};

/// Bytes of a region, and of what a writer holds before it makes one.
const CHUNK_BYTES: usize = 1 << 20;

/// Bytes that are read in one step.
pub const READ_BYTES: usize = 128 << 10;

/// A file that may be read while it is written: what was flushed is seen.
pub struct StoredFile {
    shared: Arc<Shared>,
}

struct Shared {
    store: SpillStore,
    description: String,
    contents: Mutex<Contents>,
}

#[derive(Default)]
struct Contents {
    chunks: Vec<Arc<Region>>,
    /// What follows the chunks.
    disk: Option<Arc<dyn SpillFile>>,
    /// Of the chunk that was written last, where that is limited.
    turn: Option<Turn>,
    /// What readers are to be told.
    failure: Option<io::Error>,
}

impl StoredFile {
    /// An empty file of `store`.
    pub fn new(store: SpillStore, description: &str) -> Self {
        Self {
            shared: Arc::new(Shared {
                store,
                description: description.to_owned(),
                contents: Mutex::default(),
            }),
        }
    }
}

impl Shared {
    /// Counts the transfer of `bytes`, for which it delays the thread where the tier is emulated, and
    /// returns the turn that is to be waited for before more is transferred.
    fn transfer(&self, direction: Direction, pattern: Pattern, bytes: usize) -> Option<Turn> {
        let tier = self.store.tier.as_ref()?;
        if let Some(model) = &tier.model {
            let began = Instant::now();
            model.transfer(direction, pattern, bytes as u64);
            self.store.account.add_wait(began.elapsed());
        }
        let mut moved = TierBytes::ZERO;
        moved[tier.tier] = bytes as u64;
        match direction {
            Direction::Read => tier.account.read(Task::Spill, &moved),
            Direction::Write => tier.account.wrote(Task::Spill, &moved),
        }
        tier.account.turn(Task::Spill, &moved)
    }

    /// What is wrong with the disk, where that is, and what to do if it is full.
    fn told(&self, error: io::Error) -> io::Error {
        let (kind, remedy) = match is_disk_full(&error) {
            true => (
                io::ErrorKind::StorageFull,
                "; make room there, name another folder by TMPDIR, or raise memory_limit",
            ),
            false => (error.kind(), ""),
        };
        let folder = std::env::temp_dir();
        let text = format!("cannot spill to `{}`: {error}{remedy}", folder.display());
        io::Error::new(kind, text)
    }

    /// What became of writing, or `otherwise` where readers are told what went wrong: those of batches on their way
    /// between threads would wait for ever for one that its writer has given up.
    fn settled<T>(&self, written: io::Result<T>, otherwise: T) -> io::Result<T> {
        match written {
            Err(error) if self.description == REPARTITION_FILE => {
                self.contents.lock().failure.get_or_insert(error);
                Ok(otherwise)
            }
            written => written,
        }
    }

    /// A region with `bytes` in it; nothing where no tier is tried.
    fn region(&self, bytes: &[u8]) -> Result<Option<Region>, RegionError> {
        let Some(tier) = &self.store.tier else {
            return Ok(None);
        };
        let options = RegionOptions {
            page_size: PageSize::Base,
            over_budget: OverBudget::Refuse,
        };
        let placement = Placement::Bind(tier.tier);
        let mut region = Region::allocate(&tier.system, bytes.len(), &placement, options)?;
        region.as_mut_slice().copy_from_slice(bytes);
        Ok(Some(region))
    }
}

impl SpillFile for StoredFile {
    fn size(&self) -> Option<u64> {
        let contents = self.shared.contents.lock();
        let in_memory: usize = contents.chunks.iter().map(|chunk| chunk.len()).sum();
        let on_disk = contents.disk.as_ref().map_or(Some(0), |file| file.size())?;
        Some(in_memory as u64 + on_disk)
    }

    fn read_stream(&self) -> Result<Bytestream> {
        let reader = Reader {
            pattern: Pattern::First,
            shared: Arc::clone(&self.shared),
            chunk: 0,
            offset: 0,
            turn: self.shared.contents.lock().turn.take(),
            disk: None,
        };
        let next = |mut reader: Reader| async move {
            let bytes = reader.next().await?;
            Some((bytes, reader))
        };
        Ok(Box::pin(futures::stream::unfold(reader, next)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer {
            pattern: Pattern::First,
            shared: Arc::clone(&self.shared),
            pending: Vec::new(),
            disk: None,
        }))
    }
}

/// The bytes of a file, as they are read.
pub type Bytestream = Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>;

/// Where a reader has got to.
struct Reader {
    shared: Arc<Shared>,
    /// Of what is read from memory next.
    pattern: Pattern,
    chunk: usize,
    offset: usize,
    /// Of what was read from memory, or at first of what was written to it, where that is limited.
    turn: Option<Turn>,
    disk: Option<Bytestream>,
}

impl Reader {
    async fn next(&mut self) -> Option<Result<Bytes>> {
        if let Some(turn) = self.turn.take() {
            turn.wait().await;
        }
        let failure = self.shared.contents.lock().failure.take();
        if let Some(failure) = failure {
            return Some(Err(DataFusionError::IoError(failure)));
        }
        if let Some(bytes) = self.next_in_memory() {
            return Some(Ok(bytes));
        }
        if self.disk.is_none() {
            let file = self.shared.contents.lock().disk.clone();
            match file?.read_stream() {
                Ok(stream) => self.disk = Some(stream),
                Err(error) => return Some(Err(error)),
            }
        }
        self.disk.as_mut()?.next().await
    }

    fn next_in_memory(&mut self) -> Option<Bytes> {
        let chunk = {
            let contents = self.shared.contents.lock();
            Arc::clone(contents.chunks.get(self.chunk)?)
        };
        let end = (self.offset + READ_BYTES).min(chunk.len());
        let bytes = Bytes::copy_from_slice(&chunk.as_slice()[self.offset..end]);
        self.offset = end;
        if end == chunk.len() {
            (self.chunk, self.offset) = (self.chunk + 1, 0);
        }
        let pattern = self.pattern.advance();
        self.turn = self.shared.transfer(Direction::Read, pattern, bytes.len());
        Some(bytes)
    }
}

struct Writer {
    shared: Arc<Shared>,
    /// Of what is written to memory next.
    pattern: Pattern,
    /// Less than a chunk.
    pending: Vec<u8>,
    /// Where everything goes since the tier had no room.
    disk: Option<Box<dyn SpillWriter>>,
}

impl Writer {
    /// Puts what is pending into a region, or on disk from now on.
    fn seal(&mut self) -> io::Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        match self.shared.region(&pending) {
            Ok(Some(region)) => {
                self.shared.store.account.add_memory(pending.len() as u64);
                let pattern = self.pattern.advance();
                // Operators write without a place to wait at: who reads it again waits first.
                let turn = self
                    .shared
                    .transfer(Direction::Write, pattern, pending.len());
                let mut contents = self.shared.contents.lock();
                contents.chunks.push(Arc::new(region));
                contents.turn = turn;
                return Ok(());
            }
            Ok(None) => {}
            Err(error) => {
                tracing::debug!(%error, "no room to spill to, going on on disk");
            }
        }
        self.write_to_disk(&pending)
    }

    fn write_to_disk(&mut self, bytes: &[u8]) -> io::Result<()> {
        let shared = &self.shared;
        let disk = match &mut self.disk {
            Some(disk) => disk,
            None => {
                let file = shared.store.disk.create_tmp_file(&shared.description);
                let file = file.map_err(|error| shared.told(io::Error::other(error)))?;
                let writer = file.open_writer().map_err(|error| match error {
                    DataFusionError::IoError(error) => shared.told(error),
                    error => shared.told(io::Error::other(error)),
                })?;
                shared.contents.lock().disk = Some(file);
                self.disk.insert(writer)
            }
        };
        disk.write_all(bytes).map_err(|error| shared.told(error))?;
        shared.store.account.add_disk(bytes.len() as u64);
        Ok(())
    }

    fn take(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.disk.is_some() {
            self.write_to_disk(bytes)?;
            return Ok(bytes.len());
        }
        let taken = bytes.len().min(CHUNK_BYTES - self.pending.len());
        self.pending.extend_from_slice(&bytes[..taken]);
        if self.pending.len() == CHUNK_BYTES {
            self.seal()?;
        }
        Ok(taken)
    }

    fn flush_all(&mut self) -> io::Result<()> {
        self.seal()?;
        match &mut self.disk {
            Some(disk) => disk.flush(),
            None => Ok(()),
        }
    }
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = self.take(bytes);
        self.shared.settled(taken, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.flush_all();
        self.shared.settled(flushed, ())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        io::Write::flush(self)?;
        match &mut self.disk {
            Some(disk) => disk.finish(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SpillTier;
    use super::*;
    use crate::memory::SpillAccount;
    use datafusion::execution::disk_manager::{DiskManager, DiskManagerMode};
    use futures::executor::block_on;
    use nearfar_memory::{Budgets, MachineRoots, MemorySystem, TierKind, TierSpec};
    use nearfar_table::traffic::TrafficAccount;
    use std::io::Write as _;

    const MIB: usize = 1 << 20;

    fn store(far_bytes: usize, mode: DiskManagerMode) -> SpillStore {
        let tier = |name: &str, bytes| TierSpec::new(name, TierKind::LocalDram, [0], bytes);
        let nowhere = MachineRoots {
            proc: "nowhere".into(),
            sys: "nowhere".into(),
            cgroup: "nowhere".into(),
        };
        let specs = vec![tier("near", 64 << 20), tier("far", far_bytes as u64)];
        let budgets = Budgets::new().with_roots(nowhere);
        let system = MemorySystem::from_specs(specs, &budgets).expect("a system");
        let tier = SpillTier {
            tier: system.tier("far").expect("the tier"),
            system,
            model: None,
            account: TrafficAccount::of_engine(&Arc::default()),
        };
        let disk = DiskManager::builder().with_mode(mode).build();
        let disk = Arc::new(disk.expect("a disk manager"));
        SpillStore::new(Some(tier), disk, Arc::new(SpillAccount::default()))
    }

    fn read(file: &StoredFile) -> Vec<u8> {
        let stream = file.read_stream().expect("a stream");
        let parts: Vec<Bytes> = block_on(stream.map(|part| part.expect("bytes")).collect());
        parts.concat()
    }

    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|index| (index % 251) as u8).collect()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_file_goes_on_on_disk_when_the_tier_is_full() {
        let store = store(3 * MIB, DiskManagerMode::OsTmpDirectory);
        let account = Arc::clone(&store.account);
        let system = Arc::clone(&store.tier.as_ref().expect("a tier").system);
        let file = StoredFile::new(store, "a test");
        let mut writer = file.open_writer().expect("a writer");
        let all = bytes(5 * MIB + 123);
        for part in all.chunks(70_001) {
            writer.write_all(part).expect("written");
        }
        writer.finish().expect("finished");
        let far = system.tier("far").expect("the tier");
        assert_eq!(system.usage(far).region_bytes, 3 << 20);
        assert_eq!(account.memory_bytes(), 3 << 20);
        assert_eq!(account.disk_bytes(), (2 << 20) + 123);
        assert_eq!(file.size(), Some(all.len() as u64));
        for _ in 0..2 {
            let mut stream = file.read_stream().expect("a stream");
            let mut read = Vec::new();
            while let Some(part) = stream.next().await {
                read.extend_from_slice(&part.expect("bytes"));
            }
            assert!(read == all);
        }
        drop((file, writer));
        assert_eq!(system.usage(far).region_bytes, 0);
    }

    #[test]
    fn what_is_flushed_can_be_read() {
        let file = StoredFile::new(store(4 * MIB, DiskManagerMode::Disabled), "a test");
        let mut writer = file.open_writer().expect("a writer");
        let all = bytes(300_000);
        writer.write_all(&all[..100_000]).expect("written");
        assert!(read(&file).is_empty());
        writer.flush().expect("flushed");
        assert!(read(&file) == all[..100_000]);
        writer.write_all(&all[100_000..]).expect("written");
        writer.finish().expect("finished");
        assert!(read(&file) == all);
    }

    #[test]
    fn without_room_anywhere_writing_fails() {
        let file = StoredFile::new(store(MIB, DiskManagerMode::Disabled), "a test");
        let mut writer = file.open_writer().expect("a writer");
        let error = writer.write_all(&bytes(3 * MIB)).expect_err("no room");
        assert!(error.to_string().contains("a test"), "{error}");
    }

    #[test]
    fn who_waits_for_a_batch_is_told_that_there_was_no_room() {
        let file = StoredFile::new(store(MIB, DiskManagerMode::Disabled), REPARTITION_FILE);
        let mut writer = file.open_writer().expect("a writer");
        writer.write_all(&bytes(3 * MIB)).expect("taken");
        writer.finish().expect("finished");
        let mut chunks = file.read_stream().expect("a stream");
        let first = futures::executor::block_on(chunks.next()).expect("something");
        let error = first.expect_err("no room");
        assert!(error.to_string().contains("cannot spill"), "{error}");
    }
}
