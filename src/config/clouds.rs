//! Where the clouds of a LiDAR channel come from, and where their points go.

use super::declaration::Change::Fixed;
use super::reader::Reader;
use super::value::Length::OneOrMore;
use super::value::{flag, list, number, one_of, text};
use det_post_types::{PointRange, PointTimes, TimeOrigin, TimeUnit};

/// The clouds of a LiDAR channel.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudsConfig {
    /// LiDARs, each an input.
    pub num_inputs: usize,
    /// The frame into which points are moved, also the frame of the boxes; `None`: the frame of the one
    /// LiDAR.
    pub target_frame: Option<String>,
    /// Whether points contain the motion of the vehicle between the stamp of a cloud and that of
    /// its frame.
    pub compensate_skew: bool,
    /// By input, the box whose points are dropped; empty for none.
    pub crop_boxes: Vec<PointRange>,
    /// How the times of points are found, if clouds are deskewed.
    pub deskew: Option<PointTimes>,
}

/// How the inputs of a channel are given.
#[derive(Clone, Copy)]
pub(super) struct GivenAs {
    /// As a list of clouds.
    pub(super) is_list: bool,
    /// As a cloud and images of cameras.
    pub(super) has_cameras: bool,
}

const UNITS: &[(&str, Option<TimeUnit>)] = &[
    ("auto", None),
    (TimeUnit::Seconds.name(), Some(TimeUnit::Seconds)),
    (TimeUnit::Milliseconds.name(), Some(TimeUnit::Milliseconds)),
    (TimeUnit::Microseconds.name(), Some(TimeUnit::Microseconds)),
    (TimeUnit::Nanoseconds.name(), Some(TimeUnit::Nanoseconds)),
];
const ORIGINS: &[(&str, Option<TimeOrigin>)] = &[
    ("auto", None),
    (TimeOrigin::Stamp.name(), Some(TimeOrigin::Stamp)),
    (TimeOrigin::Epoch.name(), Some(TimeOrigin::Epoch)),
];

/// Numbers of a box.
const BOX_LEN: usize = 6;

impl CloudsConfig {
    /// Reads the parameters of a channel of `num_inputs`.
    pub(super) fn read(p: &mut Reader<'_>, num_inputs: usize, given: GivenAs) -> Self {
        let GivenAs { is_list, has_cameras } = given;
        const HELP: &str = "Coordinate frame, fixed to the vehicle, of points and boxes.";
        const DEFAULT: &str = "`base_link` with `inputs` or cameras, else the cloud's";
        let target_frame = match is_list || has_cameras {
            true => Some(p.derived("target_frame", Fixed, text(), (DEFAULT, "base_link"), HELP)),
            false => p.optional("target_frame", Fixed, text(), DEFAULT, HELP),
        };
        let compensate_skew = p.derived(
            "compensate_skew",
            Fixed,
            flag(),
            ("`true` with `target_frame`, without cameras", target_frame.is_some() && !has_cameras),
            "Whether points are moved by the motion between the stamps of a cloud and of its \
             frame.",
        );
        if compensate_skew && target_frame.is_none() {
            p.conflict(&["compensate_skew", "target_frame"], true, "false without target_frame");
        }
        Self {
            num_inputs,
            target_frame,
            compensate_skew,
            crop_boxes: crop_boxes(p, num_inputs),
            deskew: deskew(p),
        }
    }

    /// Whether poses are needed in another frame than past sweeps use.
    pub fn uses_transforms(&self) -> bool {
        self.target_frame.is_some() || self.deskew.is_some()
    }
}

fn crop_boxes(p: &mut Reader<'_>, num_inputs: usize) -> Vec<PointRange> {
    const KEY: &str = "crop_boxes";
    let numbers = p.optional(
        KEY,
        Fixed,
        list(number(-1e6..=1e6).in_unit("m"), OneOrMore),
        "none",
        "Boxes whose points are dropped, such as the vehicle's: least x, y, z, then greatest, in the points' frame; one, or one per input.",
    );
    let Some(numbers) = numbers else { return Vec::new() };
    let allowed = match num_inputs {
        1 => format!("{BOX_LEN} numbers"),
        n => format!("{BOX_LEN} numbers, or {} for {n} inputs", n * BOX_LEN),
    };
    if numbers.len() != BOX_LEN && numbers.len() != num_inputs * BOX_LEN {
        p.refuse(KEY, format!("{} numbers", numbers.len()), &allowed);
        return Vec::new();
    }
    let (chunks, _) = numbers.as_chunks::<BOX_LEN>();
    let boxes: Vec<_> = chunks.iter().map(|bounds| PointRange::from_bounds(*bounds)).collect();
    let is_empty = |of: &&PointRange| (0..3).any(|axis| of.min[axis] >= of.max[axis]);
    if let Some(PointRange { min, max }) = boxes.iter().find(is_empty) {
        p.refuse(KEY, format!("{min:?} to {max:?}"), "least x, y, z below the greatest");
    }
    match boxes[..] {
        [of_all] => vec![of_all; num_inputs],
        _ => boxes,
    }
}

