//! Who moves what to the slow tier: the best observer of groups that a machine has, beside counters of all that
//! goes there.

use crate::error::RegulateError;
use crate::machine::MachineFiles;
use crate::observe::{
    CxlSeen, CxlTraffic, GroupObserver, GroupSamples, GroupServer, GroupTraffic, GroupsSeen,
    Residence, ServerCounters, SlowTiers, Sureness,
};

/// Tells what each candidate moves to and from the slow tier.
pub struct Attribution<'a> {
    groups: Box<dyn GroupObserver + 'a>,
    cxl: Option<CxlTraffic>,
    tier: String,
}

/// What it saw in a period.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen {
    /// Of each group.
    pub groups: GroupsSeen,
    /// What goes to and from CXL devices, whoever moves it; none where that is not counted.
    pub cxl: Option<CxlSeen>,
    /// What others move there, in the unit of the groups; no number where that is not known.
    pub others: f64,
}

impl<'a> Attribution<'a> {
    /// One that looks at groups, and at all traffic of CXL where that is counted. `tier` is the slow one's name.
    pub fn new(
        groups: Box<dyn GroupObserver + 'a>,
        cxl: Option<CxlTraffic>,
        tier: impl Into<String>,
    ) -> Self {
        let tier = tier.into();
        Self { groups, cxl, tier }
    }

    /// The best that a machine has: of groups that are Nearfar servers what these count, and of the others resctrl, then
    /// events of the processors, then where the groups' memory lies. With the reasons why better ones are not there;
    /// none where there is a group that nothing tells of.
    ///
    /// # Errors
    /// [`RegulateError::Group`], [`RegulateError::Server`], and what else is not only missing.
    pub fn find(
        machine: &MachineFiles,
        groups: &[String],
        servers: &[GroupServer],
    ) -> Result<(Option<Attribution<'static>>, Vec<String>), RegulateError> {
        let mut missing = Vec::new();
        let tiers = or_missing(SlowTiers::find(machine), &mut missing)?;
        let cxl = or_missing(CxlTraffic::start(machine), &mut missing)?;
        let name = tiers
            .as_ref()
            .map_or("slow tier".to_owned(), SlowTiers::name);
        let mut found = best(machine, groups, tiers.as_ref(), &mut missing)?;
        if !servers.is_empty() {
            let counters = ServerCounters::start(groups, servers, found.take())?;
            if counters.sees_all() {
                found = Some(Box::new(counters));
            }
        }
        let found = found.map(|groups| Attribution::new(groups, cxl, name));
        Ok((found, missing))
    }

    /// What it looks at: for people.
    pub fn tells(&self) -> String {
        self.groups.tells()
    }

    /// How it knows what groups move.
    pub fn sureness(&self) -> Sureness {
        self.groups.sureness()
    }

    /// Unit of what groups move.
    pub fn unit(&self) -> &'static str {
        self.groups.unit()
    }

    /// The slow tier.
    pub fn tier(&self) -> &str {
        &self.tier
    }

    pub(crate) fn least(&self) -> f64 {
        self.groups.least()
    }

    pub(crate) fn look(&mut self, now_ms: f64) -> Result<Seen, RegulateError> {
        let groups = self.groups.look(now_ms)?;
        let cxl = match &mut self.cxl {
            Some(cxl) => Some(cxl.look(now_ms)?),
            None => None,
        };
        let known: f64 = groups.slow.iter().filter(|slow| slow.is_finite()).sum();
        let is_inferred = groups.sureness.contains(&Some(Sureness::Inferred));
        let others = match cxl {
            Some(seen) if !is_inferred => {
                // Counters of groups and of devices are not read in the same moment.
                let rest = seen.bytes_per_s - known;
                if rest < 0.0 { 0.0 } else { rest }
            }
            _ => f64::NAN,
        };
        Ok(Seen {
            groups,
            cxl,
            others,
        })
    }
}

/// The best observer of all groups that a machine has; none where there is nothing.
fn best(
    machine: &MachineFiles,
    groups: &[String],
    tiers: Option<&SlowTiers>,
    missing: &mut Vec<String>,
) -> Result<Option<Box<dyn GroupObserver>>, RegulateError> {
    if let Some(traffic) = or_missing(GroupTraffic::find(machine, groups), missing)? {
        return Ok(Some(Box::new(traffic)));
    }
    let residence = match tiers {
        Some(tiers) => or_missing(Residence::find(machine, groups, tiers), missing)?,
        None => None,
    };
    let samples = GroupSamples::start(machine, groups, residence.clone());
    if let Some(samples) = or_missing(samples, missing)? {
        return Ok(Some(Box::new(samples)));
    }
    Ok(residence.map(|residence| Box::new(residence) as Box<dyn GroupObserver>))
}

/// What was found; where the machine lacks it, the reason is added to `missing`.
fn or_missing<T>(
    found: Result<T, RegulateError>,
    missing: &mut Vec<String>,
) -> Result<Option<T>, RegulateError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error @ RegulateError::Unavailable { .. }) => {
            let reason = error.to_string();
            if !missing.contains(&reason) {
                missing.push(reason);
            }
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
