//! Whether the CameraInfo of a camera belongs to its pictures.
//!
//! Detections are pixels of the picture as it came, and whoever lifts them into
//! space takes the camera's CameraInfo for that. The newest is held beside the
//! newest picture that was served; sizes and frames must agree.
//!
//! Size, as `sensor_msgs/CameraInfo` has it: `width` and `height` are those of
//! the full resolution, the picture is the region of interest of it (all of it
//! where the region is all zero), and shows a pixel for `binning_x` times
//! `binning_y` of them. What is left over of a division is left out.

use std::sync::Arc;
use std::time::Instant;

use super::status::{StatusBuilder, TopicStatus, cause_of_silence};
use crate::config::LiveConfig;
use crate::detectors::{FrameInput, Payload};
use crate::error::Result;
use crate::ops::decompress;
use crate::runtime::input::{InputAccount, InputSummary};
use crate::runtime::slot::Offered;
use crate::transport::messages::{CameraInfo, DiagnosticLevel, DiagnosticStatus};
use crate::transport::middleware::Received;
use crate::types::{CameraCalibration, ImagePayload, Size};

/// The newest CameraInfo of a camera, the newest picture, and what became of
/// the messages.
#[derive(Clone, Debug)]
pub struct CalibrationWatch {
    /// The messages.
    pub input: InputAccount,
    /// The newest, for detectors that ask for it.
    newest: Option<Arc<CameraCalibration>>,
    calibration: Option<Calibration>,
    picture: Option<Pixels>,
}

/// What a CameraInfo says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Calibration {
    /// Width and height of the full resolution.
    full: [u32; 2],
    /// Width and height of the part that is read out, at full resolution.
    region: [u32; 2],
    binning: [u32; 2],
    frame_id: String,
    /// Whether there is an intrinsic matrix.
    is_calibrated: bool,
}

/// Size and frame of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pixels {
    size: Size,
    frame_id: String,
}

impl Calibration {
    fn of(info: &CameraInfo<'_>) -> Self {
        let full = [info.width, info.height];
        let region = [info.roi.width, info.roi.height];
        Self {
            full,
            region: if region == [0, 0] { full } else { region },
            binning: [info.binning_x, info.binning_y].map(|n| n.max(1)),
            frame_id: info.header.frame_id.to_owned(),
            is_calibrated: info.k[0] != 0.0,
        }
    }

    /// The size of the pictures that it belongs to.
    fn picture_size(&self) -> Size {
        let [width, height] = [0, 1].map(|axis| self.region[axis] / self.binning[axis]);
        Size::new(width, height)
    }

    /// Why it does not belong to pictures like this one.
    fn objections(&self, picture: &Pixels) -> Vec<String> {
        let mut objections = Vec::new();
        let (expected, found) = (self.picture_size(), picture.size);
        if expected != found {
            let [full, region] = [self.full, self.region].map(|[w, h]| format!("{w}x{h}"));
            let [x, y] = self.binning;
            let of = if self.region == self.full { String::new() } else { format!(" of {full}") };
            let by = if self.binning == [1, 1] { String::new() } else { format!(" by {x}x{y}") };
            objections.push(format!(
                "CameraInfo is of {region}{of}{by}, for pictures of {}x{}; they have {}x{}",
                expected.width, expected.height, found.width, found.height
            ));
        }
        if self.frame_id != picture.frame_id {
            objections.push(format!(
                "CameraInfo is of frame {:?}, pictures are of {:?}",
                self.frame_id, picture.frame_id
            ));
        }
        objections
    }
}

impl CalibrationWatch {
    /// A camera that is watched from now on.
    pub fn new(now: Instant) -> Self {
        Self { input: InputAccount::new(now), newest: None, calibration: None, picture: None }
    }

    /// Takes a message of the topic of CameraInfo. Returns how often a refusal
    /// of its reason came; 0 when it was taken.
    pub fn take(&mut self, now: Instant, received: Result<Received<'_>>) -> u64 {
        self.input.note(
            now,
            received.map(|message| {
                if let Received::CameraInfo(info) = message {
                    self.calibration = Some(Calibration::of(info));
                    let newest = info.calibration();
                    if self.newest.as_deref() != Some(&newest) {
                        self.newest = Some(Arc::new(newest));
                    }
                }
                Offered::Waiting
            }),
        )
    }

    /// The newest calibration.
    pub fn newest(&self) -> Option<Arc<CameraCalibration>> {
        self.newest.clone()
    }

    /// Notes a picture that was served; other inputs are ignored.
    pub fn note_picture(&mut self, input: &FrameInput<'_>) {
        let FrameInput { header, payload: Payload::Image(payload), .. } = input else { return };
        let size = match payload {
            ImagePayload::Raw(image) => Ok(image.size()),
            ImagePayload::Compressed(file) => decompress::size(file),
        };
        // One that has no size was not served.
        let Ok(size) = size else { return };
        match &mut self.picture {
            Some(picture) if picture.frame_id == header.frame_id => picture.size = size,
            picture => *picture = Some(Pixels { size, frame_id: header.frame_id.to_owned() }),
        }
    }

    /// Sums up, and counts anew from now on.
    pub fn look(&mut self, now: Instant) -> CalibrationSummary {
        let Self { input, calibration, picture, .. } = self;
        CalibrationSummary {
            input: input.look(now),
            calibration: calibration.clone(),
            picture: picture.clone(),
        }
    }
}

/// What is to be said of a camera's CameraInfo now.
#[derive(Clone, Debug)]
pub struct CalibrationSummary {
    input: InputSummary,
    calibration: Option<Calibration>,
    picture: Option<Pixels>,
}

