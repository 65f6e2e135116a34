//! What memory a process and its Arrow data take.

use arrow::array::{Array, ArrayData, RecordBatch};
use std::collections::HashSet;
use std::fs;
use std::io;

/// Bytes of this process that are resident now.
///
/// # Errors
/// A kernel that does not tell.
pub fn resident_bytes() -> io::Result<u64> {
    status_bytes("VmRSS:")
}

/// The most bytes of this process that were resident since [`reset_peak`].
///
/// # Errors
/// A kernel that does not tell.
pub fn peak_bytes() -> io::Result<u64> {
    status_bytes("VmHWM:")
}

/// Lets the peak start anew from what is resident now.
///
/// # Errors
/// A kernel that can't.
pub fn reset_peak() -> io::Result<()> {
    fs::write("/proc/self/clear_refs", "5")
}

fn status_bytes(key: &str) -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let kib = status
        .lines()
        .filter_map(|line| line.strip_prefix(key))
        .find_map(|value| value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!("/proc/self/status does not tell {key}"),
        )
    })
}

/// Bytes of the buffers behind `batches`, each counted once however many arrays share it.
pub fn buffer_bytes<'a>(batches: impl IntoIterator<Item = &'a RecordBatch>) -> u64 {
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for batch in batches {
        for column in batch.columns() {
            add(&column.to_data(), &mut seen, &mut bytes);
        }
    }
    bytes
}

fn add(data: &ArrayData, seen: &mut HashSet<usize>, bytes: &mut u64) {
    let nulls = data.nulls().map(|nulls| nulls.inner().inner());
    for buffer in data.buffers().iter().chain(nulls) {
        if seen.insert(buffer.data_ptr().as_ptr() as usize) {
            *bytes += buffer.capacity() as u64;
        }
    }
    data.child_data()
        .iter()
        .for_each(|child| add(child, seen, bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array};
    use std::sync::Arc;

    #[test]
    fn shared_buffers_count_once() {
        let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let batch = RecordBatch::try_from_iter([("a", Arc::clone(&column)), ("b", column)])
            .expect("a batch");
        let bytes = buffer_bytes([&batch]);
        assert!((8000..9000).contains(&bytes), "{bytes}");
        assert_eq!(
            buffer_bytes([&batch.slice(0, 10), &batch.slice(10, 10)]),
            bytes
        );
    }

    #[test]
    fn a_process_is_resident_and_has_a_peak() -> io::Result<()> {
        assert!(peak_bytes()? >= resident_bytes()? / 2);
        // Not every sandbox allows it.
        let _ = reset_peak();
        assert!(resident_bytes()? > 1 << 20);
        Ok(())
    }
}
