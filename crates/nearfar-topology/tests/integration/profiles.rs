//! Built-in profiles against the published figures, and users' own mistakes.

use std::fs;

use nearfar_topology::{Known, Profile, ProfileError, ProfileProblem};
use proptest::prelude::*;

const EXAMPLE: &str = include_str!("../../profiles/cxl-blades-1.toml");

/// The example with the one line of `[far]` that sets `key` replaced.
fn with(key: &str, line: &str) -> String {
    let (near, far) = EXAMPLE.split_once("[far]").unwrap();
    let replaced: Vec<&str> = far
        .lines()
        .map(|old| {
            if old.starts_with(&format!("{key} =")) {
                line
            } else {
                old
            }
        })
        .collect();
    assert!(replaced.contains(&line));
    format!("{near}[far]{}", replaced.join("\n"))
}

fn problem(text: &str) -> (String, ProfileProblem) {
    match Profile::parse("mine.toml", text) {
        Err(ProfileError::Invalid { file, key, problem }) => {
            assert_eq!(file, "mine.toml");
            (key, problem)
        }
        other => panic!("{other:?}"),
    }
}

/// Keys of the numbers in a profile's JSON, such as `far.idle_latency_ns`.
fn numbers(prefix: &str, json: &serde_json::Value) -> Vec<String> {
    let fields = json
        .as_object()
        .unwrap()
        .iter()
        .filter(|(key, _)| *key != "sources");
    let keys = fields.flat_map(|(key, value)| match value {
        serde_json::Value::Number(_) | serde_json::Value::Bool(_) => vec![format!("{prefix}{key}")],
        serde_json::Value::Object(_) => numbers(&format!("{prefix}{key}."), value),
        _ => Vec::new(),
    });
    keys.collect()
}

#[test]
fn every_builtin_profile_is_valid_and_every_number_has_a_source() {
    let names: Vec<&str> = Profile::builtin_names().collect();
    assert_eq!(names.len(), 14);
    for name in names {
        let profile = Profile::builtin(name).unwrap();
        assert_eq!(profile.name, name);
        let keys = numbers("", &serde_json::to_value(&profile).unwrap());
        assert!(keys.len() >= 12, "{name}: {keys:?}");
        let with_source: Vec<&String> = profile.sources.keys().collect();
        let mut sorted: Vec<&String> = keys.iter().collect();
        sorted.sort();
        assert_eq!(sorted, with_source, "{name}");
    }
}

#[test]
fn a_machine_of_three_tiers_is_that_of_its_two_profiles() {
    let [both, blades, socket] = ["cxl-blades-4-socket", "cxl-blades-4", "remote-socket"]
        .map(|name| Profile::builtin(name).unwrap());
    let tiers = both.modelled();
    assert_eq!(tiers, [("socket", &socket.far), ("far", &blades.far)]);
    assert_eq!(both.near, blades.near);
    assert_eq!(both.simulation, blades.simulation);
}

#[test]
fn other_tiers_are_checked_and_named() {
    let own = |name: &str, key: &str, line: &str| {
        let far = with(key, line);
        let (_, far) = far.split_once("[far]").unwrap();
        format!("{EXAMPLE}\n[tier.{name}]{far}")
    };
    let line = "devices = { value = 2, source = \"me\" }";
    let profile = Profile::parse("mine.toml", &own("pool-b", "devices", line)).unwrap();
    assert_eq!(profile.others["pool-b"].devices, 2);
    assert_eq!(profile.sources["tier.pool-b.devices"], "me");
    for name in [
        "near", "far", "node", "disk", "split", "pool2", "Pool", "-", "pool-",
    ] {
        let (key, problem) = problem(&own(name, "devices", line));
        assert_eq!(key, format!("tier.{name}"));
        assert!(
            matches!(problem, ProfileProblem::BadTierName { .. }),
            "{problem:?}"
        );
    }
    let nearer = "idle_latency_ns = { value = 50, source = \"me\" }";
    let (key, problem) = problem(&own("pool", "idle_latency_ns", nearer));
    assert_eq!(key, "tier.pool.idle_latency_ns");
    assert!(
        matches!(problem, ProfileProblem::OutOfRange { .. }),
        "{problem:?}"
    );
}

