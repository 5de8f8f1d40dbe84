//! Detectors.

use std::ffi::CString;

use super::call::{Call, Const, ConstText, In, Out, Text, run};
use super::configuration::Configuration;
use super::detections::{Detections, Found};
use super::frame::{
    CameraCalibration, Frame, INPUT_CLOUD, INPUT_COMPRESSED_IMAGE, INPUT_IMAGE, INPUT_TENSORS,
    Transform,
};
use super::handles::Handles;
use super::report::{Report, Reported};
use super::status::{Failure, Status};
use super::tensors::TensorMemory;
use det_post::config::{ChannelConfig, Config};
use det_post::detectors::MAX_INPUTS;
use det_post::runtime::channel::Channel;
use det_post::runtime::{Sequence, StampOrder};
use det_post_ros::calibration_files::{StaticTransform, read_transforms};
use det_post_ros::middleware::InputKind;
use det_post_ros::tf::TfBuffer;
use det_post_types::{FrameReport, Stamp};

/// An open detector: a channel of a configuration, its networks and its memory.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Detector {
    /// Its number; 0 is never a detector.
    pub id: u64,
}

/// An input of a detector.
#[repr(C)]
pub struct InputInfo {
    /// One of `DET_POST_INPUT_…`. An input of images also takes the other of raw and compressed
    /// images.
    pub kind: u32,
    /// 1 if the detector uses the calibration of the camera, else 0.
    pub wants_calibration: u32,
    /// Topic in the configuration.
    pub topic: ConstText,
    /// Topic of the calibration in the configuration, or `NULL`.
    pub camera_info_topic: ConstText,
    /// The frame in which the detector asks for the pose of the sensor, or `NULL`.
    pub pose_in: ConstText,
}

/// What a detector is. Valid until the detector is closed.
#[repr(C)]
pub struct DetectorInfo {
    /// Name of the channel.
    pub channel: ConstText,
    /// The device when the detector was opened, such as `cpu` or `cuda:0 (NVIDIA H200)`.
    pub device: ConstText,
    /// Name and version of the engine that runs the network.
    pub engine: ConstText,
    /// Topic of the detections in the configuration.
    pub output_topic: ConstText,
    /// Name of the message type of that topic in the configuration, such as
    /// `vision_msgs/msg/Detection3DArray`.
    pub output_type: ConstText,
    /// Names of the classes by `class_id`.
    pub class_names: Const<ConstText>,
    /// Number of `class_names`.
    pub num_classes: usize,
    /// The inputs, in the order of a frame.
    pub inputs: Const<InputInfo>,
    /// Number of `inputs`.
    pub num_inputs: usize,
    /// Position of the reference input.
    pub reference: usize,
}

/// The object of a [`Detector`].
struct Opened {
    config: Config,
    position: usize,
    channel: Channel,
    transforms: TfBuffer,
    calibrations: [Option<det_post_types::CameraCalibration>; MAX_INPUTS],
    tensors: TensorMemory,
    found: Found,
    report: FrameReport,
    reported: Reported,
    info: Info,
}

/// The memory of [`DetectorInfo`].
struct Info {
    public: DetectorInfo,
    _class_names: Vec<ConstText>,
    _inputs: Vec<InputInfo>,
    _texts: Vec<CString>,
}

static DETECTORS: Handles<Opened> = Handles::new("detector", 1);

