//! `MERGE`, as the statements that it stands for.
//!
//! | part of `MERGE INTO t USING u ON c` | becomes |
//! |---|---|
//! | the rows of `WHEN MATCHED` and `WHEN NOT MATCHED` | `SELECT NULL FROM t RIGHT JOIN u ON c` |
//! | those of `WHEN NOT MATCHED BY SOURCE` | `SELECT NULL FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE c)` |
//! | `WHEN MATCHED AND a = 1` | `SELECT a = 1 FROM t, u`, of each row |
//! | `THEN UPDATE SET a = u.a` | `UPDATE t SET a = u.a FROM u` |
//! | `THEN INSERT (a) VALUES (u.a)` | `INSERT INTO t (a) SELECT u.a FROM u` |
//! | `THEN DELETE` | `DELETE FROM t` |

use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Assignment, Expr, Ident, Insert, Join, JoinConstraint, JoinOperator, Merge, MergeAction,
    MergeClause, MergeClauseKind, MergeInsertExpr, MergeInsertKind, MergeUpdateExpr, ObjectName,
    SelectItem, SetExpr, Statement as Ast, TableFactor, TableObject, TableWithJoins, Update,
    UpdateTableFromKind,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::changes::{delete_all, empty_select, select};
use super::rows_of_values;
use super::template::{null, parse, parse_statement};
use crate::sql::SqlError;
use crate::sql::defaults::{Overriding, fill_merged};
use crate::sql::script::is_space;
use nearfar_table::table::TableRules;

/// The column that marks an action for which the parser has no words; nobody can type its name.
const NOTHING: &str = "\u{2063}nothing";

/// The same of `INSERT DEFAULT VALUES`.
const ALL_DEFAULT: &str = "\u{2063}default";

/// A `MERGE`, in statements that the planner takes.
#[derive(Debug)]
pub(crate) struct MergeForms {
    /// A statement that deletes all rows of the table, and is not carried out.
    pub of_table: DfStatement,
    /// The query for the rows of both tables, if a clause is about these.
    pub joined: Option<DfStatement>,
    /// The query for the rows of the table that have none beside them, if a clause is about these.
    pub alone: Option<DfStatement>,
    /// What is done, in the order in which conditions are tried.
    pub clauses: Vec<MergeClauseForm>,
}

/// What is done with some of the rows.
#[derive(Debug)]
pub(crate) struct MergeClauseForm {
    pub when: MergeWhen,
    /// The query for what has to be true of a row, if anything has.
    pub condition: Option<DfStatement>,
    pub action: MergeActionForm,
}

/// Which rows a clause is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) enum MergeWhen {
    Matched,
    /// Rows of the source alone.
    NotMatched,
    /// Rows of the table alone.
    NotMatchedBySource,
}

/// What a clause does.
#[derive(Debug)]
pub(crate) enum MergeActionForm {
    Nothing,
    Delete,
    /// By this `UPDATE` of each row.
    Update(Box<Ast>),
    /// By a row of the source each.
    Insert(Box<MergeInsert>),
}

/// The rows that a clause adds.
#[derive(Debug)]
pub(crate) struct MergeInsert {
    table: ObjectName,
    source: TableWithJoins,
    /// None where these are the table's first ones.
    columns: Vec<ObjectName>,
    /// None where all are left to the table.
    values: Option<Vec<Expr>>,
}

