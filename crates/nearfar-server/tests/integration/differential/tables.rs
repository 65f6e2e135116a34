//! Random tables: their columns, and the statements that fill and change them.

use super::kind::Kind;
use super::random::Random;

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub kind: Kind,
    sql_type: &'static str,
    null_percent: usize,
    /// The values that it has; any, where there are none.
    values: Vec<String>,
}

/// A table, about as long as it says.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    pub rows: usize,
}

/// A part of what makes tables.
#[derive(Clone, Debug)]
pub enum Step {
    /// For all engines.
    Statement(String),
    /// An insert, of rows that can be left out.
    Rows { table: String, rows: Vec<String> },
    /// For Nearfar alone.
    Ours(String),
}

impl Step {
    pub fn sql(&self) -> String {
        match self {
            Self::Statement(sql) | Self::Ours(sql) => sql.clone(),
            Self::Rows { table, rows } => {
                format!("INSERT INTO {table} VALUES {}", rows.join(", "))
            }
        }
    }
}

/// Tables, how they come to be, and what a transaction has changed of them that stays open.
#[derive(Clone, Debug)]
pub struct Tables {
    pub tables: Vec<Table>,
    pub steps: Vec<Step>,
    /// Changes of a transaction that the queries are part of.
    pub own_changes: Vec<Step>,
    /// Changes of a transaction that nobody sees.
    pub foreign_changes: Vec<Step>,
}

/// How large tables are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// A few dozen rows: any query can be run.
    Small,
    /// Several times a zone of a segment.
    Large,
    /// Several segments and a delta.
    Huge,
}

impl Tables {
    pub fn random(random: &mut Random, size: Size) -> Self {
        let count = random.between(2, 3);
        let mut made = Self {
            tables: Vec::new(),
            steps: Vec::new(),
            own_changes: Vec::new(),
            foreign_changes: Vec::new(),
        };
        for index in 0..count {
            let size = if index == 0 { size } else { Size::Small };
            made.add_table(format!("t{index}"), size, random);
        }
        if random.percent(30) {
            made.own_changes = made.changes(random);
        }
        if random.percent(30) {
            made.foreign_changes = made.changes(random);
        }
        if !made.own_changes.is_empty() {
            // Who changes the same rows would be waited for.
            let is_of_new_rows = |step: &Step| matches!(step, Step::Rows { .. });
            made.foreign_changes.retain(is_of_new_rows);
        }
        made
    }

    fn add_table(&mut self, name: String, size: Size, random: &mut Random) {
        let columns: Vec<_> = (0..random.between(3, 8))
            .map(|index| Column::random(index, random))
            .collect();
        let list: Vec<_> = columns
            .iter()
            .map(|column| format!("{} {}", column.name, column.sql_type))
            .collect();
        let create = format!("CREATE TABLE {name} ({})", list.join(", "));
        self.steps.push(Step::Statement(create));
        let mut table = Table {
            name,
            columns,
            rows: 0,
        };
        for _ in 0..random.between(0, 4) {
            self.steps.push(table.insert(random, 30));
            if random.percent(30) {
                self.steps.push(table.change(random));
            }
            if random.percent(30) {
                self.steps.push(table.merge());
            }
        }
        let wanted_rows = match size {
            Size::Small => 0,
            Size::Large => 10_000,
            Size::Huge => 150_000,
        };
        if wanted_rows > 0 {
            self.steps.push(table.insert(random, 300));
            self.steps.push(table.insert(random, 300));
        }
        while table.rows < wanted_rows {
            let copy = format!("INSERT INTO {0} SELECT * FROM {0}", table.name);
            self.steps.push(Step::Statement(copy));
            table.rows *= 2;
            match random.below(6) {
                0 => self.steps.push(table.merge()),
                1 => self.steps.push(table.change(random)),
                2 => self.steps.push(table.insert(random, 300)),
                _ => {}
            }
        }
        self.tables.push(table);
    }

    fn changes(&self, random: &mut Random) -> Vec<Step> {
        let mut steps = Vec::new();
        for table in &self.tables {
            let mut table = table.clone();
            match random.below(3) {
                0 => steps.push(table.insert(random, 20)),
                1 => steps.push(table.change(random)),
                _ => {}
            }
        }
        steps
    }
}

impl Table {
    fn insert(&mut self, random: &mut Random, rows_max: usize) -> Step {
        let rows: Vec<_> = (0..random.between(1, rows_max))
            .map(|_| self.row(random))
            .collect();
        self.rows += rows.len();
        Step::Rows {
            table: self.name.clone(),
            rows,
        }
    }

    fn row(&self, random: &mut Random) -> String {
        let values: Vec<_> = self.columns.iter().map(|c| c.value(random)).collect();
        format!("({})", values.join(", "))
    }

    /// A change of some rows, or their end.
    fn change(&self, random: &mut Random) -> Step {
        let column = random.pick(&self.columns);
        let operator = random.pick(&["=", "<>", "<", ">", "IS NOT DISTINCT FROM"]);
        let condition = format!("{} {operator} {}", column.name, column.value(random));
        let name = &self.name;
        Step::Statement(match random.percent(50) {
            true => format!("DELETE FROM {name} WHERE {condition}"),
            false => {
                let set = random.pick(&self.columns);
                let value = set.value(random);
                format!("UPDATE {name} SET {} = {value} WHERE {condition}", set.name)
            }
        })
    }

    fn merge(&self) -> Step {
        Step::Ours(format!("CALL nearfar.merge('{}')", self.name))
    }
}

impl Column {
    fn random(index: usize, random: &mut Random) -> Self {
        let kind = *random.pick(&Kind::ALL);
        let values = match random.below(3) {
            0 => (0..random.between(1, 5))
                .map(|_| kind.literal(random))
                .collect(),
            _ => Vec::new(),
        };
        Self {
            name: format!("c{index}"),
            kind,
            sql_type: *random.pick(kind.types()),
            null_percent: *random.pick(&[0, 10, 30, 90]),
            values,
        }
    }

    fn value(&self, random: &mut Random) -> String {
        if random.percent(self.null_percent) {
            return self.kind.null();
        }
        match self.values.is_empty() {
            false => random.pick(&self.values).clone(),
            true if random.percent(50) => self.kind.rare_literal(random),
            true => self.kind.literal(random),
        }
    }
}
