//! Files and folders of the data directory: who may read them.
//!
//! The directory is made for its owner alone, or for its group to read, and whatever is made in it
//! follows the folder that it is made in, whatever the umask. Nothing is written through a symbolic
//! link.

use nearfar_memory::FileAccess;
use nearfar_memory::sys::NO_FOLLOW;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The bits of a mode that say who may do what.
const PERMISSIONS: u32 = 0o777;
/// What nobody may but the owner: to write, and for others than the group anything.
const TOO_MUCH: u32 = 0o027;
const GROUP_READS: u32 = 0o040;

/// The mode of a folder, if others may do more with it than a data directory allows.
pub fn too_open(folder: &Path) -> io::Result<Option<u32>> {
    let mode = fs::metadata(folder)?.mode() & PERMISSIONS;
    Ok((mode & TOO_MUCH != 0).then_some(mode))
}

/// Has a folder be for those of `access` only.
pub fn restrict_folder(folder: &Path, access: FileAccess) -> io::Result<()> {
    restrict(folder, access.folder_mode())
}

/// Has a file be for those who may read its folder.
pub fn restrict_file(path: &Path) -> io::Result<()> {
    restrict(path, access_of(path).file_mode())
}

/// Makes the folder `path` for those who may read the folder that it is in. Nothing if it is there.
pub fn make_folder(path: &Path) -> io::Result<()> {
    match make_new_folder(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// The same, for a folder that is not there yet.
pub fn make_new_folder(path: &Path) -> io::Result<()> {
    let mode = access_of(path).folder_mode();
    DirBuilder::new().mode(mode).create(path)?;
    restrict(path, mode)
}

/// Makes a file for those who may read its folder, to write it.
///
/// # Errors
/// There is something of that name, be it a link to nowhere; the kernel's.
pub fn create_new(path: &Path) -> io::Result<File> {
    let mode = access_of(path).file_mode();
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path)?;
    restrict_opened(&file, mode)?;
    Ok(file)
}

/// The same in place of a file, or of a link, of that name.
pub fn create_anew(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => create_new(path),
    }
}

/// Opens a file to read and write it, and makes it where there is none.
///
/// # Errors
/// It is a link; the kernel's.
pub fn open_or_create(path: &Path) -> io::Result<File> {
    let mode = access_of(path).file_mode();
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(mode);
    let file = options.custom_flags(NO_FOLLOW).open(path)?;
    restrict_opened(&file, mode)?;
    Ok(file)
}

/// Who may read what is in the folder of `path`.
fn access_of(path: &Path) -> FileAccess {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let metadata = fs::metadata(folder.unwrap_or(Path::new(".")));
    match metadata.is_ok_and(|metadata| metadata.mode() & GROUP_READS != 0) {
        true => FileAccess::Group,
        false => FileAccess::Owner,
    }
}

fn restrict(path: &Path, mode: u32) -> io::Result<()> {
    match fs::metadata(path)?.mode() & PERMISSIONS == mode {
        true => Ok(()),
        false => fs::set_permissions(path, Permissions::from_mode(mode)),
    }
}

/// What the umask has left may be less than is wanted, and what was there before may be more.
fn restrict_opened(file: &File, mode: u32) -> io::Result<()> {
    match file.metadata()?.mode() & PERMISSIONS == mode {
        true => Ok(()),
        false => file.set_permissions(Permissions::from_mode(mode)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("metadata").mode() & PERMISSIONS
    }

    #[test]
    fn what_is_made_follows_its_folder() {
        let parent = tempfile::tempdir().expect("a folder");
        for (access, folder_mode, file_mode) in [
            (FileAccess::Owner, 0o700, 0o600),
            (FileAccess::Group, 0o750, 0o640),
        ] {
            let folder = parent.path().join(format!("{access:?}"));
            fs::create_dir(&folder).expect("made");
            restrict_folder(&folder, access).expect("restricted");
            let inner = folder.join("inner");
            make_folder(&inner).expect("made");
            make_folder(&inner).expect("there");
            assert_eq!((mode(&folder), mode(&inner)), (folder_mode, folder_mode));
            assert_eq!(too_open(&inner).expect("metadata"), None);
            create_new(&inner.join("new")).expect("made");
            create_anew(&inner.join("new")).expect("made again");
            open_or_create(&inner.join("opened")).expect("made");
            assert_eq!(mode(&inner.join("new")), file_mode);
            assert_eq!(mode(&inner.join("opened")), file_mode);
        }
    }

    #[test]
    fn nothing_is_written_through_links() {
        let folder = tempfile::tempdir().expect("a folder");
        let (mine, link) = (folder.path().join("mine"), folder.path().join("link"));
        fs::write(&mine, "untouched").expect("written");
        symlink(&mine, &link).expect("linked");
        assert!(create_new(&link).is_err());
        assert!(open_or_create(&link).is_err());
        create_anew(&link).expect("in place of the link");
        assert!(!link.is_symlink());
        assert_eq!(fs::read_to_string(&mine).expect("read"), "untouched");
    }
}
