//! Frames of six cameras around a backbone that takes no time: from the arrival of the last
//! image, when the others are prepared, to the detections.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_3};
use std::time::{Duration, Instant};

use half::f16;
use nalgebra::{Isometry3, Rotation3, Translation3, UnitQuaternion};

use super::rig::{CHANNELS, IMAGE, LEVELS, NUM_VIEWS};
use super::{detr3d, sparse4d};
use crate::bench::case::{Case, Times, wall};
use crate::bench::decompress::{self, HEIGHT, WIDTH};
use crate::bench::fixed::Network;
use crate::bench::inputs::{Random, TestImage};
use crate::bench::measure::Bench;
use crate::config::{ChannelKind, Config, SurroundConfig, SurroundKind, ViewFacts};
use crate::detectors::surround::{CudaDetector, ViewFamily};
use crate::detectors::{Detector, FrameInput, FrameSet};
use det_post_infer::view_decoder::ViewNetwork;
use det_post_ops::device::PayloadMemory;
use det_post_ops::device::cuda::Stream;
use det_post_types::{
    CameraCalibration, Encoding, Error, ErrorKind, FrameReport, Header, ImagePayload, MapLayout,
    Result, ScoreThresholds, Size, Stamp, Tensor, ViewDecoder,
};

/// From the last image to the detections, one H200.
const BAR_US: f64 = 600.0;
/// Frames of a case, after as many tenths to warm up.
const NUM_FRAMES: usize = 300;
const FRAME_IDS: [&str; NUM_VIEWS] = ["c0", "c1", "c2", "c3", "c4", "c5"];

/// How images arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Rgb8,
    Jpeg,
}

pub(super) fn cases(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
    for decoder in [Decoder::Detr3d, Decoder::Sparse4d] {
        for form in [Form::Rgb8, Form::Jpeg] {
            let name = format!(
                "views {} but backbone, last of six images 1600x900 {}",
                decoder.name(),
                format!("{form:?}").to_lowercase()
            );
            if bench.wants(&name) {
                let case = Case::new(name).with_bar(wall(None, BAR_US));
                case_of(bench, case, stream, decoder, form)?;
            }
        }
    }
    Ok(())
}

/// The largest of each family.
#[derive(Clone, Copy, Debug)]
enum Decoder {
    Detr3d,
    Sparse4d,
}

impl Decoder {
    fn name(self) -> &'static str {
        match self {
            Self::Detr3d => "detr3d 6 blocks, 900 queries",
            Self::Sparse4d => "sparse4d 6 blocks, 900 anchors, 600 cached",
        }
    }

    fn facts(self) -> ViewDecoder {
        match self {
            Self::Detr3d => ViewDecoder::Detr3d(detr3d::facts(6, 900)),
            Self::Sparse4d => ViewDecoder::Sparse4d(sparse4d::facts(900, 600)),
        }
    }

    fn network(self) -> Result<ViewNetwork> {
        match self {
            Self::Detr3d => detr3d::network(6, 900),
            Self::Sparse4d => sparse4d::network(900, 600),
        }
    }
}

fn case_of(
    bench: &mut Bench<'_>,
    case: Case,
    stream: &Stream,
    decoder: Decoder,
    form: Form,
) -> Result<()> {
    let (config, network) = (config(decoder)?, decoder.network()?);
    let backbone = backbone().on_device(stream)?;
    let networks = ViewFamily::of(&config)?.on_gpu(stream, backbone, &network, &[])?;
    let mut detector = CudaDetector::new(&config, NUM_VIEWS, stream, networks)?;
    let rig = Rig::new(&detector, form)?;
    let mut times = Vec::with_capacity(NUM_FRAMES);
    for number in 0..NUM_FRAMES + NUM_FRAMES / 10 {
        let time = rig.detect(&mut detector, number as i64)?;
        if number >= NUM_FRAMES / 10 {
            times.push(time.as_secs_f64() * 1e6);
        }
    }
    bench.measured(case, Times::of(&mut times))
}

