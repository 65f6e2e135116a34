//! One regulator: an observer, a controller, candidates with their knobs, and the journal between them and the
//! machine.

use crate::attribution::{Attribution, Seen};
use crate::control::{Controller, Rates, Shares};
use crate::error::RegulateError;
use crate::journal::{Journal, Restored};
use crate::knob::{Change, Knob};
use crate::machine::{Identity, MachineFiles, identity};
use crate::observe::{CxlSeen, Observer, Sureness, Waits};

/// A group that may be slowed.
pub struct Candidate<'a> {
    name: String,
    knob: Box<dyn Knob + 'a>,
    granted: f64,
    is_gone: bool,
    /// Its file, since it was first looked at.
    identity: Option<Identity>,
    /// What its files hold, as far as they were changed.
    written: Vec<Change>,
}

impl<'a> Candidate<'a> {
    /// A group, and what slows it.
    pub fn new(name: impl Into<String>, knob: Box<dyn Knob + 'a>) -> Self {
        Self {
            name: name.into(),
            knob,
            granted: 1.0,
            is_gone: false,
            identity: None,
            written: Vec::new(),
        }
    }

    /// Has it keep so much of its speed; what was written, or would have been.
    fn grant(
        &mut self,
        granted: f64,
        machine: &MachineFiles,
        journal: Option<&mut Journal>,
    ) -> Result<Vec<Change>, RegulateError> {
        let mut changes = self.knob.changes(machine, granted)?;
        changes.retain(|change| !self.written.contains(change));
        if let Some(journal) = journal {
            for (path, content) in &changes {
                journal.change(path, content)?;
            }
        }
        self.granted = granted;
        for change in &changes {
            self.written.retain(|(path, _)| *path != change.0);
            self.written.push(change.clone());
        }
        Ok(changes)
    }

    /// Looks whether it is there. Nothing is left of what was granted to one that is gone, which stays so: another that
    /// comes by its name is none that anybody has named, and what its knob knows is not of it.
    fn look(&mut self, machine: &MachineFiles) {
        let found = identity(&self.knob.file(machine));
        self.identity = self.identity.or(found);
        self.is_gone |= found.is_none() || found != self.identity;
        if self.is_gone {
            self.granted = 1.0;
            self.written.clear();
        }
    }
}

/// What one period came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// When.
    pub at_ms: f64,
    /// What the victim had; no number where nothing was seen.
    pub victim: f64,
    /// What it waited for, where that is told.
    pub waits: Option<Waits>,
    /// What the causes are granted together, of what they moved when they were named.
    pub granted: f64,
    /// Every candidate.
    pub groups: Vec<GroupDecision>,
    /// For how much of the time the candidates were counted, in per cent; none where nobody looks at them.
    pub counted_percent: Option<f64>,
    /// What goes to and from CXL devices; none where that is not counted.
    pub cxl: Option<CxlSeen>,
    /// Of which groups something else tells now, and why.
    pub notes: Vec<String>,
    /// Whether other groups are causes, or there, than in the period before.
    pub is_news: bool,
    /// What was written, or would have been.
    pub changes: Vec<Change>,
}

/// What one candidate came to.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupDecision {
    /// The group.
    pub name: String,
    /// What it moved to and from the slow tier, in the unit of the attribution; no number where that is not known.
    pub slow: f64,
    /// That, in per cent of what was moved there by all.
    pub slow_percent: f64,
    /// What it has in the last levels; no number where that is not told.
    pub occupancy_bytes: f64,
    /// How that is known; none where nothing tells it.
    pub sureness: Option<Sureness>,
    /// Whether it is named as a cause.
    pub is_cause: bool,
    /// Whether it is not there any more, or was not once: another of its name is left alone.
    pub is_gone: bool,
    /// What it had of its speed while it moved that: all where nothing is changed.
    pub had: f64,
    /// What it is granted of its speed from now on.
    pub granted: f64,
}

/// Regulates the candidates that are causes.
pub struct Regulator<'a> {
    machine: MachineFiles,
    observer: Box<dyn Observer + 'a>,
    attribution: Option<Attribution<'a>>,
    controller: Box<dyn Controller + 'a>,
    shares: Shares,
    candidates: Vec<Candidate<'a>>,
    /// None where nothing is changed.
    journal: Option<Journal>,
    /// Causes, and who is gone, in the period before.
    last: Vec<(bool, bool)>,
    /// When something was changed the last time.
    changed_at_ms: f64,
}

impl<'a> Regulator<'a> {
    /// A regulator that changes the machine, or, without a journal, only says what it would change. All candidates
    /// are causes where nothing tells who is, see [`Self::attributed_by`].
    pub fn new(
        machine: MachineFiles,
        observer: Box<dyn Observer + 'a>,
        controller: Box<dyn Controller + 'a>,
        candidates: Vec<Candidate<'a>>,
        journal: Option<Journal>,
    ) -> Self {
        Self {
            machine,
            observer,
            attribution: None,
            shares: Shares::new(candidates.len(), controller.floor(), None),
            controller,
            last: vec![(false, false); candidates.len()],
            candidates,
            journal,
            changed_at_ms: f64::NEG_INFINITY,
        }
    }

    /// One that slows only who moves much to the slow tier. It looks at the candidates in their order. A single one is
    /// the cause whatever it moves, since nobody else was named, and what it moves is told.
    #[must_use]
    pub fn attributed_by(mut self, attribution: Attribution<'a>) -> Self {
        if !self.is_single() {
            let (groups, floor) = (self.candidates.len(), self.controller.floor());
            self.shares = Shares::new(groups, floor, Some(attribution.least()));
        }
        self.attribution = Some(attribution);
        self
    }

