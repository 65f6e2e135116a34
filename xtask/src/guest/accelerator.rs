//! What executes a guest's instructions.

use std::fs::{self, OpenOptions};
use std::time::Duration;

use anyhow::Result;

use super::job::{Job, Step};
use super::launch::{Launcher, Place};
use crate::arguments::AcceleratorChoice;
use crate::image::Image;
use crate::topology::find;

/// What executes a guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// qemu's own translation, which works everywhere.
    Tcg,
    /// The processor's virtualisation, ten times as fast where it works.
    Kvm,
}

/// A guest under KVM that is not done after this long does not work: some sandboxes offer the
/// device, and stop the guest at its first unusual instruction.
const TRIAL_LIMIT: Duration = Duration::from_secs(15);

impl Accelerator {
    /// What was chosen or, where that is left to us, what works. Finding out takes one boot, whose
    /// outcome is kept beside the image.
    pub fn choose(choice: AcceleratorChoice, image: &Image) -> Result<Self> {
        match choice {
            AcceleratorChoice::Tcg => return Ok(Self::Tcg),
            AcceleratorChoice::Kvm => return Ok(Self::Kvm),
            AcceleratorChoice::Auto => {}
        }
        let device = OpenOptions::new().read(true).write(true).open("/dev/kvm");
        if device.is_err() {
            return Ok(Self::Tcg);
        }
        let note = image.note("accelerator");
        let found = match fs::read_to_string(&note) {
            Ok(found) => found,
            Err(_) => {
                let works = works(image)?;
                let found = if works { "kvm" } else { "tcg" };
                fs::write(&note, found)?;
                found.to_owned()
            }
        };
        Ok(match found.as_str() {
            "kvm" => Self::Kvm,
            _ => Self::Tcg,
        })
    }

    /// qemu's option.
    pub fn option(self) -> &'static str {
        match self {
            Self::Tcg => "tcg,thread=multi",
            Self::Kvm => "kvm",
        }
    }
}

fn works(image: &Image) -> Result<bool> {
    let step = Step {
        command: vec!["true".to_owned()],
        environment: Vec::new(),
        limit: TRIAL_LIMIT,
    };
    let job = Job {
        steps: vec![step],
        ..Job::default()
    };
    let launcher = Launcher::new(image.clone(), Accelerator::Kvm);
    let place = Place::temporary()?;
    let mut machine = launcher.start(find("one-node")?, &job, place)?;
    machine.wait_until(TRIAL_LIMIT, |exchange| exchange.exit_code(0) == Some(0))
}
