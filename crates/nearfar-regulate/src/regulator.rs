//! One regulator: an observer, a controller, a knob, and the journal between it and the machine.

use crate::control::Controller;
use crate::error::RegulateError;
use crate::journal::{Journal, Restored};
use crate::knob::{Change, Knob};
use crate::machine::MachineFiles;
use crate::observe::Observer;

/// What one period came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// When.
    pub at_ms: f64,
    /// What the victim had; no number where nothing was seen.
    pub victim: f64,
    /// What the aggressor is granted.
    pub granted: f64,
    /// What was written, or would have been.
    pub changes: Vec<Change>,
}

/// Regulates one aggressor.
pub struct Regulator<'a> {
    machine: MachineFiles,
    observer: Box<dyn Observer + 'a>,
    controller: Box<dyn Controller + 'a>,
    knob: Box<dyn Knob + 'a>,
    /// None where nothing is changed.
    journal: Option<Journal>,
    granted: f64,
}

impl<'a> Regulator<'a> {
    /// A regulator that changes the machine, or, without a journal, only says what it would change.
    pub fn new(
        machine: MachineFiles,
        observer: Box<dyn Observer + 'a>,
        controller: Box<dyn Controller + 'a>,
        knob: Box<dyn Knob + 'a>,
        journal: Option<Journal>,
    ) -> Self {
        Self {
            machine,
            observer,
            controller,
            knob,
            journal,
            granted: 1.0,
        }
    }

    /// Time between two steps.
    pub fn period_ms(&self) -> f64 {
        self.controller.period_ms()
    }

    /// Looks, decides, and changes what has to be.
    ///
    /// # Errors
    /// What keeps the victim from being seen or the aggressor from being slowed. Dropping the regulator
    /// restores the machine.
    pub fn step(&mut self, now_ms: f64) -> Result<Decision, RegulateError> {
        let victim = self.observer.victim(now_ms)?;
        let granted = self.controller.decide(now_ms, victim);
        let mut changes = Vec::new();
        if granted != self.granted {
            changes = self.knob.changes(&self.machine, granted)?;
            if let Some(journal) = &mut self.journal {
                for (path, content) in &changes {
                    journal.change(path, content)?;
                }
            }
            self.granted = granted;
        }
        Ok(Decision {
            at_ms: now_ms,
            victim,
            granted,
            changes,
        })
    }

    /// Undoes all changes.
    ///
    /// # Errors
    /// What keeps files from being written.
    pub fn end(mut self) -> Result<Restored, RegulateError> {
        self.journal
            .as_mut()
            .map_or_else(|| Ok(Restored::default()), Journal::restore)
    }
}
