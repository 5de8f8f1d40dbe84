//! `RCUTILS_CONSOLE_OUTPUT_FORMAT`: the form of a line of the log, as ROS's nodes take it.

use std::fmt::{self, Write};

use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use crate::node::LogRecord;
use det_post_ros::LogLevel;

/// The variable.
pub(super) const VARIABLE: &str = "RCUTILS_CONSOLE_OUTPUT_FORMAT";

/// What a line consists of.
#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Severity,
    Name,
    Message,
    FunctionName,
    FileName,
    ShortFileName,
    LineNumber,
    Time,
    TimeAsNanoseconds,
    DateTime,
}

const TOKENS: [(&str, Part); 10] = [
    ("severity", Part::Severity),
    ("name", Part::Name),
    ("message", Part::Message),
    ("function_name", Part::FunctionName),
    ("file_name", Part::FileName),
    ("short_file_name", Part::ShortFileName),
    ("line_number", Part::LineNumber),
    ("time", Part::Time),
    ("time_as_nanoseconds", Part::TimeAsNanoseconds),
    ("date_time_with_ms", Part::DateTime),
];

/// The form of a line. Tokens that rcutils does not know remain as they are.
#[derive(Clone, Debug)]
pub(super) struct ConsoleFormat {
    parts: Vec<Part>,
    logger: String,
    is_colored: bool,
}

impl ConsoleFormat {
    /// Reads the form of the lines of a logger.
    pub(super) fn parse(text: &str, logger: &str, is_colored: bool) -> Self {
        let text = unescaped(text);
        let (mut parts, mut plain, mut rest) = (Vec::new(), String::new(), &*text);
        while let Some(start) = rest.find('{') {
            plain += &rest[..start];
            rest = &rest[start..];
            let token = rest[1..].split_once('}').and_then(|(token, after)| {
                let (_, part) = TOKENS.iter().find(|(known, _)| *known == token)?;
                Some((part, after))
            });
            if let Some((part, after)) = token {
                parts.push(Part::Text(std::mem::take(&mut plain)));
                parts.push(part.clone());
                rest = after;
            } else {
                plain.push('{');
                rest = &rest[1..];
            }
        }
        parts.push(Part::Text(plain + rest));
        Self { parts, logger: logger.to_owned(), is_colored }
    }

    fn write(&self, to: &mut impl Write, record: &LogRecord) -> fmt::Result {
        let nanos = record.stamp.nanos();
        for part in &self.parts {
            match part {
                Part::Text(text) => to.write_str(text)?,
                Part::Severity => to.write_str(severity(record.level))?,
                Part::Name => to.write_str(&self.logger)?,
                Part::Message => to.write_str(&record.message)?,
                Part::FunctionName => to.write_str(record.module)?,
                Part::FileName => to.write_str(record.file)?,
                Part::ShortFileName => {
                    to.write_str(record.file.rsplit('/').next().unwrap_or_default())?;
                }
                Part::LineNumber => write!(to, "{}", record.line)?,
                Part::Time => {
                    let (seconds, nanos) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
                    write!(to, "{seconds}.{nanos:09}")?;
                }
                Part::TimeAsNanoseconds => write!(to, "{nanos}")?,
                Part::DateTime => write_date(to, nanos)?,
            }
        }
        Ok(())
    }
}

impl<S, N> FormatEvent<S, N> for ConsoleFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let record = LogRecord::of_event(event);
        if !self.is_colored {
            self.write(&mut writer, &record)?;
            return writeln!(writer);
        }
        write!(writer, "\u{1b}[{}m", color(record.level))?;
        self.write(&mut writer, &record)?;
        writeln!(writer, "\u{1b}[0m")
    }
}

fn severity(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "DEBUG",
        LogLevel::Info => "INFO",
        LogLevel::Warn => "WARN",
        LogLevel::Error => "ERROR",
        LogLevel::Fatal => "FATAL",
    }
}

/// Colours of rcutils.
fn color(level: LogLevel) -> u8 {
    match level {
        LogLevel::Debug => 32,
        LogLevel::Info => 0,
        LogLevel::Warn => 33,
        LogLevel::Error | LogLevel::Fatal => 31,
    }
}

/// A time since 1970 as a date of UTC, with milliseconds.
fn write_date(to: &mut impl Write, nanos: i64) -> fmt::Result {
    let millis = nanos.div_euclid(1_000_000);
    let (days, of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    // Years that begin in March end with their leap day: 400 of them have 146097 days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + 400 * era + next;
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, milli) = (of_day / 1000 % 60, of_day % 1000);
    write!(to, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{milli:03}")
}

/// The text with `\n`, `\t` and other escapes of C replaced, as rcutils replaces them.
fn unescaped(text: &str) -> String {
    let mut found = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('\\') {
        found += &rest[..start];
        let after = &rest[start + 1..];
        let (replaced, len) = match after.chars().next() {
            Some('a') => ('\u{7}', 1),
            Some('b') => ('\u{8}', 1),
            Some('n') => ('\n', 1),
            Some('r') => ('\r', 1),
            Some('t') => ('\t', 1),
            Some('x') if after.get(1..3) == Some("1b") => ('\u{1b}', 3),
            _ => ('\\', 0),
        };
        found.push(replaced);
        rest = &after[len..];
    }
    found + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Stamp;

    #[test]
    fn lines_have_the_form_of_rcutils() {
        let record = LogRecord {
            stamp: Stamp::from_nanos(1_709_210_096_007_000_089),
            level: LogLevel::Warn,
            message: "a {name} is lost".into(),
            file: "src/node/x.rs",
            module: "det_post::node",
            line: 7,
        };
        for (form, expected) in [
            (
                "[{severity}] [{time}] [{name}]: {message}",
                "[WARN] [1709210096.007000089] [front.eyes]: a {name} is lost",
            ),
            (
                "{date_time_with_ms} {time_as_nanoseconds}",
                "2024-02-29 12:34:56.007 1709210096007000089",
            ),
            (
                "{function_name} {file_name} {short_file_name}:{line_number}",
                "det_post::node src/node/x.rs x.rs:7",
            ),
            ("{nothing} {message", "{nothing} {message"),
            ("{{severity}}\\t\\x1b[1m\\q", "{WARN}\t\u{1b}[1m\\q"),
            ("", ""),
        ] {
            let mut line = String::new();
            ConsoleFormat::parse(form, "front.eyes", false).write(&mut line, &record).unwrap();
            assert_eq!(line, expected, "{form}");
        }
        for (nanos, expected) in [
            (0, "1970-01-01 00:00:00.000"),
            (951_782_399_999_000_000, "2000-02-28 23:59:59.999"),
            (951_868_800_000_000_000, "2000-03-01 00:00:00.000"),
            (-1_000_000, "1969-12-31 23:59:59.999"),
        ] {
            let mut date = String::new();
            write_date(&mut date, nanos).unwrap();
            assert_eq!(date, expected);
        }
    }
}
