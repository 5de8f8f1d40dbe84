//! Calibrations and transforms with absurd values: what is accepted gives finite matrices and
//! images, the rest is refused with a reason. Nothing panics.
//!
//! The values are a function of only the number of a case, so a failure is found again by its
//! number. `DET_POST_FUZZ_ITERATIONS` sets how many are made (100,000 without it).

use std::collections::BTreeMap;

use det_post::config::SurroundConfig;
use det_post::detectors::surround::Cameras;
use det_post::{FrameInput, FrameSet, Result};
use det_post_ops::image::resample::{ResampleParams, SampleMap, Workspace, resample};
use det_post_ros::messages::{CameraInfo, RegionOfInterest};
use det_post_ros::tf::{self, TfBuffer, TfLimits};
use det_post_types::{
    ChannelOrder, ElementType, Encoding, Header, ImagePayload, ImageView, Normalization,
    PixelConvention, Resize, Size, Stamp, Tensor, TensorValues, Undistort,
};

use super::fuzz_messages::{Random, iterations};
use crate::common::surround_frames::surround_config;

const IMAGE: Size = Size { width: 40, height: 30 };
const NETWORK: Size = Size { width: 24, height: 12 };
const STAMP: Stamp = Stamp::from_nanos(1_700_000_000_000_000_000);

/// A vector and a quaternion, x, y, z, w.
type Motion = ([f64; 3], [f64; 4]);

/// A calibration that is wrong at most in a few places, and the poses of the camera and of the
/// vehicle.
struct Case {
    info: CameraInfo<'static>,
    camera: Motion,
    vehicle: Motion,
}

impl Case {
    fn new(random: &mut Random) -> Self {
        const LENSES: [(&str, usize); 10] = [
            ("", 0),
            ("plumb_bob", 4),
            ("plumb_bob", 5),
            ("rational_polynomial", 8),
            ("rational_polynomial", 12),
            ("rational_polynomial", 14),
            ("equidistant", 4),
            ("fisheye", 4),
            ("plumb_bob", 7),
            ("equidistant", 0),
        ];
        let (distortion_model, num) = LENSES[random.below(LENSES.len())];
        let small = |random: &mut Random| random.below(2001) as f64 / 5000.0 - 0.2;
        let roi = RegionOfInterest::default();
        let mut case = Self {
            info: CameraInfo {
                header: Header { stamp: STAMP, frame_id: "camera" },
                width: IMAGE.width,
                height: IMAGE.height,
                distortion_model,
                d: (0..num).map(|_| small(random)).collect(),
                k: [30.0, 0.0, 20.0, 0.0, 31.0, 15.0, 0.0, 0.0, 1.0],
                r: [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0],
                p: [29.0, 0.0, 20.5, 0.0, 0.0, 29.0, 14.5, 0.0, 0.0, 0.0, 1.0, 0.0],
                roi,
                ..CameraInfo::default()
            },
            camera: ([1.5, 0.2, 1.4], [0.5, -0.5, 0.5, -0.5]),
            vehicle: ([1e5, -2e5, 3.0], [0.0, 0.0, 0.6, 0.8]),
        };
        for _ in 0..random.below(4) {
            case.change(random);
        }
        case
    }

    /// Replaces one value.
    fn change(&mut self, random: &mut Random) {
        let Self { info, camera, vehicle } = self;
        let value = absurd(random);
        let side = [0, 1, 2, 29, 30, 40, 41, 60, 80, 1 << 15, 1 << 16, u32::MAX][random.below(12)];
        let entry = |values: &mut [f64], random: &mut Random| {
            if let Some(entry) = values.get_mut(random.below(values.len())) {
                *entry = value;
            }
        };
        match random.below(20) {
            0..=3 => entry(&mut info.k, random),
            4..=6 => entry(&mut info.d, random),
            7 => entry(&mut info.r, random),
            8..=9 => entry(&mut info.p, random),
            10 => info.d.resize(random.below(20), value),
            11 => info.width = side,
            12 => info.height = side,
            13 => (info.binning_x, info.binning_y) = (side, side.min(3)),
            14 => {
                let [x_offset, y_offset] = [0, side];
                let [width, height] = [IMAGE.width.min(side), IMAGE.height];
                info.roi = RegionOfInterest { x_offset, y_offset, width, height, do_rectify: true };
            }
            15 => info.header.frame_id = "another",
            16 => entry(&mut camera.0, random),
            17 => entry(&mut camera.1, random),
            18 => entry(&mut vehicle.0, random),
            _ => entry(&mut vehicle.1, random),
        }
    }
}

/// A number that no calibration has, or a common one.
fn absurd(random: &mut Random) -> f64 {
    const VALUES: [f64; 24] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::MIN_POSITIVE,
        5e-324,
        1e-12,
        1e-3,
        -1e-3,
        1e3,
        -1e3,
        1e6,
        1e9,
        1e20,
        1e38,
        1e39,
        -1e39,
        1e150,
        1e300,
        f64::MAX,
    ];
    match random.below(4) {
        0 => f64::from_bits(random.next()),
        _ => VALUES[random.below(VALUES.len())],
    }
}

