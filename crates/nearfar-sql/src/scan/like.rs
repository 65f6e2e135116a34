//! `LIKE` on stored strings, without looking at each of them.
//!
//! The strings of a zone lie one after the other, so a substring is searched in all of them at
//! once; only where it is found is it asked which row that is.

use arrow::array::{Array, StringArray};
use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, LikeExpr, Literal};
use memchr::memmem::Finder;
use std::sync::Arc;

/// A pattern of `%` and plain text, such as `%special%requests%` or `forest%`.
#[derive(Debug, Clone)]
pub struct LikePattern {
    negated: bool,
    /// Text the string begins with.
    prefix: Vec<u8>,
    /// Texts that follow it in this order, anything between them.
    middle: Vec<Finder<'static>>,
    /// Text the string ends with; nothing where the pattern has no `%`.
    suffix: Option<Vec<u8>>,
}

impl LikePattern {
    /// The pattern of a `column [NOT] LIKE 'text'`, where it is made of `%` and plain text only.
    pub fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let like = expr.downcast_ref::<LikeExpr>()?;
        like.expr().downcast_ref::<Column>()?;
        let pattern = match like.pattern().downcast_ref::<Literal>()?.value() {
            ScalarValue::Utf8(Some(text))
            | ScalarValue::LargeUtf8(Some(text))
            | ScalarValue::Utf8View(Some(text)) => text,
            _ => return None,
        };
        let is_plain = !like.case_insensitive() && !pattern.contains(['_', '\\']);
        is_plain.then(|| Self::parse(pattern, like.negated()))
    }

    fn parse(pattern: &str, negated: bool) -> Self {
        let mut parts = pattern.split('%');
        let prefix = parts.next().unwrap_or_default().as_bytes().to_vec();
        let suffix = parts.next_back().map(|text| text.as_bytes().to_vec());
        let middle = parts
            .filter(|text| !text.is_empty())
            .map(|text| Finder::new(text.as_bytes()).into_owned())
            .collect();
        Self {
            negated,
            prefix,
            middle,
            suffix,
        }
    }

    /// Clears the mask of the rows from `start` on that do not match; null does not.
    pub fn restrict(&self, values: &StringArray, start: usize, mask: &mut [u8]) {
        let mut matches = vec![0; mask.len()];
        match self.middle.first() {
            Some(first) if self.prefix.is_empty() => {
                self.search(first, values, start, &mut matches);
            }
            _ => {
                let offsets = &values.value_offsets()[start..];
                for (found, ends) in matches.iter_mut().zip(offsets.windows(2)) {
                    let text = &values.values()[ends[0] as usize..ends[1] as usize];
                    *found = u8::from(self.is_match(text));
                }
            }
        }
        let flip = u8::from(self.negated);
        for (keep, found) in mask.iter_mut().zip(matches) {
            *keep &= found ^ flip;
        }
        if let Some(nulls) = values.nulls() {
            for (offset, keep) in mask.iter_mut().enumerate() {
                *keep &= u8::from(nulls.is_valid(start + offset));
            }
        }
    }

    /// Searches the first text of the middle in the bytes of all rows.
    fn search(&self, first: &Finder<'_>, values: &StringArray, start: usize, matches: &mut [u8]) {
        let offsets = &values.value_offsets()[start..=start + matches.len()];
        let data: &[u8] = values.values();
        let end = offsets[matches.len()] as usize;
        let (mut at, mut row) = (offsets[0] as usize, 0);
        while let Some(found) = first.find(&data[at..end]) {
            let hit = at + found;
            while offsets[row + 1] as usize <= hit {
                row += 1;
            }
            let row_end = offsets[row + 1] as usize;
            if hit + first.needle().len() > row_end {
                // The text lies across two rows; the next search begins in the second.
                at = row_end;
                continue;
            }
            matches[row] = u8::from(self.is_match(&data[offsets[row] as usize..row_end]));
            at = row_end;
        }
    }

    fn is_match(&self, text: &[u8]) -> bool {
        let Some(suffix) = &self.suffix else {
            return text == self.prefix;
        };
        let Some(mut rest) = text.strip_prefix(self.prefix.as_slice()) else {
            return false;
        };
        for part in &self.middle {
            match part.find(rest) {
                Some(at) => rest = &rest[at + part.needle().len()..],
                None => return false,
            }
        }
        rest.ends_with(suffix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::compute::kernels::comparison::like;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_arrow(
            texts in prop::collection::vec(prop::option::weighted(0.9, "[ab]{0,6}"), 1..60),
            pattern in "[ab%]{0,6}",
            negated: bool,
            start in 0usize..20,
        ) {
            let values = StringArray::from(texts.clone());
            let start = start.min(texts.len());
            let mut mask = vec![1; texts.len() - start];
            LikePattern::parse(&pattern, negated).restrict(&values, start, &mut mask);
            let scalar = StringArray::new_scalar(pattern.as_str());
            let expected = like(&values, &scalar).expect("a mask");
            for (offset, keep) in mask.iter().enumerate() {
                let row = start + offset;
                let matches = expected.is_valid(row) && expected.value(row) != negated;
                prop_assert_eq!(*keep == 1, matches, "{:?} like {}", texts[row], pattern);
            }
        }
    }
}
