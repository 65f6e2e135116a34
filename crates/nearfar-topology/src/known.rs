//! A value that the machine told us, or the reason why it did not.

use std::borrow::Cow;
use std::fmt;

use serde::{Serialize, Serializer};

/// A value, or why there is none.
///
/// What a machine does not say is never replaced by zero: the reason travels
/// with the gap up to the table or JSON that a user reads. Serialized, a known
/// value is the value itself; an unavailable one is `{"unavailable": reason}`.
///
/// ```
/// use nearfar_topology::Known;
///
/// let latency_ns = Known::Value(145.0);
/// assert_eq!(latency_ns.get(), Some(145.0));
/// let missing: Known<f64> = Known::unavailable("no HMAT");
/// assert_eq!(missing.reason(), Some("no HMAT"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known<T> {
    /// The value is known.
    Value(T),
    /// The value is not known, for this reason.
    Unavailable(Cow<'static, str>),
}

impl<T> Known<T> {
    /// A gap with its reason.
    pub fn unavailable(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::Unavailable(reason.into())
    }

    /// The value, where there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Unavailable(_) => None,
        }
    }

    /// A copy of the value, where there is one.
    pub fn get(&self) -> Option<T>
    where
        T: Copy,
    {
        self.value().copied()
    }

    /// Why there is no value; `None` where there is one.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Unavailable(reason) => Some(reason),
        }
    }

    /// Whether there is a value.
    pub fn is_known(&self) -> bool {
        self.value().is_some()
    }

    /// Applies `f` to the value and keeps a gap as it is.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Known<U> {
        match self {
            Self::Value(value) => Known::Value(f(value)),
            Self::Unavailable(reason) => Known::Unavailable(reason),
        }
    }
}

impl<T: fmt::Display> fmt::Display for Known<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => value.fmt(f),
            Self::Unavailable(reason) => write!(f, "unavailable ({reason})"),
        }
    }
}

impl<T: Serialize> Serialize for Known<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Gap<'a> {
            unavailable: &'a str,
        }
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Unavailable(reason) => Gap {
                unavailable: reason,
            }
            .serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serializes_a_value_bare_and_a_gap_with_its_reason() {
        let json = |known: Known<u64>| serde_json::to_string(&known).unwrap();
        assert_eq!(json(Known::Value(3)), "3");
        assert_eq!(
            json(Known::unavailable("no file")),
            r#"{"unavailable":"no file"}"#
        );
    }

    #[test]
    fn map_keeps_the_reason() {
        let gap: Known<u64> = Known::unavailable("why");
        assert_eq!(gap.map(|v| v * 2), Known::unavailable("why"));
        assert_eq!(Known::Value(2).map(|v| v * 2), Known::Value(4));
    }
}