impl MergeInsert {
    /// The `INSERT` of a row for each of the source, into a table of these columns.
    ///
    /// # Errors
    /// More or fewer values than columns; a value for a column that takes none.
    pub fn statement(mut self, all: &[String], rules: &TableRules) -> Result<Ast, SqlError> {
        let named = |column: &String| ObjectName::from(vec![Ident::with_quote('"', column)]);
        let values = self.values.take();
        let mut values = values.unwrap_or_else(|| vec![keyword("DEFAULT"); all.len()]);
        if self.columns.is_empty() {
            self.columns = all.iter().take(values.len()).map(named).collect();
        }
        let message = match values.len().cmp(&self.columns.len()) {
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Less => Some("INSERT has more target columns than expressions"),
            std::cmp::Ordering::Greater => Some("INSERT has more expressions than target columns"),
        };
        if let Some(message) = message {
            return Err(syntax(message));
        }
        let names = self.columns.iter().map(last_name).collect::<Vec<_>>();
        fill_merged(&names, &mut values, rules)?;
        let values = values.into_iter().map(SelectItem::UnnamedExpr).collect();
        let DfStatement::Statement(query) = select(values, vec![self.source], None)? else {
            return Err(syntax("MERGE"));
        };
        let Ast::Query(query) = *query else {
            return Err(syntax("MERGE"));
        };
        let Ast::Insert(insert) = parse_statement("INSERT INTO t SELECT 1")? else {
            return Err(syntax("MERGE"));
        };
        let mut insert = Insert {
            table: TableObject::TableName(self.table),
            columns: self.columns,
            source: Some(query),
            ..insert
        };
        // Values of identities are those of their sequences, or refused by now.
        Overriding::System.mark_insert(&mut insert);
        let mut insert = Ast::Insert(insert);
        rows_of_values::rewrite(&mut insert)?;
        Ok(insert)
    }
}

/// The parts of a `MERGE`. None for all other statements.
///
/// # Errors
/// A form that is wrong, or known not to be supported.
pub(crate) fn merge_forms(ast: &Ast) -> Result<Option<MergeForms>, SqlError> {
    let Ast::Merge(merge) = ast else {
        return Ok(None);
    };
    if merge.output.is_some() {
        let instead = "query the rows before or after it, in the same transaction";
        return Err(SqlError::unsupported("MERGE … RETURNING", instead));
    }
    check_reached(&merge.clauses)?;
    let tables = Tables::of(merge)?;
    let clauses = merge.clauses.iter().map(|clause| tables.clause(clause));
    let clauses = clauses.collect::<Result<Vec<_>, SqlError>>()?;
    let is_about = |when| clauses.iter().any(|clause| clause.when == when);
    let nothing = || vec![SelectItem::UnnamedExpr(null())];
    let joined = match (
        is_about(MergeWhen::NotMatched),
        is_about(MergeWhen::Matched),
    ) {
        (false, false) => None,
        (has_new, _) => Some(select(nothing(), tables.joined(merge, has_new), None)?),
    };
    let alone = match is_about(MergeWhen::NotMatchedBySource) {
        true => {
            let is_alone = tables.is_alone(merge)?;
            let table = vec![tables.target.clone()];
            Some(select(nothing(), table, Some(is_alone))?)
        }
        false => None,
    };
    Ok(Some(MergeForms {
        of_table: delete_all(&tables.target)?,
        joined,
        alone,
        clauses,
    }))
}

/// The columns that clauses assign and give values to.
pub(super) fn named_columns(merge: &mut Merge) -> impl Iterator<Item = MergeColumns<'_>> {
    merge
        .clauses
        .iter_mut()
        .filter_map(|clause| match &mut clause.action {
            MergeAction::Update(update) => Some(MergeColumns::Assigned(&mut update.assignments)),
            MergeAction::Insert(insert) => Some(MergeColumns::Given(&mut insert.columns)),
            MergeAction::Delete { .. } => None,
        })
}

