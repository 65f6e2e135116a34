//! Specifications in YAML.
//!
//! Read event by event into the same tree as TOML, so that every error has a line. What makes the
//! meaning of a text hard to see (anchors, aliases, tags, several documents) is refused.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::error::{Origin, SpecError};
use super::tree::{Entry, Node, Value};

/// Deepest nesting: no specification has more than five levels.
const DEPTH_MAX: usize = 32;

/// Reads a text.
pub(super) fn read(text: &str) -> Result<Node, SpecError> {
    let mut tree = Tree::default();
    for event in Parser::new_from_str(text) {
        let (event, span) =
            event.map_err(|error| wrong(error.marker().line(), error.info().to_owned()))?;
        tree.take(&event, span)?;
    }
    Ok(tree.root.unwrap_or(Node {
        line: 1,
        value: Value::Table(Vec::new()),
    }))
}

fn wrong(line: usize, message: impl Into<String>) -> SpecError {
    SpecError::new(&Origin::Line(line.max(1)), "", message)
}

/// A table or list that is not at its end.
struct Open {
    line: usize,
    content: Content,
}

enum Content {
    List(Vec<Node>),
    Table {
        entries: Vec<Entry>,
        /// The key whose value comes next, with its line.
        key: Option<(String, usize)>,
    },
}

#[derive(Default)]
struct Tree {
    open: Vec<Open>,
    root: Option<Node>,
    documents: usize,
}

impl Tree {
    fn take(&mut self, event: &Event<'_>, span: Span) -> Result<(), SpecError> {
        let line = span.start.line();
        let refuse = |what: &str| {
            Err(wrong(
                line,
                format!("{what} are not read in specifications"),
            ))
        };
        match event {
            Event::DocumentStart(_) if self.documents > 0 => refuse("several documents"),
            Event::DocumentStart(_) => {
                self.documents += 1;
                Ok(())
            }
            Event::Alias(_) => refuse("aliases"),
            Event::Scalar(_, _, anchor, _)
            | Event::SequenceStart(anchor, _)
            | Event::MappingStart(anchor, _)
                if *anchor != 0 =>
            {
                refuse("anchors")
            }
            Event::Scalar(_, _, _, Some(_))
            | Event::SequenceStart(_, Some(_))
            | Event::MappingStart(_, Some(_)) => refuse("tags"),
            Event::Scalar(text, style, _, None) => self.add(Node {
                line,
                value: scalar(text, *style),
            }),
            Event::SequenceStart(..) => self.begin(line, Content::List(Vec::new())),
            Event::MappingStart(..) => self.begin(
                line,
                Content::Table {
                    entries: Vec::new(),
                    key: None,
                },
            ),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
        }
    }

    fn begin(&mut self, line: usize, content: Content) -> Result<(), SpecError> {
        if self.open.len() == DEPTH_MAX {
            let message = format!("nested more than {DEPTH_MAX} levels deep");
            return Err(wrong(line, message));
        }
        self.open.push(Open { line, content });
        Ok(())
    }

    fn end(&mut self) -> Result<(), SpecError> {
        let Some(open) = self.open.pop() else {
            return Ok(());
        };
        let value = match open.content {
            Content::List(values) => Value::List(values),
            Content::Table { entries, .. } => Value::Table(entries),
        };
        self.add(Node {
            line: open.line,
            value,
        })
    }

    /// Puts a node where the text has it.
    fn add(&mut self, node: Node) -> Result<(), SpecError> {
        match self.open.last_mut().map(|open| &mut open.content) {
            None => self.root = Some(node),
            Some(Content::List(values)) => values.push(node),
            Some(Content::Table { entries, key }) => match key.take() {
                Some((key, line)) => {
                    if entries.iter().any(|entry| entry.key == key) {
                        return Err(wrong(line, format!("{key:?} is written twice")));
                    }
                    entries.push(Entry { key, line, node });
                }
                None => match node.value {
                    Value::Text(text) | Value::Number(text) => *key = Some((text, node.line)),
                    _ => return Err(wrong(node.line, "a key must be a name")),
                },
            },
        }
        Ok(())
    }
}

/// A value by the core schema of YAML 1.2: plain words for nothing, truth and numbers, else text.
fn scalar(text: &str, style: ScalarStyle) -> Value {
    let owned = text.to_owned();
    match text {
        _ if style != ScalarStyle::Plain => Value::Text(owned),
        "" | "~" | "null" | "Null" | "NULL" => Value::Nothing,
        "true" | "True" | "TRUE" => Value::Number("true".to_owned()),
        "false" | "False" | "FALSE" => Value::Number("false".to_owned()),
        _ if text.parse::<f64>().is_ok() => Value::Number(owned),
        _ => Value::Text(owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_text() {
        let node = read("a: 1\nb:\n  - x\n  - \"2\"\nc: {d: true}\ne:\n").unwrap();
        let Value::Table(entries) = node.value else {
            panic!("a table")
        };
        let keys: Vec<_> = entries.iter().map(|one| (&*one.key, one.line)).collect();
        assert_eq!(keys, [("a", 1), ("b", 2), ("c", 5), ("e", 6)]);
        assert_eq!(entries[0].node.value, Value::Number("1".to_owned()));
        let Value::List(values) = &entries[1].node.value else {
            panic!("a list")
        };
        assert_eq!(
            (values[1].line, &values[1].value),
            (4, &Value::Text("2".to_owned()))
        );
        assert_eq!(entries[3].node.value, Value::Nothing);
    }

    #[test]
    fn what_hides_a_meaning_is_refused_by_line() {
        let cases = [
            ("a: &x 1\nb: *x", "line 1: anchors are not read"),
            ("a: 1\nb: !!str 2", "line 2: tags are not read"),
            ("a: 1\n---\nb: 2", "line 2: several documents"),
            ("a: 1\na: 2", "line 2: \"a\" is written twice"),
            ("? [a]\n: 1", "line 1: a key must be a name"),
            ("a: [1", "line"),
        ];
        for (text, expected) in cases {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        let deep = "[".repeat(100_000);
        assert!(read(&deep).is_err());
    }
}
