//! What settings were before a transaction, or a part of it behind a savepoint, has changed them.
//!
//! A transaction is the first of several scopes, and each savepoint begins another. The first change of a setting in
//! a scope keeps the value from before. What ends with the transaction is told apart from what stays after a commit.

use std::collections::BTreeMap;

/// The scopes of the transaction that is open; none outside of one.
#[derive(Debug, Default)]
pub struct Scopes {
    scopes: Vec<Scope>,
}

#[derive(Debug, Default)]
struct Scope {
    /// None for the transaction itself.
    savepoint: Option<String>,
    changes: BTreeMap<String, Change>,
}

/// What one scope has done to a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    /// The value when the scope began.
    before: String,
    /// What stays after a commit.
    kept: Kept,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kept {
    /// The value that the setting has: it was set for the session.
    Current,
    /// The value from before: it was set for the transaction only.
    Before,
    /// This one, which was set for the session before another was for the transaction.
    Value(String),
}

/// Settings and the values that they get back.
pub type Restored = Vec<(String, String)>;

impl Scopes {
    /// Whether a transaction is open.
    pub fn are_open(&self) -> bool {
        !self.scopes.is_empty()
    }

    /// A transaction begins.
    pub fn begin(&mut self) {
        self.scopes = vec![Scope::default()];
    }

    /// A savepoint begins.
    pub fn set_savepoint(&mut self, name: &str) {
        self.scopes.push(Scope {
            savepoint: Some(name.to_owned()),
            ..Scope::default()
        });
    }

    /// A setting, whose value is `current`, is about to get another one, for the transaction only if `is_local`.
    pub fn note(&mut self, name: &str, current: String, is_local: bool) {
        let Some(scope) = self.scopes.last_mut() else {
            return;
        };
        match scope.changes.get_mut(name) {
            None => {
                let (before, kept) = match is_local {
                    true => (current, Kept::Before),
                    false => (current, Kept::Current),
                };
                scope
                    .changes
                    .insert(name.to_owned(), Change { before, kept });
            }
            Some(change) if !is_local => change.kept = Kept::Current,
            Some(change) if change.kept == Kept::Current => change.kept = Kept::Value(current),
            Some(_) => {}
        }
    }

    /// The part behind a savepoint, and what is within it, becomes one with what was before.
    pub fn release(&mut self, savepoint: &str) {
        let Some(at) = self.find(savepoint) else {
            return;
        };
        for inner in self.scopes.split_off(at) {
            let Some(outer) = self.scopes.last_mut() else {
                return;
            };
            outer.take(inner);
        }
    }

    /// The part behind a savepoint is undone, and begins again.
    pub fn roll_back_to(&mut self, savepoint: &str) -> Restored {
        let Some(at) = self.find(savepoint) else {
            return Vec::new();
        };
        let undone = self.scopes.split_off(at);
        self.set_savepoint(savepoint);
        undo(undone)
    }

    /// The transaction ends, with everything of it kept or undone.
    pub fn end(&mut self, is_committed: bool) -> Restored {
        let mut scopes = std::mem::take(&mut self.scopes);
        if !is_committed {
            return undo(scopes);
        }
        let inner = scopes.split_off(scopes.len().min(1));
        let Some(mut whole) = scopes.pop() else {
            return Vec::new();
        };
        for scope in inner {
            whole.take(scope);
        }
        let changes = whole.changes.into_iter();
        let restored = changes.filter_map(|(name, change)| match change.kept {
            Kept::Current => None,
            Kept::Before => Some((name, change.before)),
            Kept::Value(value) => Some((name, value)),
        });
        restored.collect()
    }

    /// The newest savepoint of a name.
    fn find(&self, savepoint: &str) -> Option<usize> {
        let is_it = |scope: &Scope| scope.savepoint.as_deref() == Some(savepoint);
        self.scopes.iter().rposition(is_it)
    }
}

