//! What is written for people names what there is.

use std::fs;

use crate::support::{run, workspace};

const COMMANDS: [&[&str]; 21] = [
    &["tiers"],
    &["profiles"],
    &["sql"],
    &["serve"],
    &["serve", "user", "add"],
    &["tpch"],
    &["bench", "tpch"],
    &["bench", "scan"],
    &["bench", "heap"],
    &["bench", "merge"],
    &["bench", "insert"],
    &["bench", "restart"],
    &["bench", "fairness"],
    &["bench", "index"],
    &["index", "bench"],
    &["bench"],
    &["measure"],
    &["measure", "report"],
    &["measure", "compare"],
    &["measure", "presets"],
    &["reproduce"],
];

fn document(name: &str) -> String {
    fs::read_to_string(workspace().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_flag_is_in_the_reference() {
    let reference = document("docs/cli.md");
    for command in COMMANDS {
        let help = run([command, &["--help"]].concat()).succeeded();
        let name = command.join(" ");
        assert!(
            reference.contains(&format!("nearfar {name}")),
            "{name} is missing in docs/cli.md"
        );
        let flags = help
            .split_whitespace()
            .filter(|word| word.starts_with("--") && word.len() > 2);
        for flag in flags {
            let flag = flag.trim_end_matches(|c: char| !c.is_ascii_alphabetic());
            assert!(
                reference.contains(flag),
                "{name} {flag} is missing in docs/cli.md"
            );
        }
    }
}

#[test]
fn every_exit_code_is_in_the_reference_and_the_help() {
    let reference = document("docs/cli.md");
    let help = run(["--help"]).succeeded();
    let (_, codes) = help.split_once("Exit codes:").expect("exit codes");
    let codes: Vec<&str> = codes
        .lines()
        .filter_map(|line| line.trim_start().split_once("  "))
        .map(|(code, _)| code.trim())
        .collect();
    assert_eq!(
        codes,
        [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "130"
        ]
    );
    for code in codes {
        assert!(
            reference.contains(&format!("| {code} |")),
            "{code} is missing in docs/cli.md"
        );
    }
}

#[test]
fn every_profile_is_described() {
    let profiles = document("docs/profiles.md");
    for name in nearfar_topology::Profile::builtin_names() {
        assert!(profiles.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_example_of_a_profile_is_one() {
    let profiles = document("docs/profiles.md");
    let example = profiles
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let example = example.expect("an example");
    nearfar_topology::Profile::parse("docs/profiles.md", example).expect("a profile");
}

#[test]
fn every_field_of_a_specification_is_described_and_the_example_is_one() {
    use nearfar_measure::access::spec::fields;
    let text = document("docs/measure.md");
    let all = [
        &fields::RUN[..],
        &fields::REGION,
        &fields::TASK,
        &fields::STEP,
    ]
    .concat();
    for field in all {
        assert!(
            text.contains(&format!("`{}`", field.name)),
            "{}",
            field.name
        );
    }
    let example = text
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let example = example.expect("an example");
    nearfar_measure::access::Document::parse("docs/measure.md", example).expect("a specification");
}

#[test]
fn documents_that_others_refer_to_are_there() {
    for file in [
        "README.md",
        "ARCHITECTURE.md",
        "CHANGELOG.md",
        "LICENSE",
        "deny.toml",
        ".ci/run",
    ] {
        assert!(!document(file).is_empty(), "{file}");
    }
    let mut linked = document("README.md");
    linked += &document("ARCHITECTURE.md");
    for link in linked
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next())
    {
        let path = link.split('#').next().unwrap_or_default();
        let is_file = !path.is_empty() && !path.contains("://");
        assert!(!is_file || workspace().join(path).exists(), "{link}");
    }
}
