//! A topology as text: every fact on its own line, gaps with their reasons.

use std::fmt;

use crate::known::Known;
use crate::topology::{DeviceKind, Tier, Topology};

/// A full and stable description, for logs and tests.
impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seen from {}", self.viewpoint)?;
        writeln!(f, "cpus {} ({})", self.cpus, self.cpus.len())?;
        for socket in &self.sockets {
            writeln!(f, "socket {}: cpus {}", socket.id, socket.cpus)?;
        }
        writeln!(
            f,
            "last-level cache: {}",
            Bytes(&self.last_level_cache_bytes)
        )?;
        for tier in &self.tiers {
            write_tier(f, tier)?;
        }
        if !self.unavailable.is_empty() {
            writeln!(f, "unavailable")?;
        }
        for gap in &self.unavailable {
            writeln!(f, "  {}: {}", gap.what, gap.reason)?;
        }
        Ok(())
    }
}

fn write_tier(f: &mut fmt::Formatter<'_>, tier: &Tier) -> fmt::Result {
    let allocatable = match tier.mappable_device() {
        _ if tier.allocatable => "",
        Some(_) => ", allocatable by name",
        None => ", not allocatable",
    };
    write!(f, "tier {}: {}{allocatable}", tier.name, tier.kind)?;
    for (position, node) in tier.nodes.iter().enumerate() {
        write!(f, "{}{node}", if position == 0 { ", " } else { " " })?;
    }
    writeln!(f)?;
    writeln!(f, "  capacity: {}", Bytes(&tier.capacity_bytes))?;
    writeln!(f, "  free: {}", Bytes(&tier.free_bytes))?;
    writeln!(f, "  distance: {}", tier.distance)?;
    writeln!(f, "  memory tier: {}", tier.memory_tier)?;
    let declared = &tier.declared;
    writeln!(
        f,
        "  declared read latency: {}",
        WithUnit(&declared.read_latency_ns, "ns")
    )?;
    writeln!(
        f,
        "  declared write latency: {}",
        WithUnit(&declared.write_latency_ns, "ns")
    )?;
    let (read, write) = (
        &declared.read_bandwidth_bytes_per_s,
        &declared.write_bandwidth_bytes_per_s,
    );
    writeln!(
        f,
        "  declared read bandwidth: {}",
        WithUnit(read, "bytes/s")
    )?;
    writeln!(
        f,
        "  declared write bandwidth: {}",
        WithUnit(write, "bytes/s")
    )?;
    writeln!(f, "  declared by: {}", declared.source)?;
    for device in &tier.devices {
        let kind = match device.kind {
            DeviceKind::CxlMemory => "CXL memory device",
            DeviceKind::CxlRegion => "CXL region",
            DeviceKind::Dax => "DAX device",
        };
        write!(f, "  {kind} {}: {}", device.name, Bytes(&device.size_bytes))?;
        if let Some(address) = device.resource.value() {
            write!(f, " at {address:#x}")?;
        }
        match device.driver.value() {
            Some(driver) => writeln!(f, ", driver {driver}")?,
            None => writeln!(f, ", no driver")?,
        }
    }
    match &tier.note {
        Some(note) => writeln!(f, "  note: {note}"),
        None => Ok(()),
    }
}

struct Bytes<'a>(&'a Known<u64>);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        WithUnit(self.0, "bytes").fmt(f)
    }
}

struct WithUnit<'a, T>(&'a Known<T>, &'static str);

impl<T: fmt::Display> fmt::Display for WithUnit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Known::Value(value) => write!(f, "{value} {}", self.1),
            gap @ Known::Unavailable(_) => gap.fmt(f),
        }
    }
}
