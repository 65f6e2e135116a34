//! Days and years of the Gregorian calendar, also before it was.

/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// A date of the proleptic Gregorian calendar; the year before 1 is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Date {
    pub year: i64,
    pub month: i64,
    pub day: i64,
}

impl Date {
    /// The date that is so many days after 1970-01-01 (Hinnant, "chrono-compatible low-level date
    /// algorithms").
    pub fn of_days(days: i64) -> Self {
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Self {
            year: year + era * 400 + i64::from(month <= 2),
            month,
            day,
        }
    }

    /// Days since 1970-01-01.
    pub fn days(self) -> i64 {
        let year = self.year - i64::from(self.month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let month = if self.month > 2 {
            self.month - 3
        } else {
            self.month + 9
        };
        let of_year = (153 * month + 2) / 5 + self.day - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }

    /// The day of its year, from 1.
    pub fn day_of_year(self) -> i64 {
        let first = Self {
            year: self.year,
            month: 1,
            day: 1,
        };
        self.days() - first.days() + 1
    }

    /// The year and week of ISO 8601.
    pub fn iso_week(self) -> (i64, i64) {
        let days = self.days();
        // The week belongs to the year of its Thursday.
        let thursday = Self::of_days(days - (iso_weekday(days) - 4));
        (thursday.year, (thursday.day_of_year() - 1) / 7 + 1)
    }
}

/// Monday is 1.
pub fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_others() {
        for days in (-1_000_000..1_000_000).step_by(997) {
            let date = Date::of_days(days);
            assert_eq!(date.days(), days, "{date:?}");
            assert!((1..=12).contains(&date.month) && (1..=31).contains(&date.day));
        }
        let date = |year, month, day| Date { year, month, day };
        assert_eq!(Date::of_days(0), date(1970, 1, 1));
        assert_eq!(date(2000, 2, 29).days(), 11_016);
        assert_eq!(date(2021, 1, 3).iso_week(), (2020, 53));
        assert_eq!(date(2024, 12, 31).iso_week(), (2025, 1));
        assert_eq!(iso_weekday(0), 4);
        assert_eq!(date(2024, 12, 31).day_of_year(), 366);
    }
}
