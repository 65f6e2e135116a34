//! What was made of texts that came not long ago, so that a text that comes again is not read again.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;

/// Texts that are kept at most.
const TEXTS_MAX: usize = 64;

/// Bytes of a text that is kept, unless it is a query.
const TEXT_BYTES_MAX: usize = 1 << 10;

/// Bytes of all texts at most.
const BYTES_MAX: usize = 32 << 10;

/// What was made of a client's last texts.
#[derive(Debug)]
pub struct Recent<T> {
    made: HashMap<Arc<str>, Made<T>>,
    /// In the order in which they came; those that came again have a second turn.
    texts: VecDeque<Arc<str>>,
    /// Of all texts.
    bytes: usize,
}

#[derive(Debug)]
struct Made<T> {
    of_text: T,
    came_again: bool,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self {
            made: HashMap::new(),
            texts: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl<T: Clone> Recent<T> {
    /// What was made of a text.
    pub fn get(&mut self, text: &str) -> Option<T> {
        let made = self.made.get_mut(text)?;
        made.came_again = true;
        Some(made.of_text.clone())
    }

    /// Keeps what was made of a text, in place of what was made of those that came longest ago. A long text
    /// is not kept, unless it `is_query`: these take long to be read and planned.
    pub fn keep(&mut self, text: &Arc<str>, is_query: bool, of_text: T) {
        let bytes_max = match is_query {
            true => BYTES_MAX,
            false => TEXT_BYTES_MAX,
        };
        if let Some(known) = self.made.get_mut(text) {
            known.of_text = of_text;
            return;
        }
        if text.len() > bytes_max {
            return;
        }
        while (self.texts.len() >= TEXTS_MAX || self.bytes + text.len() > BYTES_MAX)
            && let Some(oldest) = self.texts.pop_front()
        {
            match self.made.get_mut(&oldest) {
                Some(made) if made.came_again => {
                    made.came_again = false;
                    self.texts.push_back(oldest);
                }
                _ => {
                    self.bytes -= oldest.len();
                    self.made.remove(&oldest);
                }
            }
        }
        self.bytes += text.len();
        self.texts.push_back(Arc::clone(text));
        let made = Made {
            of_text,
            came_again: false,
        };
        self.made.insert(Arc::clone(text), made);
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_texts_are_kept() {
        let mut recent = Recent::default();
        for number in 0..TEXTS_MAX + 2 {
            recent.keep(&format!("text {number}").into(), false, number);
            recent.keep(&"text 1".into(), false, 100);
        }
        assert_eq!(recent.texts.len(), TEXTS_MAX);
        assert_eq!(recent.made.len(), TEXTS_MAX);
        assert_eq!(recent.get("text 0"), None);
        assert_eq!(recent.get("text 5"), Some(5));
        recent.keep(&"text 5".into(), false, 6);
        assert_eq!(recent.get("text 5"), Some(6));
        recent.keep(&"x".repeat(TEXT_BYTES_MAX + 1).into(), false, 0);
        assert_eq!(recent.texts.len(), TEXTS_MAX, "a long text is not kept");
    }

    #[test]
    fn what_came_again_stays_for_longer() {
        let mut recent = Recent::default();
        recent.keep(&"hot".into(), false, 0);
        for number in 0..3 * TEXTS_MAX {
            recent.keep(&format!("text {number}").into(), false, number);
            assert_eq!(recent.get("hot"), Some(0), "after {number}");
        }
        for number in 0..2 * TEXTS_MAX {
            recent.keep(&format!("another {number}").into(), false, number);
        }
        assert_eq!(recent.get("hot"), None);
        assert_eq!(recent.texts.len(), recent.made.len());
    }

    #[test]
    fn all_texts_together_are_bounded() {
        let mut recent = Recent::default();
        let text = |number| Arc::<str>::from(format!("{number:010000}"));
        for number in 0..10 {
            recent.keep(&text(number), true, number);
            assert!(recent.bytes <= BYTES_MAX);
        }
        assert_eq!(recent.texts.len(), BYTES_MAX / 10_000);
        assert_eq!(recent.bytes, recent.texts.len() * 10_000);
        assert_eq!(recent.get(&text(0)), None);
        assert_eq!(recent.get(&text(9)), Some(9));
        recent.clear();
        assert_eq!(recent.get(&text(9)), None);
    }
}