impl Info {
    fn new(channel: &Channel) -> Self {
        let config = channel.config();
        let mut texts = Vec::new();
        let mut text = |text: &str| {
            // Names in a configuration have no 0.
            let text = CString::new(text).unwrap_or_default();
            let pointer = ConstText::of(&text);
            texts.push(text);
            pointer
        };
        let device = channel.detector_info();
        let class_names: Vec<_> = config.kind.class_names().iter().map(|name| text(name)).collect();
        let mut inputs = Vec::new();
        for (index, input) in config.inputs.iter().enumerate() {
            let kind = match channel.live_input_kind(index) {
                InputKind::CompressedImage => INPUT_COMPRESSED_IMAGE,
                InputKind::PointCloud2 | InputKind::PackedCloud(_) => INPUT_CLOUD,
                InputKind::TensorList => INPUT_TENSORS,
                _ => INPUT_IMAGE,
            };
            let or_null = |name: Option<&str>, text: &mut dyn FnMut(&str) -> ConstText| {
                name.map_or(ConstText::NULL, text)
            };
            inputs.push(InputInfo {
                kind,
                wants_calibration: u32::from(channel.wants_calibration(index)),
                topic: text(&input.topic),
                camera_info_topic: or_null(input.camera_info.as_deref(), &mut text),
                pose_in: or_null(channel.pose_in(index), &mut text),
            });
        }
        let public = DetectorInfo {
            channel: text(&config.name),
            device: text(device.map_or("", |device| &device.device_name)),
            engine: text(device.map_or("", |device| &device.engine_name)),
            output_topic: text(&config.output),
            output_type: text(config.publish.format.output_type.type_name()),
            class_names: Const::of(&class_names),
            num_classes: class_names.len(),
            inputs: Const::of(&inputs),
            num_inputs: inputs.len(),
            reference: config.sync.reference,
        };
        Self { public, _class_names: class_names, _inputs: inputs, _texts: texts }
    }
}

impl Opened {
    fn open(call: &Call, configuration: &Configuration) -> Result<Self, Failure> {
        let (config, position) = configuration.read(call)?;
        let channel_config: &ChannelConfig = &config.channels[position];
        let channel = Channel::with_factory(channel_config, configuration.factory(call)?)?;
        let mut transforms = TfBuffer::default();
        if let Some(path) = channel_config.kind.transforms_path() {
            for StaticTransform { parent, child, parent_from_child } in read_transforms(path)? {
                transforms.insert(&parent, &child, Stamp::default(), parent_from_child, true)?;
            }
        }
        let calibrations =
            std::array::from_fn(|input| channel.calibration_of_file(input).map(|c| (**c).clone()));
        Ok(Self {
            info: Info::new(&channel),
            config,
            position,
            channel,
            transforms,
            calibrations,
            tensors: TensorMemory::default(),
            found: Found::new(),
            report: FrameReport::new(),
            reported: Reported::new(),
        })
    }

    fn detect(&mut self, call: &Call, frame: &Frame) -> Result<Const<Detections>, Failure> {
        let Self { channel, transforms, calibrations, tensors, found, report, .. } = self;
        frame.visit(call, tensors, calibrations, |inputs| {
            let lookup = |to: &str, from: &str, at: Stamp| transforms.lookup(to, from, at);
            *report = FrameReport::new();
            channel.submit(inputs, Some(&lookup))?;
            let detected = channel.collect()?;
            report.clone_from(detected.report);
            Ok(found.fill(&detected, detected.order == StampOrder::Restart))
        })
    }
}

/// Opens the detector of a configuration: reads its files, opens its device and loads its
/// networks. Close it with `det_post_detector_close`. Any number of detectors may be open, on
/// any devices.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_open(
    configuration: In<Configuration>,
    detector: Out<Detector>,
) -> Status {
    run(0, |call| {
        call.check_out(detector, "detector")?;
        let opened = Opened::open(call, call.one(configuration, "configuration")?)?;
        call.write(detector, Detector { id: DETECTORS.open(opened) }, "detector")
    })
}

/// Closes a detector and frees its memory. If another thread is in a call on it, that call ends
/// as usual; every later one fails with `DET_POST_ERROR_HANDLE`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_close(detector: Detector) -> Status {
    run(detector.id, |_| DETECTORS.close(detector.id))
}

/// What a detector is. `info` points to memory of the detector.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_describe(
    detector: Detector,
    info: Out<Const<DetectorInfo>>,
) -> Status {
    run(detector.id, |call| {
        DETECTORS.with(detector.id, |opened| {
            call.write(info, Const::of(std::slice::from_ref(&opened.info.public)), "info")
        })
    })
}

