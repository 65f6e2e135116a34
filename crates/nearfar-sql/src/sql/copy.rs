//! `COPY` from files, from clients and to clients.

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    CopyLegacyCsvOption, CopyLegacyOption, CopyOption, CopySource, CopyTarget, Ident, ObjectName,
    Statement as Ast,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::SqlError;
use super::depth::PARSER_STEPS_MAX;
use super::rewrite;
use super::script::{DIALECT, is_space};
use super::statement::{StatementKind, expect_end, syntax};

/// `COPY table FROM 'file'`.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyFrom {
    /// The table that gets the rows.
    pub table: ObjectName,
    /// The file or folder.
    pub path: String,
    /// The format, where it is not the one of the file's ending.
    pub format: Option<String>,
    /// Whether a CSV file begins with the columns' names.
    pub header: bool,
    /// What separates the values of a CSV file.
    pub delimiter: char,
}

/// `COPY table [(columns)] FROM STDIN`: rows that a client sends.
#[derive(Debug, Clone, PartialEq)]
pub struct CopyIn {
    /// The table that gets the rows.
    pub table: ObjectName,
    /// The columns that values are given for; all in their order where it is empty.
    pub columns: Vec<Ident>,
    /// How rows are written.
    pub options: CopyOptions,
}

/// `COPY table|(query) TO STDOUT`: rows that a client is sent.
#[derive(Debug, Clone)]
pub struct CopyOut {
    pub(crate) query: Box<DfStatement>,
    /// How rows are written.
    pub options: CopyOptions,
}

