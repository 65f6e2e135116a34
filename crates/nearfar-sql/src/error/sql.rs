//! What can be wrong with a statement.

use nearfar_memory::{SpecError, UnknownTier};
use nearfar_table::error::{TableName, TemporaryLimit};
use nearfar_table::placement::StrategyError;

/// A statement that can't be read or carried out as it is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SqlError {
    /// The text is not SQL.
    #[error("syntax error: {message}")]
    Syntax {
        /// What was expected and where.
        message: String,
    },
    /// A statement that is too deep for the stacks of its parser and planner.
    #[error(
        "the statement is too complex: more than {limit} operators, joins or parentheses within each \
         other"
    )]
    TooDeep {
        /// As deep as it may be.
        limit: usize,
    },
    /// SQL that Nearfar does not carry out.
    #[error("{statement} is not supported: {instead}")]
    Unsupported {
        /// The statement or clause.
        statement: String,
        /// Why, or what to do instead.
        instead: String,
    },
    /// A tablespace that does not exist.
    #[error(transparent)]
    UnknownTablespace(UnknownTier),
    /// A tablespace that exists but that nothing can be put in.
    #[error("tablespace `{name}` can't be used: {reason}")]
    UnusableTablespace {
        /// The name given.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A `placement` that can't be read.
    #[error(transparent)]
    UnknownPlacement(#[from] SpecError),
    /// A `placement` of columns one by one that can't be carried out.
    #[error(transparent)]
    ColumnPlacement(StrategyError),
    /// A placement by access counts of a table that was never read.
    #[error(
        "no column of `{table}` has been read, so that none is the most accessed: run the queries first \
         that it is to be fast for (nearfar.column_access has the counts)"
    )]
    NeverRead {
        /// The table.
        table: String,
    },
    /// An option of a table that does not exist.
    #[error(
        "table option `{name}` is not known: there are placement, preload, and the TABLESPACE clause"
    )]
    UnknownOption {
        /// The option.
        name: String,
    },
    /// A priority of preloading that there is not.
    #[error(
        "preload `{text}` is no priority: use 0 (when a query needs it) to 9 (before all others)"
    )]
    PreloadPriority {
        /// The text given.
        text: String,
    },
    /// A table that is not there.
    #[error("table `{table}` does not exist")]
    UnknownTable {
        /// The table.
        table: String,
    },
    /// A view that is not there.
    #[error("view `{view}` does not exist")]
    UnknownView {
        /// The view.
        view: String,
    },
    /// A schema that is not there.
    #[error("schema `{schema}` does not exist: use CREATE SCHEMA first")]
    UnknownSchema {
        /// The schema.
        schema: String,
    },
    /// Two columns of one name.
    #[error("table `{table}` would have two columns named `{column}`: rename one with AS")]
    DuplicateColumn {
        /// The table.
        table: String,
        /// The name.
        column: String,
    },
    /// A column that is in one key twice.
    #[error("column \"{column}\" appears twice in {key} constraint")]
    TwiceInKey {
        /// The name.
        column: String,
        /// The kind of key.
        key: &'static str,
    },
    /// A column that an `INSERT` names twice.
    #[error("column \"{column}\" specified more than once")]
    GivenTwice {
        /// The name.
        column: String,
    },
    /// A column that is to have two new values.
    #[error("multiple assignments to same column \"{column}\"")]
    AssignedTwice {
        /// The name.
        column: String,
    },
    /// A column that is declared with several values for rows that give it none.
    #[error("{what} specified for column \"{column}\" of table \"{table}\"")]
    SeveralDefaults {
        /// What it has.
        what: &'static str,
        /// The column.
        column: String,
        /// The table.
        table: String,
    },
    /// A column that a table has already.
    #[error("column `{column}` of table `{table}` already exists")]
    ColumnExists {
        /// The table.
        table: String,
        /// The name.
        column: String,
    },
    /// A name of several columns.
    #[error("column `{column}` is ambiguous: several columns have this name")]
    AmbiguousColumn {
        /// The name.
        column: String,
    },
    /// Columns of which no unique index is.
    #[error("there is no unique or exclusion constraint matching the ON CONFLICT specification")]
    NoSuchKey,
    /// A row that a statement was to add or change, and then to change.
    #[error(
        "ON CONFLICT DO UPDATE command cannot affect row a second time: no two of the rows that it adds \
         may have one key"
    )]
    ChangedTwice,
    /// A row that two of another table are beside.
    #[error(
        "MERGE command cannot affect row a second time: only one row of the source may be beside each that it \
         changes"
    )]
    MergedTwice,
    /// An expression over several rows where there is one at a time.
    #[error("{what} are not allowed in {clause}")]
    Misplaced {
        /// The kind of expression.
        what: &'static str,
        /// Where it stands.
        clause: &'static str,
    },
    /// A query in the place of a value that gives several rows.
    #[error("a query that stands for a value gave more than one row")]
    SeveralRows,
    /// A table that can't be dropped or replaced yet.
    #[error("table `{table}` is read by view `{view}`: drop the view first")]
    InUse {
        /// The table.
        table: String,
        /// A view that reads it.
        view: String,
    },
    /// A table that has no segments, and so no tablespace.
    #[error(
        "`{table}` is {what}, not a table in memory: load it with CREATE TABLE … AS SELECT * FROM \
         {table}"
    )]
    NotInMemory {
        /// The table.
        table: String,
        /// What it is instead.
        what: &'static str,
    },
    /// A column that a table does not have.
    #[error("table `{table}` has no column `{column}`; it has: {}", known.join(", "))]
    UnknownColumn {
        /// The table.
        table: String,
        /// The column named.
        column: String,
        /// The columns that it has.
        known: Vec<String>,
    },
    /// An index that is not there.
    #[error("index \"{index}\" does not exist (nearfar.indexes has those that do)")]
    UnknownIndex {
        /// The index.
        index: String,
    },
    /// A constraint that is not there.
    #[error("constraint \"{constraint}\" of table `{table}` does not exist")]
    UnknownConstraint {
        /// The constraint.
        constraint: String,
        /// The table.
        table: String,
    },
    /// A constraint that is always checked behind each statement.
    #[error("constraint \"{constraint}\" is not deferrable")]
    NotDeferrable {
        /// The constraint.
        constraint: String,
    },
    /// A name that no constraint has that could be deferred.
    #[error("constraint \"{constraint}\" does not exist")]
    NoSuchConstraint {
        /// The name.
        constraint: String,
    },
    /// A name that another index, or a table, has.
    #[error("index \"{index}\": a table or index of its schema has this name already")]
    IndexExists {
        /// The index.
        index: String,
    },
    /// An index that a constraint needs.
    #[error(
        "index \"{index}\" is the constraint of table `{table}`: use ALTER TABLE {table} DROP CONSTRAINT \
         {index}"
    )]
    IndexOfConstraint {
        /// The index.
        index: String,
        /// The table.
        table: String,
    },
    /// An expression for a column of another type.
    #[error(
        "column \"{column}\" is of type {data_type} but default expression is of type {given}: cast it"
    )]
    DefaultType {
        /// The column.
        column: String,
        /// Its type.
        data_type: String,
        /// That of the expression.
        given: String,
    },
    /// Something that the expression of a default, or of a constraint, can't have.
    #[error("cannot use {what} in {clause}")]
    InExpression {
        /// What it has.
        what: &'static str,
        /// Of what it is the expression.
        clause: &'static str,
    },
    /// What can't be said of a sequence.
    #[error("{what}")]
    SequenceOption {
        /// What is wrong.
        what: String,
    },
    /// A sequence that has no more numbers.
    #[error("nextval: reached {bound} value of sequence \"{sequence}\" ({last})")]
    SequenceUsedUp {
        /// The sequence.
        sequence: String,
        /// Which end it has reached.
        bound: &'static str,
        /// Its last number.
        last: i64,
    },
    /// A number that a sequence never gives.
    #[error("setval: value {value} is out of bounds for sequence \"{sequence}\" ({min}..{max})")]
    SequenceOutOfBounds {
        /// The sequence.
        sequence: String,
        /// The number.
        value: i64,
        /// Its least number.
        min: i64,
        /// Its greatest number.
        max: i64,
    },
    /// The name of something else where a sequence is meant.
    #[error("\"{name}\" is not a sequence")]
    NoSequence {
        /// The name.
        name: String,
    },
    /// The name of a sequence where a table is meant.
    #[error("\"{name}\" is not a table: it is a sequence")]
    IsSequence {
        /// The name.
        name: String,
    },
    /// The last number of a sequence that has given none.
    #[error("{what} is not yet defined in this session")]
    NoSequenceValue {
        /// What was asked for.
        what: String,
    },
    /// A sequence that a column takes its values from.
    #[error(
        "cannot drop sequence {sequence} because column {column} of table {table} takes its values from \
         it: drop the column's default first"
    )]
    SequenceInUse {
        /// The sequence.
        sequence: String,
        /// The table.
        table: String,
        /// The column.
        column: String,
    },
    /// A value for a column that numbers itself.
    #[error(
        "cannot insert a non-DEFAULT value into column \"{column}\": it is GENERATED ALWAYS; use \
         OVERRIDING SYSTEM VALUE to override"
    )]
    GivenIdentity {
        /// The column.
        column: String,
    },
    /// Another value for a column that numbers itself.
    #[error("column \"{column}\" can only be updated to DEFAULT: it is GENERATED ALWAYS")]
    UpdatedIdentity {
        /// The column.
        column: String,
    },
    /// A second primary key.
    #[error("multiple primary keys for table `{table}` are not allowed")]
    SeveralPrimaryKeys {
        /// The table.
        table: String,
    },
    /// A table that is there already.
    #[error("table `{table}` already exists: drop it first, or use CREATE OR REPLACE TABLE")]
    TableExists {
        /// The table.
        table: String,
    },
    /// A select list or a result of too many columns.
    #[error("{columns} columns are too many: a query gives {columns_max} at most")]
    TooManyColumns {
        /// Its columns.
        columns: usize,
        /// The most that there may be.
        columns_max: usize,
    },
    /// A plan of too many steps.
    #[error(
        "the statement is too complex: its plan has more than {steps_max} steps, where everything \
         that a WITH or a view names counts as often as it is used"
    )]
    TooManySteps {
        /// The most that there may be.
        steps_max: usize,
    },
    /// Expressions of too many operators.
    #[error(
        "the statement is too complex: an expression has more than {operators_max} operators, where \
         the operands of BETWEEN, coalesce and comparisons of rows count as often as they are compared"
    )]
    TooManyOperators {
        /// The most that there may be.
        operators_max: u64,
    },
    /// A null in a column that allows none.
    #[error("column `{column}` of table `{table}` does not allow nulls, but {nulls} rows have one")]
    NullsNotAllowed {
        /// The table.
        table: Box<TableName>,
        /// The column.
        column: String,
        /// Rows with a null.
        nulls: usize,
    },
    /// A row that fails a condition.
    #[error(
        "new row for relation \"{table}\" violates check constraint \"{constraint}\": failing row ({row})"
    )]
    CheckViolated {
        /// The table.
        table: Box<TableName>,
        /// The constraint.
        constraint: String,
        /// The values of the row.
        row: String,
    },
    /// A row that refers to none.
    #[error(
        "insert or update on table \"{table}\" violates foreign key constraint \"{constraint}\": key {key} is not \
         present in table \"{parent}\""
    )]
    NoParent {
        /// The table.
        table: Box<TableName>,
        /// The constraint.
        constraint: String,
        /// The key, as in `(a, b)=(1, x)`.
        key: String,
        /// The table that it is to be in.
        parent: String,
    },
    /// A row that others refer to.
    #[error(
        "update or delete on table \"{parent}\" violates foreign key constraint \"{constraint}\" on table \
         \"{table}\": key {key} is still referenced"
    )]
    HasChildren {
        /// The table of the row.
        parent: String,
        /// The constraint.
        constraint: String,
        /// The table of the others.
        table: Box<TableName>,
        /// The key, as in `(a, b)=(1, x)`.
        key: String,
    },
    /// A row of whose columns that refer some are null, where all or none have to be.
    #[error(
        "insert or update on table \"{table}\" violates foreign key constraint \"{constraint}\": MATCH FULL does not \
         allow mixing of null and nonnull key values"
    )]
    HalfReference {
        /// The table.
        table: Box<TableName>,
        /// The constraint.
        constraint: String,
    },
    /// Rows that are there and fail a constraint that is to be added.
    #[error("{constraint} constraint \"{name}\" of relation \"{table}\" is violated by some row")]
    ViolatedByRows {
        /// The kind of constraint.
        constraint: &'static str,
        /// Its name.
        name: String,
        /// The table.
        table: Box<TableName>,
    },
    /// A foreign key to columns that are no key.
    #[error(
        "foreign key \"{constraint}\" refers to ({columns}) of table \"{parent}\", which no unique constraint is on: \
         give it a PRIMARY KEY or UNIQUE constraint of exactly these columns"
    )]
    NoParentKey {
        /// The constraint.
        constraint: String,
        /// The columns.
        columns: String,
        /// Their table.
        parent: String,
    },
    /// A foreign key between columns that can't be compared.
    #[error("foreign key \"{constraint}\" can't be: {given}, and {wanted}, which it refers to")]
    ReferenceType {
        /// The constraint.
        constraint: String,
        /// The column that refers, and its type: "`a` is Int32".
        given: String,
        /// The same of the column that is referred to.
        wanted: String,
    },
    /// A condition that is none.
    #[error("argument of CHECK must be of type boolean, and `{sql}` is {given}")]
    CheckType {
        /// The expression.
        sql: String,
        /// Its type.
        given: String,
    },
    /// A constraint of a name that another one has.
    #[error("constraint \"{constraint}\" for relation \"{table}\" already exists")]
    ConstraintExists {
        /// The name.
        constraint: String,
        /// The table.
        table: String,
    },
    /// A table or key that a foreign key of another table needs.
    #[error(
        "{what} can't be dropped: foreign key \"{constraint}\" of table \"{table}\" refers to it; drop that \
         constraint first"
    )]
    ReferredTo {
        /// What was to be dropped.
        what: String,
        /// The foreign key.
        constraint: String,
        /// The table that it is of.
        table: String,
    },
    /// A table that can't be emptied, since others refer to it.
    #[error(
        "cannot truncate table \"{table}\", which foreign key \"{constraint}\" of table \"{other}\" refers to: \
         truncate both in one TRUNCATE, or use DELETE"
    )]
    TruncateReferred {
        /// The table.
        table: String,
        /// The foreign key.
        constraint: String,
        /// The table that it is of.
        other: String,
    },
    /// A statement that uses files, in a session that may not.
    #[error("{statement} is refused: this session may not use files of the server's machine")]
    FilesRefused {
        /// The statement.
        statement: &'static str,
    },
    /// Temporary tables that would take more than their session may have.
    #[error(transparent)]
    TemporaryLimit(#[from] TemporaryLimit),
    /// An option of `COPY` that can't be so.
    #[error("option {option} of COPY: {why}")]
    CopyOption {
        /// The option.
        option: String,
        /// What it can be.
        why: String,
    },
    /// A setting that there is not.
    #[error("there is no setting `{name}`; there are: {}", known.join(", "))]
    UnknownSetting {
        /// The name given.
        name: String,
        /// The engine's own settings.
        known: Vec<String>,
    },
    /// A setting of the library below, which is not for users.
    #[error("setting `{name}` can't be changed: {instead}")]
    FixedSetting {
        /// The name given.
        name: String,
        /// What to do instead.
        instead: String,
    },
    /// A prepared statement that there is not.
    #[error("prepared statement \"{name}\" does not exist")]
    UnknownPrepared {
        /// The name given.
        name: String,
    },
    /// A prepared statement that there is already.
    #[error("prepared statement \"{name}\" already exists")]
    PreparedExists {
        /// The name given.
        name: String,
    },
    /// More prepared statements than a session may have.
    #[error("too many prepared statements: DEALLOCATE some of the {limit}")]
    TooManyPrepared {
        /// How many it may have.
        limit: usize,
    },
    /// A value that a setting can't have.
    #[error("setting `{name}` can't be `{value}`: {allowed}")]
    SettingValue {
        /// The setting.
        name: String,
        /// The value given.
        value: String,
        /// What it can be.
        allowed: String,
    },
    /// A cursor that there is not.
    #[error("cursor \"{name}\" does not exist")]
    UnknownCursor {
        /// The name given.
        name: String,
    },
    /// A name that a cursor has already.
    #[error("cursor \"{name}\" already exists")]
    CursorExists {
        /// The name.
        name: String,
    },
    /// Rows of a cursor that are behind it.
    #[error("cursor can only scan forward")]
    CursorBackward,
    /// A setting that may not have this value, for this client.
    #[error("permission denied to set {name} to \"{value}\"")]
    SettingRefused {
        /// The setting.
        name: String,
        /// The value given.
        value: String,
    },
    /// A regular expression that can't be compiled, or is too large when it is.
    #[error("invalid regular expression: {reason}")]
    Pattern {
        /// What is wrong with it.
        reason: String,
    },
}

impl SqlError {
    /// What is wrong with a regular expression, without the drawing of the place.
    pub(crate) fn pattern(error: &regex::Error) -> Self {
        let text = error.to_string();
        let last = text.lines().last().unwrap_or_default();
        Self::Pattern {
            reason: last.strip_prefix("error: ").unwrap_or(last).to_owned(),
        }
    }

    pub(crate) fn unsupported(statement: impl Into<String>, instead: impl Into<String>) -> Self {
        Self::Unsupported {
            statement: statement.into(),
            instead: instead.into(),
        }
    }
}