#[test]
fn the_blades_hold_the_published_ratios() {
    // weisgut-2025, section 4.3: 1.9, 2.3 and 2.5 times one device's reads with
    // two, three and four devices, 2, 3 and (its plot) 3.55 times its writes.
    let blades = |count: u32| {
        Profile::builtin(&format!("cxl-blades-{count}"))
            .unwrap()
            .far
    };
    let ratio = |of: &Known<f64>, to: &Known<f64>| of.get().unwrap() / to.get().unwrap();
    let one = blades(1);
    for (count, read, write) in [(2, 1.9, 2.0), (3, 2.3, 3.0), (4, 2.5, 3.55)] {
        let far = blades(count);
        assert_eq!(far.devices, count);
        assert_eq!(far.idle_latency_ns, 507.0);
        let reads = ratio(
            &far.read_bandwidth_bytes_per_s,
            &one.read_bandwidth_bytes_per_s,
        );
        let writes = ratio(
            &far.write_bandwidth_bytes_per_s,
            &one.write_bandwidth_bytes_per_s,
        );
        assert!((reads - read).abs() < 0.05, "{count}: {reads}");
        assert!((writes - write).abs() < 0.06, "{count}: {writes}");
    }
    // One core's limits give back its published rates: 1.9 and 6.2 GB/s.
    let rate = |lines: f64| lines * 64.0 / one.idle_latency_ns;
    assert!((rate(one.core_outstanding_random) - 1.9).abs() < 0.01);
    assert!((rate(one.core_outstanding_sequential) - 6.2).abs() < 0.01);
}

#[test]
fn names_and_paths_resolve() {
    assert_eq!(Profile::resolve("cxl-fpga").unwrap().name, "cxl-fpga");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    fs::write(&path, EXAMPLE.replace("cxl-blades-1", "mine")).unwrap();
    assert_eq!(
        Profile::resolve(path.to_str().unwrap()).unwrap().name,
        "mine"
    );

    let unknown = Profile::resolve("cxl-blade-1").unwrap_err().to_string();
    assert!(unknown.contains("cxl-blades-1, cxl-blades-2"), "{unknown}");
    let missing = Profile::resolve("./none.toml").unwrap_err().to_string();
    assert!(
        missing.starts_with("cannot read profile ./none.toml"),
        "{missing}"
    );
    fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(matches!(
        Profile::load(&path),
        Err(ProfileError::Read { .. })
    ));
    fs::write(&path, " ".repeat(2 << 20)).unwrap();
    assert!(matches!(
        Profile::load(&path),
        Err(ProfileError::Read { .. })
    ));
}

#[test]
fn impossible_numbers_are_named_with_what_is_allowed() {
    let cases = [
        ("idle_latency_ns", "0"),
        ("idle_latency_ns", "-507"),
        ("idle_latency_ns", "nan"),
        ("idle_latency_ns", "inf"),
        ("idle_latency_ns", "144"),
        ("idle_latency_ns", "5e9"),
        ("read_bandwidth_bytes_per_s", "0"),
        ("read_bandwidth_bytes_per_s", "38"),
        ("write_bandwidth_bytes_per_s", "-inf"),
        ("devices", "0"),
        ("devices", "1.5"),
        ("core_outstanding_random", "0"),
        ("core_outstanding_sequential", "15.0"),
    ];
    for (key, value) in cases {
        let line = format!("{key} = {{ value = {value}, source = \"me\" }}");
        let (named, problem) = problem(&with(key, &line));
        assert_eq!(named, format!("far.{key}"));
        assert!(
            matches!(problem, ProfileProblem::OutOfRange { .. }),
            "{key} {value}: {problem}"
        );
    }
    let text = with(
        "idle_latency_ns",
        "idle_latency_ns = { value = 0, source = \"me\" }",
    );
    assert_eq!(
        Profile::parse("mine.toml", &text).unwrap_err().to_string(),
        "profile mine.toml: far.idle_latency_ns: 0 is not possible, allowed is a number from 1 to \
         1000000 ns"
    );
}

