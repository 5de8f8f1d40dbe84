//! Detectors that write what they were given into their boxes, so that equal
//! boxes mean equal inputs.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use det_post::config::ChannelConfig;
use det_post::detectors::{
    Detector, DetectorInfo, FrameInput, FrameSet, InputNeeds, Payload, PayloadKind,
};
use det_post::runtime::Factory;
use det_post::runtime::isolated::serve;
use det_post::{Error, ErrorKind, Result};
use det_post_ops::device::Device;
use det_post_types::{
    Box2d, Box3d, Detection2d, Detection3d, Detections, DeviceChoice, FrameReport, Header,
    ImagePayload, Object3d, Stage, Stamp,
};

/// Makes the detector that a channel is named after: `cameras` has two cameras
/// and boxes in an image, `fused` a camera and a lidar and boxes in space.
pub fn open(config: &ChannelConfig, _: DeviceChoice) -> Result<Box<dyn Detector>> {
    let camera = InputNeeds { calibration: true, ..InputNeeds::of(PayloadKind::Image) };
    let pose_in = Some("map".into());
    let lidar = InputNeeds { pose_in, ..InputNeeds::of(PayloadKind::Cloud) };
    let needs = match config.name.as_str() {
        "cameras" => vec![camera.clone(), camera],
        "fused" => vec![camera, lidar],
        other => panic!("no stub is called {other}"),
    };
    let info = DetectorInfo::new(needs, &Device::Cpu, "stub", &[Stage::Infer]);
    let (boxes_2d, boxes_3d) = (vec![], vec![]);
    Ok(Box::new(Stub { info, num_frames: 0, boxes_2d, boxes_3d, is_in_flight: false }))
}

struct Stub {
    info: DetectorInfo,
    /// Since the last reset: what it remembers of the past.
    num_frames: u32,
    boxes_2d: Vec<Detection2d>,
    boxes_3d: Vec<Detection3d>,
    is_in_flight: bool,
}

/// Bytes of an input added up, how many there are, how far its stamp is from
/// that of the frame in microseconds, and where its sensor stood, or the focal
/// length of its camera.
fn digest(frame: &FrameSet<'_>, input: &FrameInput<'_>) -> [f32; 4] {
    let data = match input.payload {
        Payload::Image(ImagePayload::Raw(image)) => image.data(),
        Payload::Image(ImagePayload::Compressed(file)) => file.data,
        Payload::Cloud(cloud) => cloud.data(),
        Payload::Tensors(tensors) => tensors.bytes(),
        Payload::Image(ImagePayload::OnDevice(_)) | Payload::CloudOnDevice(_) => {
            unreachable!("messages are in host memory")
        }
    };
    let sum: u32 = data.iter().map(|byte| u32::from(*byte)).sum();
    let offset_us = input.header.stamp.nanos() - frame.stamp.nanos();
    let pose = input.world_from_sensor().map(|pose| pose.translation.x);
    let focal_length = input.calibration.map(|calibration| calibration.intrinsics[0]);
    let place = pose.or(focal_length).unwrap_or(-1.0);
    [sum as f32, data.len() as f32, (offset_us / 1000) as f32, place as f32]
}

impl Detector for Stub {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn num_in_flight(&self) -> usize {
        usize::from(self.is_in_flight)
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        assert!(!self.is_in_flight);
        self.num_frames += 1;
        let score = 1.0 / self.num_frames as f32;
        let Self { boxes_2d, boxes_3d, .. } = self;
        boxes_2d.clear();
        boxes_3d.clear();
        report.time(Stage::Infer, || {
            for (class, input) in (0..).zip(frame.inputs) {
                let [a, b, c, d] = input.as_ref().map_or([0.0; 4], |input| digest(frame, input));
                let bbox = Box2d { x1: a, y1: b, x2: a + c, y2: b + d };
                boxes_2d.push(Detection2d { class, score, bbox });
                let bbox = Box3d { center: [a, b, c], length_m: d, ..Box3d::default() };
                let object = Object3d { bbox, ..Object3d::default() };
                boxes_3d.push(Detection3d { class, score, object });
            }
        });
        self.is_in_flight = true;
        Ok(())
    }

    fn collect<'a>(&'a mut self, _: &mut FrameReport) -> Result<Detections<'a>> {
        assert!(std::mem::take(&mut self.is_in_flight));
        Ok(match self.info.inputs[1].kind {
            PayloadKind::Image | PayloadKind::Tensors => Detections::Boxes2d(&self.boxes_2d),
            PayloadKind::Cloud => Detections::Boxes3d(&self.boxes_3d),
        })
    }

    fn reconfigure(&mut self, _: &ChannelConfig) -> Result<()> {
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        self.num_frames = 0;
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        Ok(())
    }
}

/// The messages that detectors of [`preparing`] were given before their frames: input and
/// stamp.
pub type Prepared = Arc<Mutex<Vec<(usize, Stamp)>>>;

/// Makes detectors as [`open`] does, which note the messages that they prepare.
pub fn preparing(prepared: &Prepared) -> Factory {
    let prepared = Arc::clone(prepared);
    Arc::new(move |config, device| {
        let prepared = Arc::clone(&prepared);
        let detector = open(config, device)?;
        let info = DetectorInfo { prepares: true, ..detector.info().clone() };
        Ok(Box::new(Preparing { detector, info, prepared }))
    })
}

struct Preparing {
    detector: Box<dyn Detector>,
    info: DetectorInfo,
    prepared: Prepared,
}

impl Detector for Preparing {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn prepare(&mut self, input: usize, message: &FrameInput<'_>) -> Result<()> {
        let Header { stamp, frame_id } = message.header;
        self.prepared.lock().unwrap().push((input, stamp));
        let Payload::Image(ImagePayload::Raw(image)) = message.payload else { return Ok(()) };
        let focal_length = message.calibration.map(|calibration| calibration.intrinsics[0]);
        let found = (input, stamp.nanos(), frame_id, image.data(), focal_length);
        Err(Error::new(ErrorKind::Inference, "stub", format!("prepared {found:?}")))
    }

    fn num_in_flight(&self) -> usize {
        self.detector.num_in_flight()
    }

    fn submit(&mut self, frame: &FrameSet<'_>, report: &mut FrameReport) -> Result<()> {
        self.detector.submit(frame, report)
    }

    fn collect<'a>(&'a mut self, report: &mut FrameReport) -> Result<Detections<'a>> {
        self.detector.collect(report)
    }

    fn reconfigure(&mut self, config: &ChannelConfig) -> Result<()> {
        self.detector.reconfigure(config)
    }

    fn reset(&mut self) -> Result<()> {
        self.detector.reset()
    }

    fn warm_up(&mut self) -> Result<()> {
        self.detector.warm_up()
    }
}

/// Set for the process of [`program`].
const VARIABLE: &str = "DET_POST_STUB_PROCESS";

/// Not a test of its own: what a process of [`program`] runs.
#[test]
fn process_of_a_stub() {
    if std::env::var_os(VARIABLE).is_some() {
        serve(|config, device| preparing(&Prepared::default())(config, device)).unwrap();
    }
}

/// A program that holds a stub as det_post holds a detector.
pub fn program(folder: &Path) -> PathBuf {
    let path = folder.join("stub");
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "#!/bin/sh\n{VARIABLE}=1 exec '{}' --exact several_inputs::stub::process_of_a_stub --nocapture\n",
        this.display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}
