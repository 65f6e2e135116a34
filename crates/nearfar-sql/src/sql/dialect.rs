//! The SQL that is read: the parser's generic dialect with PostgreSQL's operators.

use datafusion::sql::sqlparser::ast::{BinaryOperator, ColumnOption, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use std::any::TypeId;

use super::sequences::parse_identity;
use crate::interrupt;

/// The dialect.
#[derive(Debug, Clone, Copy)]
pub(super) struct NearfarDialect;

/// How tightly `^` binds: more than `*`, less than a sign and a cast.
const POWER: u8 = 45;
/// The same of the operators that stand between arithmetic and comparisons.
const OTHER: u8 = 24;

/// What the generic dialect says.
macro_rules! as_generic {
    ($($name:ident),* $(,)?) => {
        $(fn $name(&self) -> bool {
            GenericDialect.$name()
        })*
    };
}

impl Dialect for NearfarDialect {
    /// `INSERT INTO t AS x`.
    fn supports_insert_table_alias(&self) -> bool {
        true
    }

    /// The parser asks which dialect it is in places where there is no method for it.
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, character: char) -> bool {
        GenericDialect.is_delimited_identifier_start(character)
    }

    fn is_identifier_start(&self, character: char) -> bool {
        character != '#' && GenericDialect.is_identifier_start(character)
    }

    fn is_identifier_part(&self, character: char) -> bool {
        character != '#' && GenericDialect.is_identifier_part(character)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        match parser.peek_token_ref().token {
            Token::Caret => Some(Ok(POWER)),
            Token::Sharp | Token::StringConcat => Some(Ok(OTHER)),
            _ => None,
        }
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if let Err(given_up) = interrupt::check() {
            return Some(Err(ParserError::ParserError(given_up.to_string())));
        }
        let op = match parser.peek_token_ref().token {
            Token::Minus => UnaryOperator::Minus,
            Token::Plus => UnaryOperator::Plus,
            // The parser looks for a type first, and writes an error that it does not show. In long lists
            // that is most of its work.
            Token::Number(..) | Token::SingleQuotedString(_) => {
                let next = &parser.peek_nth_token_ref(1).token;
                let is_listed = matches!(next, Token::Comma | Token::RParen);
                return is_listed.then(|| parser.parse_value().map(Expr::Value));
            }
            _ => return None,
        };
        parser.advance_token();
        let expr = parser.parse_subexpr(POWER);
        Some(expr.map(|expr| Expr::UnaryOp {
            op,
            expr: Box::new(expr),
        }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let op = match &parser.peek_token_ref().token {
            Token::Caret => BinaryOperator::PGExp,
            Token::Sharp => BinaryOperator::PGBitwiseXor,
            Token::Word(word) if word.keyword == Keyword::IS => {
                return parse_distinct(parser, left, precedence);
            }
            _ => return None,
        };
        parser.advance_token();
        let right = parser.parse_subexpr(precedence);
        Some(right.map(|right| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op,
            right: Box::new(right),
        }))
    }

    fn parse_column_option(
        &self,
        parser: &mut Parser<'_>,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        let identity = parse_identity(parser)?;
        Ok(identity.map(|identity| Ok(Some(identity))))
    }

    as_generic!(
        supports_unicode_string_literal,
        supports_partition_by_after_order_by,
        supports_array_join_syntax,
        supports_group_by_expr,
        supports_group_by_with_modifier,
        supports_left_associative_joins_without_parens,
        supports_connect_by,
        supports_match_recognize,
        supports_pipe_operator,
        supports_start_transaction_modifier,
        supports_window_function_null_treatment_arg,
        supports_dictionary_syntax,
        supports_window_clause_named_window_reference,
        supports_parenthesized_set_variables,
        supports_select_wildcard_except,
        support_map_literal_syntax,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_extract_comma_syntax,
        supports_create_view_comment_syntax,
        supports_parens_around_table_factor,
        supports_values_as_table_factor,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_limit_comma,
        supports_update_order_by,
        supports_from_first_select,
        supports_projection_trailing_commas,
        supports_asc_desc_in_column_definition,
        supports_try_convert,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_assignment_operator,
        supports_struct_literal,
        supports_empty_projections,
        supports_nested_comments,
        supports_multiline_comment_hints,
        supports_user_host_grantee,
        supports_string_escape_constant,
        supports_array_typedef_with_brackets,
        supports_match_against,
        supports_set_names,
        supports_comma_separated_set_assignments,
        supports_filter_during_aggregation,
        supports_select_wildcard_exclude,
        supports_data_type_signed_suffix,
        supports_interval_options,
        supports_quote_delimited_string,
        supports_select_wildcard_replace,
        supports_select_wildcard_ilike,
        supports_select_wildcard_rename,
        supports_optimize_table,
        supports_install,
        supports_detach,
        supports_prewhere,
        supports_with_fill,
        supports_limit_by,
        supports_interpolate,
        supports_settings,
        supports_select_format,
        supports_comment_optimizer_hint,
        supports_constraint_keyword_without_name,
        supports_key_column_option,
        supports_comma_separated_trim,
        supports_cte_without_as,
        supports_select_item_multi_column_alias,
        supports_xml_expressions,
    );
}

/// `left IS [NOT] DISTINCT FROM`, whose right side the parser takes to the end of the whole condition.
fn parse_distinct(
    parser: &mut Parser<'_>,
    left: &Expr,
    precedence: u8,
) -> Option<Result<Expr, ParserError>> {
    use Keyword::{DISTINCT, FROM, IS, NOT};
    let is_distinct = parser.parse_keywords(&[IS, DISTINCT, FROM]);
    if !is_distinct && !parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
        return None;
    }
    let right = parser.parse_subexpr(precedence);
    Some(right.map(|right| {
        let (left, right) = (Box::new(left.clone()), Box::new(right));
        match is_distinct {
            true => Expr::IsDistinctFrom(left, right),
            false => Expr::IsNotDistinctFrom(left, right),
        }
    }))
}