    fn is_single(&self) -> bool {
        self.candidates.len() == 1
    }

    /// Time between two steps.
    pub fn period_ms(&self) -> f64 {
        self.controller.period_ms()
    }

    /// Looks, decides, and changes what has to be. A candidate that is gone is left out from then on, until none is
    /// left.
    ///
    /// # Errors
    /// What keeps the victim from being seen or a cause from being slowed, and [`RegulateError::Vanished`] without
    /// candidates. Dropping the regulator restores the machine.
    pub fn step(&mut self, now_ms: f64) -> Result<Decision, RegulateError> {
        self.find_gone()?;
        let victim = self.observer.victim(now_ms)?;
        let seen = match &mut self.attribution {
            Some(attribution) => Some(attribution.look(now_ms)?),
            None => None,
        };
        let is_settled = now_ms - self.observer.window_ms() >= self.changed_at_ms;
        let since_change = if is_settled { victim } else { f64::NAN };
        self.decide(now_ms, since_change, seen.as_ref());
        let had = self.had();
        let changes = self.changes()?;
        if !changes.is_empty() && self.journal.is_some() {
            self.changed_at_ms = now_ms;
        }
        Ok(self.decision(now_ms, victim, seen, &had, changes))
    }

    /// What each candidate has had since the step before. Nobody is limited by what is only said.
    fn had(&self) -> Vec<f64> {
        let of = |candidate: &Candidate<'_>| match self.journal {
            Some(_) => candidate.granted,
            None => 1.0,
        };
        self.candidates.iter().map(of).collect()
    }

    fn find_gone(&mut self) -> Result<(), RegulateError> {
        for candidate in &mut self.candidates {
            candidate.look(&self.machine);
        }
        match self.candidates.last() {
            Some(last) if self.candidates.iter().all(|one| one.is_gone) => {
                let path = last.knob.file(&self.machine);
                Err(RegulateError::Vanished { path })
            }
            _ => Ok(()),
        }
    }

    fn decide(&mut self, now_ms: f64, victim: f64, seen: Option<&Seen>) {
        let controller = self.controller.as_mut();
        let Some(seen) = seen.filter(|_| self.candidates.len() > 1) else {
            self.shares.decide(controller, now_ms, victim, None);
            return;
        };
        let of = |(candidate, slow): (&Candidate<'_>, &f64)| match candidate.is_gone {
            true => 0.0,
            false => *slow,
        };
        let slow: Vec<f64> = self
            .candidates
            .iter()
            .zip(&seen.groups.slow)
            .map(of)
            .collect();
        let candidates = self.candidates.iter().zip(&seen.groups.sureness);
        let are_lost = candidates.map(|(one, sureness)| !one.is_gone && sureness.is_none());
        self.shares.lose(are_lost);
        let rates = Rates {
            slow: &slow,
            others: seen.others,
        };
        self.shares.decide(controller, now_ms, victim, Some(rates));
    }

    /// Writes what has become another.
    fn changes(&mut self) -> Result<Vec<Change>, RegulateError> {
        let mut all = Vec::new();
        for (candidate, granted) in self.candidates.iter_mut().zip(self.shares.granted()) {
            if granted == candidate.granted || candidate.is_gone {
                continue;
            }
            match candidate.grant(granted, &self.machine, self.journal.as_mut()) {
                Ok(changes) => all.extend(changes),
                // It may have ended since the step began.
                Err(RegulateError::Vanished { path }) => {
                    candidate.look(&self.machine);
                    if !candidate.is_gone {
                        return Err(RegulateError::Vanished { path });
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    fn decision(
        &mut self,
        at_ms: f64,
        victim: f64,
        seen: Option<Seen>,
        had: &[f64],
        changes: Vec<Change>,
    ) -> Decision {
        let causes = self.shares.causes();
        let gone = self.candidates.iter().map(|candidate| candidate.is_gone);
        let now: Vec<(bool, bool)> = causes.iter().copied().zip(gone).collect();
        let is_news = now != self.last;
        self.last = now;
        let of = |(index, candidate): (usize, &Candidate<'_>)| {
            let seen = seen.as_ref();
            let slow = seen.map_or(f64::NAN, |seen| seen.groups.slow[index]);
            GroupDecision {
                name: candidate.name.clone(),
                slow,
                slow_percent: seen.map_or(f64::NAN, |seen| 100.0 * slow / total(seen)),
                occupancy_bytes: seen.map_or(f64::NAN, |seen| seen.groups.occupancy_bytes[index]),
                sureness: seen.and_then(|seen| seen.groups.sureness[index]),
                is_cause: causes[index],
                is_gone: candidate.is_gone,
                had: had[index],
                granted: candidate.granted,
            }
        };
        Decision {
            at_ms,
            victim,
            waits: self.observer.waits(),
            granted: self.shares.together(),
            groups: self.candidates.iter().enumerate().map(of).collect(),
            counted_percent: seen.as_ref().map(|seen| seen.groups.counted_percent),
            cxl: seen.as_ref().and_then(|seen| seen.cxl),
            notes: seen.map_or_else(Vec::new, |seen| seen.groups.notes),
            is_news,
            changes,
        }
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

/// What all move to the slow tier, as far as it is known.
fn total(seen: &Seen) -> f64 {
    let slow = seen.groups.slow.iter().chain([&seen.others]);
    slow.filter(|slow| slow.is_finite()).sum()
}
