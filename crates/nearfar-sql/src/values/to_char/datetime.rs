//! Patterns of dates and times.

use crate::values::calendar::{DAY_MICROS, Date, iso_weekday};
use crate::values::error::ValueError;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
const ROMAN: [&str; 12] = [
    "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII",
];
/// Days between the Julian day 0 and 1970-01-01.
const JULIAN_DAYS: i64 = 2_440_588;
/// The width of the longest name, to which the others are filled up.
const NAME_WIDTH: usize = 9;

/// The fields that there are. Longer ones come before those that they begin with.
const FIELDS: [&str; 46] = [
    "Y,YYY", "A.D.", "A.M.", "B.C.", "P.M.", "MONTH", "SSSSS", "IDDD", "IYYY", "HH12", "HH24",
    "YYYY", "SSSS", "DAY", "DDD", "FF1", "FF2", "FF3", "FF4", "FF5", "FF6", "IYY", "MON", "TZH",
    "TZM", "YYY", "AD", "AM", "BC", "CC", "DD", "DY", "HH", "ID", "IW", "IY", "MI", "MM", "MS",
    "OF", "PM", "RM", "SS", "TZ", "US", "WW",
];
const SHORT_FIELDS: [&str; 7] = ["YY", "D", "I", "J", "Q", "W", "Y"];

/// A point in time, or an interval taken apart.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// None of an interval, which has no day of the week.
    days: Option<i64>,
    date: Date,
    micros: i64,
    has_zone: bool,
}

impl Moment {
    /// Microseconds since 1970.
    pub fn of_timestamp(micros: i64, has_zone: bool) -> Self {
        let days = micros.div_euclid(DAY_MICROS);
        Self {
            days: Some(days),
            date: Date::of_days(days),
            micros: micros.rem_euclid(DAY_MICROS),
            has_zone,
        }
    }

    /// Months, days and microseconds.
    pub fn of_interval(months: i64, days: i64, micros: i64) -> Self {
        Self {
            days: None,
            date: Date {
                year: months / 12,
                month: months % 12,
                day: days,
            },
            micros,
            has_zone: false,
        }
    }

    fn day_number(&self) -> Result<i64, ValueError> {
        self.days.ok_or_else(|| ValueError::Argument {
            what: "a pattern of an interval has no names and numbers of days and weeks".to_owned(),
        })
    }
}

/// How the letters of a name are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Letters {
    Upper,
    Lower,
    First,
}

#[derive(Debug)]
enum Piece {
    Literal(String),
    Field {
        name: &'static str,
        letters: Letters,
        /// Without blanks and zeros that fill up.
        is_bare: bool,
        /// The letters of an ordinal behind it.
        ordinal: Option<Letters>,
    },
}

/// A pattern, read.
#[derive(Debug)]
pub struct DatePattern(Vec<Piece>);

impl DatePattern {
    /// Reads a pattern; what is no field stands for itself.
    pub fn read(text: &str) -> Self {
        let mut pieces = Vec::new();
        let mut rest = text;
        let mut is_bare = false;
        while let Some(first) = rest.chars().next() {
            if let Some(after) = strip(rest, "FM") {
                is_bare = true;
                rest = after;
            } else if let Some(after) = strip(rest, "TM").or_else(|| strip(rest, "FX")) {
                rest = after;
            } else if let Some((name, after)) = field(rest) {
                let written = &rest[..name.len()];
                let ordinal = after.get(..2).and_then(|suffix| match suffix {
                    "TH" => Some(Letters::Upper),
                    "th" => Some(Letters::Lower),
                    _ => None,
                });
                pieces.push(Piece::Field {
                    name,
                    letters: letters(written),
                    is_bare: std::mem::take(&mut is_bare),
                    ordinal,
                });
                rest = if ordinal.is_some() {
                    &after[2..]
                } else {
                    after
                };
            } else if first == '"' {
                let (quoted, after) = quoted(&rest[1..]);
                push_literal(&mut pieces, &quoted);
                rest = after;
            } else {
                let rest_of = &rest[first.len_utf8()..];
                match (first, rest_of.chars().next()) {
                    ('\\', Some('"')) => {
                        push_literal(&mut pieces, "\"");
                        rest = &rest_of[1..];
                    }
                    _ => {
                        push_literal(&mut pieces, &first.to_string());
                        rest = rest_of;
                    }
                }
            }
        }
        Self(pieces)
    }

