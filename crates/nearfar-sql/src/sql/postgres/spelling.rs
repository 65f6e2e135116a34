//! Names, operators and types as the planner spells them.

use datafusion::sql::sqlparser::ast::{
    Array, BinaryOperator, CastKind, DataType, Expr, Ident, ObjectName, ObjectNamePart, Value,
    ValueWithSpan, VisitorMut,
};
use std::ops::ControlFlow;

use super::{CATALOGS, EMPTY_CATALOGS, PG_CATALOG, call, catalog_name, null, take};

/// A function that stands for a table, which the planner knows without a schema.
const SERIES: &str = "generate_series";

/// Spells names in the one way that the planner knows.
pub(super) struct Spelling;

impl VisitorMut for Spelling {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        let is_series = catalog_name(relation).is_some_and(|name| name == SERIES);
        if is_series && relation.0.len() == 2 {
            relation.0.remove(0);
        }
        if let [ObjectNamePart::Identifier(name)] = &relation.0[..] {
            let name = name.value.to_ascii_lowercase();
            if CATALOGS.contains(&name.as_str()) || EMPTY_CATALOGS.contains(&name.as_str()) {
                let schema = ObjectNamePart::Identifier(Ident::new(PG_CATALOG));
                relation.0.insert(0, schema);
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => drop_schema(&mut function.name),
            Expr::BinaryOp { op, .. } => {
                if let BinaryOperator::PGCustomBinaryOperator(names) = op
                    && let Some(meant) = names.last().and_then(|name| operator(name))
                {
                    *op = meant;
                }
            }
            Expr::Collate {
                expr: inner,
                collation,
            } if is_default(collation) => *expr = take(inner),
            Expr::Cast {
                kind: CastKind::Cast | CastKind::DoubleColon,
                expr: inner,
                data_type,
                ..
            } => {
                if let Some(meant) = cast_to_catalog_type(inner, data_type) {
                    *expr = meant;
                }
            }
            Expr::Like {
                pattern,
                escape_char,
                ..
            }
            | Expr::ILike {
                pattern,
                escape_char,
                ..
            } => {
                if let Some(escape) = other_escape(escape_char.as_ref()) {
                    let given = take(pattern);
                    **pattern = with_backslashes(given, &escape);
                    *escape_char = None;
                }
            }
            Expr::AnyOp {
                left,
                compare_op: BinaryOperator::Eq,
                right,
                ..
            } => {
                if let Some(list) = listed(right) {
                    *expr = Expr::InList {
                        expr: Box::new(take(left)),
                        list,
                        negated: false,
                    };
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn drop_schema(name: &mut ObjectName) {
    if let [ObjectNamePart::Identifier(schema), _] = &name.0[..]
        && schema.value.eq_ignore_ascii_case(PG_CATALOG)
    {
        name.0.remove(0);
    }
}

fn is_default(collation: &ObjectName) -> bool {
    catalog_name(collation).is_some_and(|name| ["default", "c"].contains(&name.as_str()))
}

fn operator(name: &str) -> Option<BinaryOperator> {
    Some(match name {
        "~" => BinaryOperator::PGRegexMatch,
        "~*" => BinaryOperator::PGRegexIMatch,
        "!~" => BinaryOperator::PGRegexNotMatch,
        "!~*" => BinaryOperator::PGRegexNotIMatch,
        "=" => BinaryOperator::Eq,
        "<>" | "!=" => BinaryOperator::NotEq,
        "<" => BinaryOperator::Lt,
        "<=" => BinaryOperator::LtEq,
        ">" => BinaryOperator::Gt,
        ">=" => BinaryOperator::GtEq,
        "+" => BinaryOperator::Plus,
        "-" => BinaryOperator::Minus,
        "||" => BinaryOperator::StringConcat,
        _ => return None,
    })
}

/// Functions that give the identifier of a table.
const CLASSES: [&str; 2] = ["pg_regclass", "to_regclass"];

/// Has an expression that gives the identifier of a table give its name.
pub(super) fn name_class(expr: &mut Expr) -> Option<&'static str> {
    let Expr::Function(function) = expr else {
        return None;
    };
    let called = catalog_name(&function.name)?;
    let at = CLASSES.iter().position(|name| *name == called)?;
    *expr = call("pg_regclass_name", vec![take(expr)]);
    Some(["regclass", "to_regclass"][at])
}

/// A cast to a type of the catalogs, as what it means here.
fn cast_to_catalog_type(inner: &mut Expr, data_type: &mut DataType) -> Option<Expr> {
    let is_text = matches!(data_type, DataType::Text | DataType::Varchar(_));
    if is_text || *data_type == DataType::String(None) {
        name_class(inner);
        return None;
    }
    let name = match data_type {
        DataType::Regclass => "regclass".to_owned(),
        DataType::Custom(name, modifiers) if modifiers.is_empty() => catalog_name(name)?,
        _ => return None,
    };
    match name.as_str() {
        "text" | "name" | "char" | "varchar" | "cstring" => *data_type = DataType::Text,
        "oid" | "xid" | "int8" => *data_type = DataType::BigInt(None),
        "int4" => *data_type = DataType::Integer(None),
        "int2" => *data_type = DataType::SmallInt(None),
        "bool" => *data_type = DataType::Boolean,
        "regclass" => return Some(call("pg_regclass", vec![take(inner)])),
        "regtype" => return Some(call("format_type", vec![take(inner), null()])),
        "regproc" | "regprocedure" | "regnamespace" | "regrole" => {
            *data_type = DataType::Text;
        }
        _ => {}
    }
    None
}

/// The elements of an array that is written out.
fn listed(array: &mut Expr) -> Option<Vec<Expr>> {
    match array {
        Expr::Nested(inner) => listed(inner),
        Expr::Array(Array { elem, .. }) if !elem.is_empty() => Some(std::mem::take(elem)),
        _ => None,
    }
}

/// The character that takes the meaning of others away in a pattern, where it is not the backslash that
/// the planner knows.
fn other_escape(given: Option<&ValueWithSpan>) -> Option<String> {
    match &given?.value {
        Value::SingleQuotedString(text) if text.chars().count() == 1 && text != "\\" => {
            Some(text.clone())
        }
        _ => None,
    }
}

/// `pattern` with backslashes where it has `escape`.
fn with_backslashes(pattern: Expr, escape: &str) -> Expr {
    /// Stands for the character itself meanwhile; no text has it.
    const ITSELF: &str = "\u{1}";
    let text = |text: &str| Expr::value(Value::SingleQuotedString(text.to_owned()));
    let doubled = escape.repeat(2);
    let steps = [
        ("\\", "\\\\"),
        (doubled.as_str(), ITSELF),
        (escape, "\\"),
        (ITSELF, escape),
    ];
    steps.into_iter().fold(pattern, |pattern, (from, to)| {
        call("replace", vec![pattern, text(from), text(to)])
    })
}
