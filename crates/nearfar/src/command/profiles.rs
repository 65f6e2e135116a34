//! `nearfar profiles`: the built-in profiles, and where their numbers come from.

use std::io::Write;

use nearfar_topology::units::Bytes;
use nearfar_topology::{Known, Profile};

use crate::args::{FigureFormat, ProfilesArgs};
use crate::human::{BytesPerSecond, Nanoseconds};
use crate::output::file::Output;
use crate::output::grid::{Align, Grid};

/// Runs the command.
pub fn run(args: &ProfilesArgs) -> anyhow::Result<()> {
    let profiles = match &args.profile {
        Some(name) => vec![Profile::resolve(name)?],
        None => Profile::builtin_names()
            .map(Profile::builtin)
            .collect::<Result<_, _>>()?,
    };
    let mut output = Output::stdout();
    output.with(|out| match (args.figures.format, profiles.as_slice()) {
        (FigureFormat::Json, profiles) => profiles.iter().try_for_each(|profile| {
            let line = serde_json::to_string(profile)?;
            Ok(writeln!(out, "{line}")?)
        }),
        (FigureFormat::Table, [profile]) if args.profile.is_some() => show(profile, out),
        (FigureFormat::Table, profiles) => Ok(list(profiles).write_page(out)?),
    })?;
    output.finish()
}

fn list(profiles: &[Profile]) -> Grid {
    let mut grid = Grid::new([
        ("profile", Align::Left),
        ("cores", Align::Right),
        ("far latency", Align::Right),
        ("near latency", Align::Right),
        ("read", Align::Right),
        ("write", Align::Right),
        ("machine", Align::Left),
    ]);
    for profile in profiles {
        let far = &profile.far;
        grid.row([
            profile.name.clone(),
            profile.cores.to_string(),
            Nanoseconds(far.idle_latency_ns).to_string(),
            Nanoseconds(profile.near.idle_latency_ns).to_string(),
            rate(&far.read_bandwidth_bytes_per_s),
            rate(&far.write_bandwidth_bytes_per_s),
            profile.description.clone(),
        ]);
    }
    grid
}

fn rate(known: &Known<f64>) -> String {
    match known {
        Known::Value(value) => BytesPerSecond(*value).to_string(),
        Known::Unavailable(_) => "unknown".to_owned(),
    }
}

fn show(profile: &Profile, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "{}\n{}\n", profile.name, profile.description)?;
    let mut grid = Grid::new([
        ("key", Align::Left),
        ("value", Align::Right),
        ("source", Align::Left),
    ]);
    let values = serde_json::to_value(profile)?;
    for key in keys(profile) {
        let value = key.split('.').fold(&values, |value, part| &value[part]);
        let source = profile.sources.get(&key);
        let (value, why) = match value.get("unavailable") {
            Some(reason) => ("unknown".to_owned(), reason.as_str()),
            None => (figure(&key, value), source.map(String::as_str)),
        };
        grid.row([key.as_str(), &value, why.unwrap_or_default()]);
    }
    Ok(grid.write_page(out)?)
}

/// The keys of a profile's numbers, in the order of its file.
fn keys(profile: &Profile) -> Vec<String> {
    const OF_TIER: [&str; 9] = [
        "devices",
        "capacity_bytes",
        "idle_latency_ns",
        "sequential_latency_ns",
        "write_latency_ns",
        "read_bandwidth_bytes_per_s",
        "write_bandwidth_bytes_per_s",
        "core_outstanding_random",
        "core_outstanding_sequential",
    ];
    let others = profile.others.keys().map(|name| format!("tier.{name}"));
    let tiers = ["near".to_owned(), "far".to_owned()]
        .into_iter()
        .chain(others);
    let of_tiers = tiers.flat_map(|tier| OF_TIER.map(|key| format!("{tier}.{key}")));
    let of_simulation = profile.sources.keys();
    let of_simulation = of_simulation
        .filter(|key| key.starts_with("simulation."))
        .cloned();
    let of_socket = ["cores", "cache_bytes", "copy_engine_bandwidth_bytes_per_s"];
    of_socket
        .map(str::to_owned)
        .into_iter()
        .chain(of_tiers)
        .chain(of_simulation)
        .collect()
}

fn figure(key: &str, value: &serde_json::Value) -> String {
    match value.as_f64() {
        Some(number) if key.ends_with("_bytes_per_s") => BytesPerSecond(number).to_string(),
        Some(number) if key.ends_with("_bytes") => Bytes(number as u64).to_string(),
        Some(number) if key.ends_with("_ns") => Nanoseconds(number).to_string(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_a_profile_is_shown() {
        let profile = Profile::builtin("cxl-blades-4-socket").expect("built in");
        let mut shown = Vec::new();
        show(&profile, &mut shown).expect("shown");
        let shown = String::from_utf8(shown).expect("UTF-8");
        for (key, source) in &profile.sources {
            let line = shown
                .lines()
                .find(|line| line.trim().starts_with(key.as_str()));
            assert!(
                line.is_some_and(|line| line.contains(source)),
                "{key}: {line:?}"
            );
        }
        assert!(!shown.contains("null"), "{shown}");
    }
}
