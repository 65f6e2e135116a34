//! Functions that stand in plans without that a session knows them by a name.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{Operator, ScalarUDF};

use super::arithmetic::{Checked, Negated};
use super::cast::{Cast, CastName};

/// One of them, with all that it is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum UnnamedFunction {
    /// A cast to a type, and whether its column has a name of its own.
    Cast(DataType, bool),
    /// An operator of numbers.
    Checked(&'static str),
    /// The sign.
    Negated,
}

impl UnnamedFunction {
    /// What `function` is, if it is one of them.
    pub fn of(function: &ScalarUDF) -> Option<Self> {
        let inner = function.inner();
        if let Some(cast) = inner.downcast_ref::<Cast>() {
            let (target, name) = cast.parts();
            return Some(Self::Cast(target.clone(), name == CastName::Own));
        }
        if let Some(checked) = inner.downcast_ref::<Checked>() {
            return Some(Self::Checked(match checked.operator() {
                Operator::Plus => "+",
                Operator::Minus => "-",
                Operator::Multiply => "*",
                Operator::Modulo => "%",
                _ => "/",
            }));
        }
        inner.is::<Negated>().then_some(Self::Negated)
    }

    /// The function.
    pub fn udf(self) -> ScalarUDF {
        match self {
            Self::Cast(target, true) => Cast::udf(target, CastName::Own),
            Self::Cast(target, false) => Cast::udf(target, CastName::OfValue),
            Self::Checked(operator) => Checked::udf(match operator {
                "+" => Operator::Plus,
                "-" => Operator::Minus,
                "*" => Operator::Multiply,
                "%" => Operator::Modulo,
                _ => Operator::Divide,
            }),
            Self::Negated => Negated::udf(),
        }
    }
}
