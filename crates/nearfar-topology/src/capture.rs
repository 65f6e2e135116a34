//! The part of a sysfs that discovery reads, as one text file.
//!
//! A capture brings a machine's topology to where it can be looked at or tested:
//! read it there, print it, parse and unpack it here, and give the folder to
//! [`Topology::discover`](crate::Topology::discover). The format is made to be
//! read and written by people too:
//!
//! ```text
//! # a comment
//! devices/system/node/node0/cpulist = 0-1
//! devices/system/node/node0/meminfo =
//! <tab>Node 0 MemTotal:  5334816 kB
//! <tab>Node 0 MemFree:   3447600 kB
//! bus/dax/devices/dax0.0 -> ../../../devices/platform/hmem.0/dax0.0
//! devices/platform/hmem.0/dax0.0/
//! ```
//!
//! `=` gives a file its one line, or the indented lines that follow; `->` is a
//! symbolic link; a path that ends in `/` is a folder that would otherwise be
//! missing. Each line of a file ends with a newline unless it ends with a
//! backslash. `\\` is a backslash and `\xNN` any other byte.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use thiserror::Error;

/// What discovery reads. `#` stands for a number; links on the way are followed,
/// and kept. A pattern that ends in `/` keeps the folder that a link leads to.
const PATTERNS: [&str; 35] = [
    "devices/system/node/possible",
    "devices/system/node/online",
    "devices/system/node/has_memory",
    "devices/system/node/has_normal_memory",
    "devices/system/node/has_cpu",
    "devices/system/node/node#/cpulist",
    "devices/system/node/node#/distance",
    "devices/system/node/node#/meminfo",
    "devices/system/node/node#/access#/initiators/node#",
    "devices/system/node/node#/access#/initiators/read_latency",
    "devices/system/node/node#/access#/initiators/write_latency",
    "devices/system/node/node#/access#/initiators/read_bandwidth",
    "devices/system/node/node#/access#/initiators/write_bandwidth",
    "devices/system/memory/auto_online_blocks",
    "devices/system/memory/block_size_bytes",
    "devices/system/cpu/cpu#/topology/physical_package_id",
    "devices/system/cpu/cpu#/cache/index#/level",
    "devices/system/cpu/cpu#/cache/index#/size",
    "devices/virtual/memory_tiering",
    "devices/virtual/memory_tiering/memory_tier#/nodelist",
    "bus/dax/devices",
    "bus/dax/devices/dax#.#/size",
    "bus/dax/devices/dax#.#/target_node",
    "bus/dax/devices/dax#.#/resource",
    "bus/dax/devices/dax#.#/driver",
    "bus/cxl/devices",
    "bus/cxl/devices/mem#/ram/size",
    "bus/cxl/devices/mem#/pmem/size",
    "bus/cxl/devices/mem#/driver",
    "bus/cxl/devices/region#/size",
    "bus/cxl/devices/region#/resource",
    "bus/cxl/devices/region#/driver",
    "bus/cxl/devices/region#/target#",
    "bus/cxl/devices/endpoint#/uport",
    "bus/cxl/devices/decoder#.#/",
];
/// The access classes of CXL regions.
const REGION_ACCESS: &str = "bus/cxl/devices/region#/access#";
/// Only taken where a CXL region has no DAX device, since there are thousands.
const MEMORY_BLOCKS: &str = "devices/system/node/node#/memory#";
const FILE_BYTES_MAX: u64 = 1 << 18;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Entry {
    File(Vec<u8>),
    Link(String),
    Folder,
}

/// A captured sysfs; see the [module](self) for its text form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capture {
    entries: BTreeMap<String, Entry>,
}

/// A sysfs cannot be captured, or a capture cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// A file or folder cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file, link or folder cannot be made.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file, link or folder.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line of the text form is not understood.
    #[error("line {line}: {problem}")]
    Syntax {
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: &'static str,
    },
}

