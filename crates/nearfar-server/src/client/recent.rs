//! What was made of texts that came not long ago, so that a text that comes again is not read again.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

/// Texts that are kept, and their bytes at most.
const TEXTS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 1 << 10;

/// What was made of a connection's last texts.
#[derive(Debug)]
pub struct Recent<T> {
    made: HashMap<Arc<str>, T>,
    /// In the order in which they came.
    texts: VecDeque<Arc<str>>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            made: HashMap::new(),
            texts: VecDeque::new(),
        }
    }
}

impl<T: Clone> Recent<T> {
    /// What was made of a text.
    pub fn get(&self, text: &str) -> Option<T> {
        self.made.get(text).cloned()
    }

    /// Keeps what was made of a text, in place of that of the text that is kept for longest. A long text
    /// is not kept.
    pub fn keep(&mut self, text: &Arc<str>, made: T) {
        if let Some(known) = self.made.get_mut(text) {
            *known = made;
            return;
        }
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        if self.texts.len() >= TEXTS_MAX
            && let Some(oldest) = self.texts.pop_front()
        {
            self.made.remove(&oldest);
        }
        self.texts.push_back(Arc::clone(text));
        self.made.insert(Arc::clone(text), made);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_texts_are_kept() {
        let mut recent = Recent::default();
        for number in 0..TEXTS_MAX + 2 {
            recent.keep(&format!("text {number}").into(), number);
            recent.keep(&"text 1".into(), 100);
        }
        assert_eq!(recent.texts.len(), TEXTS_MAX);
        assert_eq!(recent.made.len(), TEXTS_MAX);
        assert_eq!(recent.get("text 0"), None);
        assert_eq!(recent.get("text 5"), Some(5));
        recent.keep(&"text 5".into(), 6);
        assert_eq!(recent.get("text 5"), Some(6));
        recent.keep(&"x".repeat(TEXT_BYTES_MAX + 1).into(), 0);
        assert_eq!(recent.get("text 5"), Some(6), "a long text is not kept");
    }
}
