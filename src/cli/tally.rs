//! What a replay found, how fast, and where it is.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::replay::{ReplayFrame, Report};
use det_post_types::{Detections, DeviceChoice};

/// The most classes that are named.
const MAX_CLASSES: usize = 8;

/// How to run networks on ONNX Runtime; README.md has the same command.
const USE_ONNX_RUNTIME: &str = "pip install onnxruntime; export ORT_DYLIB_PATH=$(python -c 'import \
    glob, onnxruntime; print(glob.glob(onnxruntime.__path__[0] + \"/capi/libonnxruntime.so*\")[0])')";

/// The frames of a replay, by class and in time.
pub(super) struct Tally {
    start: Instant,
    elapsed: Duration,
    num_frames: u64,
    /// By index.
    channels: BTreeMap<usize, ChannelTally>,
}

struct ChannelTally {
    name: String,
    /// By class.
    num_found: BTreeMap<u32, u64>,
    class_names: Vec<String>,
}

impl Tally {
    /// Starts the clock.
    pub(super) fn start() -> Self {
        let (start, channels) = (Instant::now(), BTreeMap::new());
        Self { start, elapsed: Duration::ZERO, num_frames: 0, channels }
    }

    /// Takes a frame.
    pub(super) fn see(&mut self, frame: &ReplayFrame<'_>) {
        let Ok(found) = &frame.result else { return };
        self.num_frames += 1;
        let channel = self.channels.entry(frame.channel).or_insert_with(|| ChannelTally {
            name: frame.config.name.clone(),
            num_found: BTreeMap::new(),
            class_names: frame.config.kind.class_names().to_vec(),
        });
        let mut count = |class: u32| *channel.num_found.entry(class).or_default() += 1;
        match found.detections {
            Detections::Boxes2d(found)
            | Detections::Masked2d(found, _)
            | Detections::Keypoints2d(found, _) => found.iter().for_each(|of| count(of.class)),
            Detections::RotatedBoxes2d(found) => found.iter().for_each(|of| count(of.class)),
            Detections::Boxes3d(found) => found.iter().for_each(|of| count(of.class)),
        }
    }

    /// Stops the clock.
    pub(super) fn stop(&mut self) {
        self.elapsed = self.start.elapsed();
    }

    /// The classes of each channel and, where the pace is that of the machine, frames per second.
    pub(super) fn to_text(&self, is_at_full_speed: bool) -> String {
        let mut text = String::new();
        for ChannelTally { name, num_found, class_names } in self.channels.values() {
            let mut classes: Vec<(u32, u64)> = num_found.iter().map(|(&a, &b)| (a, b)).collect();
            // The most frequent first; classes in order among equals.
            classes.sort_by_key(|&(class, num)| (std::cmp::Reverse(num), class));
            let others: u64 = classes.iter().skip(MAX_CLASSES).map(|(_, num)| num).sum();
            let named = classes.iter().take(MAX_CLASSES).map(|&(class, num)| {
                let name = class_names.get(class as usize).map_or("?", String::as_str);
                format!("{num} {name}")
            });
            let named = named.chain((others > 0).then(|| format!("{others} of other classes")));
            let named: Vec<String> = named.collect();
            let named = if named.is_empty() { "nothing".to_owned() } else { named.join(", ") };
            // Writing to a String cannot fail.
            let _ = writeln!(text, "found   {name}: {named}");
        }
        if is_at_full_speed && self.num_frames > 0 {
            let seconds = self.elapsed.as_secs_f64();
            let rate = self.num_frames as f64 / seconds.max(1e-9);
            let num = self.num_frames;
            let _ = writeln!(text, "speed   {rate:.1} frames per second, {num} in {seconds:.1} s");
        }
        text
    }
}

/// What a replay without a folder says.
pub(super) const WROTE_NOTHING: &str = "wrote   nothing: `--out DIR` keeps the detections\n";

/// Where the results of a replay are.
pub(super) fn wrote(out: &Path, num_images: u64) -> String {
    let images = match num_images {
        0 => String::new(),
        num => format!(", images/ ({num})"),
    };
    let out = out.display();
    format!("wrote   {out}/: detections.jsonl, detections/ (MCAP), report.json{images}\n")
}

/// What would run the networks faster, if anything would: how to get it.
pub(super) fn faster(report: &Report) -> Option<String> {
    let mut on_rten = report.channels.values().filter(|channel| channel.engine.starts_with("rten"));
    let is_named = std::env::var_os("ORT_DYLIB_PATH").is_some_and(|path| !path.is_empty());
    let channel = on_rten.next().filter(|_| !is_named)?;
    let on_gpu = channel.device != DeviceChoice::Cpu.to_string();
    Some(match on_gpu {
        true => "faster: networks run on the CPU, by rten; onnxruntime-gpu and cuDNN run them on \
                 the GPU: README.md, \"Networks\""
            .to_owned(),
        false => format!(
            "faster: ONNX Runtime runs networks 1.3 to 3.5 times as fast as rten: {USE_ONNX_RUNTIME}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_named_by_number() {
        let mut num_found: BTreeMap<u32, u64> = (0..12).map(|class| (class, 1)).collect();
        num_found.insert(3, 5);
        let class_names = (0..12).map(|class| format!("c{class}")).collect();
        let names = ["front", "back"].map(str::to_owned);
        let [front, back] = names;
        let channels = [
            (0, ChannelTally { name: front, num_found, class_names }),
            (1, ChannelTally { name: back, num_found: BTreeMap::new(), class_names: Vec::new() }),
        ];
        let mut tally = Tally::start();
        tally.channels = channels.into();
        tally.num_frames = 8;
        tally.elapsed = Duration::from_secs(2);
        let text = tally.to_text(true);
        let expected = "found   front: 5 c3, 1 c0, 1 c1, 1 c2, 1 c4, 1 c5, 1 c6, 1 c7, 4 of other \
                        classes\nfound   back: nothing\nspeed   4.0 frames per second, 8 in 2.0 s\n";
        assert_eq!(text, expected);
        assert!(!tally.to_text(false).contains("speed"), "the pace is the recording's");
    }

    #[test]
    fn results_are_named_with_their_folder() {
        let out = Path::new("out");
        assert!(
            wrote(out, 0).ends_with("out/: detections.jsonl, detections/ (MCAP), report.json\n")
        );
        assert!(wrote(out, 3).ends_with("report.json, images/ (3)\n"));
    }
}
