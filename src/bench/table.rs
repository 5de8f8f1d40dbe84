//! Figures as a table and as JSON.

use std::fmt::Write as _;

use serde::Serialize;

use super::case::{Bar, Clock, Row, Times};
use det_post_ops::device::Device;

const WIDTH: usize = 66;

/// The head of the table.
pub(super) fn head() -> String {
    format!(
        "{:<WIDTH$}{:>10}{:>10}{:>10}{:>10}",
        "us (medians unless said)", "GPU", "wall", "p95", "p99"
    )
}

/// One line of it, with the rate of a case that moves bytes.
pub(super) fn line(row: &Row) -> String {
    let Row { case, gpu_us, wall_us: Times { p50, p95, p99 }, .. } = row;
    let gpu = gpu_us.map_or_else(|| "-".to_owned(), |times| format!("{:.2}", times.p50));
    let rate = row.num_bytes.map_or_else(String::new, |num| {
        let micros = gpu_us.map_or(*p50, |times| times.p50);
        format!("  {:.1} GB/s", num as f64 / micros / 1e3)
    });
    format!("{case:<WIDTH$}{gpu:>10}{p50:>10.2}{p95:>10.2}{p99:>10.2}{rate}")
}

/// The cases that have a bar, beside it; nothing when none has.
pub(super) fn bars(rows: &[Row]) -> String {
    let mut table = String::new();
    for row in rows {
        let Some(bar) = row.bar else { continue };
        if table.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "\n{:<WIDTH$}{:>10}{:>10}{:>10}{:>10}",
                "bars, us", "classic", "bar", "measured", "clock"
            );
        }
        let Bar { clock, classic_us, must_reach_us } = bar;
        let classic = classic_us.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
        let (measured, clock) = match clock {
            Clock::Gpu => (row.gpu_us.unwrap_or(row.wall_us).p50, "GPU"),
            Clock::Wall => (row.wall_us.p50, "wall"),
        };
        let _ = writeln!(
            table,
            "{:<WIDTH$}{classic:>10}{must_reach_us:>10.1}{measured:>10.2}{clock:>10}  {}",
            row.case,
            if measured <= must_reach_us { "reached" } else { "not reached" }
        );
    }
    table
}

/// `--json`.
pub(super) fn json(device: &Device, rows: &[Row]) -> String {
    #[derive(Serialize)]
    struct Figures<'a> {
        device: String,
        version: &'static str,
        rows: &'a [Row],
    }
    let version = env!("CARGO_PKG_VERSION");
    let figures = Figures { device: device.to_string(), version, rows };
    serde_json::to_string_pretty(&figures).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::case::wall;
    use super::*;

    fn row(case: &str, bar: Option<Bar>) -> Row {
        let times = |p50| Times { p50, p95: 2.0 * p50, p99: 3.0 * p50 };
        let (gpu_us, wall_us) = (Some(times(8.0)), times(11.5));
        Row { case: case.into(), gpu_us, wall_us, num_bytes: None, bar }
    }

    #[test]
    fn a_bar_is_reached_or_not() {
        let rows = [row("a", wall(Some(30.0), 12.0)), row("b", None), row("c", wall(None, 11.0))];
        let table = bars(&rows);
        let lines: Vec<&str> = table.trim().lines().collect();
        assert_eq!(lines.len(), 3, "{table}");
        assert!(lines[1].starts_with('a') && lines[1].ends_with("  reached"), "{table}");
        assert!(lines[2].starts_with('c') && lines[2].ends_with("not reached"), "{table}");
        assert_eq!(bars(&rows[1..2]), "");
    }

    #[test]
    fn json_holds_every_row() {
        let text = json(&Device::Cpu, &[row("a", None), row("b", wall(None, 1.0))]);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["device"], "cpu");
        assert_eq!(value["rows"][1]["wall_us"]["p99"], 34.5);
        assert_eq!(value["rows"][1]["bar"]["clock"], "wall");
        assert!(value["rows"][0].get("bar").is_none());
    }
}
