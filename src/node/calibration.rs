//! Checks whether the CameraInfo of a camera matches its images.
//!
//! Detections are in pixels of the received image; consumers that project them
//! into space use the CameraInfo of the camera. The newest CameraInfo is compared
//! with the newest processed image: sizes and frames must agree.
//!
//! Size, as in `sensor_msgs/CameraInfo`: `width` and `height` are the full
//! resolution. The image is its region of interest (the full resolution if the
//! region is all zero), divided by `binning_x` and `binning_y` and rounded down.

use std::sync::Arc;
use std::time::Instant;

use super::status::{StatusBuilder, TopicStatus, cause_of_silence};
use crate::config::LiveConfig;
use crate::detectors::{FrameInput, Payload};
use crate::runtime::input::{InputAccount, InputSummary};
use crate::runtime::slot::Offered;
use det_post_ops::image::decompress;
use det_post_ros::messages::{CameraInfo, DiagnosticLevel, DiagnosticStatus};
use det_post_ros::middleware::Received;
use det_post_types::{CameraCalibration, ImagePayload, Result, Size};

/// The newest CameraInfo and image of a camera, and the account of the messages.
#[derive(Clone, Debug)]
pub struct CalibrationWatch {
    /// Account of the CameraInfo messages.
    pub input: InputAccount,
    /// The newest calibration, for detectors that need it.
    newest: Option<Arc<CameraCalibration>>,
    calibration: Option<Calibration>,
    image: Option<Pixels>,
}

/// The checked content of a CameraInfo.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Calibration {
    /// Width and height of the full resolution.
    full: [u32; 2],
    /// Width and height of the region of interest, at full resolution.
    region: [u32; 2],
    binning: [u32; 2],
    frame_id: String,
    /// Whether it has an intrinsic matrix.
    is_calibrated: bool,
}

/// Size and frame of an image.
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

    /// The size of matching images.
    fn image_size(&self) -> Size {
        let [width, height] = [0, 1].map(|axis| self.region[axis] / self.binning[axis]);
        Size::new(width, height)
    }

    /// The reasons why it does not match an image.
    fn mismatches(&self, image: &Pixels) -> Vec<String> {
        let mut mismatches = Vec::new();
        let (expected, found) = (self.image_size(), image.size);
        if expected != found {
            let [full, region] = [self.full, self.region].map(|[w, h]| format!("{w}x{h}"));
            let [x, y] = self.binning;
            let of = if self.region == self.full { String::new() } else { format!(" of {full}") };
            let by = if self.binning == [1, 1] { String::new() } else { format!(" by {x}x{y}") };
            mismatches.push(format!(
                "CameraInfo is of {region}{of}{by}, for images of {}x{}; they have {}x{}",
                expected.width, expected.height, found.width, found.height
            ));
        }
        if self.frame_id != image.frame_id {
            mismatches.push(format!(
                "CameraInfo is of frame {:?}, images are of {:?}",
                self.frame_id, image.frame_id
            ));
        }
        mismatches
    }
}

impl CalibrationWatch {
    /// A camera without messages so far.
    pub fn new(now: Instant) -> Self {
        Self { input: InputAccount::new(now), newest: None, calibration: None, image: None }
    }

    /// Receives a message of the CameraInfo topic. Returns the number of refusals
    /// with its reason; 0 when it is accepted.
    pub fn receive(&mut self, now: Instant, received: Result<Received<'_>>) -> u64 {
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

    /// Records a processed image. Other inputs are ignored.
    pub fn note_image(&mut self, input: &FrameInput<'_>) {
        let FrameInput { header, payload: Payload::Image(payload), .. } = input else { return };
        let size = match payload {
            ImagePayload::Raw(image) => Ok(image.size()),
            ImagePayload::OnDevice(image) => Ok(image.size()),
            ImagePayload::Compressed(file) => decompress::size(file),
        };
        let Ok(size) = size else { return };
        match &mut self.image {
            Some(image) if image.frame_id == header.frame_id => image.size = size,
            image => *image = Some(Pixels { size, frame_id: header.frame_id.to_owned() }),
        }
    }

    /// The summary since the last call.
    pub fn summary(&mut self, now: Instant) -> CalibrationSummary {
        let Self { input, calibration, image, .. } = self;
        CalibrationSummary {
            input: input.look(now),
            calibration: calibration.clone(),
            image: image.clone(),
        }
    }
}

/// The state of a CameraInfo topic since the last summary.
#[derive(Clone, Debug)]
pub struct CalibrationSummary {
    input: InputSummary,
    calibration: Option<Calibration>,
    image: Option<Pixels>,
}

/// The health of a CameraInfo topic.
pub struct CalibrationHealth<'a> {
    /// The topic.
    pub topic: &'a str,
    /// Number of matched publishers; `None` when the topic is not subscribed.
    pub num_publishers: Option<usize>,
    /// Its status in the graph.
    pub status: TopicStatus<'a>,
    /// Its summary.
    pub summary: &'a CalibrationSummary,
}

