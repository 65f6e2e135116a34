//! Patterns of numbers.

use super::datetime::ordinal_of;
use crate::values::decimal;
use crate::values::error::ValueError;

/// The width of a Roman numeral.
const ROMAN_WIDTH: usize = 15;
const ROMAN_MAX: u32 = 3_999;
/// Digits behind the point of a double that are told.
const FLOAT_DIGITS: usize = 15;

/// A number by its digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Amount {
    is_negative: bool,
    /// None of what is no number.
    digits: Option<String>,
    /// How many of the digits are behind the point; zeros follow them if it is negative.
    scale: i64,
}

impl Amount {
    /// A decimal.
    pub fn of_decimal(value: i128, scale: i64) -> Self {
        Self {
            is_negative: value < 0,
            digits: Some(value.unsigned_abs().to_string()),
            scale,
        }
    }

    /// A double.
    pub fn of_float(value: f64) -> Self {
        let text = format!("{value:.digits$e}", digits = FLOAT_DIGITS - 1);
        let none = (value.is_sign_negative(), String::new(), 0);
        let digits = decimal::digits(&text);
        let is_number = value.is_finite() && digits.is_some();
        let (is_negative, digits, scale) = digits.unwrap_or(none);
        Self {
            is_negative,
            digits: is_number.then_some(digits),
            scale,
        }
    }

