//! What a comparison found, as text and JSON.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::matching::{MIN_IOU, Matches, SCORE_TOLERANCE};
use super::parts::{MAX_KEYPOINT_DISTANCE, MIN_MASK_IOU};
use det_post_types::text::{LineBreaks, shown};
use det_post_types::{ElementType, Error, ErrorKind, Result, StudiedLayer, StudiedNetwork};

/// The largest 16-bit float.
const LARGEST_F16: f32 = 65504.0;
/// The share of detections that may differ.
const MAX_APART: f64 = 0.01;
/// The most layers that a verdict names.
const MAX_NAMED: usize = 8;

/// All channels.
#[derive(Default)]
pub(super) struct Report {
    pub(super) channels: Vec<ChannelReport>,
}

/// A channel.
pub(super) struct ChannelReport {
    name: String,
    networks: Vec<NetworkReport>,
    matches: Matches,
}

#[derive(Serialize)]
struct NetworkReport {
    model: PathBuf,
    /// What computed it with 32-bit floats, and with 16-bit floats.
    engines: [String; 2],
    layers: Vec<LayerReport>,
}

#[derive(Serialize)]
struct LayerReport {
    name: String,
    kernel: &'static str,
    /// The elements of products with 16-bit floats; absent of a layer without.
    products: Option<String>,
    /// The elements that are written with 16-bit floats.
    stored: Option<String>,
    /// With 32-bit floats.
    largest: f32,
    /// Of what 16-bit floats hold.
    share: f32,
    /// Infinities and NaNs, with 32-bit floats and with 16-bit floats.
    not_finite: [u64; 2],
    overflows: bool,
    #[serde(skip)]
    layers: Vec<String>,
}

impl NetworkReport {
    fn new(wide: &StudiedNetwork, half: &StudiedNetwork) -> Self {
        let mut is_taken = vec![false; half.layers.len()];
        let mut layers = Vec::new();
        for of in &wide.layers {
            let is_same =
                |other: &StudiedLayer| (&other.name, other.kernel) == (&of.name, of.kernel);
            let at = (0..is_taken.len()).find(|&at| !is_taken[at] && is_same(&half.layers[at]));
            let other = at.map(|at| &half.layers[at]);
            at.into_iter().for_each(|at| is_taken[at] = true);
            layers.push(LayerReport::new(of, other));
        }
        // Copies that only 16-bit floats need, where nothing else shows that their values are too large.
        for (other, _) in half.layers.iter().zip(&is_taken).filter(|(_, taken)| !**taken) {
            if other.num_not_finite > 0 && !layers.iter().any(|layer| layer.overflows) {
                layers.push(LayerReport {
                    overflows: true,
                    ..LayerReport::new(
                        &StudiedLayer { num_not_finite: 0, ..other.clone() },
                        Some(other),
                    )
                });
            }
        }
        // What comes after an infinity has others.
        let mut has_overflown = false;
        for layer in &mut layers {
            let is_own = layer.share > 1.0 || !has_overflown;
            has_overflown |= layer.overflows;
            layer.overflows &= is_own;
        }
        let engines = [wide.engine.clone(), half.engine.clone()];
        Self { model: wide.model.clone(), engines, layers }
    }
}

impl LayerReport {
    fn new(wide: &StudiedLayer, half: Option<&StudiedLayer>) -> Self {
        let share = wide.largest / LARGEST_F16;
        let num_half = half.map_or(0, |half| half.num_not_finite);
        let is_half = half.is_some_and(|half| half.stored == ElementType::F16);
        Self {
            name: shown(wide.name.clone(), LineBreaks::Escaped),
            kernel: wide.kernel,
            products: half.and_then(|half| half.products).map(|of| of.to_string()),
            stored: half.map(|half| half.stored.to_string()),
            largest: wide.largest,
            share,
            not_finite: [wide.num_not_finite, num_half],
            overflows: (share > 1.0 && is_half) || num_half > wide.num_not_finite,
            layers: wide.layers.clone(),
        }
    }
}

