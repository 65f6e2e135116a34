//! Pieces of SQL that can be made smaller.

use std::fmt;

use super::kind::Kind;

/// By what a piece may be replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// Any value of the kind.
    Value(Kind),
    /// Nothing.
    Optional,
    /// It stays; what it consists of may be replaced.
    Fixed,
}

/// A piece of SQL: texts with other pieces between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    sort: Sort,
    texts: Vec<String>,
    parts: Vec<Node>,
}

impl Node {
    /// A piece with its parts in the places of `{}`.
    pub fn new(sort: Sort, template: &str, parts: Vec<Self>) -> Self {
        let texts: Vec<_> = template.split("{}").map(str::to_owned).collect();
        assert_eq!(texts.len(), parts.len() + 1, "{template}");
        Self { sort, texts, parts }
    }

    pub fn value(kind: Kind, template: &str, parts: Vec<Self>) -> Self {
        Self::new(Sort::Value(kind), template, parts)
    }

    pub fn fixed(template: &str, parts: Vec<Self>) -> Self {
        Self::new(Sort::Fixed, template, parts)
    }

    pub fn optional(template: &str, parts: Vec<Self>) -> Self {
        Self::new(Sort::Optional, template, parts)
    }

    /// A piece without parts.
    pub fn leaf(sort: Sort, text: impl Into<String>) -> Self {
        let texts = vec![text.into()];
        let parts = Vec::new();
        Self { sort, texts, parts }
    }

    /// Nothing.
    pub fn empty() -> Self {
        Self::leaf(Sort::Fixed, "")
    }

    /// Several pieces with commas between them.
    pub fn list(parts: Vec<Self>) -> Self {
        let template = vec!["{}"; parts.len()].join(", ");
        match parts.is_empty() {
            true => Self::empty(),
            false => Self::fixed(&template, parts),
        }
    }

    /// All pieces that one replacement makes of this one, the smallest first.
    pub fn smaller(&self) -> Vec<Self> {
        let mut all = self.replacements();
        for (index, part) in self.parts.iter().enumerate() {
            for smaller in part.smaller() {
                let mut whole = self.clone();
                whole.parts[index] = smaller;
                all.push(whole);
            }
        }
        let length = self.to_string().len();
        all.retain(|node| node.to_string().len() < length);
        all.sort_by_cached_key(|node| node.to_string().len());
        all
    }

    fn replacements(&self) -> Vec<Self> {
        let mut all = Vec::new();
        match self.sort {
            Sort::Fixed => {}
            Sort::Optional => all.push(Self::empty()),
            Sort::Value(kind) => {
                self.collect(kind, &mut all);
                all.push(Self::leaf(self.sort, kind.plain()));
                all.push(Self::leaf(self.sort, kind.null()));
            }
        }
        all
    }

    /// All pieces of a kind below this one.
    fn collect(&self, kind: Kind, all: &mut Vec<Self>) {
        for part in &self.parts {
            if part.sort == Sort::Value(kind) {
                all.push(part.clone());
            }
            part.collect(kind, all);
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (text, part) in self.texts.iter().zip(&self.parts) {
            write!(f, "{text}{part}")?;
        }
        f.write_str(self.texts.last().map_or("", String::as_str))
    }
}
