//! The date and time that `strftime_now` prints, in UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::error::Fault;

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
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// A point in time, by the Gregorian calendar.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    year: i64,
    /// From 1.
    month: u32,
    day: u32,
    day_of_year: u32,
    weekday: usize,
    hour: u32,
    minute: u32,
    second: u32,
}

impl Moment {
    pub(super) fn of(time: SystemTime) -> Moment {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (days, seconds) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
        let (mut year, mut left) = (1970, days);
        while left >= year_days(year) {
            left -= year_days(year);
            year += 1;
        }
        let day_of_year = left as u32 + 1;
        let mut month = 1;
        while left >= month_days(year, month) {
            left -= month_days(year, month);
            month += 1;
        }
        Moment {
            year,
            month,
            day: left as u32 + 1,
            day_of_year,
            weekday: (days % 7) as usize,
            hour: (seconds / 3600) as u32,
            minute: (seconds / 60 % 60) as u32,
            second: (seconds % 60) as u32,
        }
    }

    /// `strftime`, without locales.
    pub(super) fn format(&self, format: &str) -> Result<String, Fault> {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(ch) = chars.next() {
            if ch != '%' {
                out.push(ch);
                continue;
            }
            let mut code = chars.next();
            // %-d leaves out the leading zero.
            let bare = code == Some('-');
            if bare {
                code = chars.next();
            }
            let number = |value: u32, width: usize| {
                if bare { value.to_string() } else { format!("{value:0width$}") }
            };
            let hour_of_12 = (self.hour + 11) % 12 + 1;
            out += &match code {
                Some('Y') => self.year.to_string(),
                Some('y') => number((self.year % 100) as u32, 2),
                Some('m') => number(self.month, 2),
                Some('d') => number(self.day, 2),
                Some('e') => format!("{:2}", self.day),
                Some('j') => number(self.day_of_year, 3),
                Some('H') => number(self.hour, 2),
                Some('I') => number(hour_of_12, 2),
                Some('M') => number(self.minute, 2),
                Some('S') => number(self.second, 2),
                Some('f') => "000000".into(),
                Some('p') => if self.hour < 12 { "AM" } else { "PM" }.into(),
                Some('B') => MONTHS[self.month as usize - 1].into(),
                Some('b' | 'h') => MONTHS[self.month as usize - 1][..3].into(),
                Some('A') => DAYS[self.weekday].into(),
                Some('a') => DAYS[self.weekday][..3].into(),
                Some('w') => ((self.weekday + 4) % 7).to_string(),
                Some('u') => ((self.weekday + 3) % 7 + 1).to_string(),
                Some('F') => self.format("%Y-%m-%d")?,
                Some('T') => self.format("%H:%M:%S")?,
                Some('R') => self.format("%H:%M")?,
                Some('D') => self.format("%m/%d/%y")?,
                Some('Z') => "UTC".into(),
                Some('z') => "+0000".into(),
                Some('%') => "%".into(),
                Some(other) => return Fault::new(format!("strftime_now does not know %{other}")),
                None => return Fault::new("a date format ends with %"),
            };
        }
        Ok(out)
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn year_days(year: i64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn month_days(year: i64, month: u32) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64, format: &str) -> String {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        Moment::of(time).format(format).unwrap()
    }

    #[test]
    fn known_dates() {
        assert_eq!(at(0, "%Y-%m-%d %H:%M:%S %A %j %w %u"), "1970-01-01 00:00:00 Thursday 001 4 4");
        assert_eq!(at(951_782_400, "%d %b %Y, %a, day %j"), "29 Feb 2000, Tue, day 060");
        assert_eq!(at(1_735_689_599, "%F %T %I%p %y"), "2024-12-31 23:59:59 11PM 24");
        assert_eq!(at(1_782_000_000, "%-d %B %e %-m%%"), "21 June 21 6%");
        assert_eq!(at(43_200, "%I %p"), "12 PM");
    }

    #[test]
    fn formats_can_be_wrong() {
        let now = Moment::of(UNIX_EPOCH);
        assert!(now.format("%Q").is_err());
        assert!(now.format("%").is_err());
    }
}
