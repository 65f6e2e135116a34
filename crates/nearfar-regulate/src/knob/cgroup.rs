//! What all knobs of cgroup v2 ask first.

use crate::error::RegulateError;
use crate::machine::{MachineFiles, check_group};

pub(super) const ROOT: &str = "sys/fs/cgroup";

/// Refuses a group that does not have a controller, for a knob.
pub(super) fn check_delegated(
    machine: &MachineFiles,
    group: &str,
    controller: &str,
    knob: &'static str,
) -> Result<(), RegulateError> {
    check_group(group)?;
    let unavailable = |reason: String| RegulateError::Unavailable { knob, reason };
    if !machine.path(ROOT).join("cgroup.controllers").exists() {
        let reason = format!("/{ROOT} has no cgroup.controllers: it is cgroup v1 or not mounted");
        return Err(unavailable(reason));
    }
    let controllers = machine.read(&format!("{ROOT}/{group}/cgroup.controllers"))?;
    if !controllers.split_whitespace().any(|one| one == controller) {
        let reason = format!("the controller {controller} is not delegated to {group}");
        return Err(unavailable(reason));
    }
    Ok(())
}
