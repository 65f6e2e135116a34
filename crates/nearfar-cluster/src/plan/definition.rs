//! The statements that make, drop and empty the tables of a cluster, by their words.

use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer, Word};
use nearfar_sql::error::EngineError;

use crate::error::failed;
use crate::home::{TableHome, kept_in, quoted};

/// A command that makes, drops or empties a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// What it is called in a tag.
    pub command: &'static str,
    /// The table.
    pub table: String,
    /// Where the rows of a new table are.
    pub home: Option<TableHome>,
}

impl Definition {
    /// What each node runs for the statement `text`, whose table has, or gets, so many tables on each node.
    ///
    /// # Errors
    /// A text that can't be read.
    pub fn statements(&self, text: &str, tables: usize) -> Result<Vec<String>, EngineError> {
        let mut statements = vec![text.to_owned()];
        for rank in 1..tables {
            let copy = quoted(&kept_in(&self.table, rank));
            statements.push(match &self.home {
                Some(_) => renamed(text, &copy)?,
                None => format!("{} {copy}", self.command),
            });
        }
        Ok(statements)
    }
}

/// The same `CREATE TABLE` for a table of another name.
fn renamed(text: &str, name: &str) -> Result<String, EngineError> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize();
    let tokens = tokens.map_err(|error| failed(error.to_string()))?;
    let is_space = |token: &&Token| !matches!(token, Token::Whitespace(_));
    let before = [
        Keyword::CREATE,
        Keyword::TABLE,
        Keyword::IF,
        Keyword::NOT,
        Keyword::EXISTS,
    ];
    let is_before = |token: &Token| match token {
        Token::Word(Word {
            keyword,
            quote_style: None,
            ..
        }) => before.contains(keyword),
        token => !is_space(&token),
    };
    let begin = tokens.iter().take_while(|token| is_before(token)).count();
    let is_name = |token: &Token| matches!(token, Token::Word(_) | Token::Period);
    let name_tokens = tokens[begin..].iter().take_while(|token| is_name(token));
    let end = begin + name_tokens.count();
    let text = |tokens: &[Token]| tokens.iter().map(Token::to_string).collect::<String>();
    Ok(format!(
        "{}{name}{}",
        text(&tokens[..begin]),
        text(&tokens[end..])
    ))
}

/// Refuses what every node would see to only among its own rows.
pub fn check_clauses(words: &[String]) -> Result<(), EngineError> {
    let refused = [
        "PRIMARY",
        "UNIQUE",
        "SERIAL",
        "BIGSERIAL",
        "SMALLSERIAL",
        "GENERATED",
        "REFERENCES",
    ];
    let found = words
        .iter()
        .find(|word| refused.contains(&word.to_uppercase().as_str()));
    match found {
        Some(word) => Err(failed(format!(
            "{} is not known in a cluster yet: a node knows only the keys and numbers of its own rows",
            word.to_uppercase()
        ))),
        None => Ok(()),
    }
}

/// The table that a `CREATE TABLE` makes.
pub fn created(words: &[String], upper: &[&str]) -> Result<String, EngineError> {
    let at = match upper.get(2) {
        Some(&"IF") => 5,
        _ => 2,
    };
    let mut name = words.iter().skip(at);
    let (name, next) = (name.next(), name.next());
    let name = name.ok_or_else(|| failed("CREATE TABLE without a name"))?;
    if name.ends_with('.') || next.is_some_and(|next| next.starts_with('.')) {
        return Err(failed(
            "write the schema and the name of a table without blanks between them",
        ));
    }
    let name = normalised(name);
    match name.split_once('.') {
        Some(("public", table)) => Ok(table.to_owned()),
        Some(_) => Err(failed("the tables of a cluster are in schema public")),
        None => Ok(name),
    }
}

/// The table that a word names, whatever its schema.
pub fn table_name(word: &str) -> String {
    normalised(word.rsplit('.').next().unwrap_or(word))
}

