//! Discovery against fixtures, whole and damaged.

use std::fs;

use nearfar_topology::capture::Capture;
use nearfar_topology::{
    DiscoverError, FAR, Known, NEAR, NodeId, Profile, TierKind, Topology, UnknownTier,
};
use proptest::prelude::*;

use crate::support::{About, Fixture};

/// Set to write `expected.txt` anew instead of comparing with it.
const UPDATE: &str = "NEARFAR_UPDATE_EXPECTED";

#[test]
fn every_fixture_renders_as_expected() {
    let mut wrong = Vec::new();
    for fixture in Fixture::all() {
        let path = fixture.folder.join("expected.txt");
        let rendered = fixture.rendered();
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&path, rendered).unwrap();
        } else if fs::read_to_string(&path).unwrap_or_default() != rendered {
            wrong.push(format!("{}:\n{rendered}", fixture.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "with {UPDATE}=1 this is written:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_fixture_says_what_it_is() {
    for fixture in Fixture::all() {
        let text = fs::read_to_string(fixture.folder.join("about.toml")).unwrap();
        let about: About = toml::from_str(&text).unwrap();
        assert!(!about.description.is_empty());
        match about.origin.as_str() {
            "recorded" => assert!(about.kernel.is_some(), "{}", fixture.name),
            "synthetic" => assert!(about.kernel.is_none(), "{}", fixture.name),
            origin => panic!("{}: {origin}", fixture.name),
        }
    }
}

#[test]
fn capturing_an_unpacked_recording_gives_it_back() {
    for fixture in Fixture::all() {
        let about = fs::read_to_string(fixture.folder.join("about.toml")).unwrap();
        if about.contains("\"recorded\"") {
            let again = Capture::read(fixture.root.path()).unwrap();
            assert_eq!(
                again.to_string(),
                fixture.capture.to_string(),
                "{}",
                fixture.name
            );
        }
    }
}

#[test]
fn four_cxl_devices_of_one_class_are_one_tier() {
    let topology = Fixture::open("two-sockets-four-cxl").discover();
    let kinds: Vec<TierKind> = topology.tiers.iter().map(|tier| tier.kind).collect();
    assert_eq!(
        kinds,
        [TierKind::LocalDram, TierKind::RemoteSocket, TierKind::Cxl]
    );
    let cxl = topology.tier("cxl").unwrap();
    assert_eq!(cxl.nodes, [3, 4, 5, 6].map(NodeId));
    assert_eq!(cxl.declared.read_latency_ns, Known::Value(332.0));
    let one_device = 16_000.0 * 1_048_576.0;
    assert_eq!(
        cxl.declared.read_bandwidth_bytes_per_s,
        Known::Value(4.0 * one_device)
    );
    assert_eq!(
        cxl.devices.len(),
        4 * 3,
        "a region, a memory and a DAX device each"
    );
    assert_eq!(topology.tier(FAR).unwrap().name, "cxl");
}

#[test]
fn what_holds_for_some_nodes_of_a_tier_is_told_of_them() {
    let topology = Fixture::open("testbed-odd-nodes").discover();
    let cpuless = topology.tier("cpuless").unwrap();
    assert_eq!(cpuless.nodes, [2, 3].map(NodeId));
    let note = cpuless.note.as_deref().unwrap();
    assert!(note.starts_with("node3: movable memory only"), "{note}");
}

#[test]
fn the_viewpoint_turns_the_order_around() {
    let fixture = Fixture::open("two-sockets-cxl-on-the-second");
    let from = |node| Topology::discover_from(fixture.root.path(), NodeId(node));
    let nodes = |topology: Topology| -> Vec<u32> {
        topology
            .tiers
            .iter()
            .flat_map(|tier| &tier.nodes)
            .map(|node| node.0)
            .collect()
    };
    assert_eq!(nodes(from(0).unwrap()), [0, 1, 2]);
    assert_eq!(nodes(from(1).unwrap()), [1, 0, 2]);
    match from(2) {
        Err(DiscoverError::BadViewpoint {
            viewpoint,
            with_cpus,
        }) => {
            assert_eq!(
                (viewpoint, with_cpus),
                (NodeId(2), vec![NodeId(0), NodeId(1)])
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn near_and_far_are_names_on_every_machine_that_has_them() {
    let one = Fixture::open("one-node").discover();
    assert_eq!(one.tier(NEAR).unwrap().kind, TierKind::LocalDram);
    let error = one.tier(FAR).unwrap_err();
    assert_eq!(
        error,
        UnknownTier {
            name: FAR.to_owned(),
            known: vec![NEAR.to_owned()]
        }
    );
    assert_eq!(
        error.to_string(),
        "no tier or node is named \"far\"; there are: near"
    );

    let dax = Fixture::open("dax-not-onlined").discover();
    let tier = dax.tier("dax0.0").unwrap();
    assert!(!tier.allocatable && tier.mappable_device().is_some());
    assert!(
        dax.tier(FAR).is_err(),
        "memory that is not online is no far tier"
    );

    let hmat = Fixture::open("hmat-present").discover();
    assert_eq!(hmat.tier(FAR).unwrap().name, "cpuless-2");
    assert_eq!(hmat.tier_names(), ["near", "cpuless", "cpuless-2", "far"]);
}

#[test]
fn a_profile_appends_a_modelled_far_tier() {
    let profile = Profile::builtin("cxl-fpga").unwrap();
    let topology = Fixture::open("hmat-present")
        .discover()
        .with_profile(&profile);
    let far = topology.tier(FAR).unwrap();
    assert_eq!((far.kind, far.name.as_str()), (TierKind::Modelled, FAR));
    assert_eq!(far.nodes, topology.tier(NEAR).unwrap().nodes);
    assert_eq!(
        far.capacity_bytes,
        topology.tier(NEAR).unwrap().capacity_bytes
    );
    assert_eq!(
        far.declared.source,
        Known::Value("profile cxl-fpga".to_owned())
    );
    let tiers = topology.tiers.len();
    let other = Profile::builtin("remote-socket").unwrap();
    let topology = topology.with_profile(&other);
    assert_eq!(
        topology.tiers.len(),
        tiers,
        "the second profile replaces the first"
    );
    assert_eq!(
        topology.tier(FAR).unwrap().declared.read_latency_ns,
        Known::Value(216.0)
    );
}

#[test]
fn a_profile_appends_all_tiers_that_it_models() {
    let mut profile = Profile::builtin("cxl-blades-4-socket").unwrap();
    let socket = profile.others["socket"].clone();
    profile.others.insert("cpuless".to_owned(), socket);
    let topology = Fixture::open("hmat-present")
        .discover()
        .with_profile(&profile);
    // Two tiers of the machine are called so already.
    let modelled: Vec<(&str, f64)> = topology
        .modelled(&profile)
        .map(|(tier, modelled)| (tier.name.as_str(), modelled.idle_latency_ns))
        .collect();
    assert_eq!(
        modelled,
        [("cpuless-3", 216.0), ("socket", 216.0), (FAR, 507.0)]
    );
    let again = topology.clone().with_profile(&profile);
    assert_eq!(again.tier_names(), topology.tier_names());
}

#[test]
fn json_has_units_and_reasons() {
    let topology = Fixture::open("one-node").discover();
    let json = serde_json::to_value(&topology).unwrap();
    let near = &json["tiers"][0];
    assert_eq!(near["name"], "near");
    assert_eq!(near["kind"], "local-dram");
    assert_eq!(near["nodes"], serde_json::json!([0]));
    assert!(near["capacity_bytes"].is_u64());
    assert!(near["declared"]["read_latency_ns"]["unavailable"].is_string());
    assert!(near["declared"]["read_bandwidth_bytes_per_s"]["unavailable"].is_string());
    assert_eq!(json["cpus"], "0-1");
    assert_eq!(json["viewpoint"], 0);
}

#[test]
fn this_machine_can_be_read() {
    // A sandbox may hide the nodes; that is the only excuse.
    match Topology::this_machine() {
        Ok(topology) => assert!(topology.tiers.iter().any(|tier| tier.allocatable)),
        Err(DiscoverError::NoNodes { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// What an attribute never holds, and never may make discovery panic.
const NONSENSE: [&[u8]; 14] = [
    b"",
    b"\n",
    b"-1",
    b"0",
    b"4294967296",
    b"99999999999999999999999",
    b"0xffffffffffffffff",
    b"0-4294967295",
    b"nonsense",
    b"\xff\xfe\x00",
    b"10 10 10 10 10 10 10 10 10 10",
    b"Node 0 MemTotal: 18446744073709551615 kB\nNode 0 MemFree: 1 kB",
    b"../../../../../../../etc/passwd",
    b"1\n2\n3",
];

/// Discovery of the fixture with one file replaced; an error must name the file.
fn discover_with(fixture: &Fixture, file: &str, content: &[u8]) {
    let path = fixture.root.path().join(file);
    let original = fs::read(&path).unwrap();
    fs::write(&path, content).unwrap();
    match Topology::discover(fixture.root.path()) {
        Ok(topology) => {
            let _ = (
                topology.to_string(),
                serde_json::to_string(&topology).unwrap(),
            );
        }
        Err(DiscoverError::Garbled { path: named, .. }) => {
            assert_eq!(named.canonicalize().unwrap(), path.canonicalize().unwrap());
        }
        Err(DiscoverError::NoMemory { .. }) => assert!(file.contains("mem"), "{file}"),
        Err(error) => panic!("{file} with {content:?}: {error}"),
    }
    fs::write(&path, original).unwrap();
}

#[test]
fn nonsense_in_any_file_is_an_error_that_names_it_and_no_panic() {
    let rich = [
        "cxl-linux-6.12",
        "cxl-mapped-by-firmware",
        "dax-kmem-offline",
    ];
    for fixture in rich.map(Fixture::open) {
        // One CPU's files are as good as another's.
        for file in fixture
            .capture
            .files()
            .filter(|file| !file.contains("cpu1/"))
        {
            for content in NONSENSE {
                discover_with(&fixture, file, content);
            }
        }
    }
}

#[test]
fn a_very_long_file_is_refused_with_a_short_message() {
    let fixture = Fixture::open("one-node");
    let path = fixture
        .root
        .path()
        .join("devices/system/node/node0/cpulist");
    fs::write(&path, "0,".repeat(1 << 20)).unwrap();
    let message = Topology::discover(fixture.root.path())
        .unwrap_err()
        .to_string();
    assert!(message.contains("node0/cpulist"), "{message}");
    assert!(message.len() < 500, "{message}");
}

#[test]
fn a_folder_in_place_of_a_file_is_an_error_that_names_it() {
    let fixture = Fixture::open("one-node");
    let path = fixture
        .root
        .path()
        .join("devices/system/node/node0/meminfo");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    match Topology::discover(fixture.root.path()) {
        Err(DiscoverError::Read { path: named, .. }) => assert_eq!(named, path),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_bytes_in_any_file_make_it_panic(
        choice in any::<prop::sample::Index>(),
        content in prop::collection::vec(prop_oneof![any::<u8>(), b'0'..=b'9', Just(b' ')], 0..40),
    ) {
        thread_local!(static FIXTURE: Fixture = Fixture::open("cxl-linux-6.12"));
        FIXTURE.with(|fixture| {
            let files: Vec<&str> = fixture.capture.files().collect();
            discover_with(fixture, files[choice.index(files.len())], &content);
        });
    }
}
