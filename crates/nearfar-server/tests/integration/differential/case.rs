//! A check that fails, made smaller, as a script.

use std::fmt::Write;
use std::time::{Duration, Instant};

use super::check::Check;
use super::setup::{Setup, Verdict};
use super::tables::{Step, Tables};

/// A check over tables.
#[derive(Clone, Debug)]
pub struct Case {
    pub tables: Tables,
    pub check: Option<Check>,
}

impl Case {
    /// What comes of it with servers and tables of its own.
    async fn verdict(&self, seed: Option<u64>) -> Verdict {
        let mut setup = match Setup::new(&self.tables, seed).await {
            Ok(setup) => setup,
            Err(failure) if failure.is_excused() => {
                let message = failure.message;
                return Verdict::Skipped { message };
            }
            Err(failure) => {
                let how = failure.message;
                return Verdict::Fails { how };
            }
        };
        let verdict = match &self.check {
            Some(check) => setup.check(check, &self.tables).await,
            None => setup.compare_tables(&self.tables).await,
        };
        setup.close().await;
        verdict
    }

    /// How it fails by itself, without moves: the beginning of what is told of it.
    async fn failure(&self) -> Option<String> {
        match self.verdict(None).await {
            Verdict::Fails { how } => how.split(':').next().map(str::to_owned),
            _ => None,
        }
    }

    /// The same with less, as far as that is found in time.
    pub async fn reduced(mut self, patience: Duration) -> Self {
        let until = Instant::now() + patience;
        let Some(failure) = self.failure().await else {
            return self;
        };
        while let Some(smaller) = self.smaller_one(&failure, until).await {
            self = smaller;
        }
        self
    }

    async fn smaller_one(&self, failure: &str, until: Instant) -> Option<Self> {
        for smaller in self.smaller() {
            if Instant::now() > until {
                return None;
            }
            if smaller.failure().await.as_deref() == Some(failure) {
                return Some(smaller);
            }
        }
        None
    }

    fn smaller(&self) -> Vec<Self> {
        let mut all = Vec::new();
        let mut push = |change: &dyn Fn(&mut Tables)| {
            let mut case = self.clone();
            change(&mut case.tables);
            all.push(case);
        };
        let tables = &self.tables;
        if !tables.own_changes.is_empty() {
            push(&|tables| tables.own_changes.clear());
        }
        if !tables.foreign_changes.is_empty() {
            push(&|tables| tables.foreign_changes.clear());
        }
        for index in (0..tables.steps.len()).rev() {
            push(&|tables| drop(tables.steps.remove(index)));
        }
        for (index, step) in tables.steps.iter().enumerate() {
            let Step::Rows { rows, .. } = step else {
                continue;
            };
            let half = rows.len() / 2;
            let ranges = match rows.len() {
                0 | 1 => Vec::new(),
                2..=6 => (0..rows.len()).map(|row| row..row + 1).collect(),
                count => vec![0..half, half..count],
            };
            for range in ranges {
                push(&|tables| {
                    if let Step::Rows { rows, .. } = &mut tables.steps[index] {
                        rows.drain(range.clone());
                    }
                });
            }
        }
        let checks = self.check.iter().flat_map(Check::smaller);
        all.extend(checks.map(|check| Self {
            tables: self.tables.clone(),
            check: Some(check),
        }));
        all
    }

    /// A script that shows it, and what comes of it.
    pub async fn script(&self, seed: u64) -> String {
        let (verdict, mover) = match self.verdict(None).await {
            Verdict::Fails { how } => (how, ""),
            _ => match self.verdict(Some(seed)).await {
                Verdict::Fails { how } => (how, " (only while tables move)"),
                _ => ("it did not happen again".to_owned(), ""),
            },
        };
        let mut text = format!("-- seed {seed}{mover}\n");
        for step in &self.tables.steps {
            let _ = writeln!(text, "{};", step.sql());
        }
        if !self.tables.own_changes.is_empty() {
            text.push_str("BEGIN;\n");
        }
        for step in &self.tables.own_changes {
            let _ = writeln!(text, "{};", step.sql());
        }
        if let Some(check) = &self.check {
            let (whole, parts) = check.sql();
            let _ = writeln!(text, "{whole};");
            for part in parts {
                let _ = writeln!(text, "{part};");
            }
        }
        for line in verdict.lines() {
            let _ = writeln!(text, "-- {line}");
        }
        text
    }
}