/// A statement without its comments, which may stand between any two words.
pub fn without_comments(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut quote = None;
    while let Some(c) = rest.next() {
        match (quote, c, rest.peek()) {
            (Some(open), ..) => {
                if c == open {
                    quote = None;
                }
                kept.push(c);
            }
            (None, '-', Some('-')) => {
                rest.by_ref().find(|c| *c == '\n');
                kept.push(' ');
            }
            (None, '/', Some('*')) => {
                rest.next();
                let (mut depth, mut last) = (1, ' ');
                while depth > 0
                    && let Some(c) = rest.next()
                {
                    match (last, c) {
                        ('*', '/') => (depth, last) = (depth - 1, ' '),
                        ('/', '*') => (depth, last) = (depth + 1, ' '),
                        _ => last = c,
                    }
                }
                kept.push(' ');
            }
            (None, '\'' | '"', _) => {
                quote = Some(c);
                kept.push(c);
            }
            (None, ..) => kept.push(c),
        }
    }
    kept
}

/// A name as PostgreSQL keeps it.
fn normalised(word: &str) -> String {
    match word
        .strip_prefix('"')
        .and_then(|word| word.strip_suffix('"'))
    {
        Some(quoted) => quoted.to_owned(),
        None => word.to_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_made_dropped_and_emptied_with_their_table() {
        let home = TableHome::Distributed {
            columns: vec!["a".to_owned()],
            copies: 2,
        };
        let mut definition = Definition {
            command: "CREATE TABLE",
            table: "t".to_owned(),
            home: Some(home),
        };
        let rest = "(a INT, b TEXT DEFAULT 'IF t') /* t */ DISTRIBUTED BY (a) COPIES 2";
        for name in ["t", "IF NOT EXISTS public.\"t\""] {
            let text = format!("create TABLE {name} {rest}");
            let made = definition.statements(&text, 2).expect("statements");
            assert_eq!(made[0], text);
            assert!(made[1].ends_with(rest), "{}", made[1]);
            let head = made[1].trim_end_matches(rest).trim_end();
            assert!(head.ends_with("\"nearfar_copy_1_of_t\""), "{head}");
        }
        definition.command = "DROP TABLE";
        definition.home = None;
        let dropped = definition
            .statements("DROP TABLE t", 2)
            .expect("statements");
        assert_eq!(dropped[1], "DROP TABLE \"nearfar_copy_1_of_t\"");
    }

    #[test]
    fn comments_hide_no_words() {
        for (text, kept) in [
            ("TRUNCATE /* all */ t", "TRUNCATE   t"),
            ("-- first\nDROP TABLE t", " DROP TABLE t"),
            ("/* a /* b */ c */TRUNCATE t", " TRUNCATE t"),
            ("SELECT '--', \"/*\" FROM t", "SELECT '--', \"/*\" FROM t"),
        ] {
            assert_eq!(without_comments(text), kept);
        }
    }

    #[test]
    fn names_of_new_tables_have_no_blanks() {
        let made = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            let upper: Vec<&str> = words.iter().map(String::as_str).collect();
            created(&words, &upper)
        };
        assert_eq!(made("CREATE TABLE public.t a INT").expect("a name"), "t");
        assert_eq!(made("CREATE TABLE IF NOT EXISTS T").expect("a name"), "t");
        for name in ["public . t", "public. t", "public .t", "other.t"] {
            assert!(
                made(&format!("CREATE TABLE {name} a INT")).is_err(),
                "{name}"
            );
        }
    }

    #[test]
    fn tables_are_known_with_their_schemas() {
        for word in [
            "t",
            "T",
            "public.t",
            "nearfar.public.T",
            "\"t\"",
            "\"public\".\"t\"",
        ] {
            assert_eq!(table_name(word), "t");
        }
        assert_eq!(table_name("\"T\""), "T");
    }
}
