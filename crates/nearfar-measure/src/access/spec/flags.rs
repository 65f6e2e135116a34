//! Settings from the command line.

use super::document::{Axis, Document, Setting, known};
use super::error::{Origin, SpecError};
use super::fields;

/// A flag that sets a field: `--access 64,4096`, or `--set task.reader.threads=4`.
///
/// Several values of one flag, separated by commas, become a line of the matrix, and replace the
/// line that a file has for the same field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flag {
    /// The flag as it was written, for errors.
    pub flag: String,
    /// A field's name, for all sections that have it, or a longer path.
    pub path: String,
    /// The values.
    pub values: Vec<String>,
}

impl Document {
    /// Lets flags replace what the document says.
    ///
    /// # Errors
    /// [`SpecError`] for a path that leads to no field.
    pub fn apply(&mut self, flags: &[Flag]) -> Result<(), SpecError> {
        for flag in flags {
            let origin = Origin::Flag(flag.flag.clone());
            let mut values = flag.values.iter().map(|text| Setting {
                text: text.clone(),
                origin: origin.clone(),
            });
            self.matrix.retain(|axis| {
                axis.path != flag.path && !axis.path.ends_with(&format!(".{}", flag.path))
            });
            match (values.next(), flag.values.len()) {
                (Some(value), 1) => self.set(&flag.path, &value)?,
                _ => {
                    let values = flag.values.iter();
                    let values = values.map(|text| Setting {
                        text: text.clone(),
                        origin: origin.clone(),
                    });
                    let path = flag.path.clone();
                    let values = values.collect();
                    self.matrix.push(Axis {
                        path,
                        origin,
                        values,
                    });
                }
            }
        }
        Ok(())
    }

    /// Sets the field that `path` leads to: in one section, or in all that have it.
    pub(super) fn set(&mut self, path: &str, value: &Setting) -> Result<(), SpecError> {
        let parts: Vec<&str> = path.split('.').collect();
        let is_set = match parts[..] {
            [name] => self.set_everywhere(name, value),
            ["region", region, name] => {
                let found = self.regions.iter_mut().find(|(name, _)| name == region);
                found
                    .zip(known(&fields::REGION, name))
                    .map(|((_, section), field)| {
                        section.insert(field, value.clone());
                    })
            }
            ["task", task, name] => {
                let found = self.tasks.iter_mut().find(|found| found.name == task);
                found.zip(known(&fields::TASK, name)).map(|(task, field)| {
                    task.settings.insert(field, value.clone());
                })
            }
            ["task", task, "steps", step, name] => {
                let found = self.tasks.iter_mut().find(|found| found.name == task);
                let step = step
                    .parse()
                    .ok()
                    .and_then(|at: usize| found?.steps.get_mut(at));
                step.zip(known(&fields::STEP, name)).map(|(step, field)| {
                    step.insert(field, value.clone());
                })
            }
            _ => None,
        };
        is_set.ok_or_else(|| {
            let message = "leads to no field: write FIELD, region.NAME.FIELD, task.NAME.FIELD or \
                           task.NAME.steps.INDEX.FIELD with a region or task that there is";
            SpecError::new(&value.origin, path, message)
        })
    }

    fn set_everywhere(&mut self, name: &str, value: &Setting) -> Option<()> {
        self.add_defaults();
        if let Some(field) = known(&fields::RUN, name) {
            self.run.insert(field, value.clone());
            // A time and a volume exclude each other: the later one holds.
            match field {
                "time" => self.run.remove("volume"),
                "volume" => self.run.remove("time"),
                _ => None,
            };
            return Some(());
        }
        if let Some(field) = known(&fields::REGION, name) {
            for (_, section) in &mut self.regions {
                section.insert(field, value.clone());
            }
            return Some(());
        }
        let field = known(&fields::TASK, name)?;
        for task in &mut self.tasks {
            task.settings.insert(field, value.clone());
        }
        Some(())
    }

    /// A document without a region or a task has one of each, with every default.
    pub(super) fn add_defaults(&mut self) {
        if self.regions.is_empty() {
            self.regions.push(("data".to_owned(), Default::default()));
        }
        if self.tasks.is_empty() {
            self.tasks.push(super::document::TaskSection {
                name: "access".to_owned(),
                settings: Default::default(),
                steps: Vec::new(),
            });
        }
    }
}