    /// The digits before the point and `places` behind it, rounded half away from zero.
    fn rounded(&self, places: usize, shift: usize) -> Option<(String, String)> {
        let digits = self.digits.as_ref()?;
        let scale = self.scale - i64::try_from(shift).ok()?;
        let zeros = usize::try_from(-scale).unwrap_or_default();
        let behind = usize::try_from(scale).unwrap_or_default();
        let all = format!("{digits}{}", "0".repeat(zeros));
        let all = format!("{all:0>width$}", width = behind + 1);
        let (whole, part) = all.split_at(all.len() - behind);
        let mut kept: Vec<u8> = whole.bytes().chain(part.bytes().take(places)).collect();
        kept.resize(whole.len() + places, b'0');
        if part
            .as_bytes()
            .get(places)
            .is_some_and(|digit| *digit >= b'5')
        {
            let mut at = kept.len();
            loop {
                if at == 0 {
                    kept.insert(0, b'1');
                    break;
                }
                at -= 1;
                if kept[at] < b'9' {
                    kept[at] += 1;
                    break;
                }
                kept[at] = b'0';
            }
        }
        let text = String::from_utf8(kept).ok()?;
        let (whole, part) = text.split_at(text.len() - places);
        let whole = whole.trim_start_matches('0');
        let whole = if whole.is_empty() { "0" } else { whole };
        Some((whole.to_owned(), part.to_owned()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Nine,
    Zero,
    Point,
    Group,
    Sign,
    Minus,
    Plus,
    PlusMinus,
    Currency,
    Ordinal(bool),
    Literal(String),
}

/// A pattern, read.
#[derive(Debug, Default)]
pub struct NumberPattern {
    pieces: Vec<Piece>,
    before: usize,
    behind: usize,
    /// Digits that the point is moved by.
    shift: usize,
    /// The first position before the point that is never blank.
    zero_from: Option<usize>,
    /// How many digits behind the point are always shown.
    forced: usize,
    is_bare: bool,
    has_brackets: bool,
    roman: Option<bool>,
}

/// What can stand in a pattern but for single characters; longer ones first.
const WORDS: [&str; 9] = ["EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "TH", "SP"];

impl NumberPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// [`ValueError::Argument`] for what is not known, or stands where it can't.
    pub fn read(text: &str) -> Result<Self, ValueError> {
        let mut pattern = Self::default();
        let mut rest = text;
        let mut has_point = false;
        let mut has_shift = false;
        while let Some(first) = rest.chars().next() {
            if let Some(word) = WORDS.into_iter().find(|word| starts(rest, word)) {
                let is_upper = rest.starts_with(word);
                pattern.word(word, is_upper)?;
                rest = &rest[word.len()..];
                continue;
            }
            rest = &rest[first.len_utf8()..];
            match first {
                '9' | '0' => {
                    pattern.digit(first == '0', has_point);
                    pattern.shift += usize::from(has_shift);
                }
                '.' | 'D' | 'd' if has_point || has_shift => {
                    return Err(wrong("a pattern has one decimal point"));
                }
                '.' | 'D' | 'd' => {
                    has_point = true;
                    pattern.pieces.push(Piece::Point);
                }
                'V' | 'v' if has_point || has_shift => {
                    return Err(wrong("V and a decimal point can't be in one pattern"));
                }
                'V' | 'v' => has_shift = true,
                ',' | 'G' | 'g' => pattern.pieces.push(Piece::Group),
                'S' | 's' => pattern.pieces.push(Piece::Sign),
                'L' | 'l' => pattern.pieces.push(Piece::Currency),
                '"' => {
                    let (quoted, after) = rest.split_once('"').unwrap_or((rest, ""));
                    pattern.pieces.push(Piece::Literal(quoted.to_owned()));
                    rest = after;
                }
                other => pattern.pieces.push(Piece::Literal(other.to_string())),
            }
        }
        Ok(pattern)
    }

    fn word(&mut self, word: &str, is_upper: bool) -> Result<(), ValueError> {
        match word {
            "EEEE" => return Err(wrong("EEEE in a pattern is not supported")),
            "FM" => self.is_bare = true,
            "MI" => self.pieces.push(Piece::Minus),
            "PL" => self.pieces.push(Piece::Plus),
            "PR" => self.has_brackets = true,
            "RN" => self.roman = Some(is_upper),
            "SG" => self.pieces.push(Piece::PlusMinus),
            "TH" => self.pieces.push(Piece::Ordinal(is_upper)),
            _ => {}
        }
        Ok(())
    }

    fn digit(&mut self, is_zero: bool, is_behind: bool) {
        if is_behind {
            self.behind += 1;
            if is_zero {
                self.forced = self.behind;
            }
        } else {
            if is_zero && self.zero_from.is_none() {
                self.zero_from = Some(self.before);
            }
            self.before += 1;
        }
        self.pieces
            .push(if is_zero { Piece::Zero } else { Piece::Nine });
    }

    /// A number as the pattern says.
    pub fn write(&self, amount: &Amount) -> String {
        if let Some(is_upper) = self.roman {
            return self.roman(amount, is_upper);
        }
        Writer::new(self, amount).write()
    }

    fn roman(&self, amount: &Amount, is_upper: bool) -> String {
        let number = amount
            .rounded(0, 0)
            .and_then(|(whole, _)| whole.parse().ok());
        let number = number.filter(|n| (1..=ROMAN_MAX).contains(n) && !amount.is_negative);
        let Some(number) = number else {
            return "#".repeat(ROMAN_WIDTH);
        };
        let text = roman(number);
        let text = if is_upper { text } else { text.to_lowercase() };
        match self.is_bare {
            true => text,
            false => format!("{text:>ROMAN_WIDTH$}"),
        }
    }

    fn has_sign(&self) -> bool {
        let is_sign = |piece: &Piece| {
            matches!(
                piece,
                Piece::Sign | Piece::Minus | Piece::Plus | Piece::PlusMinus
            )
        };
        self.pieces.iter().any(is_sign)
    }
}

fn wrong(what: &str) -> ValueError {
    ValueError::Argument {
        what: what.to_owned(),
    }
}

fn starts(text: &str, word: &str) -> bool {
    text.get(..word.len())
        .is_some_and(|head| head == word || head == word.to_lowercase())
}

fn roman(mut number: u32) -> String {
    const VALUES: [(u32, &str); 13] = [
        (1_000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut out = String::new();
    for (value, text) in VALUES {
        while number >= value {
            out.push_str(text);
            number -= value;
        }
    }
    out
}

/// A number being written.
struct Writer<'a> {
    pattern: &'a NumberPattern,
    is_negative: bool,
    whole: Vec<u8>,
    part: Vec<u8>,
    /// Positions before the point that the number has no digit for.
    blanks: usize,
    /// Digits behind the point that are shown.
    shown: usize,
    out: String,
    has_begun: bool,
    is_sign_written: bool,
}

impl<'a> Writer<'a> {
    fn new(pattern: &'a NumberPattern, amount: &Amount) -> Self {
        let digits = amount.rounded(pattern.behind, pattern.shift);
        let fits = digits
            .as_ref()
            .is_some_and(|(whole, _)| whole.len() <= pattern.before || whole == "0");
        let (whole, part) = match digits {
            Some((whole, part)) if fits => (whole, part),
            _ => ("#".repeat(pattern.before), "#".repeat(pattern.behind)),
        };
        let significant = part.trim_end_matches('0').len();
        let shown = match pattern.is_bare {
            true => significant.max(pattern.forced),
            false => pattern.behind,
        };
        let is_zero = whole == "0" && part.bytes().all(|digit| digit == b'0');
        Self {
            is_negative: amount.is_negative && !is_zero,
            blanks: pattern.before.saturating_sub(whole.len()),
            whole: whole.into_bytes(),
            part: part.into_bytes(),
            shown,
            out: String::new(),
            has_begun: false,
            is_sign_written: pattern.has_sign(),
            pattern,
        }
    }

    fn write(mut self) -> String {
        let (mut before, mut behind) = (0, 0);
        let mut is_behind = false;
        for piece in &self.pattern.pieces {
            match piece {
                Piece::Nine | Piece::Zero if is_behind => {
                    if behind < self.shown {
                        self.begin();
                        self.out.push(char::from(self.part[behind]));
                    }
                    behind += 1;
                }
                Piece::Nine | Piece::Zero => {
                    self.whole_digit(before);
                    before += 1;
                }
                Piece::Point => {
                    is_behind = true;
                    self.begin();
                    self.out.push('.');
                }
                Piece::Group => self.group(),
                other => self.other(other, before),
            }
        }
        self.end()
    }

    fn whole_digit(&mut self, at: usize) {
        let is_filled = self.pattern.zero_from.is_some_and(|from| from <= at);
        // A zero before the point is not written where digits are behind it.
        let is_lone_zero = self.whole == b"0" && self.pattern.behind > 0 && !is_filled;
        if at < self.blanks || is_lone_zero {
            match is_filled {
                true => {
                    self.begin();
                    self.out.push('0');
                }
                false if self.pattern.is_bare => {}
                false => self.out.push(' '),
            }
            return;
        }
        self.begin();
        self.out.push(char::from(self.whole[at - self.blanks]));
    }

    fn group(&mut self) {
        match self.has_begun {
            true => self.out.push(','),
            false if self.pattern.is_bare => {}
            false => self.out.push(' '),
        }
    }

    fn other(&mut self, piece: &Piece, position: usize) {
        let blank = if self.pattern.is_bare { "" } else { " " };
        let text = match piece {
            Piece::Literal(text) => text.clone(),
            Piece::Currency => blank.to_owned(),
            Piece::Minus => (if self.is_negative { "-" } else { blank }).to_owned(),
            Piece::Plus => (if self.is_negative { blank } else { "+" }).to_owned(),
            Piece::PlusMinus => (if self.is_negative { "-" } else { "+" }).to_owned(),
            // Before the digits it stands next to the first of them.
            Piece::Sign if position == 0 => {
                self.is_sign_written = false;
                String::new()
            }
            Piece::Sign => (if self.is_negative { "-" } else { "+" }).to_owned(),
            Piece::Ordinal(is_upper) if !self.is_negative && self.pattern.behind == 0 => {
                let suffix = ordinal_of(&String::from_utf8_lossy(&self.whole));
                if *is_upper {
                    suffix.to_uppercase()
                } else {
                    suffix.to_owned()
                }
            }
            _ => String::new(),
        };
        self.out.push_str(&text);
    }

    /// Writes the sign before the first digit.
    fn begin(&mut self) {
        if std::mem::replace(&mut self.has_begun, true) {
            return;
        }
        if std::mem::replace(&mut self.is_sign_written, true) {
            return;
        }
        let is_leading = self.pattern.pieces.contains(&Piece::Sign);
        let sign = match (self.is_negative, self.pattern.has_brackets) {
            (true, true) => "<",
            (true, false) => "-",
            (false, _) if is_leading => "+",
            (false, _) if self.pattern.is_bare => "",
            (false, _) => " ",
        };
        self.out.push_str(sign);
    }

    fn end(mut self) -> String {
        if self.pattern.has_brackets {
            match self.is_negative {
                true => self.out.push('>'),
                false if self.pattern.is_bare => {}
                false => self.out.push(' '),
            }
        }
        self.out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: i128, scale: i64, pattern: &str) -> String {
        let pattern = NumberPattern::read(pattern).expect("a pattern");
        pattern.write(&Amount::of_decimal(value, scale))
    }

    #[test]
    fn numbers_are_written_after_patterns() {
        for (value, scale, pattern, expected) in [
            (-125, 0, "999", "-125"),
            (1_234_567_891, 3, "9,999,999.99", " 1,234,567.89"),
            (125, 1, "FM999.99", "12.5"),
            (5, 1, "9.99", "  .50"),
            (-5, 1, "9.99", " -.50"),
            (5, 1, "0.99", " 0.50"),
            (-485, 0, "999S", "485-"),
            (-485, 0, "999PR", "<485>"),
            (12_345, 0, "999", " ###"),
            (12, 0, "99V999", " 12000"),
            (482, 0, "999th", " 482nd"),
            (485, 0, "FMRN", "CDLXXXV"),
            (9_995, 3, "99.99", " 10.00"),
        ] {
            assert_eq!(
                written(value, scale, pattern),
                expected,
                "{value} {pattern}"
            );
        }
        assert!(NumberPattern::read("9.9.9").is_err());
    }
}
