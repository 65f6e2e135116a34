//! What the testbed needs of the machine that it runs on.
//!
//! Everything else, qemu included, comes from Debian's packages and is unpacked into the cache: the
//! machine itself is never changed, and no privileges are needed.

use std::env;
use std::path::Path;

use anyhow::Result;

use crate::exit::Unavailable;

/// A program or file of this machine, and the package that has it on Debian and its relatives.
struct Needed {
    what: &'static str,
    package: &'static str,
}

const PROGRAMS: [Needed; 3] = [
    Needed {
        what: "apt-get",
        package: "apt",
    },
    Needed {
        what: "dpkg-deb",
        package: "dpkg",
    },
    Needed {
        what: "tar",
        package: "tar",
    },
];

/// The keys that Debian signs its archive with.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

const FILES: [Needed; 1] = [Needed {
    what: KEYRING,
    package: "debian-archive-keyring",
}];

/// Checks that machines can be built and run here.
///
/// # Errors
/// [`Unavailable`], which names all that is missing and the one command that installs it.
pub fn check() -> Result<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        let platform = "its machines are x86-64 Linux guests, whose tests are built for the host";
        return Err(Unavailable(platform.to_owned()).into());
    }
    let path = env::var_os("PATH").unwrap_or_default();
    let is_program = |name: &str| env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let missing = PROGRAMS
        .iter()
        .filter(|program| !is_program(program.what))
        .chain(FILES.iter().filter(|file| !Path::new(file.what).is_file()));
    match message(missing) {
        None => Ok(()),
        Some(message) => Err(Unavailable(message).into()),
    }
}

fn message<'a>(missing: impl Iterator<Item = &'a Needed>) -> Option<String> {
    let (things, packages): (Vec<&str>, Vec<&str>) =
        missing.map(|needed| (needed.what, needed.package)).unzip();
    (!things.is_empty()).then(|| {
        format!(
            "missing {}. Install with: apt-get install {}",
            things.join(", "),
            packages.join(" ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_missing_is_in_one_message() {
        let all = PROGRAMS.iter().chain(&FILES);
        assert_eq!(
            message(all).as_deref(),
            Some(
                "missing apt-get, dpkg-deb, tar, /usr/share/keyrings/debian-archive-keyring.gpg. \
                 Install with: apt-get install apt dpkg tar debian-archive-keyring"
            )
        );
        assert_eq!(message([].iter()), None);
    }
}
