//! Types, numbers and patterns that mean something else to the planner.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, CharacterLength, DataType, ExactNumberInfo, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArguments, TypedString, Value, ValueWithSpan, VisitorMut,
};
use std::ops::ControlFlow;

use super::{call, take};
use crate::values::with_units;

/// Puts in words for the planner what it would take for something else.
pub(super) struct Meaning;

/// Most digits of a number.
const DIGITS_MAX: usize = 38;

impl VisitorMut for Meaning {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::TypedString(TypedString {
            data_type, value, ..
        }) = expr
            && is_own(data_type)
        {
            *expr = cast(Expr::Value(value.clone()), data_type.clone());
        }
        match expr {
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: inner,
                data_type,
                ..
            } => {
                if let Some(meant) = cast_to(inner, data_type) {
                    *expr = meant;
                }
            }
            Expr::SimilarTo {
                negated,
                expr: inner,
                pattern,
                escape_char,
            } => {
                let mut arguments = vec![take(pattern)];
                arguments.extend(escape_char.take().map(Expr::Value));
                *expr = Expr::BinaryOp {
                    left: Box::new(take(inner)),
                    op: match negated {
                        true => BinaryOperator::PGRegexNotMatch,
                        false => BinaryOperator::PGRegexMatch,
                    },
                    right: Box::new(call("similar_to_regex", arguments)),
                };
            }
            Expr::Function(function) => {
                if let Some(meant) = operator_of(function) {
                    *expr = meant;
                }
            }
            Expr::Interval(interval) if interval.leading_field.is_none() => {
                if let Expr::Value(ValueWithSpan {
                    value: Value::SingleQuotedString(text),
                    ..
                }) = interval.value.as_mut()
                {
                    *text = with_units(text);
                }
            }
            Expr::Value(ValueWithSpan {
                value: Value::Number(number, _),
                ..
            }) => {
                if let Some(plain) = plain(number) {
                    *expr = plain;
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The functions that are operators: `mod(a, b)` and `div(a, b)`.
fn operator_of(function: &mut Function) -> Option<Expr> {
    let name = super::catalog_name(&function.name)?;
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(left)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(right)),
    ] = &mut list.args[..]
    else {
        return None;
    };
    let binary = |left: Expr, op, right: &mut Expr| {
        Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(left))),
            op,
            right: Box::new(Expr::Nested(Box::new(take(right)))),
        }))
    };
    match name.as_str() {
        "mod" => Some(binary(take(left), BinaryOperator::Modulo, right)),
        "div" => {
            let left = call("numeric", vec![take(left)]);
            Some(call(
                "trunc",
                vec![binary(left, BinaryOperator::Divide, right)],
            ))
        }
        _ => None,
    }
}

fn cast(value: Expr, data_type: DataType) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(value),
        data_type,
        array: false,
        format: None,
    }
}

/// Whether a cast to the type is one of [`cast_to`].
fn is_own(data_type: &DataType) -> bool {
    is_free_numeric(data_type) || length_of(data_type).is_some()
}

fn is_free_numeric(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Dec(ExactNumberInfo::None)
    )
}

/// The function that cuts texts to the length of a type, and that length.
pub(in crate::sql) fn length_of(data_type: &DataType) -> Option<(&'static str, u64)> {
    let (function, length) = match data_type {
        DataType::Varchar(length)
        | DataType::CharacterVarying(length)
        | DataType::CharVarying(length) => ("varchar", (*length)?),
        DataType::Char(length) | DataType::Character(length) => {
            let one = CharacterLength::IntegerLength {
                length: 1,
                unit: None,
            };
            ("bpchar", length.unwrap_or(one))
        }
        DataType::Custom(name, modifiers) => {
            let name = super::catalog_name(name)?;
            let [length] = &modifiers[..] else {
                return None;
            };
            return (name == "bpchar").then_some(("bpchar", length.parse().ok()?));
        }
        _ => return None,
    };
    match length {
        CharacterLength::IntegerLength { length, .. } => Some((function, length)),
        CharacterLength::Max => None,
    }
}

fn cast_to(inner: &mut Expr, data_type: &DataType) -> Option<Expr> {
    if is_free_numeric(data_type) {
        // The type of a parameter follows from the type that it is cast to.
        let is_parameter = matches!(
            inner,
            Expr::Value(ValueWithSpan {
                value: Value::Placeholder(_),
                ..
            })
        );
        return (!is_parameter).then(|| call("numeric", vec![take(inner)]));
    }
    let (function, length) = length_of(data_type)?;
    let text = cast(take(inner), DataType::Text);
    let length = Expr::value(Value::Number(length.to_string(), false));
    Some(call(function, vec![text, length]))
}

/// A number with an exponent, or one that is larger than integers are, as one that is written out; a
/// double if it has too many digits for that.
fn plain(number: &str) -> Option<Expr> {
    let is_integer = number.bytes().all(|digit| digit.is_ascii_digit());
    if is_integer {
        let is_large = number.parse::<i64>().is_err() && number.len() <= DIGITS_MAX;
        return is_large.then(|| Expr::value(Value::Number(format!("{number}."), false)));
    }
    let (digits, exponent) = number.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok()?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let shift = exponent - i32::try_from(part.len()).ok()?;
    let all = [whole, part].concat();
    let written = match usize::try_from(shift) {
        Ok(zeros) if zeros <= DIGITS_MAX => format!("{all}{}.", "0".repeat(zeros)),
        Err(_) if shift.unsigned_abs() as usize <= DIGITS_MAX => {
            let behind = shift.unsigned_abs() as usize;
            let all = format!("{all:0>width$}", width = behind + 1);
            let (whole, part) = all.split_at(all.len() - behind);
            format!("{whole}.{part}")
        }
        _ => String::new(),
    };
    let significant = written.trim_start_matches('0').len();
    if written.is_empty() || significant > DIGITS_MAX + 1 {
        let text = Expr::value(Value::SingleQuotedString(number.to_owned()));
        return Some(cast(text, DataType::Double(ExactNumberInfo::None)));
    }
    Some(Expr::value(Value::Number(written, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_out() {
        let of = |number| plain(number).map(|expr| expr.to_string());
        for (number, expected) in [
            ("12", None),
            ("1.50", None),
            ("1e3", Some("1000.")),
            ("1.5e3", Some("1500.")),
            ("15e-3", Some("0.015")),
            ("9223372036854775808", Some("9223372036854775808.")),
            ("1e300", Some("CAST('1e300' AS DOUBLE)")),
        ] {
            assert_eq!(of(number).as_deref(), expected, "{number}");
        }
    }
}