    /// A moment as the pattern says.
    ///
    /// # Errors
    /// [`ValueError::Argument`] for a field that an interval does not have.
    pub fn write(&self, moment: &Moment) -> Result<String, ValueError> {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Field {
                    name,
                    letters,
                    is_bare,
                    ordinal,
                } => {
                    let text = value(name, *letters, *is_bare, moment)?;
                    out.push_str(&text);
                    if let Some(letters) = ordinal {
                        let suffix = ordinal_of(&text);
                        out.push_str(&match letters {
                            Letters::Upper => suffix.to_uppercase(),
                            _ => suffix.to_owned(),
                        });
                    }
                }
            }
        }
        Ok(out)
    }
}

fn strip<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    (head == prefix || head == prefix.to_lowercase()).then(|| &text[prefix.len()..])
}

fn field(text: &str) -> Option<(&'static str, &str)> {
    let mut names = FIELDS.iter().chain(&SHORT_FIELDS);
    let name = names.find(|name| {
        let head = text.get(..name.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(name))
    })?;
    Some((name, &text[name.len()..]))
}

fn letters(written: &str) -> Letters {
    let mut characters = written.chars().filter(char::is_ascii_alphabetic);
    match (characters.next(), characters.next()) {
        (Some(first), _) if first.is_ascii_lowercase() => Letters::Lower,
        (_, Some(second)) if second.is_ascii_lowercase() => Letters::First,
        _ => Letters::Upper,
    }
}

fn quoted(text: &str) -> (String, &str) {
    let mut out = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (out, &text[at + 1..]),
            '\\' => out.extend(characters.next().map(|(_, escaped)| escaped)),
            other => out.push(other),
        }
    }
    (out, "")
}

fn push_literal(pieces: &mut Vec<Piece>, text: &str) {
    match pieces.last_mut() {
        Some(Piece::Literal(last)) => last.push_str(text),
        _ => pieces.push(Piece::Literal(text.to_owned())),
    }
}

pub fn ordinal_of(number: &str) -> &'static str {
    let digits = number.trim_end();
    let is_teen = digits.len() > 1 && digits[..digits.len() - 1].ends_with('1');
    match digits.chars().last() {
        Some('1') if !is_teen => "st",
        Some('2') if !is_teen => "nd",
        Some('3') if !is_teen => "rd",
        _ => "th",
    }
}

fn named(name: &str, letters: Letters, is_bare: bool) -> String {
    let name = match letters {
        Letters::Upper => name.to_uppercase(),
        Letters::Lower => name.to_lowercase(),
        Letters::First => name.to_owned(),
    };
    match is_bare {
        true => name,
        false => format!("{name:<NAME_WIDTH$}"),
    }
}

fn value(
    name: &str,
    letters: Letters,
    is_bare: bool,
    moment: &Moment,
) -> Result<String, ValueError> {
    if let Some(text) = text(name, letters, is_bare, moment)? {
        return Ok(text);
    }
    let (number, width) = number(name, moment)?;
    let width = if is_bare { 0 } else { width };
    Ok(match number < 0 {
        true => format!("-{:0width$}", number.unsigned_abs()),
        false => format!("{number:0width$}"),
    })
}

