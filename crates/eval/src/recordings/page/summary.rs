//! The beginning of a page, its result, and the end, what was compared.

use std::fmt::Write as _;

use super::{plural, text};
use crate::recordings::Evaluation;
use crate::recordings::figures::{Figures, SensorFigures};
use crate::recordings::run::Run;

/// The most rows of a table of runs that is not folded.
const MAX_ROWS: usize = 6;

/// The result of each sensor, how its detections were made, and what was left out.
pub(super) fn summary(evaluation: &Evaluation) -> String {
    let results: String = evaluation.sensors.iter().map(result).collect();
    let mut summary = format!("<div class=results>{results}</div>\n");
    summary += &runs(&evaluation.runs, evaluation.drives.len());
    let damage = evaluation.damage.iter().map(|damage| format!("recording damaged: {damage}"));
    for line in damage.chain(evaluation.left_out()) {
        let _ = writeln!(summary, "<p class=warning>{}</p>", text(&line));
    }
    summary
}

/// The first figures of a sensor.
fn result(sensor: &SensorFigures) -> String {
    let figures = match &sensor.of {
        Figures::Lidar(of) => {
            vec![("mAP", of.map), ("BEV AP", of.mean.ap_bev), ("3D AP", of.mean.ap_3d)]
        }
        Figures::Camera(of) => {
            let boxes = [("mAP", of.map), ("AP50", of.mean.ap50), ("AP75", of.mean.ap75)];
            let masks = of.mean.masks.map(|of| [("mask AP", of.ap), ("mask AP50", of.ap50)]);
            boxes.into_iter().chain(masks.into_iter().flatten()).collect()
        }
    };
    let num_truth = match &sensor.of {
        Figures::Lidar(of) => of.mean.num_truth,
        Figures::Camera(of) => of.mean.num_truth,
    };
    let figures: String = figures
        .into_iter()
        .map(|(name, value)| {
            let value = value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"));
            format!("<div><dt>{name}</dt><dd>{value}</dd></div>")
        })
        .collect();
    format!(
        "<section><h3>{}</h3><dl>{figures}</dl><p>{} in {}</p></section>\n",
        text(&sensor.name),
        plural(num_truth, "object"),
        plural(sensor.num_frames, "frame")
    )
}

/// A row for each channel of each drive.
fn runs(runs: &[Run], num_drives: usize) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let has_drives = num_drives > 1;
    let heads = ["channel", "device", "p50, ms", "p95, ms", "p99, ms", "frames", "engine"];
    let drive = has_drives.then_some("drive");
    let heads: String =
        drive.into_iter().chain(heads).map(|head| format!("<th>{head}</th>")).collect();
    let rows: String = runs
        .iter()
        .map(|run| {
            let Run { drive, channel, device, engine, frames_in, frames_out, total_ms } = run;
            let frames = match frames_in == frames_out {
                true => frames_out.to_string(),
                false => format!("{frames_out} of {frames_in}"),
            };
            let times = total_ms.map_or_else(
                || ["–"; 3].map(str::to_owned),
                |times| times.map(|time| format!("{time:.1}")),
            );
            let [channel, device, engine] = [channel, device, engine].map(|name| text(name));
            let drive = has_drives.then(|| (drive + 1).to_string());
            let cells = drive.into_iter().chain([channel, device]).chain(times);
            let cells = cells.chain([frames, engine]);
            let cells: String = cells.map(|cell| format!("<td>{cell}</td>")).collect();
            format!("<tr>{cells}</tr>\n")
        })
        .collect();
    let open = if runs.len() <= MAX_ROWS { " open" } else { "" };
    format!(
        "<details{open}><summary>Device, engine and time of a whole frame</summary><div \
         class=scroll><table class=runs><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>\
         </div></details>\n"
    )
}

/// The files that were compared.
pub(super) fn sources(evaluation: &Evaluation) -> String {
    let drives: String = evaluation
        .drives
        .iter()
        .map(|drive| {
            let [detections, truth] = [&drive.detections, &drive.truth].map(|path| text(path));
            format!("<li><code>{detections}</code> against <code>{truth}</code></li>\n")
        })
        .collect();
    format!(
        "<h2>Sources</h2>\n<ol>{drives}</ol>\n<p>det_post {}; docs/evaluation.md defines the \
         figures.</p>\n",
        env!("CARGO_PKG_VERSION")
    )
}
