//! Specifications as they were written.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::error::{Origin, SpecError};
use super::fields::{self, Field};

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
    /// Reads a file's text; `source_name` names it in errors.
    ///
    /// # Errors
    /// [`SpecError`] with the line of what is no TOML or no field.
    ///
    /// ```
    /// use nearfar_measure::access::Document;
    /// let error = Document::parse("x.toml", "repetitions = 3\nsped = 1").unwrap_err();
    /// assert!(error.to_string().starts_with("x.toml, line 2: sped: "));
    /// ```
    pub fn parse(source_name: &str, text: &str) -> Result<Self, SpecError> {
        let reader = Reader { text };
        let named = |error: SpecError| SpecError {
            source_name: Some(source_name.to_owned()),
            ..error
        };
        let table = DeTable::parse(text).map_err(|error| {
            let origin = reader.origin(&error.span().unwrap_or(0..0));
            named(SpecError::new(&origin, "", error.message()))
        })?;
        let mut document = reader.document(table.get_ref()).map_err(named)?;
        document.source_name = Some(source_name.to_owned());
        Ok(document)
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

struct Reader<'a> {
    text: &'a str,
}

type Table<'a> = DeTable<'a>;
type Value<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn origin(&self, span: &Range<usize>) -> Origin {
        let before = &self.text[..span.start.min(self.text.len())];
        Origin::Line(before.matches('\n').count() + 1)
    }

    fn document(&self, table: &Table<'_>) -> Result<Document, SpecError> {
        let mut document = Document::default();
        for (key, value) in in_order(table) {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("region", DeValue::Table(regions)) => {
                    for (name, region) in in_order(regions) {
                        let path = format!("region.{}", name.get_ref());
                        let section =
                            self.section(&path, self.table(&path, region)?, &fields::REGION)?;
                        document.regions.push((name.get_ref().to_string(), section));
                    }
                }
                ("task", DeValue::Table(tasks)) => {
                    for (name, task) in in_order(tasks) {
                        let task = self.task(name.get_ref(), task)?;
                        document.tasks.push(task);
                    }
                }
                ("matrix", DeValue::Table(axes)) => {
                    self.axes("", axes, &mut document.matrix)?;
                }
                (name, _) => {
                    let origin = self.origin(&key.span());
                    let known = known(&fields::RUN, name).ok_or_else(|| {
                        unknown(
                            &origin,
                            name,
                            name,
                            &fields::RUN,
                            &["region", "task", "matrix"],
                        )
                    })?;
                    document.run.insert(known, self.setting(name, value)?);
                }
            }
        }
        Ok(document)
    }

    fn task(&self, name: &str, value: &Value<'_>) -> Result<TaskSection, SpecError> {
        let path = format!("task.{name}");
        let table = self.table(&path, value)?;
        let mut steps = Vec::new();
        let mut settings = Section::new();
        for (key, value) in in_order(table) {
            if let ("steps", DeValue::Array(array)) = (key.get_ref().as_ref(), value.get_ref()) {
                for (index, step) in array.iter().enumerate() {
                    let path = format!("{path}.steps.{index}");
                    steps.push(self.section(&path, self.table(&path, step)?, &fields::STEP)?);
                }
                continue;
            }
            let field = format!("{path}.{}", key.get_ref());
            let origin = self.origin(&key.span());
            let known = known(&fields::TASK, key.get_ref()).ok_or_else(|| {
                unknown(&origin, &field, key.get_ref(), &fields::TASK, &["steps"])
            })?;
            settings.insert(known, self.setting(&field, value)?);
        }
        let name = name.to_owned();
        Ok(TaskSection {
            name,
            settings,
            steps,
        })
    }

    fn section(
        &self,
        path: &str,
        table: &Table<'_>,
        fields: &[Field],
    ) -> Result<Section, SpecError> {
        let mut section = Section::new();
        for (key, value) in in_order(table) {
            let field = format!("{path}.{}", key.get_ref());
            let origin = self.origin(&key.span());
            let known = known(fields, key.get_ref())
                .ok_or_else(|| unknown(&origin, &field, key.get_ref(), fields, &[]))?;
            section.insert(known, self.setting(&field, value)?);
        }
        Ok(section)
    }

    /// The lines of the matrix; nested tables are longer paths.
    fn axes(&self, prefix: &str, table: &Table<'_>, axes: &mut Vec<Axis>) -> Result<(), SpecError> {
        for (key, value) in in_order(table) {
            let path = format!("{prefix}{}", key.get_ref());
            let origin = self.origin(&key.span());
            let values = match value.get_ref() {
                DeValue::Table(nested) => {
                    self.axes(&format!("{path}."), nested, axes)?;
                    continue;
                }
                DeValue::Array(values) => values
                    .iter()
                    .map(|value| self.setting(&format!("matrix.{path}"), value))
                    .collect::<Result<_, _>>()?,
                _ => vec![self.setting(&format!("matrix.{path}"), value)?],
            };
            axes.push(Axis {
                path,
                origin,
                values,
            });
        }
        Ok(())
    }

    fn table<'t, 'i>(&self, path: &str, value: &'t Value<'i>) -> Result<&'t Table<'i>, SpecError> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => {
                let message = "must be a table of settings";
                Err(SpecError::new(&self.origin(&value.span()), path, message))
            }
        }
    }

    fn setting(&self, path: &str, value: &Value<'_>) -> Result<Setting, SpecError> {
        let origin = self.origin(&value.span());
        let text = scalar(value.get_ref()).ok_or_else(|| {
            let message = "must be one value: lists belong into [matrix]";
            SpecError::new(&origin, path, message)
        })?;
        Ok(Setting { text, origin })
    }
}

/// The entries in the order in which they were written.
fn in_order<'t, 'i>(table: &'t Table<'i>) -> Vec<(&'t Spanned<DeString<'i>>, &'t Value<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(integer) => Some(integer.to_string()),
        DeValue::Float(float) => Some(float.to_string()),
        DeValue::Boolean(boolean) => Some(boolean.to_string()),
        DeValue::Array(values) => {
            // A list of names, such as of regions, is one value.
            let names: Option<Vec<String>> = values
                .iter()
                .map(|value| match value.get_ref() {
                    DeValue::String(name) => Some(name.to_string()),
                    _ => None,
                })
                .collect();
            names.map(|names| names.join(","))
        }
        _ => None,
    }
}

pub(super) fn known(fields: &[Field], name: &str) -> Option<&'static str> {
    fields
        .iter()
        .find(|field| field.name == name)
        .map(|field| field.name)
}

fn unknown(
    origin: &Origin,
    path: &str,
    name: &str,
    fields: &[Field],
    sections: &[&str],
) -> SpecError {
    let names = fields
        .iter()
        .map(|field| field.name)
        .chain(sections.iter().copied());
    let names: Vec<&str> = names.collect();
    let message = format!(
        "there is no field {name:?} here; there are: {}",
        names.join(", ")
    );
    SpecError::new(origin, path, message)
}
