//! Names, operators and types as the planner spells them.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Array, ArrayElemTypeDef, BinaryOperator, CastKind, DataType, Expr, Ident,
    ObjectName, ObjectNamePart, Subscript, Value, ValueWithSpan, VisitorMut,
};
use std::ops::ControlFlow;

use super::{CATALOGS, EMPTY_CATALOGS, PG_CATALOG, call, catalog_name, null, take};
use crate::sql::array_elements;

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
            Expr::BinaryOp { left, op, right } => {
                compare_functions(left, right);
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
            Expr::CompoundFieldAccess { root, access_chain } => {
                if let Some(letter) = letter_of_name(root, access_chain) {
                    *expr = letter;
                }
            }
            Expr::AnyOp {
                left,
                compare_op: BinaryOperator::Eq,
                right,
                ..
            } => {
                if let Some(list) = listed(right) {
                    *expr = in_list(left, list, false);
                }
            }
            Expr::AllOp {
                left,
                compare_op: BinaryOperator::NotEq,
                right,
            } => {
                if let Some(list) = listed(right) {
                    *expr = in_list(left, list, true);
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

/// Columns of catalogs with functions, which are kept as their names.
const FUNCTIONS: [&str; 4] = ["typinput", "typoutput", "typreceive", "typsend"];
/// The name of no function.
const NO_FUNCTION: &str = "-";

fn is_function_column(expr: &Expr) -> bool {
    let name = match expr {
        Expr::Nested(inner) => return is_function_column(inner),
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(names) => names.last(),
        _ => None,
    };
    name.is_some_and(|name| FUNCTIONS.contains(&name.value.to_ascii_lowercase().as_str()))
}

/// Has a column with functions that is compared with the identifier of none be compared with the name of none.
fn compare_functions(left: &mut Expr, right: &mut Expr) {
    let is_zero = |expr: &Expr| matches!(expr, Expr::Value(ValueWithSpan { value: Value::Number(number, _), .. }) if number == "0");
    let none = || Expr::value(Value::SingleQuotedString(NO_FUNCTION.to_owned()));
    if is_function_column(left) && is_zero(right) {
        *right = none();
    } else if is_function_column(right) && is_zero(left) {
        *left = none();
    }
}

/// The name of a function as the catalogs have it: without their schema.
fn function_name(expr: &mut Expr) {
    if let Expr::Value(ValueWithSpan {
        value: Value::SingleQuotedString(name),
        ..
    }) = expr
        && let Some((schema, function)) = name.split_once('.')
        && schema.eq_ignore_ascii_case(PG_CATALOG)
    {
        *name = function.to_owned();
    }
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

/// Spells a type whose name has several words in the one word that the planner knows.
pub(in crate::sql) fn spell_type(data_type: &mut DataType) {
    match data_type {
        DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            *data_type = DataType::Varchar(*length);
        }
        DataType::Character(length) => *data_type = DataType::Char(*length),
        _ => {}
    }
}

/// A cast to a type of the catalogs, as what it means here.
fn cast_to_catalog_type(inner: &mut Expr, data_type: &mut DataType) -> Option<Expr> {
    spell_type(data_type);
    if let DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) = data_type {
        let is_identifier = matches!(element.as_ref(), DataType::Custom(name, modifiers)
            if modifiers.is_empty() && catalog_name(name).is_some_and(|name| name == "oid"));
        if is_identifier {
            **element = DataType::BigInt(None);
        }
        return None;
    }
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
        "oid" if is_function_column(inner) => return Some(call("pg_regproc", vec![take(inner)])),
        "oid" | "xid" | "int8" => *data_type = DataType::BigInt(None),
        "int4" => *data_type = DataType::Integer(None),
        "int2" => *data_type = DataType::SmallInt(None),
        "bool" => *data_type = DataType::Boolean,
        "regclass" => return Some(call("pg_regclass", vec![take(inner)])),
        "regtype" => return Some(call("format_type", vec![take(inner), null()])),
        "regproc" | "regprocedure" => {
            function_name(inner);
            *data_type = DataType::Text;
        }
        "regnamespace" | "regrole" => *data_type = DataType::Text,
        _ => {}
    }
    None
}

/// A letter of the name of a type, which is an array of letters in PostgreSQL, from 0.
fn letter_of_name(root: &mut Expr, chain: &[AccessExpr]) -> Option<Expr> {
    let is_name = matches!(root, Expr::Identifier(name) if name.value == "typname");
    let [AccessExpr::Subscript(Subscript::Index { index })] = chain else {
        return None;
    };
    let Expr::Value(ValueWithSpan {
        value: Value::Number(number, _),
        ..
    }) = index
    else {
        return None;
    };
    let place = number.parse::<u32>().ok().filter(|_| is_name)? + 1;
    let number = |number: u32| Expr::value(Value::Number(number.to_string(), false));
    Some(call("substr", vec![take(root), number(place), number(1)]))
}

/// The elements of an array that is written out, as texts where it is a text.
fn listed(array: &mut Expr) -> Option<Vec<Expr>> {
    match array {
        Expr::Nested(inner) => listed(inner),
        Expr::Array(Array { elem, .. }) if !elem.is_empty() => Some(std::mem::take(elem)),
        Expr::Value(ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        }) => {
            let text_of = |text: Option<String>| match text {
                Some(text) => Expr::value(Value::SingleQuotedString(text)),
                None => null(),
            };
            let elements = array_elements(text).filter(|elements| !elements.is_empty())?;
            Some(elements.into_iter().map(text_of).collect())
        }
        _ => None,
    }
}

fn in_list(value: &mut Expr, list: Vec<Expr>, negated: bool) -> Expr {
    Expr::InList {
        expr: Box::new(take(value)),
        list,
        negated,
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