impl ChannelReport {
    /// Of the networks with 32-bit and with 16-bit floats, in the same order, and the detections.
    pub(super) fn new(
        name: &str,
        wide: &[StudiedNetwork],
        half: &[StudiedNetwork],
        matches: Matches,
    ) -> Self {
        let pairs = wide.iter().filter_map(|wide| {
            let half = half.iter().find(|half| half.model == wide.model)?;
            Some(NetworkReport::new(wide, half))
        });
        Self { name: name.to_owned(), networks: pairs.collect(), matches }
    }

    fn overflowing(&self) -> impl Iterator<Item = &LayerReport> {
        self.networks.iter().flat_map(|of| &of.layers).filter(|layer| layer.overflows)
    }

    fn num_detections(&self) -> usize {
        self.matches.num[0].max(self.matches.num[1])
    }

    fn share_apart(&self) -> f64 {
        self.matches.num_apart() as f64 / self.num_detections().max(1) as f64
    }

    fn holds(&self) -> bool {
        self.overflowing().next().is_none()
            && self.matches.num_dropped_once == 0
            && self.num_detections() > 0
            && self.share_apart() <= MAX_APART
    }

    /// The names of what overflows, for `engine.keep_f32`.
    fn to_keep(&self) -> Vec<String> {
        let mut names = Vec::new();
        for name in self.overflowing().flat_map(|layer| &layer.layers) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    /// One line.
    fn verdict(&self) -> String {
        let matches = &self.matches;
        let (num, apart) = (self.num_detections(), matches.num_apart());
        if let Some(first) = self.overflowing().next() {
            let names = self.to_keep();
            let more = match names.len().saturating_sub(MAX_NAMED) {
                0 => String::new(),
                more => format!(" and {more} more (--json lists all)"),
            };
            let named: Vec<String> =
                names.iter().take(MAX_NAMED).map(|name| format!("{name:?}")).collect();
            let what = if first.share > 1.0 {
                format!(
                    "writes up to {:.3e}, {:.2} times what f16 holds",
                    first.largest, first.share
                )
            } else {
                format!("writes {} infinities and NaNs in f16", first.not_finite[1])
            };
            return format!(
                "f16 does not hold: {} {what}; try engine.keep_f32: [{}]{more}",
                first.name,
                named.join(", ")
            );
        }
        if matches.num_dropped_once > 0 {
            let num = matches.num_dropped_once;
            return format!("f16 does not hold: frames that one of the runs dropped: {num}");
        }
        if num == 0 {
            let frames = matches.num_frames;
            return format!(
                "f16 is not shown to hold: no detections in {frames} frames to compare"
            );
        }
        let holds = if self.holds() { "f16 holds" } else { "f16 does not hold" };
        let largest = self.networks.iter().flat_map(|of| &of.layers);
        let largest = largest
            .filter(|layer| layer.stored.as_deref() == Some("f16"))
            .map(|layer| layer.share)
            .fold(0.0, f32::max);
        format!(
            "{holds}: {apart} of {num} detections differ, up to {:.0} % may; layers of f16 use up to {:.2} % of its range",
            MAX_APART * 100.0,
            largest * 100.0
        )
    }

    fn to_text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let channel = &self.name;
        for NetworkReport { model, engines: [wide, half], layers } in &self.networks {
            let _ = writeln!(text, "{channel}: {}\n  f32: {wide}\n  f16: {half}", model.display());
            let _ = writeln!(
                text,
                "  {:12} {:8} {:6} {:>12} {:>10}  layer",
                "kernel", "products", "stored", "largest", "% of f16"
            );
            for layer in layers {
                let of = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".into());
                let mark = match (layer.overflows, layer.not_finite) {
                    (true, [_, 0]) => "  beyond f16".to_owned(),
                    (true, [_, num]) => format!("  beyond f16: {num} infinities and NaNs"),
                    (false, [0, 0]) => String::new(),
                    (false, [wide, half]) => {
                        format!("  infinities and NaNs: {wide} f32, {half} f16")
                    }
                };
                let _ = writeln!(
                    text,
                    "  {:12} {:8} {:6} {:>12.4e} {:>10.3}  {}{mark}",
                    layer.kernel,
                    of(&layer.products),
                    of(&layer.stored),
                    layer.largest,
                    layer.share * 100.0,
                    layer.name
                );
            }
        }
        let Matches { num, num_unmatched: [missed, extra], num_at_threshold, .. } = self.matches;
        let unit = if self.matches.is_in_space { "m" } else { "px" };
        let _ = writeln!(
            text,
            "{channel}: {} frames; detections: {} with f32, {} with f16; {} matched (same class, IoU from {MIN_IOU}), \
             {missed} missed, {extra} extra, of these {num_at_threshold} within {SCORE_TOLERANCE} of the score threshold",
            self.matches.num_frames, num[0], num[1], self.matches.num_matched,
        );
        let _ = writeln!(
            text,
            "{channel}: largest differences: score {:.4}, box {:.4} {unit}; least IoU {:.4}; scores more than \
             {SCORE_TOLERANCE} apart: {}",
            self.matches.largest_score_difference,
            self.matches.largest_box_difference,
            self.matches.least_iou,
            self.matches.num_other_scores
        );
        if let Some(least) = self.matches.least_mask_iou {
            let num = self.matches.num_other_masks;
            let _ = writeln!(
                text,
                "{channel}: masks: least IoU {least:.4}; below {MIN_MASK_IOU}: {num}"
            );
        }
        if let Some(largest) = self.matches.largest_keypoint_distance {
            let _ = writeln!(
                text,
                "{channel}: keypoints: up to {:.2} % of the box's diagonal apart; detections with one beyond {:.0} %, or \
                 visible in one run only: {}",
                largest * 100.0,
                MAX_KEYPOINT_DISTANCE * 100.0,
                self.matches.num_other_keypoints
            );
        }
        let _ = writeln!(text, "{channel}: {}", self.verdict());
        text
    }