impl Capture {
    /// Reads the part of the sysfs at `root` that discovery needs.
    ///
    /// Files that cannot be read, as some only by the superuser, are left out.
    ///
    /// # Errors
    /// [`CaptureError::Read`] where `root` or a folder cannot be listed.
    pub fn read(root: &Path) -> Result<Self, CaptureError> {
        let real = |source| CaptureError::Read {
            path: root.to_owned(),
            source,
        };
        let root = fs::canonicalize(root).map_err(real)?;
        let mut capture = Self::default();
        for pattern in PATTERNS {
            capture.take(&root, &root, pattern)?;
        }
        for attribute in [
            "read_latency",
            "write_latency",
            "read_bandwidth",
            "write_bandwidth",
        ] {
            capture.take(&root, &root, &format!("{REGION_ACCESS}/{attribute}"))?;
        }
        let count = |prefix| {
            capture
                .entries
                .keys()
                .filter(|path| path.starts_with(prefix))
                .count()
        };
        if count("bus/cxl/devices/region") > count("bus/dax/devices/dax") {
            capture.take(&root, &root, MEMORY_BLOCKS)?;
        }
        Ok(capture)
    }

    /// Takes what matches `pattern` below `folder`, which lies in `root` and has
    /// no link in its path.
    fn take(&mut self, root: &Path, folder: &Path, pattern: &str) -> Result<(), CaptureError> {
        let (part, rest) = match pattern.split_once('/') {
            Some((part, rest)) => (part, Some(rest)),
            None => (pattern, None),
        };
        for name in matching(folder, part)? {
            let path = folder.join(name);
            let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
            let Some(place) = relative(root, &path) else {
                continue;
            };
            if let Some(target) = link_target(&path) {
                self.entries.insert(place, Entry::Link(target));
            } else if rest.is_none() && path.is_dir() {
                self.entries.insert(place, Entry::Folder);
            } else if rest.is_none()
                && let Some(bytes) = read_file(&path)
            {
                self.entries.insert(place, Entry::File(bytes));
            }
            let Some(real_place) = relative(root, &real) else {
                continue;
            };
            match rest {
                Some("") if real.is_dir() => {
                    self.entries.insert(real_place, Entry::Folder);
                }
                Some(rest) if real.is_dir() => self.take(root, &real, rest)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the text form.
    ///
    /// # Errors
    /// [`CaptureError::Syntax`] where a line is not understood, a path leaves the
    /// tree or goes through a link, or the same path comes twice.
    pub fn parse(text: &str) -> Result<Self, CaptureError> {
        let mut capture = Self::default();
        let mut block: Option<String> = None;
        for (index, line) in text.lines().enumerate() {
            let fail = |problem| CaptureError::Syntax {
                line: index + 1,
                problem,
            };
            if let Some(content) = line.strip_prefix('\t') {
                let path = block
                    .as_ref()
                    .ok_or_else(|| fail("is indented, but below no file"))?;
                if let Some(Entry::File(bytes)) = capture.entries.get_mut(path) {
                    unescape(content, bytes).map_err(fail)?;
                }
                continue;
            }
            block = None;
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (path, entry) = parse_entry(line).map_err(fail)?;
            if line.ends_with(" =") {
                block = Some(path.clone());
            }
            if capture.entries.insert(path, entry).is_some() {
                return Err(fail("gives a path for the second time"));
            }
        }
        match capture
            .entries
            .keys()
            .find(|path| capture.goes_through_a_leaf(path))
        {
            None => Ok(capture),
            Some(path) => {
                let line = text
                    .lines()
                    .position(|line| line.starts_with(path.as_str()));
                let problem = "has a path that goes through a file or a link";
                Err(CaptureError::Syntax {
                    line: line.map_or(0, |index| index + 1),
                    problem,
                })
            }
        }
    }

    fn goes_through_a_leaf(&self, path: &str) -> bool {
        let mut parents = path.match_indices('/').map(|(end, _)| &path[..end]);
        parents.any(|parent| !matches!(self.entries.get(parent), None | Some(Entry::Folder)))
    }

    /// Makes the captured tree below `folder`, which may exist.
    ///
    /// # Errors
    /// [`CaptureError::Write`] where something cannot be made.
    pub fn unpack(&self, folder: &Path) -> Result<(), CaptureError> {
        let fail = |path: &Path, source| CaptureError::Write {
            path: path.to_owned(),
            source,
        };
        let make = |path: &Path| fs::create_dir_all(path).map_err(|source| fail(path, source));
        make(folder)?;
        for (relative, entry) in &self.entries {
            let path = folder.join(relative);
            if let Some(parent) = path.parent() {
                make(parent)?;
            }
            match entry {
                Entry::File(bytes) => fs::write(&path, bytes),
                Entry::Link(target) => symlink(target, &path),
                Entry::Folder => fs::create_dir_all(&path),
            }
            .map_err(|source| fail(&path, source))?;
        }
        Ok(())
    }

    /// Paths of the files, ascending, relative to the root.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.entries
            .iter()
            .filter(|(_, entry)| matches!(entry, Entry::File(_)))
            .map(|(path, _)| path.as_str())
    }
}

/// Names in `folder` that a part of a pattern matches, sorted.
fn matching(folder: &Path, part: &str) -> Result<Vec<String>, CaptureError> {
    if !part.contains('#') {
        return Ok(vec![part.to_owned()]);
    }
    let fail = |source| CaptureError::Read {
        path: folder.to_owned(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(fail(source)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry.map_err(fail)?.file_name().into_string());
    }
    names.retain(|name| matches_part(name, part));
    names.sort();
    Ok(names)
}

/// Whether `name` is `part` with each `#` replaced by digits.
fn matches_part(name: &str, part: &str) -> bool {
    let Some((fixed, rest)) = part.split_once('#') else {
        return name == part;
    };
    let Some(name) = name.strip_prefix(fixed) else {
        return false;
    };
    let digits = name.bytes().take_while(u8::is_ascii_digit).count();
    digits > 0 && matches_part(&name[digits..], rest)
}

fn relative(root: &Path, path: &Path) -> Option<String> {
    path.strip_prefix(root).ok()?.to_str().map(str::to_owned)
}

fn link_target(path: &Path) -> Option<String> {
    fs::read_link(path).ok()?.to_str().map(str::to_owned)
}

/// `None` where it is no file, or cannot be read.
fn read_file(path: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    if !path.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .ok()?
        .take(FILE_BYTES_MAX)
        .read_to_end(&mut bytes)
        .ok()?;
    Some(bytes)
}

/// One line that is not indented.
fn parse_entry(line: &str) -> Result<(String, Entry), &'static str> {
    let (path, entry) = if let Some(path) = line.strip_suffix(" =") {
        (path, Entry::File(Vec::new()))
    } else if let Some((path, content)) = line.split_once(" = ") {
        let mut bytes = Vec::new();
        unescape(content, &mut bytes)?;
        (path, Entry::File(bytes))
    } else if let Some((path, target)) = line.split_once(" -> ") {
        (path, Entry::Link(target.to_owned()))
    } else if let Some(path) = line.strip_suffix('/') {
        (path, Entry::Folder)
    } else {
        return Err("is no file (=), link (->), folder (/), comment (#) or indented content");
    };
    let plain = |path: &str| {
        Path::new(path)
            .components()
            .all(|c| matches!(c, Component::Normal(_)))
    };
    if path.is_empty() || !plain(path) || path.contains("//") {
        return Err("has a path that is not relative and plain");
    }
    match &entry {
        Entry::Link(target) if !stays_inside(path, target) => Err("links to outside of the tree"),
        _ => Ok((path.to_owned(), entry)),
    }
}

/// Whether a link at `path` to `target` leads to somewhere in the tree.
fn stays_inside(path: &str, target: &str) -> bool {
    let mut depth = path.matches('/').count();
    for component in Path::new(target).components() {
        match component {
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::ParentDir if depth > 0 => depth -= 1,
            _ => return false,
        }
    }
    true
}

/// Appends one line of content.
fn unescape(content: &str, bytes: &mut Vec<u8>) -> Result<(), &'static str> {
    let mut rest = content;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        if escape.is_empty() {
            return Ok(());
        }
        rest = if let Some(rest) = escape.strip_prefix('\\') {
            bytes.push(b'\\');
            rest
        } else {
            let digits = escape.strip_prefix('x').and_then(|hex| hex.get(..2));
            let byte = digits.filter(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
            let byte = byte.and_then(|hex| u8::from_str_radix(hex, 16).ok());
            bytes.push(byte.ok_or("has a backslash before neither \\, xNN nor the end")?);
            &escape[3..]
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes.push(b'\n');
    Ok(())
}

/// One line of content, without its newline.
fn escape(line: &[u8]) -> String {
    let mut text = String::new();
    for chunk in line.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '\\' => text.push_str("\\\\"),
                char if char.is_control() => {
                    let mut buffer = [0; 4];
                    for byte in char.encode_utf8(&mut buffer).bytes() {
                        let _ = write!(text, "\\x{byte:02x}");
                    }
                }
                char => text.push(char),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// The text form, which [`Capture::parse`] reads back.
impl fmt::Display for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (path, entry) in &self.entries {
            match entry {
                Entry::Folder => writeln!(f, "{path}/")?,
                Entry::Link(target) => writeln!(f, "{path} -> {target}")?,
                Entry::File(bytes) => {
                    let lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
                    let text = |line: &[u8]| match line.strip_suffix(b"\n") {
                        Some(line) => escape(line),
                        None => escape(line) + "\\",
                    };
                    match lines[..] {
                        [line] if line != b"\n" => writeln!(f, "{path} = {}", text(line))?,
                        _ => {
                            writeln!(f, "{path} =")?;
                            for line in lines {
                                writeln!(f, "\t{}", text(line))?;
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn problem(text: &str) -> String {
        Capture::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn refuses_what_would_leave_the_tree() {
        assert!(problem("../x = 1").contains("not relative"));
        assert!(problem("/etc/x = 1").contains("not relative"));
        assert!(problem("a/b -> /etc").contains("outside"));
        assert!(problem("a/b -> ../../c").contains("outside"));
        assert!(problem("a -> b\na/c = 1").contains("through"));
        assert!(problem("a = 1\na = 2").starts_with("line 2"));
        assert!(problem("a = \\q").contains("backslash"));
        assert!(problem("\tx").contains("indented"));
        assert!(problem("nonsense").contains("is no file"));
    }

    #[test]
    fn patterns_match_numbers() {
        assert!(matches_part("dax0.10", "dax#.#"));
        assert!(!matches_part("dax0", "dax#.#") && !matches_part("nodex", "node#"));
        assert!(!matches_part("node1x", "node#"));
    }

    proptest! {
        #[test]
        fn every_content_survives_text_and_disk(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), Just(b'\n'), Just(b'\\'), Just(b' ')], 0..40),
        ) {
            let mut capture = Capture::default();
            capture.entries.insert("a/b".to_owned(), Entry::File(bytes.clone()));
            capture.entries.insert("a/c".to_owned(), Entry::Link("../a/b".to_owned()));
            prop_assert_eq!(&Capture::parse(&capture.to_string()).unwrap(), &capture);
            let folder = tempfile::tempdir().unwrap();
            capture.unpack(folder.path()).unwrap();
            prop_assert_eq!(fs::read(folder.path().join("a/c")).unwrap(), bytes);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[ab/=> .\\\\x#\\t\\n-]{0,60}") {
            let _ = Capture::parse(&text);
        }
    }
}