impl Scope {
    /// Takes over what a scope within it has done.
    fn take(&mut self, inner: Self) {
        for (name, change) in inner.changes {
            let Some(outer) = self.changes.get_mut(&name) else {
                self.changes.insert(name, change);
                continue;
            };
            match change.kept {
                Kept::Current | Kept::Value(_) => outer.kept = change.kept,
                Kept::Before if outer.kept == Kept::Current => {
                    outer.kept = Kept::Value(change.before);
                }
                Kept::Before => {}
            }
        }
    }
}

/// What settings get back whose scopes, the outermost first, are undone.
fn undo(scopes: Vec<Scope>) -> Restored {
    let mut restored = BTreeMap::new();
    for scope in scopes.into_iter().rev() {
        for (name, change) in scope.changes {
            restored.insert(name, change.before);
        }
    }
    restored.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A setting `a` that begins as 0, and what is done to it.
    #[derive(Default)]
    struct Setting {
        scopes: Scopes,
        value: String,
    }

    impl Setting {
        fn new() -> Self {
            let mut setting = Self {
                value: "0".to_owned(),
                ..Self::default()
            };
            setting.scopes.begin();
            setting
        }

        fn set(&mut self, value: &str, is_local: bool) -> &mut Self {
            self.scopes.note("a", self.value.clone(), is_local);
            self.value = value.to_owned();
            self
        }

        fn savepoint(&mut self) -> &mut Self {
            self.scopes.set_savepoint("s");
            self
        }

        fn release(&mut self) -> &mut Self {
            self.scopes.release("s");
            self
        }

        fn back(&mut self) -> &mut Self {
            let restored = self.scopes.roll_back_to("s");
            self.restore(restored)
        }

        fn restore(&mut self, restored: Restored) -> &mut Self {
            for (_, value) in restored {
                self.value = value;
            }
            self
        }

        fn end(&mut self, is_committed: bool) -> &str {
            let restored = self.scopes.end(is_committed);
            assert!(!self.scopes.are_open());
            &self.restore(restored).value
        }
    }

    #[test]
    fn a_commit_keeps_what_was_set_for_the_session() {
        let new = Setting::new;
        assert_eq!(new().set("1", false).end(true), "1");
        assert_eq!(new().set("1", true).end(true), "0");
        assert_eq!(new().set("1", false).set("2", true).end(true), "1");
        assert_eq!(new().set("1", true).set("2", false).end(true), "2");
        let both = new()
            .set("1", false)
            .set("2", true)
            .set("3", true)
            .value
            .clone();
        assert_eq!(both, "3");
    }

    #[test]
    fn a_rollback_undoes_everything() {
        let new = Setting::new;
        assert_eq!(new().set("1", false).end(false), "0");
        assert_eq!(new().set("1", false).set("2", true).end(false), "0");
        let mut deep = new();
        deep.set("1", false).savepoint().set("2", false).savepoint();
        assert_eq!(deep.set("3", true).end(false), "0");
    }

    #[test]
    fn a_rollback_to_a_savepoint_undoes_what_came_behind_it() {
        let mut setting = Setting::new();
        setting.set("1", true).savepoint().set("2", false);
        assert_eq!(setting.back().value, "1");
        assert_eq!(setting.set("3", true).back().value, "1");
        assert_eq!(setting.end(true), "0");
        let mut setting = Setting::new();
        setting.set("1", false).savepoint().set("2", true).back();
        assert_eq!(setting.end(true), "1");
    }

    #[test]
    fn a_released_savepoint_is_part_of_what_was_before() {
        let new = Setting::new;
        let mut setting = new();
        setting.savepoint().set("1", false).release();
        assert_eq!(setting.end(true), "1");
        let mut setting = new();
        setting.savepoint().set("1", true).release();
        assert_eq!(setting.end(true), "0");
        let mut setting = new();
        setting.set("1", false).savepoint().set("2", true).release();
        assert_eq!(setting.value, "2");
        assert_eq!(setting.end(true), "1");
        // One that is open at the end counts as released.
        let mut setting = new();
        setting.set("1", true).savepoint().set("2", false);
        assert_eq!(setting.end(true), "2");
        let mut setting = new();
        setting
            .set("1", false)
            .savepoint()
            .set("2", false)
            .set("3", true);
        assert_eq!(setting.end(true), "2");
    }
}
