//! Functions and operators of arrays as PostgreSQL has them, and arrays that are written as texts, such
//! as `'{1,2,NULL}'`.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    ObjectNamePart, Subscript, Value,
};

use super::quantified::case;
use super::template::{call, null, take};

/// Rewrites an expression, if it is of an array.
pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::PGOverlap,
            right,
        } => *expr = call("array_has_any", vec![take(left), take(right)]),
        Expr::CompoundFieldAccess { access_chain, .. } => {
            access_chain.iter_mut().for_each(bound);
        }
        Expr::Function(function) => {
            if let Some(meant) = function_of(function) {
                *expr = meant;
            }
        }
        _ => {}
    }
}

/// A slice with both of its ends.
fn bound(access: &mut AccessExpr) {
    if let AccessExpr::Subscript(Subscript::Slice {
        lower_bound,
        upper_bound,
        ..
    }) = access
    {
        lower_bound.get_or_insert_with(|| number(1));
        upper_bound.get_or_insert_with(|| number(i32::MAX));
    }
}

fn number(value: i32) -> Expr {
    Expr::value(Value::Number(value.to_string(), false))
}

fn function_of(function: &Function) -> Option<Expr> {
    let [ObjectNamePart::Identifier(name)] = &function.name.0[..] else {
        return None;
    };
    let called = name.value.to_lowercase();
    let arguments = arguments(function)?;
    let [first, second] = &arguments[..] else {
        return None;
    };
    match called.as_str() {
        // Without elements an array has no dimensions.
        "array_length" | "array_upper" => {
            let length = call("array_length", arguments.clone());
            Some(call("nullif", vec![length, number(0)]))
        }
        "array_lower" => {
            let is_there = Expr::BinaryOp {
                left: Box::new(call("array_length", arguments.clone())),
                op: BinaryOperator::Gt,
                right: Box::new(number(0)),
            };
            Some(case(vec![(is_there, number(1))], null()))
        }
        "array_fill" => match second {
            Expr::Array(lengths) if lengths.elem.len() == 1 => Some(call(
                "array_repeat",
                vec![first.clone(), lengths.elem[0].clone()],
            )),
            _ => None,
        },
        _ => None,
    }
}

fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else {
        return None;
    };
    let arguments = list.args.iter().map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    });
    arguments.collect()
}

/// The elements of an array's text, of which null is none. None if it is no text of an array of one
/// dimension.
pub fn elements(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    let mut elements = Vec::new();
    let mut characters = inner.chars().peekable();
    loop {
        while characters.next_if(|c| c.is_whitespace()).is_some() {}
        let mut element = String::new();
        let is_quoted = characters.next_if_eq(&'"').is_some();
        loop {
            match characters.peek() {
                None if is_quoted => return None,
                None => break,
                Some('"') if is_quoted => {
                    characters.next();
                    while characters.next_if(|c| c.is_whitespace()).is_some() {}
                    break;
                }
                Some('"' | '{' | '}') if !is_quoted => return None,
                Some(',') if !is_quoted => break,
                Some('\\') => {
                    characters.next();
                    element.push(characters.next()?);
                }
                Some(_) => element.extend(characters.next()),
            }
        }
        elements.push(match is_quoted {
            true => Some(element),
            false => match element.trim() {
                "" => return None,
                text if text.eq_ignore_ascii_case("null") => None,
                text => Some(text.to_owned()),
            },
        });
        match characters.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_arrays_have_elements() {
        let of = |text: &str| {
            let elements = elements(text)?.into_iter();
            Some(
                elements
                    .map(|e| e.unwrap_or_else(|| "-".to_owned()))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(of("{}"), Some(vec![]));
        assert_eq!(
            of(" { 1 , 2,NULL } "),
            Some(vec!["1".into(), "2".into(), "-".into()])
        );
        assert_eq!(
            of(r#"{"a,b", "c\"d" ,e\ f}"#),
            Some(vec!["a,b".into(), "c\"d".into(), "e f".into()])
        );
        for wrong in ["", "1,2", "{1,}", "{1", "{{1}}", "{\"a}"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