impl CalibrationHealth<'_> {
    /// Whether a CameraInfo has arrived.
    pub fn has_arrived(&self) -> bool {
        self.summary.calibration.is_some()
    }

    /// Completes `status`.
    pub fn complete(&self, mut status: StatusBuilder, live: &LiveConfig) -> DiagnosticStatus {
        let CalibrationSummary { input, calibration, image } = self.summary;
        match self.num_publishers {
            None => status.otherwise("the node is not active".into()),
            Some(num_publishers) if calibration.is_none() && input.silence >= live.gap_warn => {
                let silence = input.silence.as_secs_f64();
                let cause = cause_of_silence(num_publishers, &self.status);
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
            let mismatches = image.as_ref().map(|image| calibration.mismatches(image));
            for mismatch in mismatches.into_iter().flatten() {
                status.note(DiagnosticLevel::Warn, &mismatch);
            }
        }
        status.otherwise(match (calibration, image) {
            (None, _) => "no CameraInfo yet".into(),
            (Some(_), None) => "no image yet".into(),
            (Some(_), Some(Pixels { size, frame_id })) => {
                format!("belongs to images of {}x{} in {frame_id:?}", size.width, size.height)
            }
        });
        self.add_values(&mut status);
        status.into_inner()
    }

    fn add_values(&self, status: &mut StatusBuilder) {
        let CalibrationSummary { input, calibration, image } = self.summary;
        status.value("topic", self.topic);
        status.value("publishers", self.num_publishers.unwrap_or(0).to_string());
        status.value("received", input.totals.num_received.to_string());
        self.status.add_losses(status);
        status.reasons("refused", &input.totals.refused);
        let size_of = |size: Size| format!("{}x{}", size.width, size.height);
        if let Some(calibration) = calibration {
            status.value("size", size_of(calibration.image_size()));
            status.value("frame_id", calibration.frame_id.as_str());
        }
        if let Some(image) = image {
            status.value("image_size", size_of(image.size));
            status.value("image_frame_id", image.frame_id.as_str());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_ros::messages::RegionOfInterest;
    use det_post_types::{Header, Stamp};

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
    fn sizes_match_by_the_rules_of_sensor_msgs() {
        let hd = [1920, 1080];
        // (full resolution, region, binning, image, mismatch)
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
                Some("is of 1920x1080, for images of 1920x1080; they have 1280x720"),
            ),
            (
                hd,
                [0, 0],
                [0, 0],
                [1080, 1920],
                Some("is of 1920x1080, for images of 1920x1080; they have 1080x1920"),
            ),
            (
                hd,
                [0, 0],
                [2, 2],
                hd,
                Some("is of 1920x1080 by 2x2, for images of 960x540; they have 1920x1080"),
            ),
            (
                hd,
                [640, 480],
                [2, 1],
                [640, 480],
                Some("is of 640x480 of 1920x1080 by 2x1, for images of 320x480; they have 640x480"),
            ),
            ([0, 0], [0, 0], [0, 0], [1, 1], Some("is of 0x0, for images of 0x0; they have 1x1")),
        ];
        for (full, region, binning, [width, height], expected) in cases {
            let calibration = Calibration::of(&info(full, region, binning));
            let image = Pixels { size: Size::new(width, height), frame_id: "camera".into() };
            let found = calibration.mismatches(&image);
            let expected: Vec<String> =
                expected.iter().map(|text| format!("CameraInfo {text}")).collect();
            assert_eq!(found, expected, "{full:?} {region:?} {binning:?}");
        }
    }

    #[test]
    fn frames_match_exactly() {
        let calibration = Calibration::of(&info([4, 2], [0, 0], [0, 0]));
        for (frame_id, agrees) in
            [("camera", true), ("/camera", false), ("Camera", false), ("", false)]
        {
            let image = Pixels { size: Size::new(4, 2), frame_id: frame_id.into() };
            let found = calibration.mismatches(&image);
            assert_eq!(found.is_empty(), agrees, "{frame_id:?} {found:?}");
            assert!(found.iter().all(|text| text.contains(&format!("{frame_id:?}"))), "{found:?}");
        }
        assert!(!Calibration::of(&CameraInfo::default()).is_calibrated);
    }
}