/// The columns that a clause names.
pub(super) enum MergeColumns<'a> {
    Assigned(&'a mut [Assignment]),
    Given(&'a mut [ObjectName]),
}

/// Refuses clauses that come behind one which takes all rows of their kind.
fn check_reached(clauses: &[MergeClause]) -> Result<(), SqlError> {
    if clauses.is_empty() {
        return Err(syntax("MERGE needs a WHEN clause"));
    }
    for (at, clause) in clauses.iter().enumerate() {
        let takes_all = |before: &MergeClause| {
            before.predicate.is_none() && when(before.clause_kind) == when(clause.clause_kind)
        };
        if clauses[..at].iter().any(takes_all) {
            let message = "unreachable WHEN clause specified after unconditional WHEN clause";
            return Err(syntax(message));
        }
    }
    Ok(())
}

fn when(kind: MergeClauseKind) -> MergeWhen {
    match kind {
        MergeClauseKind::Matched => MergeWhen::Matched,
        MergeClauseKind::NotMatched | MergeClauseKind::NotMatchedByTarget => MergeWhen::NotMatched,
        MergeClauseKind::NotMatchedBySource => MergeWhen::NotMatchedBySource,
    }
}

/// The tables of a `MERGE`.
struct Tables {
    name: ObjectName,
    target: TableWithJoins,
    source: TableWithJoins,
}

impl Tables {
    fn of(merge: &Merge) -> Result<Self, SqlError> {
        let TableFactor::Table { name, .. } = &merge.table else {
            let what = "a MERGE into what is not a table";
            return Err(SqlError::unsupported(what, "name a table"));
        };
        let plain = |relation: &TableFactor| TableWithJoins {
            relation: relation.clone(),
            joins: Vec::new(),
        };
        Ok(Self {
            name: name.clone(),
            target: plain(&merge.table),
            source: plain(&merge.source),
        })
    }

    /// Both, with the rows of the source that have none beside them where those are asked for.
    fn joined(&self, merge: &Merge, has_new: bool) -> Vec<TableWithJoins> {
        let on = JoinConstraint::On((*merge.on).clone());
        let join = Join {
            relation: merge.source.clone(),
            global: false,
            join_operator: match has_new {
                true => JoinOperator::RightOuter(on),
                false => JoinOperator::Inner(on),
            },
        };
        vec![TableWithJoins {
            relation: merge.table.clone(),
            joins: vec![join],
        }]
    }

    /// That the source has no row for one of the table.
    fn is_alone(&self, merge: &Merge) -> Result<Expr, SqlError> {
        let mut found = empty_select("SELECT 1")?;
        found.from = vec![self.source.clone()];
        found.selection = Some((*merge.on).clone());
        let mut subquery = parse("SELECT 1")?;
        *subquery.body = SetExpr::Select(found);
        Ok(Expr::Exists {
            subquery: Box::new(subquery),
            negated: true,
        })
    }

    /// Those whose columns a clause can name.
    fn visible(&self, when: MergeWhen) -> Vec<TableWithJoins> {
        match when {
            MergeWhen::Matched => vec![self.target.clone(), self.source.clone()],
            MergeWhen::NotMatched => vec![self.source.clone()],
            MergeWhen::NotMatchedBySource => vec![self.target.clone()],
        }
    }

    fn clause(&self, clause: &MergeClause) -> Result<MergeClauseForm, SqlError> {
        let when = when(clause.clause_kind);
        let condition = clause.predicate.as_ref().map(|condition| {
            let condition = vec![SelectItem::UnnamedExpr(condition.clone())];
            select(condition, self.visible(when), None)
        });
        let action = match &clause.action {
            MergeAction::Delete { .. } => MergeActionForm::Delete,
            MergeAction::Update(update) => self.update(when, update)?,
            MergeAction::Insert(insert) => self.insert(insert)?,
        };
        Ok(MergeClauseForm {
            when,
            condition: condition.transpose()?,
            action,
        })
    }

    fn update(
        &self,
        when: MergeWhen,
        update: &MergeUpdateExpr,
    ) -> Result<MergeActionForm, SqlError> {
        if update.update_predicate.is_some() || update.delete_predicate.is_some() {
            return Err(syntax("a condition of a MERGE stands behind WHEN … AND"));
        }
        let assignments = update.assignments.clone();
        if let [only] = &assignments[..]
            && only.target.to_string().contains(NOTHING)
        {
            return Ok(MergeActionForm::Nothing);
        }
        let Ast::Update(empty) = parse_statement("UPDATE t SET a = 1")? else {
            return Err(syntax("MERGE"));
        };
        let from = match when {
            MergeWhen::Matched => Some(UpdateTableFromKind::AfterSet(vec![self.source.clone()])),
            MergeWhen::NotMatched | MergeWhen::NotMatchedBySource => None,
        };
        Ok(MergeActionForm::Update(Box::new(Ast::Update(Update {
            table: self.target.clone(),
            assignments,
            from,
            ..empty
        }))))
    }

    fn insert(&self, insert: &MergeInsertExpr) -> Result<MergeActionForm, SqlError> {
        let mut columns = insert.columns.clone();
        let marked = match &columns[..] {
            [only] => last_name(only),
            _ => String::new(),
        };
        if marked == NOTHING {
            return Ok(MergeActionForm::Nothing);
        }
        let values = match &insert.kind {
            _ if marked == ALL_DEFAULT => {
                columns.clear();
                None
            }
            MergeInsertKind::Values(values) => match &values.rows[..] {
                [row] => Some(row.content.clone()),
                _ => return Err(syntax("a MERGE adds one row for each of the source")),
            },
            MergeInsertKind::Row => return Err(syntax("INSERT ROW: give VALUES")),
        };
        if insert.insert_predicate.is_some() {
            return Err(syntax("a condition of a MERGE stands behind WHEN … AND"));
        }
        Ok(MergeActionForm::Insert(Box::new(MergeInsert {
            table: self.name.clone(),
            source: self.source.clone(),
            columns,
            values,
        })))
    }
}

fn last_name(name: &ObjectName) -> String {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.map(|ident| ident.value.clone()).unwrap_or_default()
}

fn keyword(word: &str) -> Expr {
    Expr::Identifier(Ident::new(word))
}

fn syntax(message: &str) -> SqlError {
    SqlError::Syntax {
        message: message.to_owned(),
    }
}

/// Writes `THEN DO NOTHING` and `THEN INSERT DEFAULT VALUES`, which the parser does not read, as actions of marked
/// columns.
pub(in crate::sql) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let places: Vec<usize> = (0..tokens.len())
        .filter(|at| !is_space(&tokens[*at].token))
        .collect();
    let word = |at: usize| match places.get(at).map(|place| &tokens[*place].token) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    };
    let mut adds = false;
    let mut marked = Vec::new();
    for at in 0..places.len() {
        if word(at) == "matched" {
            let is_by_source = word(at + 1) == "by" && word(at + 2) == "source";
            adds = at > 0 && word(at - 1) == "not" && !is_by_source;
        }
        if word(at) != "then" {
            continue;
        }
        let action = [word(at + 1), word(at + 2), word(at + 3)];
        let action = [action[0].as_str(), action[1].as_str(), action[2].as_str()];
        match action {
            ["do", "nothing", _] => marked.push((places[at + 1]..=places[at + 2], adds, NOTHING)),
            ["insert", "default", "values"] => {
                marked.push((places[at + 1]..=places[at + 3], true, ALL_DEFAULT));
            }
            _ => {}
        }
    }
    for (places, adds, column) in marked.into_iter().rev() {
        let span = tokens[*places.start()].span;
        let action = action_on(column, adds).into_iter();
        tokens.splice(places, action.map(|token| TokenWithSpan { token, span }));
    }
}