/// The detector's part that takes calibrations and poses, and what reads an image.
struct Reader {
    config: SurroundConfig,
    pixels: Vec<u8>,
    workspace: Workspace,
    resampled: Tensor,
}

impl Reader {
    /// What becomes of a case, from its messages to the image of the network.
    fn read(&mut self, case: &Case, number: u64) -> Result<()> {
        let Self { config, pixels, workspace, resampled } = self;
        let mut message = Vec::new();
        case.info.encode(&mut message)?;
        let calibration = CameraInfo::decode(&message)?.calibration();
        // Twice the vehicle's pose, as it moves from the image to the frame.
        let mut buffer = TfBuffer::new(TfLimits::default());
        let camera = tf::isometry(case.camera.0, case.camera.1)?;
        let vehicle = tf::isometry(case.vehicle.0, case.vehicle.1)?;
        buffer.insert("base_link", "camera", STAMP, camera, true)?;
        buffer.insert("map", "base_link", STAMP, vehicle, false)?;
        config.compensate_skew = number.is_multiple_of(2);
        config.undistort = [Undistort::Auto, Undistort::Never][number as usize / 2 % 2];
        config.facts.pixel_convention =
            [PixelConvention::Trainer, PixelConvention::Exact][number as usize / 4 % 2];
        let resize = [Resize::Bilinear, Resize::Antialias][number as usize / 8 % 2];
        let world = if config.compensate_skew { "map" } else { "base_link" };
        let step = 3 * IMAGE.width as usize;
        let image = ImageView::new(IMAGE, step, Encoding::Rgb8, false, pixels)?;
        let header = Header { stamp: STAMP, frame_id: "camera" };
        let input = FrameInput {
            pose: Some(buffer.lookup(world, "camera", STAMP)),
            calibration: Some(&calibration),
            ..FrameInput::image(header, ImagePayload::Raw(image))
        };
        let target_pose = buffer.lookup("map", "base_link", STAMP);
        let inputs = [Some(input)];
        let frame = FrameSet { stamp: STAMP, inputs: &inputs, target_pose: Some(&target_pose) };
        let mut cameras = Cameras::<SampleMap>::new(config, 1, NETWORK);
        cameras.update(&frame, |view, _| SampleMap::of_view(view, resize))?;
        let matrices = [cameras.matrices().intrinsics(), cameras.matrices().target_from_image()];
        assert!(matrices.iter().all(|matrix| matrix.iter().all(|x| x.is_finite())), "{number}");
        for (matrix, is_present) in cameras.matrices().image_from_target() {
            assert!(is_present && matrix.iter().all(|x| (*x as f32).is_finite()), "{number}");
        }
        let params = ResampleParams {
            channel_order: ChannelOrder::Rgb,
            normalization: Normalization { alpha: [1.0; 3], beta: [0.0; 3] },
            pad_value: 0.0,
        };
        let map = &cameras.get(0).unwrap().map;
        resample(&image, map, &params, workspace, 0, resampled)?;
        let TensorValues::F32(values) = resampled.view().values() else { panic!("f32") };
        assert!(values.iter().all(|value| (0.0..=255.0).contains(value)), "{number}");
        Ok(())
    }
}

#[test]
fn absurd_calibrations_and_transforms_are_refused_with_a_reason() {
    let shape = [1, 3, NETWORK.height as usize, NETWORK.width as usize];
    let mut reader = Reader {
        config: surround_config(
            "head: streampetr_autoware, model_path: m, position_embedding_path: p, head_path: h",
        ),
        pixels: (0..3 * IMAGE.width * IMAGE.height).map(|i| (i * 37) as u8).collect(),
        workspace: Workspace::new(),
        resampled: Tensor::zeros(ElementType::F32, &shape).unwrap(),
    };
    let mut outcomes = BTreeMap::new();
    let num_cases = iterations();
    for number in 0..num_cases {
        let case = Case::new(&mut Random::new(number));
        let reason = match reader.read(&case, number) {
            Ok(()) => "accepted",
            Err(error) => {
                assert!(!error.message().is_empty(), "{number}");
                error.kind().reason()
            }
        };
        *outcomes.entry(reason).or_insert(0_u64) += 1;
    }
    println!("{num_cases} calibrations and transforms: {outcomes:?}");
    for reason in [
        "accepted",
        "uncalibrated",
        "calibration_mismatch",
        "unsupported_distortion",
        "missing_transform",
    ] {
        let num = outcomes.get(reason).copied().unwrap_or(0);
        assert!(num >= num_cases / 1000, "{reason}: {num} of {num_cases}");
    }
}