    fn to_value(&self) -> serde_json::Value {
        let of = &self.matches;
        serde_json::json!({
            "name": self.name,
            "holds": self.holds(),
            "verdict": self.verdict(),
            "keep_f32": self.to_keep(),
            "networks": self.networks,
            "frames": of.num_frames,
            "frames_dropped_once": of.num_dropped_once,
            "detections": {
                "f32": of.num[0],
                "f16": of.num[1],
                "matched": of.num_matched,
                "missed": of.num_unmatched[0],
                "extra": of.num_unmatched[1],
                "at_threshold": of.num_at_threshold,
                "other_scores": of.num_other_scores,
                "other_masks": of.num_other_masks,
                "other_keypoints": of.num_other_keypoints,
                "differ": of.num_apart(),
            },
            "largest_score_difference": of.largest_score_difference,
            "largest_box_difference": of.largest_box_difference,
            "least_iou": of.least_iou,
            "least_mask_iou": of.least_mask_iou,
            "largest_keypoint_distance": of.largest_keypoint_distance,
        })
    }
}

impl Report {
    /// Whether 16-bit floats hold in all channels, of which there is one.
    pub(super) fn holds(&self) -> bool {
        !self.channels.is_empty() && self.channels.iter().all(ChannelReport::holds)
    }

    /// Tables and verdicts.
    pub(super) fn to_text(&self) -> String {
        self.channels.iter().map(ChannelReport::to_text).collect()
    }

    /// As JSON.
    ///
    /// # Errors
    /// `Argument` when it has no form in JSON.
    pub(super) fn to_json(&self) -> Result<String> {
        let channels: Vec<_> = self.channels.iter().map(ChannelReport::to_value).collect();
        let value = serde_json::json!({ "holds": self.holds(), "channels": channels });
        let text = serde_json::to_string_pretty(&value).map_err(|cause| {
            let message = "the comparison has no form in JSON";
            Error::new(ErrorKind::Argument, "compare-precision", message).with_source(cause)
        })?;
        Ok(text + "\n")
    }
}