#[test]
fn missing_unknown_and_contradicting_numbers_are_told_apart() {
    let far = |key: &str, line: &str| problem(&with(key, line)).1;
    let key = "idle_latency_ns";
    assert_eq!(
        far(key, ""),
        ProfileProblem::Missing {
            may_be_unknown: false
        }
    );
    assert_eq!(
        far("capacity_bytes", ""),
        ProfileProblem::Missing {
            may_be_unknown: true
        }
    );
    let unknown = |key: &str| far(key, &format!("{key} = {{ unknown = \"why\" }}"));
    assert!(matches!(unknown(key), ProfileProblem::MustBeKnown { .. }));
    assert!(matches!(
        unknown("read_bandwidth_bytes_per_s"),
        ProfileProblem::MustBeKnown { .. }
    ));
    assert_eq!(
        far(key, "idle_latency_ns = { value = 507 }"),
        ProfileProblem::NoSource { value: 507.0 }
    );
    assert_eq!(
        far(key, "idle_latency_ns = { value = 507, source = \" \" }"),
        ProfileProblem::NoSource { value: 507.0 }
    );
    assert_eq!(
        far(key, "idle_latency_ns = { value = 507, unknown = \"why\" }"),
        ProfileProblem::Contradiction
    );
    assert_eq!(
        far(key, "idle_latency_ns = { source = \"me\" }"),
        ProfileProblem::Contradiction
    );
    assert_eq!(
        far("capacity_bytes", "capacity_bytes = { unknown = \"\" }"),
        ProfileProblem::Empty
    );
    let bad = EXAMPLE.replace("name = \"cxl-blades-1\"", "name = \"../evil\"");
    assert!(matches!(problem(&bad).1, ProfileProblem::BadName { .. }));
}

#[test]
fn keys_that_no_profile_has_are_refused_with_their_line() {
    for line in [
        "idle_latency_us = { value = 1, source = \"me\" }",
        "idle_latency_ns = 507",
        "idle_latency_ns = { value = \"507\", source = \"me\" }",
        "idle_latency_ns = { value = 507, source = \"me\", note = \"x\" }",
    ] {
        let error = Profile::parse("mine.toml", &with("idle_latency_ns", line)).unwrap_err();
        assert!(matches!(error, ProfileError::Syntax { .. }), "{error}");
        assert!(error.to_string().contains("mine.toml"), "{error}");
    }
    assert!(matches!(
        Profile::parse("mine.toml", ""),
        Err(ProfileError::Syntax { .. })
    ));
}

proptest! {
    #[test]
    fn no_bytes_make_a_profile_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Profile::parse("fuzz", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_damage_to_a_profile_makes_it_panic(
        at in any::<prop::sample::Index>(),
        length in 0usize..40,
        patch in "[-0-9a-z{}=\\[\\]\" .\\n]{0,20}",
    ) {
        let start = at.index(EXAMPLE.len());
        let end = (start + length).min(EXAMPLE.len());
        let damaged = format!("{}{patch}{}", &EXAMPLE[..start], &EXAMPLE[end..]);
        let _ = Profile::parse("fuzz", &damaged);
    }

    #[test]
    fn any_value_is_either_in_range_or_refused(value in any::<f64>()) {
        let line = format!("idle_latency_ns = {{ value = {value:?}, source = \"me\" }}");
        let line = line.replace("NaN", "nan");
        match Profile::parse("fuzz", &with("idle_latency_ns", &line)) {
            Ok(profile) => prop_assert!((145.0..=1e6).contains(&profile.far.idle_latency_ns)),
            Err(ProfileError::Invalid { key, .. }) => {
                prop_assert!(!(145.0..=1e6).contains(&value));
                prop_assert_eq!(key, "far.idle_latency_ns");
            }
            Err(error) => return Err(TestCaseError::fail(error.to_string())),
        }
    }
}

#[test]
fn a_profile_may_say_why_it_cannot_be_simulated() {
    let with = |line: &str| EXAMPLE.replace("simulation = \"emerald-rapids-cma\"", line);
    let profile = Profile::parse(
        "mine.toml",
        &with("simulation = { unknown = \"no latency\" }"),
    );
    assert_eq!(
        profile.unwrap().simulation,
        Known::unavailable("no latency")
    );
    let (key, problem) = problem(&with("simulation = { unknown = \" \" }"));
    assert_eq!(key, "simulation");
    assert!(matches!(problem, ProfileProblem::Empty), "{problem:?}");
    let both = with("simulation = { unknown = \"no latency\", core = {} }");
    Profile::parse("mine.toml", &both).unwrap_err();
}