fn deskew(p: &mut Reader<'_>) -> Option<PointTimes> {
    let is_enabled = p.value(
        "deskew.enabled",
        Fixed,
        flag(),
        false,
        "Whether points are moved by the motion between their time and the stamp of the cloud.",
    );
    let field = p.optional(
        "deskew.time_field",
        Fixed,
        text(),
        "the first known name",
        "Field of the [times of points](several-lidars.md#times-of-points).",
    );
    let unit = p.value(
        "deskew.time_unit",
        Fixed,
        one_of(UNITS),
        "auto",
        "Their unit; `auto`: by name, type and size.",
    );
    let origin = p.value(
        "deskew.time_origin",
        Fixed,
        one_of(ORIGINS),
        "auto",
        "Whether they count from the `stamp` of the cloud or the `epoch`; `auto`: the nearer.",
    );
    is_enabled.then_some(PointTimes { field, unit, origin })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ChannelKind, Config};

    fn load(more: &[&str]) -> crate::Result<(CloudsConfig, Config)> {
        let files = ["l.head:=centerpoint_autoware", "l.encoder_path:=e", "l.model_path:=m"];
        let parameters: Vec<_> =
            files.iter().chain(more).map(|parameter| (*parameter).to_owned()).collect();
        let config = Config::load(&[], &parameters)?;
        let ChannelKind::Lidar(lidar) = &config.channels[0].kind else { panic!("no LiDAR") };
        Ok((lidar.clouds.clone(), config.clone()))
    }

    #[test]
    fn one_cloud_stays_in_its_frame() {
        let (clouds, _) = load(&["l.input:=/points"]).unwrap();
        let expected = CloudsConfig {
            num_inputs: 1,
            target_frame: None,
            compensate_skew: false,
            crop_boxes: Vec::new(),
            deskew: None,
        };
        assert_eq!(clouds, expected);
        assert!(!clouds.uses_transforms());
        let (clouds, _) = load(&["l.input:=/points", "l.target_frame:=base_link"]).unwrap();
        assert!(clouds.compensate_skew && clouds.uses_transforms());
    }

    #[test]
    fn several_clouds_are_read() {
        let (clouds, config) = load(&[
            "l.inputs:=[/front, /left, rear]",
            "l.reference_lidar:=2",
            "l.crop_boxes:=[-1, -1, 0, 4, 1, 2]",
            "l.deskew.enabled:=true",
            "l.deskew.time_unit:=us",
        ])
        .unwrap();
        let channel = &config.channels[0];
        let topics: Vec<_> = channel.inputs.iter().map(|input| input.topic.as_str()).collect();
        assert_eq!(topics, ["/front", "/left", "/rear"]);
        assert_eq!((channel.sync.reference, channel.sync.min_inputs), (2, Some(1)));
        let ego = PointRange::from_bounds([-1.0, -1.0, 0.0, 4.0, 1.0, 2.0]);
        assert_eq!(clouds.crop_boxes, [ego; 3]);
        assert_eq!((clouds.num_inputs, clouds.compensate_skew), (3, true));
        assert_eq!(clouds.target_frame.as_deref(), Some("base_link"));
        let unit = Some(TimeUnit::Microseconds);
        assert_eq!(clouds.deskew, Some(PointTimes { unit, ..PointTimes::default() }));
        // The effective parameters load as the same channel.
        let again = Config::parse(&channel.to_yaml()).unwrap();
        assert_eq!(again.channels[0].kind, channel.kind);
        assert_eq!(again.channels[0].inputs, channel.inputs);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (more, part) in [
            (&["l.inputs:=[/a, /a]"][..], "l.inputs: found \"/a\" twice"),
            (&["l.inputs:=[/a]", "l.input:=/b"], "l.input: found \"/b\"; allowed: one of"),
            (&["l.inputs:=[/a, /b]", "l.crop_boxes:=[0, 1]"], "6 numbers, or 12 for 2 inputs"),
            (&["l.input:=/a", "l.crop_boxes:=[1, 0, 0, 1, 1, 1]"], "below the greatest"),
            (&["l.input:=/a", "l.compensate_skew:=true"], "false without target_frame"),
            (&["l.inputs:=[/a, /b]", "l.reference_lidar:=2"], "an input, from 0 to 1"),
            (&["l.inputs:=[/a, /b]", "l.sync.min_lidars:=3"], "at most the 2 inputs"),
            (&["l.input:=/a", "l.deskew.time_unit:=min"], "auto, s, ms, us, ns"),
            (&["l.input:=/a", "l.sync.max_skew_s:=0.1"], "l.sync.max_skew_s"),
            (&[], "l.input: is missing"),
        ] {
            let error = load(more).unwrap_err();
            assert!(error.message().contains(part), "{part}: {error}");
        }
    }
}