/// Detects the objects of a frame. `found` points to memory of the detector, valid until the
/// next `det_post_detector_detect`, or until the detector is closed. An error drops the frame;
/// the detector remains usable. If the stamps of frames start over, the detector is reset.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_detect(
    detector: Detector,
    frame: In<Frame>,
    found: Out<Const<Detections>>,
) -> Status {
    run(detector.id, |call| {
        call.check_out(found, "found")?;
        let frame = call.one(frame, "frame")?;
        let result = DETECTORS.with(detector.id, |opened| opened.detect(call, frame))?;
        call.write(found, result, "found")
    })
}

/// Durations and counters of the last frame, and the state of the device. `report` points to
/// memory of the detector, valid until the next `det_post_detector_report`, or until the
/// detector is closed.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_report(
    detector: Detector,
    report: Out<Const<Report>>,
) -> Status {
    run(detector.id, |call| {
        DETECTORS.with(detector.id, |opened| {
            call.write(report, opened.reported.fill(&opened.report, &opened.channel), "report")
        })
    })
}

/// Sets parameters that may change between frames, such as thresholds, by assignments
/// `key:=value`: all or none. A parameter that is fixed when the detector is opened is refused.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_reconfigure(
    detector: Detector,
    overrides: In<Text>,
    num_overrides: usize,
) -> Status {
    run(detector.id, |call| {
        let texts = call.slice(overrides, num_overrides, "overrides")?.iter();
        let overrides = texts.map(|&text| call.text(text, "overrides").map(str::to_owned));
        let overrides = overrides.collect::<Result<Vec<_>, _>>()?;
        DETECTORS.with(detector.id, |opened| {
            let config = opened.config.with_overrides(&overrides)?;
            opened.channel.reconfigure(&config.channels[opened.position])?;
            opened.config = config;
            Ok(())
        })
    })
}

/// Discards past frames and stamped transforms, for a clock that starts over. Static transforms
/// and calibrations stay.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_reset(detector: Detector) -> Status {
    run(detector.id, |_| {
        DETECTORS.with(detector.id, |opened| {
            opened.transforms.forget_after(Stamp::from_nanos(i64::MIN));
            opened.channel.set_sequence(Sequence::StartsOver);
            Ok(())
        })
    })
}

/// Runs the networks once on an empty frame, so that the first frame is not slower than others.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_warm_up(detector: Detector) -> Status {
    run(detector.id, |_| DETECTORS.with(detector.id, |opened| Ok(opened.channel.warm_up()?)))
}

/// Sets the calibration of the camera of an input, which later frames use.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_set_calibration(
    detector: Detector,
    input: usize,
    calibration: In<CameraCalibration>,
) -> Status {
    run(detector.id, |call| {
        let calibration = call.one(calibration, "calibration")?.read(call)?;
        DETECTORS.with(detector.id, |opened| {
            let num_inputs = opened.channel.config().inputs.len();
            match opened.calibrations[..num_inputs].get_mut(input) {
                Some(of_input) => {
                    *of_input = Some(calibration);
                    Ok(())
                }
                None => Err(Failure::argument(format!("input {input} of {num_inputs}"))),
            }
        })
    })
}

/// Adds transforms to the detector's buffer, from which it takes the poses of sensors at the
/// stamps of their data: interpolated between two transforms, never extrapolated. A detector
/// that asks for a pose (`input_info.pose_in`) needs the transforms around the stamp of a frame
/// before the frame. At most 10 s before the newest transform of a frame are kept.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_detector_add_transforms(
    detector: Detector,
    transforms: In<Transform>,
    num_transforms: usize,
) -> Status {
    run(detector.id, |call| {
        let transforms = call.slice(transforms, num_transforms, "transforms")?;
        DETECTORS.with(detector.id, |opened| {
            for transform in transforms {
                let parent = call.text(transform.parent, "transform.parent")?;
                let child = call.text(transform.child, "transform.child")?;
                let stamp = Stamp::from_nanos(transform.stamp_ns);
                let (motion, is_static) =
                    (transform.parent_from_child()?, transform.is_static != 0);
                opened.transforms.insert(parent, child, stamp, motion, is_static)?;
            }
            Ok(())
        })
    })
}