/// The fields that are words.
fn text(
    name: &str,
    letters: Letters,
    is_bare: bool,
    moment: &Moment,
) -> Result<Option<String>, ValueError> {
    let cased = |upper: &str| match letters {
        Letters::Lower => upper.to_lowercase(),
        _ => upper.to_owned(),
    };
    let is_morning = moment.micros.rem_euclid(DAY_MICROS) < DAY_MICROS / 2;
    let month = usize::try_from(moment.date.month - 1).ok();
    let month_name = || {
        let name = month.and_then(|month| MONTHS.get(month));
        name.copied().unwrap_or_default()
    };
    let day_name = || -> Result<&str, ValueError> {
        let weekday = iso_weekday(moment.day_number()?) % 7;
        Ok(DAYS[usize::try_from(weekday).unwrap_or_default()])
    };
    Ok(Some(match name {
        "MONTH" => named(month_name(), letters, is_bare),
        "MON" => named(month_name().get(..3).unwrap_or_default(), letters, true),
        "DAY" => named(day_name()?, letters, is_bare),
        "DY" => named(&day_name()?[..3], letters, true),
        "RM" => {
            let roman = month.and_then(|month| ROMAN.get(month));
            let roman = cased(roman.copied().unwrap_or_default());
            if is_bare {
                roman
            } else {
                format!("{roman:<4}")
            }
        }
        "AM" | "PM" => cased(if is_morning { "AM" } else { "PM" }),
        "A.M." | "P.M." => cased(if is_morning { "A.M." } else { "P.M." }),
        "AD" | "BC" => cased(if moment.date.year > 0 { "AD" } else { "BC" }),
        "A.D." | "B.C." => cased(if moment.date.year > 0 { "A.D." } else { "B.C." }),
        "TZ" => match moment.has_zone {
            true => cased("UTC"),
            false => String::new(),
        },
        "OF" | "TZH" => "+00".to_owned(),
        "TZM" => "00".to_owned(),
        "Y,YYY" => {
            let year = shown_year(moment);
            format!("{},{:03}", year / 1_000, year % 1_000)
        }
        _ => return Ok(None),
    }))
}

/// The year as it is written: that before 1 is 1 again.
fn shown_year(moment: &Moment) -> i64 {
    let year = moment.date.year;
    match moment.days {
        Some(_) if year <= 0 => 1 - year,
        _ => year,
    }
}

/// The other fields and their widths.
fn number(name: &str, moment: &Moment) -> Result<(i64, usize), ValueError> {
    let date = moment.date;
    let seconds = moment.micros / 1_000_000;
    let micros = (moment.micros % 1_000_000).abs();
    let hours = seconds / 3_600;
    let year = shown_year(moment);
    let iso = || moment.day_number().map(|_| date.iso_week());
    Ok(match name {
        "HH" | "HH12" => match hours % 12 {
            0 => (12, 2),
            hour => (hour, 2),
        },
        "HH24" => (hours, 2),
        "MI" => (seconds / 60 % 60, 2),
        "SS" => (seconds % 60, 2),
        "SSSS" | "SSSSS" => (seconds, 0),
        "MS" | "FF3" => (micros / 1_000, 3),
        "US" | "FF6" => (micros, 6),
        "FF1" => (micros / 100_000, 1),
        "FF2" => (micros / 10_000, 2),
        "FF4" => (micros / 100, 4),
        "FF5" => (micros / 10, 5),
        "YYYY" => (year, 4),
        "YYY" => (year % 1_000, 3),
        "YY" => (year % 100, 2),
        "Y" => (year % 10, 1),
        "IYYY" => (iso()?.0, 4),
        "IYY" => (iso()?.0 % 1_000, 3),
        "IY" => (iso()?.0 % 100, 2),
        "I" => (iso()?.0 % 10, 1),
        "IW" => (iso()?.1, 2),
        "IDDD" => {
            let weekday = iso_weekday(moment.day_number()?);
            ((iso()?.1 - 1) * 7 + weekday, 3)
        }
        "ID" => (iso_weekday(moment.day_number()?), 0),
        "D" => (iso_weekday(moment.day_number()?) % 7 + 1, 0),
        "DD" => (date.day, 2),
        "DDD" => {
            moment.day_number()?;
            (date.day_of_year(), 3)
        }
        "J" => (moment.day_number()? + JULIAN_DAYS, 0),
        "MM" => (date.month, 2),
        "Q" => ((date.month - 1) / 3 + 1, 0),
        "W" => ((date.day - 1) / 7 + 1, 0),
        "WW" => {
            moment.day_number()?;
            ((date.day_of_year() - 1) / 7 + 1, 2)
        }
        // Centuries begin with the year 1.
        _ => match date.year > 0 {
            true => ((date.year + 99) / 100, 2),
            false => (-((1 - date.year + 99) / 100), 2),
        },
    })
}
