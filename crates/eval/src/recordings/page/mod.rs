//! An evaluation as a page for people: one file of HTML with its images, which opens from disk
//! and loads nothing.

mod backgrounds;
mod frames;
mod labels;
mod plot;
mod summary;
mod table;

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use super::Evaluation;
use super::figures::SensorFigures;
use super::plots::{calibration_curves, precision_curves};
use super::table::plural;
use crate::draw::{BACKGROUND, GRID, TEXT, VERDICTS};
use det_post_types::Result;
use det_post_types::text::{LineBreaks, shown};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The page may run its own script and show its own images, and load nothing.
const POLICY: &str =
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

impl Evaluation {
    /// The page: the result, with devices, engines and times where a report is beside the
    /// detections; then of each sensor its curves, its tables and, where the terms keep them, the
    /// worst frames, with what the recordings of the truth show of them. The same evaluation
    /// gives the same bytes.
    ///
    /// # Errors
    /// Returns the errors of opening a recording, and of encoding an image.
    pub fn to_html(&self, stop: &AtomicBool) -> Result<String> {
        let mut page = format!(
            "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=viewport content=\"width=device-width\">\n\
             <title>det_post: accuracy</title>\n<style>\n{}{STYLE}</style></head>\n<body>\n\
             <h1>Accuracy of detections</h1>\n",
            colors()
        );
        page += &summary::summary(self);
        let worst = frames::sections(self, stop)?;
        for (index, sensor) in self.sensors.iter().enumerate() {
            page += &head_of(sensor);
            page += &figures(sensor, |name| self.color_of(name));
            page += worst.get(index).map_or("", String::as_str);
        }
        page += &summary::sources(self);
        let _ = write!(page, "<script>\n{SCRIPT}</script>\n</body></html>\n");
        Ok(page)
    }
}

/// The colours of the style sheet, the same as in images.
fn colors() -> String {
    let plain = [("background", BACKGROUND), ("grid", GRID), ("text", TEXT)];
    let each = plain.into_iter().chain(VERDICTS);
    let each = each.map(|(name, [r, g, b])| format!("--{name}: rgb({r} {g} {b}); "));
    format!(":root {{ {}}}\n", each.collect::<String>())
}

/// What a sensor is, and what is left out of its figures.
fn head_of(sensor: &SensorFigures) -> String {
    let SensorFigures { name, detections, truth, frame_id, num_frames, .. } = sensor;
    let mut section = format!("<h2>{}</h2>\n", text(name));
    let frames = plural(*num_frames, "frame");
    let about = format!("{detections} against {truth} in {frame_id}, {frames}");
    let _ = writeln!(section, "<p class=about>{}</p>", text(&about));
    for text in sensor.left_out() {
        let _ = writeln!(section, "<p class=warning>{text}</p>");
    }
    section
}

/// The curves and tables of a sensor.
fn figures(sensor: &SensorFigures, color: impl Fn(&str) -> [u8; 3]) -> String {
    let (title, curves) = precision_curves(sensor, color);
    let precision = plot::plot(title, ["recall", "precision"], &curves);
    let curves = calibration_curves(sensor);
    let calibration =
        plot::plot("calibration: precision by score", ["score", "precision"], &curves);
    let tables = table::tables(&sensor.of);
    format!("<div class=row>{precision}{calibration}</div>\n{tables}")
}

/// Text from a recording or a path, for the content or a quoted attribute of an element.
fn text(plain: &str) -> String {
    let mut escaped = String::new();
    for character in shown(plain.to_owned(), LineBreaks::Escaped).chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_text_and_never_markup() {
        let name = "</script><b onclick='x'>&\u{1b}[2K\"";
        let escaped = text(name);
        assert_eq!(escaped, "&lt;/script&gt;&lt;b onclick=&#39;x&#39;&gt;&amp;\\u{1b}[2K&quot;");
    }
}
