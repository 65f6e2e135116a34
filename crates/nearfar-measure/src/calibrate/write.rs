//! A profile as TOML.

use std::fmt::Write;

use nearfar_topology::Profile;
use serde_json::{Map, Value};

/// The profile in the form that [`Profile::parse`] reads.
pub fn profile_text(profile: &Profile) -> String {
    let mut text = format!(
        "name = {}\ndescription = {}\n",
        quoted(&profile.name),
        quoted(&profile.description)
    );
    let value = serde_json::to_value(profile).unwrap_or_default();
    let Value::Object(all) = &value else {
        return text;
    };
    for key in ["cores", "cache_bytes", "copy_engine_bandwidth_bytes_per_s"] {
        number(&mut text, profile, "", key, &all[key]);
    }
    if profile.simulation.reason().is_some() {
        number(&mut text, profile, "", "simulation", &all["simulation"]);
    }
    section(&mut text, profile, "near", &all["near"]);
    section(&mut text, profile, "far", &all["far"]);
    for (prefix, parts) in [
        ("tier", all.get("tier")),
        ("simulation", all.get("simulation")),
    ] {
        let parts = parts.and_then(Value::as_object).into_iter().flatten();
        let is_section = |name: &String| !["sources", "unavailable"].contains(&name.as_str());
        for (name, part) in parts.filter(|(name, _)| is_section(name)) {
            section(&mut text, profile, &format!("{prefix}.{name}"), part);
        }
    }
    text
}

fn section(text: &mut String, profile: &Profile, name: &str, numbers: &Value) {
    let Some(numbers): Option<&Map<String, Value>> = numbers.as_object() else {
        return;
    };
    let _ = write!(text, "\n[{name}]\n");
    for (key, value) in numbers {
        number(text, profile, name, key, value);
    }
}

/// A number with its source, or why there is none.
fn number(text: &mut String, profile: &Profile, section: &str, key: &str, value: &Value) {
    let path = match section {
        "" => key.to_owned(),
        section => format!("{section}.{key}"),
    };
    let line = match value.get("unavailable").and_then(Value::as_str) {
        Some(why) => format!("unknown = {}", quoted(why)),
        None => {
            let source = profile.sources.get(&path).map_or("", String::as_str);
            // What is or is not is 1 or 0 in profiles.
            let value = value
                .as_bool()
                .map_or_else(|| value.clone(), |is| u8::from(is).into());
            format!("value = {value}, source = {}", quoted(source))
        }
    };
    let _ = writeln!(text, "{key} = {{ {line} }}");
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_as_they_were_written() {
        for name in Profile::builtin_names() {
            let mut profile = Profile::builtin(name).unwrap();
            profile.description += " \"quoted\\\u{7}";
            let text = profile_text(&profile);
            let read = Profile::parse("written", &text).unwrap();
            assert_eq!(read, profile, "{text}");
        }
    }
}