/// `INSERT (column) VALUES (NULL)` or `UPDATE SET column = NULL`.
fn action_on(column: &str, adds: bool) -> Vec<Token> {
    let word = |keyword: Keyword, text: &str| {
        Token::Word(Word {
            value: text.to_owned(),
            quote_style: None,
            keyword,
        })
    };
    let column = Token::make_word(column, Some('"'));
    match adds {
        true => vec![
            word(Keyword::INSERT, "INSERT"),
            Token::LParen,
            column,
            Token::RParen,
            word(Keyword::VALUES, "VALUES"),
            Token::LParen,
            word(Keyword::NULL, "NULL"),
            Token::RParen,
        ],
        false => vec![
            word(Keyword::UPDATE, "UPDATE"),
            word(Keyword::SET, "SET"),
            column,
            Token::Eq,
            word(Keyword::NULL, "NULL"),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{StatementKind, statements};
    use super::*;

    fn forms(sql: &str) -> Result<MergeForms, SqlError> {
        let statement = statements(sql)?.remove(0);
        let StatementKind::DataFusion { statement, .. } = statement.kind() else {
            panic!("{sql}");
        };
        let DfStatement::Statement(ast) = statement.as_ref() else {
            panic!("{sql}");
        };
        Ok(merge_forms(ast)?.expect("a MERGE"))
    }

    #[test]
    fn a_merge_becomes_statements() {
        let sql = "MERGE INTO s.t AS x USING (SELECT 1 AS k) AS u ON x.k = u.k \
                   WHEN MATCHED AND x.a = 1 THEN UPDATE SET A = u.k \
                   WHEN MATCHED THEN DO NOTHING \
                   WHEN NOT MATCHED THEN INSERT (K, a) VALUES (u.k, DEFAULT) \
                   WHEN NOT MATCHED BY SOURCE AND x.a > 2 THEN DELETE";
        let forms = forms(sql).expect(sql);
        let text = |query: &Option<DfStatement>| query.as_ref().map(ToString::to_string);
        assert_eq!(
            text(&forms.joined).as_deref(),
            Some("SELECT NULL FROM s.t AS x RIGHT OUTER JOIN (SELECT 1 AS k) AS u ON x.k = u.k")
        );
        assert_eq!(
            text(&forms.alone).as_deref(),
            Some(
                "SELECT NULL FROM s.t AS x WHERE NOT EXISTS \
                 (SELECT 1 FROM (SELECT 1 AS k) AS u WHERE x.k = u.k)"
            )
        );
        let mut clauses = forms.clauses.into_iter();
        let first = clauses.next().expect("an update");
        assert_eq!(
            text(&first.condition).as_deref(),
            Some("SELECT x.a = 1 FROM s.t AS x, (SELECT 1 AS k) AS u")
        );
        match first.action {
            MergeActionForm::Update(update) => assert_eq!(
                update.to_string(),
                "UPDATE s.t AS x SET a = u.k FROM (SELECT 1 AS k) AS u"
            ),
            other => panic!("{other:?}"),
        }
        let second = clauses.next().expect("nothing");
        assert!(matches!(second.action, MergeActionForm::Nothing));
        let MergeActionForm::Insert(insert) = clauses.next().expect("an insert").action else {
            panic!("no insert");
        };
        let columns = ["k".to_owned(), "a".to_owned()];
        let insert = insert.statement(&columns, &TableRules::default());
        let text = insert.expect("two values").to_string();
        assert!(
            text.ends_with("SELECT u.k, NULL FROM (SELECT 1 AS k) AS u"),
            "{text}"
        );
        assert!(text.contains("INTO s.t (k, a)"), "{text}");
        let last = clauses.next().expect("a deletion");
        assert_eq!(last.when, MergeWhen::NotMatchedBySource);
        assert!(matches!(last.action, MergeActionForm::Delete));
    }

    #[test]
    fn wrong_merges_are_refused() {
        let begin = "MERGE INTO t USING u ON t.a = u.a ";
        for rest in [
            "WHEN MATCHED THEN DELETE WHEN MATCHED AND t.a = 1 THEN DO NOTHING",
            "WHEN NOT MATCHED THEN DO NOTHING WHEN NOT MATCHED BY TARGET THEN INSERT VALUES (1)",
            "WHEN NOT MATCHED THEN INSERT VALUES (1), (2)",
            "WHEN NOT MATCHED THEN DELETE",
            "WHEN MATCHED THEN INSERT VALUES (1)",
            "WHEN MATCHED THEN DELETE RETURNING *",
            "",
        ] {
            assert!(forms(&format!("{begin}{rest}")).is_err(), "{rest}");
        }
        let insert = "WHEN NOT MATCHED THEN INSERT VALUES (1, 2, 3)";
        let clause = forms(&format!("{begin}{insert}"))
            .expect(insert)
            .clauses
            .remove(0);
        let MergeActionForm::Insert(insert) = clause.action else {
            panic!("no insert");
        };
        let columns = ["a".to_owned(), "b".to_owned()];
        assert!(insert.statement(&columns, &TableRules::default()).is_err());
    }
}