/// A topic of CameraInfo as it is looked at.
pub struct CalibrationHealth<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Publishers that are matched; `None` where it is not being received.
    pub num_publishers: Option<usize>,
    /// What the graph said of it.
    pub told: TopicStatus<'a>,
    /// What came, and what it was beside the pictures.
    pub summary: &'a CalibrationSummary,
}

impl CalibrationHealth<'_> {
    /// The status that begins as `status`.
    pub fn judge(&self, mut status: StatusBuilder, live: &LiveConfig) -> DiagnosticStatus {
        let CalibrationSummary { input, calibration, picture } = self.summary;
        match self.num_publishers {
            None => status.otherwise("the node is not active".into()),
            Some(num_publishers) if calibration.is_none() && input.silence >= live.gap_warn => {
                let silence = input.silence.as_secs_f64();
                let cause = cause_of_silence(num_publishers, &self.told);
                let message = format!("no CameraInfo for {silence:.1} s: {cause}");
                status.note(DiagnosticLevel::Warn, &message);
            }
            Some(_) => {}
        }
        status.note_refused(input);
        if let Some(calibration) = calibration {
            if !calibration.is_calibrated {
                status.note(DiagnosticLevel::Warn, "CameraInfo says that it is not calibrated");
            }
            let objections = picture.as_ref().map(|picture| calibration.objections(picture));
            for objection in objections.into_iter().flatten() {
                status.note(DiagnosticLevel::Warn, &objection);
            }
        }
        status.otherwise(match (calibration, picture) {
            (None, _) => "no CameraInfo yet".into(),
            (Some(_), None) => "no picture yet".into(),
            (Some(_), Some(Pixels { size, frame_id })) => {
                format!("belongs to pictures of {}x{} in {frame_id:?}", size.width, size.height)
            }
        });
        self.add_values(&mut status);
        status.into_inner()
    }

    fn add_values(&self, status: &mut StatusBuilder) {
        let CalibrationSummary { input, calibration, picture } = self.summary;
        status.value("topic", self.topic);
        status.value("publishers", self.num_publishers.unwrap_or(0).to_string());
        status.value("received", input.totals.num_received.to_string());
        self.told.add_losses(status);
        status.reasons("refused", &input.totals.refused);
        let size_of = |size: Size| format!("{}x{}", size.width, size.height);
        if let Some(calibration) = calibration {
            status.value("size", size_of(calibration.picture_size()));
            status.value("frame_id", calibration.frame_id.as_str());
        }
        if let Some(picture) = picture {
            status.value("picture_size", size_of(picture.size));
            status.value("picture_frame_id", picture.frame_id.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::messages::RegionOfInterest;
    use crate::types::{Header, Stamp};

    fn info(size: [u32; 2], region: [u32; 2], binning: [u32; 2]) -> CameraInfo<'static> {
        let [width, height] = size;
        let roi = RegionOfInterest { width: region[0], height: region[1], ..Default::default() };
        CameraInfo {
            header: Header { stamp: Stamp::default(), frame_id: "camera" },
            width,
            height,
            k: [1.0; 9],
            binning_x: binning[0],
            binning_y: binning[1],
            roi,
            ..CameraInfo::default()
        }
    }

    #[test]
    fn sizes_agree_as_sensor_msgs_has_it() {
        let hd = [1920, 1080];
        // (full resolution, region, binning, picture, what is said of it)
        let cases = [
            (hd, [0, 0], [0, 0], hd, None),
            (hd, [0, 0], [1, 1], hd, None),
            (hd, hd, [1, 1], hd, None),
            (hd, [0, 0], [2, 2], [960, 540], None),
            (hd, [0, 0], [2, 1], [960, 1080], None),
            (hd, [640, 480], [0, 0], [640, 480], None),
            (hd, [641, 481], [2, 2], [320, 240], None),
            (
                hd,
                [0, 0],
                [0, 0],
                [1280, 720],
                Some("is of 1920x1080, for pictures of 1920x1080; they have 1280x720"),
            ),
            (
                hd,
                [0, 0],
                [0, 0],
                [1080, 1920],
                Some("is of 1920x1080, for pictures of 1920x1080; they have 1080x1920"),
            ),
            (
                hd,
                [0, 0],
                [2, 2],
                hd,
                Some("is of 1920x1080 by 2x2, for pictures of 960x540; they have 1920x1080"),
            ),
            (
                hd,
                [640, 480],
                [2, 1],
                [640, 480],
                Some(
                    "is of 640x480 of 1920x1080 by 2x1, for pictures of 320x480; they have 640x480",
                ),
            ),
            ([0, 0], [0, 0], [0, 0], [1, 1], Some("is of 0x0, for pictures of 0x0; they have 1x1")),
        ];
        for (full, region, binning, [width, height], expected) in cases {
            let calibration = Calibration::of(&info(full, region, binning));
            let picture = Pixels { size: Size::new(width, height), frame_id: "camera".into() };
            let told = calibration.objections(&picture);
            let expected: Vec<String> =
                expected.iter().map(|text| format!("CameraInfo {text}")).collect();
            assert_eq!(told, expected, "{full:?} {region:?} {binning:?}");
        }
    }

    #[test]
    fn frames_agree_to_the_letter() {
        let calibration = Calibration::of(&info([4, 2], [0, 0], [0, 0]));
        for (frame_id, agrees) in
            [("camera", true), ("/camera", false), ("Camera", false), ("", false)]
        {
            let picture = Pixels { size: Size::new(4, 2), frame_id: frame_id.into() };
            let told = calibration.objections(&picture);
            assert_eq!(told.is_empty(), agrees, "{frame_id:?} {told:?}");
            assert!(told.iter().all(|text| text.contains(&format!("{frame_id:?}"))), "{told:?}");
        }
        assert!(!Calibration::of(&CameraInfo::default()).is_calibrated);
    }
}
