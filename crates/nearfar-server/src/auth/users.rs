//! The file of users.
//!
//! A line per user, `name role verifier`; lines that are empty or begin with `#` mean nothing. A file
//! that others may read is refused: with a verifier, passwords can be tried without asking the server.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::verifier::{Key, Verifier, random};

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Everything but files of the server's machine.
    ReadWrite,
    /// Nothing that creates, changes or moves tables.
    ReadOnly,
}

impl Role {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadWrite => "read-write",
            Self::ReadOnly => "read-only",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let roles = [Self::ReadWrite, Self::ReadOnly];
        roles.into_iter().find(|role| role.name() == text)
    }
}

/// A user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    name: String,
    role: Role,
    verifier: Verifier,
}

impl User {
    /// A user with this password, of which only a verifier is kept.
    ///
    /// # Errors
    /// A name that is empty or has white space in it, or begins with `#`; an empty password.
    pub fn new(name: &str, role: Role, password: &str) -> Result<Self, UserError> {
        if name.is_empty() || name.starts_with('#') || name.contains(char::is_whitespace) {
            let name = name.to_owned();
            return Err(UserError::Name { name });
        }
        if password.is_empty() {
            return Err(UserError::EmptyPassword);
        }
        Ok(Self {
            name: name.to_owned(),
            role,
            verifier: Verifier::of_password(password),
        })
    }

    /// What the user may do.
    pub fn role(&self) -> Role {
        self.role
    }
}

/// The line of the file.
impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.role.name(), self.verifier)
    }
}

/// All users.
#[derive(Debug, Clone)]
pub struct Users {
    users: Arc<BTreeMap<String, User>>,
    /// For the verifiers of those that there are not.
    secret: Key,
}

/// Why users can't be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UserError {
    /// A name that the file can't hold.
    #[error(
        "`{name}` can't be the name of a user: use one without white space, not beginning with #"
    )]
    Name {
        /// The name.
        name: String,
    },
    /// No password.
    #[error("the password is empty")]
    EmptyPassword,
    /// A name that is there already.
    #[error("user `{name}` is in the file already: take the line out first")]
    Exists {
        /// The name.
        name: String,
    },
    /// A file that can't be read or written.
    #[error("the file of users `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A file that can't be written; it is as it was.
    #[error(
        "the file of users `{}` can't be written, and is as it was: {source}{}",
        path.display(), left_behind(source, path)
    )]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A file that others than its owner and group may read.
    #[error("the file of users `{}` can be read by everybody: chmod it to 600", path.display())]
    Open {
        /// The file.
        path: PathBuf,
    },
    /// A line that is no user.
    #[error(
        "the file of users `{}`, line {line}: it is not `name role verifier` with role read-only or \
         read-write", path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
}

/// What there is to do about a file beside that of users.
fn left_behind(error: &io::Error, path: &Path) -> String {
    match error.kind() {
        io::ErrorKind::AlreadyExists => format!(
            ". Another process adds a user, or was ended while it did: then remove `{}.new`",
            path.display()
        ),
        _ => String::new(),
    }
}

impl Users {
    /// These users; of two of one name, the last.
    pub fn new(users: impl IntoIterator<Item = User>) -> Self {
        let users = users.into_iter().map(|user| (user.name.clone(), user));
        Self {
            users: Arc::new(users.collect()),
            secret: random(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A file that is not there, that everybody may read, or a line of it that is no user.
    pub fn read(path: &Path) -> Result<Self, UserError> {
        let failed = |source| UserError::File {
            path: path.to_owned(),
            source,
        };
        let mode = fs::metadata(path).map_err(failed)?.permissions().mode();
        if mode & 0o007 != 0 {
            return Err(UserError::Open {
                path: path.to_owned(),
            });
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let mut users = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            users.push(parse(line).ok_or_else(|| UserError::Line {
                path: path.to_owned(),
                line: index + 1,
            })?);
        }
        Ok(Self::new(users))
    }

    /// Adds a user to a file, which is made if there is none.
    ///
    /// # Errors
    /// A user of that name in it; a file that can't be read or written.
    pub fn add(path: &Path, user: &User) -> Result<(), UserError> {
        if path.exists() && Self::read(path)?.users.contains_key(&user.name) {
            return Err(UserError::Exists {
                name: user.name.clone(),
            });
        }
        append(path, &format!("{user}\n")).map_err(|source| UserError::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.users.len()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// With what a password is checked: for a name that nobody has, with what no password fits.
    pub(crate) fn verifier(&self, name: &str) -> Verifier {
        match self.users.get(name) {
            Some(user) => user.verifier.clone(),
            None => Verifier::of_nobody(name, &self.secret),
        }
    }
}

/// Adds a line to a file, or makes the file with it. All of the file is written anew beside it and
/// takes its place when it is on disk, so that a full disk changes nothing.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let path = match path.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_owned(),
        found => found?,
    };
    let (mut text, there) = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), None),
        text => (text?, Some(fs::metadata(&path)?)),
    };
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text += line;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = Path::new(&beside);
    let written = write_beside(beside, &text, there.as_ref());
    written
        .and_then(|()| fs::rename(beside, &path))
        .inspect_err(|error| {
            // That of another process, which adds somebody too, stays.
            if error.kind() != io::ErrorKind::AlreadyExists {
                let _ = fs::remove_file(beside);
            }
        })?;
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Writes a new file with the owner and the mode of the one `there` that it will replace.
fn write_beside(path: &Path, text: &str, there: Option<&fs::Metadata>) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    if let Some(there) = there {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (there.uid(), there.gid()) {
            fchown(&file, Some(there.uid()), Some(there.gid()))?;
        }
        file.set_permissions(there.permissions())?;
    }
    file.sync_all()
}

fn parse(line: &str) -> Option<User> {
    let mut words = line.split_whitespace();
    let (name, role, verifier) = (words.next()?, words.next()?, words.next()?);
    let user = User {
        name: name.to_owned(),
        role: Role::parse(role)?,
        verifier: verifier.parse().ok()?,
    };
    words.next().is_none().then_some(user)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User::new(name, Role::ReadOnly, "secret").expect("a user")
    }

    #[test]
    fn users_are_read_as_they_were_added() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users");
        Users::add(&path, &user("ann")).expect("added");
        Users::add(&path, &user("bob")).expect("added");
        let again = Users::add(&path, &user("ann")).expect_err("there already");
        assert!(matches!(again, UserError::Exists { .. }), "{again}");
        let users = Users::read(&path).expect("read");
        assert_eq!(users.count(), 2);
        assert_eq!(users.get("bob").map(User::role), Some(Role::ReadOnly));
        let text = fs::read_to_string(&path).expect("read");
        assert!(!text.contains("secret"), "{text}");
    }

    #[test]
    fn files_that_are_open_or_wrong_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("users");
        fs::write(&path, "# a comment\n\nann read-only\n").expect("written");
        let set = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        set(0o644);
        assert!(matches!(Users::read(&path), Err(UserError::Open { .. })));
        set(0o640);
        assert!(matches!(
            Users::read(&path),
            Err(UserError::Line { line: 3, .. })
        ));
        for name in ["", "a b", "#a"] {
            assert!(User::new(name, Role::ReadOnly, "secret").is_err(), "{name}");
        }
        assert!(User::new("ann", Role::ReadOnly, "").is_err());
    }

    #[test]
    fn nobody_has_the_same_salt_every_time() {
        let users = Users::new([user("ann")]);
        let (first, again) = (users.verifier("eve"), users.verifier("eve"));
        assert_eq!(first.salt, again.salt);
        assert_ne!(first.salt, users.verifier("eva").salt);
    }
}
