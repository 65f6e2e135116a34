//! From a tree to a document: which section and field each value belongs to.

use super::document::{Axis, Document, Section, Setting, TaskSection, known};
use super::error::{Origin, SpecError};
use super::fields::{self, Field};
use super::tree::{Entry, Node, Value};

/// What the tree says.
pub(super) fn document(tree: &Node) -> Result<Document, SpecError> {
    let mut document = Document::default();
    for entry in table("", tree)? {
        let sections = || table(&entry.key, &entry.node);
        match (entry.key.as_str(), &entry.node.value) {
            ("region", Value::Table(_) | Value::Nothing) => {
                for region in sections()? {
                    let path = format!("region.{}", region.key);
                    let section = section(&path, &region.node, &fields::REGION)?;
                    document.regions.push((region.key.clone(), section));
                }
            }
            ("task", Value::Table(_) | Value::Nothing) => {
                for entry in sections()? {
                    document.tasks.push(task(entry)?);
                }
            }
            ("matrix", Value::Table(_) | Value::Nothing) => {
                axes("", sections()?, &mut document.matrix)?;
            }
            (name, _) => {
                let sections = ["region", "task", "matrix"];
                let field = field(entry, name, &fields::RUN, &sections)?;
                document.run.insert(field, setting(name, &entry.node)?);
            }
        }
    }
    Ok(document)
}

fn task(entry: &Entry) -> Result<TaskSection, SpecError> {
    let path = format!("task.{}", entry.key);
    let mut steps = Vec::new();
    let mut settings = Section::new();
    for entry in table(&path, &entry.node)? {
        if let ("steps", Value::List(list)) = (entry.key.as_str(), &entry.node.value) {
            for (index, step) in list.iter().enumerate() {
                let path = format!("{path}.steps.{index}");
                steps.push(section(&path, step, &fields::STEP)?);
            }
            continue;
        }
        let path = format!("{path}.{}", entry.key);
        let field = field(entry, &path, &fields::TASK, &["steps"])?;
        settings.insert(field, setting(&path, &entry.node)?);
    }
    Ok(TaskSection {
        name: entry.key.clone(),
        settings,
        steps,
    })
}

fn section(path: &str, node: &Node, fields: &[Field]) -> Result<Section, SpecError> {
    let mut section = Section::new();
    for entry in table(path, node)? {
        let path = format!("{path}.{}", entry.key);
        let field = field(entry, &path, fields, &[])?;
        section.insert(field, setting(&path, &entry.node)?);
    }
    Ok(section)
}

/// The lines of the matrix; nested tables are longer paths.
fn axes(prefix: &str, entries: &[Entry], axes_so_far: &mut Vec<Axis>) -> Result<(), SpecError> {
    for entry in entries {
        let path = format!("{prefix}{}", entry.key);
        let name = format!("matrix.{path}");
        let values = match &entry.node.value {
            Value::Table(nested) => {
                axes(&format!("{path}."), nested, axes_so_far)?;
                continue;
            }
            Value::List(values) => {
                let values = values.iter().map(|value| setting(&name, value));
                values.collect::<Result<_, _>>()?
            }
            _ => vec![setting(&name, &entry.node)?],
        };
        axes_so_far.push(Axis {
            path,
            origin: Origin::Line(entry.line),
            values,
        });
    }
    Ok(())
}

/// The entries of a section; none where nothing was written.
fn table<'a>(path: &str, node: &'a Node) -> Result<&'a [Entry], SpecError> {
    match &node.value {
        Value::Table(entries) => Ok(entries),
        Value::Nothing => Ok(&[]),
        _ => {
            let message = "must be a table of settings";
            Err(SpecError::new(&Origin::Line(node.line), path, message))
        }
    }
}

fn setting(path: &str, node: &Node) -> Result<Setting, SpecError> {
    let origin = Origin::Line(node.line);
    let text = scalar(&node.value).ok_or_else(|| {
        let message = "must be one value: lists belong into the matrix";
        SpecError::new(&origin, path, message)
    })?;
    Ok(Setting { text, origin })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) | Value::Number(text) => Some(text.clone()),
        Value::List(values) => {
            // A list of names, such as of regions, is one value.
            let name = |node: &Node| match &node.value {
                Value::Text(name) => Some(name.clone()),
                _ => None,
            };
            let names: Option<Vec<String>> = values.iter().map(name).collect();
            names.map(|names| names.join(","))
        }
        Value::Nothing | Value::Table(_) | Value::Other => None,
    }
}

/// The field that an entry sets.
fn field(
    entry: &Entry,
    path: &str,
    fields: &[Field],
    sections: &[&str],
) -> Result<&'static str, SpecError> {
    known(fields, &entry.key).ok_or_else(|| {
        let names = fields.iter().map(|field| field.name);
        let names: Vec<&str> = names.chain(sections.iter().copied()).collect();
        let message = format!(
            "there is no field {:?} here; there are: {}",
            entry.key,
            names.join(", ")
        );
        SpecError::new(&Origin::Line(entry.line), path, message)
    })
}
