//! Specifications as they were written.

use std::collections::BTreeMap;

use super::error::{Origin, SpecError};
use super::fields::Field;
use super::reader::document;
use super::{from_toml, from_yaml};

/// Largest text that is read, in bytes.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// A value as text, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    pub text: String,
    pub origin: Origin,
}

/// Settings by field name.
pub(super) type Section = BTreeMap<&'static str, Setting>;

/// A task as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TaskSection {
    pub name: String,
    pub settings: Section,
    pub steps: Vec<Section>,
}

/// A line of the matrix: a field and the values it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Axis {
    /// A field's name, for all sections that have it, or `task.NAME.FIELD`, `region.NAME.FIELD`.
    pub path: String,
    pub origin: Origin,
    pub values: Vec<Setting>,
}

/// A specification as it was written. Without any setting, it is one sequential read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Document {
    pub(super) source_name: Option<String>,
    pub(super) run: Section,
    pub(super) regions: Vec<(String, Section)>,
    pub(super) tasks: Vec<TaskSection>,
    pub(super) matrix: Vec<Axis>,
}

impl Document {
    /// Reads a file's text: as YAML where `source_name` ends in `.yaml` or `.yml`, else as TOML.
    /// Errors name the source.
    ///
    /// # Errors
    /// [`SpecError`] with the line of what is no such text or no field.
    ///
    /// ```
    /// use nearfar_measure::access::Document;
    /// let error = Document::parse("x.toml", "repetitions = 3\nsped = 1").unwrap_err();
    /// assert!(error.to_string().starts_with("x.toml, line 2: sped: "));
    /// let error = Document::parse("x.yaml", "repetitions: 3\nsped: 1").unwrap_err();
    /// assert!(error.to_string().starts_with("x.yaml, line 2: sped: "));
    /// ```
    pub fn parse(source_name: &str, text: &str) -> Result<Self, SpecError> {
        let is_yaml = [".yaml", ".yml"]
            .iter()
            .any(|ending| source_name.ends_with(ending));
        let tree = if text.len() > TEXT_BYTES_MAX {
            let message = format!("larger than {TEXT_BYTES_MAX} bytes, which no specification is");
            Err(SpecError::new(&Origin::Default, "", message))
        } else if is_yaml {
            from_yaml::read(text)
        } else {
            from_toml::read(text)
        };
        let read = tree.and_then(|tree| document(&tree));
        let source_name = Some(source_name.to_owned());
        match read {
            Ok(document) => Ok(Self {
                source_name,
                ..document
            }),
            Err(error) => Err(SpecError {
                source_name,
                ..error
            }),
        }
    }

    /// The document as TOML-like lines, for results: every setting that was written.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let mut put = |prefix: &str, section: &Section| {
            for (name, setting) in section {
                all.insert(format!("{prefix}{name}"), setting.text.clone());
            }
        };
        put("", &self.run);
        for (name, section) in &self.regions {
            put(&format!("region.{name}."), section);
        }
        for task in &self.tasks {
            put(&format!("task.{}.", task.name), &task.settings);
            for (index, step) in task.steps.iter().enumerate() {
                put(&format!("task.{}.steps.{index}.", task.name), step);
            }
        }
        for axis in &self.matrix {
            let values: Vec<&str> = axis
                .values
                .iter()
                .map(|value| value.text.as_str())
                .collect();
            all.insert(format!("matrix.{}", axis.path), values.join(" | "));
        }
        all
    }
}

pub(super) fn known(fields: &[Field], name: &str) -> Option<&'static str> {
    fields
        .iter()
        .find(|field| field.name == name)
        .map(|field| field.name)
}
