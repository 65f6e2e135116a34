//! Statements that were read not long ago, so that a text that comes again is not read again.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::statement::{Kind, Read};

/// Texts that are kept, and their bytes at most.
const TEXTS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 1 << 10;

/// The statements of a connection's last texts that are one statement each.
#[derive(Debug, Default)]
pub struct Recent {
    statements: HashMap<Arc<str>, Read>,
    /// In the order in which they came.
    texts: VecDeque<Arc<str>>,
}

impl Recent {
    /// The statement of a text.
    pub fn get(&self, text: &str) -> Option<Read> {
        self.statements.get(text).cloned()
    }

    /// Keeps what was read of a text, in place of the one that is kept for longest.
    pub fn keep(&mut self, read: &Read) {
        let is_kept = matches!(read.kind, Kind::Store(_)) && read.text.len() <= TEXT_BYTES_MAX;
        if !is_kept || self.statements.contains_key(&read.text) {
            return;
        }
        if self.texts.len() >= TEXTS_MAX
            && let Some(oldest) = self.texts.pop_front()
        {
            self.statements.remove(&oldest);
        }
        self.texts.push_back(Arc::clone(&read.text));
        self.statements.insert(Arc::clone(&read.text), read.clone());
    }
}

#[cfg(test)]
mod tests {
    use nearfar_sql::sql::statements;

    use super::*;

    fn read(text: &str) -> Read {
        let statement = statements(text).expect("a statement").remove(0);
        Read {
            kind: Kind::Store(Arc::new(statement)),
            text: text.into(),
        }
    }

    #[test]
    fn the_last_texts_are_kept() {
        let mut recent = Recent::default();
        for number in 0..TEXTS_MAX + 2 {
            recent.keep(&read(&format!("SELECT {number}")));
            recent.keep(&read("SELECT 1"));
        }
        assert_eq!(recent.texts.len(), TEXTS_MAX);
        assert_eq!(recent.statements.len(), TEXTS_MAX);
        assert!(recent.get("SELECT 0").is_none());
        let kept = recent.get("SELECT 5").expect("kept");
        assert_eq!(&*kept.text, "SELECT 5");
        recent.keep(&read(&format!("SELECT '{}'", "x".repeat(TEXT_BYTES_MAX))));
        assert!(recent.get("SELECT 5").is_some(), "a long text is not kept");
    }
}