/// What a statement copies from or to the client.
#[derive(Debug, Clone, Copy)]
pub enum ClientCopy<'a> {
    /// Rows that the client sends.
    In(&'a CopyIn),
    /// Rows that it is sent.
    Out(&'a CopyOut),
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyFormat {
    /// PostgreSQL's own: values between tabs, with backslashes before what is special.
    Text,
    /// Values between commas, quoted where that is necessary.
    Csv,
    /// PostgreSQL's binary form: values as the wire protocol has them in binary, each behind its length.
    Binary,
}

/// How the rows of a `COPY` are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOptions {
    /// The format.
    pub format: CopyFormat,
    /// Whether the first row has the names of the columns.
    pub header: bool,
    /// What separates values.
    pub delimiter: u8,
    /// What stands for null where it is not quoted.
    pub null: String,
    /// What values of CSV stand between.
    pub quote: u8,
    /// What stands before a quote within quotes.
    pub escape: u8,
}

/// Spells the values of options that are on or off as the parser reads them.
fn spell_truths(tokens: &mut [TokenWithSpan]) {
    let mut is_option = false;
    for token in tokens.iter_mut().filter(|token| !is_space(&token.token)) {
        let truth = match &token.token {
            Token::Word(word) if word.value.eq_ignore_ascii_case("on") => Some("TRUE"),
            Token::Word(word) if word.value.eq_ignore_ascii_case("off") => Some("FALSE"),
            _ => None,
        };
        if let (true, Some(truth)) = (is_option, truth) {
            token.token = Token::make_keyword(truth);
        }
        let options = [Keyword::FREEZE, Keyword::HEADER];
        is_option = matches!(&token.token, Token::Word(word) if options.contains(&word.keyword));
    }
}

/// The statement that begins with `COPY` and is not left to DataFusion.
///
/// # Errors
/// A clause that is not supported.
pub(super) fn parse_copy(mut tokens: Vec<TokenWithSpan>) -> Result<StatementKind, SqlError> {
    spell_truths(&mut tokens);
    let mut parser = Parser::new(&DIALECT)
        .with_tokens_with_locations(tokens)
        .with_recursion_limit(PARSER_STEPS_MAX);
    let parsed = parser.parse_statement().map_err(syntax)?;
    expect_end(&mut parser)?;
    let Ast::Copy {
        source,
        to,
        target,
        options,
        legacy_options,
        ..
    } = parsed
    else {
        return Err(unsupported("this clause"));
    };
    match (target, to) {
        (CopyTarget::Stdin, false) => {
            let CopySource::Table {
                table_name,
                columns,
            } = source
            else {
                return Err(unsupported("a query"));
            };
            Ok(StatementKind::CopyIn(CopyIn {
                table: table_name,
                columns,
                options: given_options(options, legacy_options)?,
            }))
        }
        (CopyTarget::Stdout, true) => Ok(StatementKind::CopyOut(CopyOut {
            query: Box::new(copied_query(source)?),
            options: given_options(options, legacy_options)?,
        })),
        (CopyTarget::File { filename }, false) if legacy_options.is_empty() => {
            from_file(source, filename, options).map(StatementKind::CopyFrom)
        }
        (CopyTarget::File { .. }, false) => Err(unsupported("options outside of parentheses")),
        (target, _) => Err(unsupported(&target.to_string())),
    }
}

fn unsupported(clause: &str) -> SqlError {
    SqlError::unsupported(
        format!("COPY with {clause}"),
        "use COPY table FROM 'file', COPY table FROM STDIN or COPY table TO STDOUT",
    )
}

fn copied_query(source: CopySource) -> Result<DfStatement, SqlError> {
    let query = match source {
        CopySource::Query(query) => DfStatement::Statement(Box::new(Ast::Query(query))),
        CopySource::Table {
            table_name,
            columns,
        } => {
            let columns: Vec<String> = columns.iter().map(ToString::to_string).collect();
            let columns = match &columns[..] {
                [] => "*".to_owned(),
                some => some.join(", "),
            };
            rewrite::parse_query(&format!("SELECT {columns} FROM {table_name}"))?
        }
    };
    Ok(rewrite::rewrite(query)?.0)
}

fn from_file(
    source: CopySource,
    path: String,
    options: Vec<CopyOption>,
) -> Result<CopyFrom, SqlError> {
    let table = match source {
        CopySource::Table {
            table_name,
            columns,
        } if columns.is_empty() => table_name,
        CopySource::Table { .. } => return Err(unsupported("a file and a list of columns")),
        CopySource::Query(_) => return Err(unsupported("a query")),
    };
    let mut copy = CopyFrom {
        table,
        path,
        format: None,
        header: true,
        delimiter: ',',
    };
    for option in options {
        match option {
            CopyOption::Format(format) => copy.format = Some(format.value),
            CopyOption::Header(header) => copy.header = header,
            CopyOption::Delimiter(delimiter) => copy.delimiter = delimiter,
            other => return Err(unsupported(&format!("a file and {other}"))),
        }
    }
    Ok(copy)
}

/// Options as they are written, before those that are not given follow from the format.
#[derive(Default)]
struct Given {
    format: Option<CopyFormat>,
    header: bool,
    delimiter: Option<char>,
    null: Option<String>,
    quote: Option<char>,
    escape: Option<char>,
}

fn given_options(
    options: Vec<CopyOption>,
    legacy_options: Vec<CopyLegacyOption>,
) -> Result<CopyOptions, SqlError> {
    let mut given = Given::default();
    for option in options {
        match option {
            CopyOption::Format(name) => {
                given.format = Some(match name.value.to_ascii_lowercase().as_str() {
                    "text" => CopyFormat::Text,
                    "csv" => CopyFormat::Csv,
                    "binary" => CopyFormat::Binary,
                    other => return Err(format_refused(other)),
                });
            }
            CopyOption::Header(header) => given.header = header,
            CopyOption::Delimiter(delimiter) => given.delimiter = Some(delimiter),
            CopyOption::Null(null) => given.null = Some(null),
            CopyOption::Quote(quote) => given.quote = Some(quote),
            CopyOption::Escape(escape) => given.escape = Some(escape),
            // Rows are seen by who may see them, frozen or not.
            CopyOption::Freeze(_) => {}
            CopyOption::Encoding(name) if is_utf8(&name) => {}
            other => return Err(unsupported(&other.to_string())),
        }
    }
    for option in legacy_options {
        match option {
            CopyLegacyOption::Csv(options) => {
                given.format = Some(CopyFormat::Csv);
                given.take_csv(options)?;
            }
            CopyLegacyOption::Header => given.header = true,
            CopyLegacyOption::Delimiter(delimiter) => given.delimiter = Some(delimiter),
            CopyLegacyOption::Null(null) => given.null = Some(null),
            CopyLegacyOption::Binary => given.format = Some(CopyFormat::Binary),
            other => return Err(unsupported(&other.to_string())),
        }
    }
    given.complete()
}

fn format_refused(name: &str) -> SqlError {
    SqlError::unsupported(
        format!("COPY with FORMAT {name}"),
        "clients copy rows as text, csv or binary",
    )
}

fn is_utf8(name: &str) -> bool {
    ["utf8", "utf-8", "unicode"].contains(&name.to_ascii_lowercase().as_str())
}

impl Given {
    fn take_csv(&mut self, options: Vec<CopyLegacyCsvOption>) -> Result<(), SqlError> {
        for option in options {
            match option {
                CopyLegacyCsvOption::Header => self.header = true,
                CopyLegacyCsvOption::Quote(quote) => self.quote = Some(quote),
                CopyLegacyCsvOption::Escape(escape) => self.escape = Some(escape),
                other => return Err(unsupported(&other.to_string())),
            }
        }
        Ok(())
    }

    fn complete(self) -> Result<CopyOptions, SqlError> {
        let format = self.format.unwrap_or(CopyFormat::Text);
        let (delimiter, null) = match format {
            CopyFormat::Text | CopyFormat::Binary => ('\t', "\\N"),
            CopyFormat::Csv => (',', ""),
        };
        if format != CopyFormat::Csv && (self.quote.is_some() || self.escape.is_some()) {
            return Err(wrong("QUOTE and ESCAPE", "they are for FORMAT csv"));
        }
        let is_of_text = self.header || self.delimiter.is_some() || self.null.is_some();
        if format == CopyFormat::Binary && is_of_text {
            let options = "HEADER, DELIMITER and NULL";
            return Err(wrong(options, "they are not for FORMAT binary"));
        }
        let delimiter = byte("DELIMITER", self.delimiter.unwrap_or(delimiter))?;
        let quote = byte("QUOTE", self.quote.unwrap_or('"'))?;
        let escape = match self.escape {
            Some(escape) => byte("ESCAPE", escape)?,
            None => quote,
        };
        let null = self.null.unwrap_or_else(|| null.to_owned());
        // As in PostgreSQL: these have a meaning behind a backslash.
        let is_special = |byte: u8| matches!(byte, b'\\' | b'.' | b'a'..=b'z' | b'0'..=b'9');
        match format {
            CopyFormat::Text if is_special(delimiter) => {
                return Err(wrong(
                    "DELIMITER",
                    "it can't be a small letter, digit, dot or \\",
                ));
            }
            CopyFormat::Csv if delimiter == quote => {
                return Err(wrong("DELIMITER", "it can't be the QUOTE"));
            }
            _ => {}
        }
        if null.contains(['\n', '\r', char::from(delimiter)])
            || (format == CopyFormat::Csv && null.contains(char::from(quote)))
        {
            return Err(wrong(
                "NULL",
                "it can't have a line break, DELIMITER or QUOTE",
            ));
        }
        Ok(CopyOptions {
            format,
            header: self.header,
            delimiter,
            null,
            quote,
            escape,
        })
    }
}

fn byte(option: &str, value: char) -> Result<u8, SqlError> {
    match u8::try_from(value) {
        Ok(byte) if byte.is_ascii() && !matches!(byte, b'\n' | b'\r' | 0) => Ok(byte),
        _ => Err(wrong(
            option,
            "use a single character of ASCII, no line break",
        )),
    }
}

fn wrong(option: &str, why: &str) -> SqlError {
    SqlError::CopyOption {
        option: option.to_owned(),
        why: why.to_owned(),
    }
}

/// Whether a `COPY` is read here: from anything, and to the client.
pub(super) fn is_read_here(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0usize;
    let mut is_to = false;
    for token in tokens {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) if depth == 0 => match word.keyword {
                Keyword::FROM if !is_to => return true,
                Keyword::TO => is_to = true,
                Keyword::STDOUT if is_to => return true,
                _ if is_to => return false,
                _ => {}
            },
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::statement::statements;
    use super::*;

    fn options(sql: &str) -> CopyOptions {
        let read = statements(sql).expect(sql).remove(0);
        match read.client_copy() {
            Some(ClientCopy::In(copy)) => copy.options.clone(),
            Some(ClientCopy::Out(copy)) => copy.options.clone(),
            None => panic!("{sql}"),
        }
    }

    #[test]
    fn options_of_both_spellings_are_read() {
        let text = options("COPY t FROM STDIN");
        assert_eq!((text.format, text.delimiter), (CopyFormat::Text, b'\t'));
        assert_eq!((text.null.as_str(), text.header), ("\\N", false));
        let csv = CopyOptions {
            format: CopyFormat::Csv,
            header: true,
            delimiter: b';',
            null: "none".to_owned(),
            quote: b'\'',
            escape: b'\'',
        };
        for sql in [
            "COPY t TO STDOUT (FORMAT csv, HEADER, DELIMITER ';', NULL 'none', QUOTE '''')",
            "copy t (a, b) from stdin with delimiter as ';' null as 'none' csv header quote as ''''",
            "COPY t TO STDOUT (FORMAT csv, HEADER on, FREEZE off, DELIMITER ';', NULL 'none', QUOTE '''')",
            "COPY (SELECT a FROM t) TO STDOUT WITH (FORMAT CSV, HEADER TRUE, DELIMITER ';', \
             NULL 'none', QUOTE '''')",
        ] {
            assert_eq!(options(sql), csv, "{sql}");
        }
        assert_eq!(
            options("COPY t TO STDOUT WITH DELIMITER '|'").delimiter,
            b'|'
        );
        for sql in [
            "COPY t FROM STDIN (FORMAT binary)",
            "COPY t TO STDOUT BINARY",
        ] {
            assert_eq!(options(sql).format, CopyFormat::Binary, "{sql}");
        }
    }

    #[test]
    fn what_can_t_be_is_refused() {
        for sql in [
            "COPY t FROM STDIN (FORMAT parquet)",
            "COPY t FROM STDIN (FORCE_NULL (a))",
            "COPY t FROM PROGRAM 'ls'",
            "COPY t FROM STDIN (ENCODING 'LATIN1')",
        ] {
            let error = statements(sql).expect_err(sql);
            assert!(
                matches!(error, SqlError::Unsupported { .. }),
                "{sql}: {error}"
            );
        }
        for sql in [
            "COPY t FROM STDIN (DELIMITER 'a')",
            "COPY t FROM STDIN (QUOTE '\"')",
            "COPY t FROM STDIN (FORMAT csv, DELIMITER '\"')",
            "COPY t FROM STDIN (FORMAT csv, NULL 'a,b')",
            "COPY t FROM STDIN (FORMAT binary, NULL '')",
            "COPY t TO STDOUT (FORMAT binary, HEADER)",
            "COPY t TO STDOUT (FORMAT binary, QUOTE '\"')",
        ] {
            let error = statements(sql).expect_err(sql);
            assert!(
                matches!(error, SqlError::CopyOption { .. }),
                "{sql}: {error}"
            );
        }
    }
}
