//! Prints a capture of this machine's sysfs, or of the one at the path given.

use std::io::{self, Write};
use std::path::Path;

use nearfar_topology::capture::Capture;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).unwrap_or_else(|| "/sys".to_owned());
    let capture = Capture::read(Path::new(&root))?;
    write!(io::stdout().lock(), "{capture}")?;
    Ok(())
}
