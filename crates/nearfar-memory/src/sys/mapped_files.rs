//! What the kernel says is mapped where.

use std::ops::Range;

use super::SysError;

/// A file or device that is mapped, as a line of `/proc/self/maps` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedFile {
    /// Where.
    pub addresses: Range<usize>,
    /// The byte of the file that the first address shows.
    pub offset: u64,
    /// The number of its inode.
    pub inode: u64,
}

/// The files and devices that are mapped to some of `addresses` (proc_pid_maps(5)).
///
/// # Errors
/// That of reading `/proc/self/maps`.
pub fn mapped_files(addresses: Range<usize>) -> Result<Vec<MappedFile>, SysError> {
    // Names of files are bytes.
    let text = std::fs::read("/proc/self/maps").map_err(|error| SysError {
        call: "read of /proc/self/maps",
        errno: error.raw_os_error().unwrap_or(0),
    })?;
    let text = String::from_utf8_lossy(&text);
    let overlaps = |file: &MappedFile| {
        file.addresses.start < addresses.end && addresses.start < file.addresses.end
    };
    Ok(text.lines().filter_map(line).filter(overlaps).collect())
}

/// `7f0000000000-7f0000200000 rw-s 00200000 00:05 123 /dev/dax0.0`; nothing for memory without a file.
fn line(text: &str) -> Option<MappedFile> {
    let mut words = text.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (offset, inode) = (words.nth(1)?, words.nth(1)?);
    let address = |text| usize::from_str_radix(text, 16).ok();
    let file = MappedFile {
        addresses: address(start)?..address(end)?,
        offset: u64::from_str_radix(offset, 16).ok()?,
        inode: inode.parse().ok()?,
    };
    (file.inode != 0).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_files_are_read() {
        let file = "7f0000000000-7f0000200000 rw-s 00400000 00:05 123    /dev/dax0.0";
        let expected = MappedFile {
            addresses: 0x7f00_0000_0000..0x7f00_0020_0000,
            offset: 0x40_0000,
            inode: 123,
        };
        assert_eq!(line(file), Some(expected));
        assert_eq!(
            line("7f0000000000-7f0000200000 rw-p 00000000 00:00 0 "),
            None
        );
        assert_eq!(line("odd"), None);
    }
}