/// A channel of six cameras with a decoder.
fn config(decoder: Decoder) -> Result<SurroundConfig> {
    let topics: Vec<_> = (0..NUM_VIEWS).map(|camera| format!("/camera_{camera}")).collect();
    let inputs = format!("c.inputs:=[{}]", topics.join(", "));
    let parameters = [&inputs[..], "c.head:=demo_surround", "c.model_path:=m", "c.weights_path:=w"];
    let loaded = Config::load(&[], &parameters.map(str::to_owned))?;
    let channel = loaded.channels.into_iter().next();
    let Some(ChannelKind::Surround(config)) = channel.map(|channel| channel.kind) else {
        return Err(Error::new(ErrorKind::Config, "bench", "a shipped head is of another sensor"));
    };
    let mut config = *config;
    let facts = decoder.facts();
    let num_classes = match &facts {
        ViewDecoder::Detr3d(facts) => facts.num_classes,
        ViewDecoder::Sparse4d(facts) => facts.num_classes,
    };
    config.facts.class_names = (0..num_classes).map(|class| format!("class {class}")).collect();
    config.facts.input_size = Some(Size::new(IMAGE[0], IMAGE[1]));
    config.facts.kind = SurroundKind::Views(ViewFacts {
        decoder: facts,
        layout: MapLayout::Planar,
        level_strides: vec![8, 16, 32, 64],
        extra_level: false,
    });
    config.score_thresholds = ScoreThresholds::uniform(0.3, num_classes);
    config.pre_nms_top_k = sparse4d::NUM_BOXES;
    config.max_detections = sparse4d::NUM_BOXES;
    Ok(config)
}

/// A backbone whose maps are f16 of a fixed frame.
fn backbone() -> Network {
    let mut random = Random::new(11);
    let outputs =
        ["p3", "p4", "p5", "p6"].into_iter().zip(LEVELS).map(|(name, [width, height])| {
            let shape = vec![NUM_VIEWS, CHANNELS, height, width];
            let values = std::iter::repeat_with(|| f16::from_f32(random.range(-1.0, 1.0)));
            let values = values.take(shape.iter().product()).collect();
            (name, Tensor::F16 { shape, values })
        });
    let [width, height] = IMAGE.map(|n| n as usize);
    Network { input: ("images", vec![NUM_VIEWS, 3, height, width]), outputs: outputs.collect() }
}

/// Cameras in a ring and an image, in memory for messages of a live channel.
struct Rig {
    form: Form,
    test_image: TestImage,
    payload: PayloadMemory,
    calibration: CameraCalibration,
    poses: [Isometry3<f64>; NUM_VIEWS],
    target_pose: Result<Isometry3<f64>>,
}

impl Rig {
    fn new(detector: &CudaDetector, form: Form) -> Result<Self> {
        let size = Size::new(WIDTH.into(), HEIGHT.into());
        let test_image = TestImage::new(size, Encoding::Rgb8);
        let mut payload = detector.payload_memory();
        match form {
            Form::Rgb8 => payload.copy_from(test_image.view()?.data()),
            Form::Jpeg => payload.copy_from(&decompress::jpeg_image(0)?),
        }
        let [width, height] = [f64::from(WIDTH), f64::from(HEIGHT)];
        let focal = 0.5 * width / 35.5_f64.to_radians().tan();
        let intrinsics = [focal, 0.0, 0.5 * width, 0.0, focal, 0.5 * height, 0.0, 0.0, 1.0];
        Ok(Self {
            form,
            test_image,
            payload,
            calibration: CameraCalibration {
                size,
                intrinsics,
                rectification: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
                binning: [1, 1],
                ..CameraCalibration::default()
            },
            poses: std::array::from_fn(pose),
            target_pose: Ok(Isometry3::identity()),
        })
    }

    /// Detects a frame; returns the time from its last image on.
    fn detect(&self, detector: &mut CudaDetector, number: i64) -> Result<Duration> {
        let stamp = Stamp::from_nanos(100_000_000 * number);
        let data = self.payload.bytes();
        let image = match self.form {
            Form::Rgb8 => ImagePayload::Raw(self.test_image.view_of(data)?),
            Form::Jpeg => ImagePayload::Compressed(decompress::view(data)),
        };
        let input = |camera: usize| {
            let header = Header { stamp, frame_id: FRAME_IDS[camera] };
            let input = FrameInput::image(header, image).with_pose(self.poses[camera]);
            Some(FrameInput { calibration: Some(&self.calibration), ..input })
        };
        let inputs: [_; NUM_VIEWS] = std::array::from_fn(input);
        let frame = FrameSet { stamp, inputs: &inputs, target_pose: Some(&self.target_pose) };
        for camera in 0..NUM_VIEWS - 1 {
            detector.prepare(camera, frame.input(camera)?)?;
        }
        let start = Instant::now();
        detector.prepare(NUM_VIEWS - 1, frame.input(NUM_VIEWS - 1)?)?;
        detector.detect(&frame, &mut FrameReport::new())?;
        Ok(start.elapsed())
    }
}

/// The pose of a camera in the target frame: optical axes, 1.6 m above the ground.
fn pose(camera: usize) -> Isometry3<f64> {
    let around = Rotation3::from_euler_angles(0.0, 0.0, FRAC_PI_3 * camera as f64);
    let optical = Rotation3::from_euler_angles(-FRAC_PI_2, 0.0, -FRAC_PI_2);
    let turn = UnitQuaternion::from_rotation_matrix(&(around * optical));
    Isometry3::from_parts(Translation3::new(0.0, 0.0, 1.6), turn)
}
