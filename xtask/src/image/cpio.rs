//! Archives in cpio's "newc" format, as the kernel unpacks its first file system from
//! (Documentation/driver-api/early-userspace/buffer-format.rst).
//!
//! The same entries give the same bytes: owners and times are zero, inode numbers count from one.

use std::collections::BTreeMap;

/// An archive that is being put together; its entries are kept in the order of their paths.
#[derive(Debug, Default)]
pub struct Archive {
    entries: BTreeMap<String, Entry>,
}

#[derive(Debug)]
struct Entry {
    mode: u32,
    content: Vec<u8>,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;
const LINK: u32 = 0o120_777;

impl Archive {
    /// Adds a folder.
    pub fn folder(&mut self, path: &str) {
        self.add(path, FOLDER, Vec::new());
    }

    /// Adds a file that may be executed.
    pub fn program(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.add(path, PROGRAM, content.into());
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, content: impl Into<Vec<u8>>) {
        self.add(path, FILE, content.into());
    }

    /// Adds a symbolic link to `target`.
    pub fn link(&mut self, path: &str, target: &str) {
        self.add(path, LINK, target.into());
    }

    fn add(&mut self, path: &str, mode: u32, content: Vec<u8>) {
        // A folder sorts before what is in it, so that it is made first.
        if let Some((parent, _)) = path.rsplit_once('/')
            && !self.entries.contains_key(parent)
        {
            self.folder(parent);
        }
        self.entries
            .insert(path.to_owned(), Entry { mode, content });
    }

    /// The archive.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (index, (path, entry)) in self.entries.iter().enumerate() {
            append(&mut out, index as u32 + 1, path, entry);
        }
        let end = Entry {
            mode: 0,
            content: Vec::new(),
        };
        append(&mut out, 0, "TRAILER!!!", &end);
        out
    }
}

fn append(out: &mut Vec<u8>, inode: u32, path: &str, entry: &Entry) {
    let links = if entry.mode == FOLDER { 2 } else { 1 };
    let (owner, group, time, device) = (0, 0, 0, 0);
    let fields = [
        inode,
        entry.mode,
        owner,
        group,
        links,
        time,
        entry.content.len() as u32,
        device,
        device,
        device,
        device,
        path.len() as u32 + 1,
        0, // the checksum, which this variant of the format has not
    ];
    out.extend(b"070701");
    for field in fields {
        out.extend(format!("{field:08x}").bytes());
    }
    out.extend(path.bytes());
    out.push(0);
    pad(out);
    out.extend(&entry.content);
    pad(out);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paths, modes and contents, by reading the format as its document says.
    fn read(archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut at = 0;
        loop {
            assert_eq!(&archive[at..at + 6], b"070701");
            let field = |index: usize| {
                let start = at + 6 + 8 * index;
                let text = std::str::from_utf8(&archive[start..start + 8]).unwrap();
                u32::from_str_radix(text, 16).unwrap() as usize
            };
            let (mode, size, name_size) = (field(1), field(6), field(11));
            let name = &archive[at + 110..at + 110 + name_size - 1];
            let start = (at + 110 + name_size).next_multiple_of(4);
            let name = String::from_utf8(name.to_vec()).unwrap();
            at = (start + size).next_multiple_of(4);
            if name == "TRAILER!!!" {
                assert_eq!(at, archive.len());
                return found;
            }
            found.push((name, mode as u32, archive[start..start + size].to_vec()));
        }
    }

    #[test]
    fn entries_are_read_back_with_their_folders_first() {
        let mut archive = Archive::default();
        archive.program("init", "#!/bin/sh\n");
        archive.file("a/b/c", *b"12345");
        archive.link("bin", "usr/bin");
        let expected = [
            ("a", FOLDER, &b""[..]),
            ("a/b", FOLDER, b""),
            ("a/b/c", FILE, b"12345"),
            ("bin", LINK, b"usr/bin"),
            ("init", PROGRAM, b"#!/bin/sh\n"),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(path, mode, content)| ((*path).to_owned(), *mode, content.to_vec()))
            .collect();
        assert_eq!(read(&archive.bytes()), expected);
    }

    #[test]
    fn the_order_of_adding_does_not_matter() {
        let (mut one, mut other) = (Archive::default(), Archive::default());
        one.file("x/y", "1");
        one.folder("dev");
        other.folder("dev");
        other.file("x/y", "1");
        assert_eq!(one.bytes(), other.bytes());
    }
}
