//! Serializes the description, detections and reports of a detector, bit for bit.

use std::time::Duration;

use super::message::{Message, malformed};
use super::motion::{put_needs, take_needs};
use crate::detectors::{DetectorInfo, InputNeeds, PayloadKind, TargetFrame};
use det_post_types::{
    Box2d, Box3d, Count, Detection2d, Detection3d, Detections, FrameReport, ImageDecoder, Keypoint,
    Keypoints, LevelCounts, MaskWindow, Masks, Object3d, Result, RotatedBox2d, Size, Stage,
    Transfer, UnpackCounts, Variance3d,
};

/// Appends the constant properties of a detector.
pub(super) fn put_info(message: &mut Message, info: &DetectorInfo) {
    message.put_text(&info.device.to_string());
    message.put_text(&info.device_name).put_text(&info.engine_name);
    message.put_u32(info.stages.len() as u32);
    for stage in &info.stages {
        message.put_u32(*stage as u32);
    }
    message.put_u32(info.inputs.len() as u32);
    for InputNeeds { kind, pose_in, calibration, motion } in &info.inputs {
        message.put_u32(*kind as u32);
        put_frame_of(message, pose_in.as_deref());
        message.put_u32(u32::from(*calibration));
        put_needs(message, motion.as_ref());
    }
    message.put_u32(u32::from(info.target.is_some()));
    if let Some(TargetFrame { frame_id, pose_in }) = &info.target {
        message.put_text(frame_id);
        put_frame_of(message, pose_in.as_deref());
    }
    message.put_u32(u32::from(info.prepares));
    message.put_u32(u32::from(info.score_threshold.is_some()));
    message.put_u32(info.score_threshold.unwrap_or_default().to_bits());
}

/// Appends the name of the frame of reference of a pose.
fn put_frame_of(message: &mut Message, pose_in: Option<&str>) {
    message.put_u32(u32::from(pose_in.is_some())).put_text(pose_in.unwrap_or_default());
}

fn take_frame_of(message: &Message) -> Result<Option<String>> {
    let (has_pose, frame) = (message.u32()? != 0, message.text()?);
    Ok(has_pose.then(|| frame.to_owned()))
}

/// Reads what [`put_info`] wrote.
pub(super) fn take_info(message: &Message) -> Result<DetectorInfo> {
    let mut info = DetectorInfo {
        inputs: Vec::new(),
        target: None,
        prepares: false,
        device: message.text()?.parse()?,
        device_name: message.text()?.to_owned(),
        engine_name: message.text()?.to_owned(),
        process_id: None,
        score_threshold: None,
        stages: Vec::new(),
    };
    for _ in 0..message.u32()? {
        let stage = Stage::ALL.get(message.u32()? as usize).copied();
        info.stages.push(stage.ok_or_else(malformed)?);
    }
    for _ in 0..message.u32()? {
        let kind = PayloadKind::ALL.get(message.u32()? as usize).copied();
        let kind = kind.ok_or_else(malformed)?;
        let pose_in = take_frame_of(message)?;
        let (calibration, motion) = (message.u32()? != 0, take_needs(message)?);
        info.inputs.push(InputNeeds { kind, pose_in, calibration, motion });
    }
    if message.u32()? != 0 {
        let frame_id = message.text()?.to_owned();
        info.target = Some(TargetFrame { frame_id, pose_in: take_frame_of(message)? });
    }
    info.prepares = message.u32()? != 0;
    let (has_threshold, bits) = (message.u32()? != 0, message.u32()?);
    info.score_threshold = has_threshold.then(|| f32::from_bits(bits));
    Ok(info)
}

/// Memory for the detections of a frame.
#[derive(Debug, Default)]
pub(super) struct DetectionBuffers {
    boxes_2d: Vec<Detection2d>,
    rotated_boxes_2d: Vec<Detection2d<RotatedBox2d>>,
    boxes_3d: Vec<Detection3d>,
    image: Size,
    windows: Vec<MaskWindow>,
    words: Vec<u32>,
    num_per_detection: usize,
    keypoints: Vec<Keypoint>,
    /// Which of these was read last.
    kind: u32,
}

impl DetectionBuffers {
    /// The detections that were read last.
    pub(super) fn last(&self) -> Detections<'_> {
        match self.kind {
            ROTATED => Detections::RotatedBoxes2d(&self.rotated_boxes_2d),
            IN_SPACE => Detections::Boxes3d(&self.boxes_3d),
            MASKED => {
                let Self { image, windows, words, .. } = self;
                Detections::Masked2d(&self.boxes_2d, Masks { image: *image, windows, words })
            }
            WITH_KEYPOINTS => {
                let Self { num_per_detection, keypoints: all, .. } = self;
                let keypoints = Keypoints { num_per_detection: *num_per_detection, all };
                Detections::Keypoints2d(&self.boxes_2d, keypoints)
            }
            _ => Detections::Boxes2d(&self.boxes_2d),
        }
    }
}

/// The kinds of detections in a message.
const AXIS_ALIGNED: u32 = 0;
const ROTATED: u32 = 1;
const IN_SPACE: u32 = 2;
const MASKED: u32 = 3;
const WITH_KEYPOINTS: u32 = 4;

/// Appends detections.
pub(super) fn put_detections(message: &mut Message, detections: Detections<'_>) {
    match detections {
        Detections::Boxes2d(boxes) => put_all(message, AXIS_ALIGNED, boxes, put_2d),
        Detections::Masked2d(boxes, masks) => {
            put_all(message, MASKED, boxes, put_2d);
            put_masks(message, &masks);
        }
        Detections::Keypoints2d(boxes, Keypoints { num_per_detection, all }) => {
            put_all(message, WITH_KEYPOINTS, boxes, put_2d);
            message.put_u64(num_per_detection as u64).put_u64(all.len() as u64);
            for &Keypoint { x, y, score } in all {
                put_floats(message, &[x, y, score]);
            }
        }
        Detections::RotatedBoxes2d(boxes) => put_all(message, ROTATED, boxes, put_rotated),
        Detections::Boxes3d(boxes) => put_all(message, IN_SPACE, boxes, put_3d),
    }
}

/// Reads what [`put_detections`] wrote.
pub(super) fn take_detections(message: &Message, found: &mut DetectionBuffers) -> Result<()> {
    let DetectionBuffers { boxes_2d, rotated_boxes_2d, boxes_3d, image, windows, words, .. } =
        found;
    let (num_per_detection, keypoints) = (&mut found.num_per_detection, &mut found.keypoints);
    let kind = &mut found.kind;
    *kind = message.u32()?;
    match *kind {
        AXIS_ALIGNED => take_all(message, boxes_2d, take_2d),
        MASKED => {
            take_all(message, boxes_2d, take_2d)?;
            *image = Size::new(message.u32()?, message.u32()?);
            take_all(message, windows, take_window)?;
            take_all(message, words, Message::u32)
        }
        WITH_KEYPOINTS => {
            take_all(message, boxes_2d, take_2d)?;
            *num_per_detection = message.usize()?;
            take_all(message, keypoints, take_keypoint)
        }
        ROTATED => take_all(message, rotated_boxes_2d, take_rotated),
        IN_SPACE => take_all(message, boxes_3d, take_3d),
        _ => Err(malformed()),
    }
}

fn put_masks(message: &mut Message, masks: &Masks<'_>) {
    message.put_u32(masks.image.width).put_u32(masks.image.height);
    message.put_u64(masks.windows.len() as u64);
    for &MaskWindow { left, top, width, height, first_word } in masks.windows {
        message.put_u32(left).put_u32(top).put_u32(width).put_u32(height).put_u32(first_word);
    }
    message.put_u64(masks.words.len() as u64);
    for &word in masks.words {
        message.put_u32(word);
    }
}

fn take_keypoint(message: &Message) -> Result<Keypoint> {
    let [x, y, score] = floats(message)?;
    Ok(Keypoint { x, y, score })
}

fn take_window(message: &Message) -> Result<MaskWindow> {
    let [left, top, width] = [message.u32()?, message.u32()?, message.u32()?];
    Ok(MaskWindow { left, top, width, height: message.u32()?, first_word: message.u32()? })
}

fn put_all<D>(message: &mut Message, kind: u32, boxes: &[D], put: impl Fn(&mut Message, &D)) {
    message.put_u32(kind);
    message.put_u64(boxes.len() as u64);
    boxes.iter().for_each(|found| put(message, found));
}

fn take_all<D>(
    message: &Message,
    boxes: &mut Vec<D>,
    take: impl Fn(&Message) -> Result<D>,
) -> Result<()> {
    boxes.clear();
    for _ in 0..message.usize()? {
        boxes.push(take(message)?);
    }
    Ok(())
}

fn put_2d(message: &mut Message, detection: &Detection2d) {
    let Detection2d { class, score, bbox: Box2d { x1, y1, x2, y2 } } = *detection;
    message.put_u32(class);
    put_floats(message, &[score, x1, y1, x2, y2]);
}

fn take_2d(message: &Message) -> Result<Detection2d> {
    let class = message.u32()?;
    let [score, x1, y1, x2, y2] = floats(message)?;
    Ok(Detection2d { class, score, bbox: Box2d { x1, y1, x2, y2 } })
}

fn put_rotated(message: &mut Message, detection: &Detection2d<RotatedBox2d>) {
    let Detection2d { class, score, bbox } = *detection;
    let RotatedBox2d { cx, cy, width, height, angle_rad } = bbox;
    message.put_u32(class);
    put_floats(message, &[score, cx, cy, width, height, angle_rad]);
}

fn take_rotated(message: &Message) -> Result<Detection2d<RotatedBox2d>> {
    let class = message.u32()?;
    let [score, cx, cy, width, height, angle_rad] = floats(message)?;
    Ok(Detection2d { class, score, bbox: RotatedBox2d { cx, cy, width, height, angle_rad } })
}

fn put_3d(message: &mut Message, detection: &Detection3d) {
    let Detection3d { class, score, object } = *detection;
    let Object3d { bbox, velocity_mps, variance } = object;
    let Box3d { center, length_m, width_m, height_m, yaw_rad } = bbox;
    message.put_u32(class).put_f32(score);
    put_floats(message, &center);
    put_floats(message, &[length_m, width_m, height_m, yaw_rad]);
    message.put_u32(u32::from(velocity_mps.is_some()));
    if let Some(velocity) = velocity_mps {
        put_floats(message, &velocity);
    }
    message.put_u32(u32::from(variance.is_some()));
    if let Some(Variance3d { center, size, yaw, velocity }) = variance {
        put_floats(message, &center);
        put_floats(message, &size);
        message.put_f32(yaw);
        put_floats(message, &velocity);
    }
}

fn take_3d(message: &Message) -> Result<Detection3d> {
    let (class, score) = (message.u32()?, message.f32()?);
    let center = floats(message)?;
    let [length_m, width_m, height_m, yaw_rad] = floats(message)?;
    let bbox = Box3d { center, length_m, width_m, height_m, yaw_rad };
    let velocity_mps = match message.u32()? {
        0 => None,
        _ => Some(floats(message)?),
    };
    let variance = match message.u32()? {
        0 => None,
        _ => Some(Variance3d {
            center: floats(message)?,
            size: floats(message)?,
            yaw: message.f32()?,
            velocity: floats(message)?,
        }),
    };
    Ok(Detection3d { class, score, object: Object3d { bbox, velocity_mps, variance } })
}

fn put_floats(message: &mut Message, values: &[f32]) {
    for &value in values {
        message.put_f32(value);
    }
}

fn floats<const N: usize>(message: &Message) -> Result<[f32; N]> {
    let mut values = [0.0; N];
    for value in &mut values {
        *value = message.f32()?;
    }
    Ok(values)
}

/// Appends durations and bytes of `stages`, and the counts, images, levels and clouds of a report.
pub(super) fn put_report(message: &mut Message, stages: &[Stage], report: &FrameReport) {
    for &stage in stages {
        let duration = report.duration(stage);
        message.put_u64(duration.map_or(u64::MAX, |duration| duration.as_nanos() as u64));
        for transfer in Transfer::ALL {
            message.put_u64(report.bytes(stage, transfer));
        }
    }
    for count in Count::ALL {
        message.put_u64(report.count(count));
    }
    for decoder in ImageDecoder::ALL {
        message.put_u64(report.images(decoder));
    }
    message.put_u64(report.levels().len() as u64);
    for level in report.levels() {
        let LevelCounts { num_sites, num_over_capacity, num_inputs_without_output } = *level;
        message.put_u64(num_sites).put_u64(num_over_capacity).put_u64(num_inputs_without_output);
    }
    for cloud in report.clouds() {
        for num in numbers(cloud) {
            message.put_u64(num as u64);
        }
    }
}

/// Adds what [`put_report`] wrote to a report.
pub(super) fn take_report(
    message: &Message,
    stages: &[Stage],
    report: &mut FrameReport,
) -> Result<()> {
    for &stage in stages {
        match message.u64()? {
            u64::MAX => {}
            nanos => report.add_duration(stage, Duration::from_nanos(nanos)),
        }
        for transfer in Transfer::ALL {
            report.add_bytes(stage, transfer, message.usize()?);
        }
    }
    for count in Count::ALL {
        let num = message.usize()?;
        // Counts of levels are added with the levels.
        if !matches!(count, Count::SitesOverCapacity | Count::SitesWithoutOutput) {
            report.add_count(count, num);
        }
    }
    for decoder in ImageDecoder::ALL {
        report.add_images(decoder, message.usize()?);
    }
    for _ in 0..message.usize()? {
        report.add_level(LevelCounts {
            num_sites: message.u64()?,
            num_over_capacity: message.u64()?,
            num_inputs_without_output: message.u64()?,
        });
    }
    for input in 0..FrameReport::MAX_CLOUDS {
        let mut nums = [0; 6];
        for num in &mut nums {
            *num = message.usize()?;
        }
        let [num_points, num_not_finite, num_cropped, num_out_of_range, ..] = nums;
        let [.., num_over_capacity, num_without_time] = nums;
        let dropped =
            UnpackCounts { num_not_finite, num_cropped, num_out_of_range, ..Default::default() };
        report.set_cloud(
            input,
            UnpackCounts { num_points, num_over_capacity, num_without_time, ..dropped },
        );
    }
    Ok(())
}

fn numbers(cloud: &UnpackCounts) -> [usize; 6] {
    let UnpackCounts { num_points, num_not_finite, num_cropped, num_out_of_range, .. } = *cloud;
    let UnpackCounts { num_over_capacity, num_without_time, .. } = *cloud;
    [num_points, num_not_finite, num_cropped, num_out_of_range, num_over_capacity, num_without_time]
}

#[cfg(test)]
mod tests {
    use super::super::message::{put_error, take_error};
    use super::*;
    use det_post_types::{Error, ErrorKind};

    #[test]
    fn detections_come_back_bit_for_bit() {
        let flat = Detection2d {
            class: 3,
            score: 0.1,
            bbox: Box2d { x1: -0.0, y1: 1e-30, x2: f32::INFINITY, y2: 4.5 },
        };
        let bbox = Box3d {
            center: [1.0, 2.0, 3.0],
            length_m: 4.0,
            width_m: 5.0,
            height_m: 6.0,
            yaw_rad: -0.5,
        };
        let variance = Variance3d {
            center: [0.1, 0.2, 0.3],
            size: [0.4, 0.5, 0.6],
            yaw: 0.7,
            velocity: [0.8, 0.9],
        };
        let mut message = Message::default();
        message.start(1);
        put_2d(&mut message, &flat);
        let mut solids = Vec::new();
        for velocity_mps in [None, Some([7.0, -8.0])] {
            for variance in [None, Some(variance)] {
                let object = Object3d { bbox, velocity_mps, variance };
                solids.push(Detection3d { class: 9, score: 0.25, object });
            }
        }
        solids.iter().for_each(|solid| put_3d(&mut message, solid));
        message.tag().unwrap();
        let back = take_2d(&message).unwrap();
        assert_eq!(back, flat);
        assert!(back.bbox.x1.is_sign_negative());
        for solid in solids {
            assert_eq!(take_3d(&message).unwrap(), solid);
        }
        assert!(take_2d(&message).is_err());
    }

    #[test]
    fn every_kind_of_detections_comes_back() {
        let bbox = RotatedBox2d { cx: -0.0, cy: 2.0, width: 3.0, height: 1e-30, angle_rad: 0.5 };
        let rotated = [Detection2d { class: 3, score: 0.1, bbox }; 2];
        let flat = [Detection2d { class: 1, score: 0.5, bbox: Box2d::new(1.0, 2.0, 3.0, 4.0) }];
        let solid = [Detection3d { class: 1, score: 0.5, object: Object3d::default() }];
        let windows = [MaskWindow { left: 1, top: 2, width: 33, height: 1, first_word: 1 }; 1];
        let image = Size::new(40, 30);
        let masks = Masks { image, windows: &windows, words: &[0, u32::MAX, 5] };
        let points = [Keypoint { x: -0.0, y: 2.5, score: 0.25 }; 2];
        let all = [
            Detections::Keypoints2d(&flat, Keypoints { num_per_detection: 2, all: &points }),
            Detections::Masked2d(&flat, masks),
            Detections::RotatedBoxes2d(&rotated),
            Detections::Boxes2d(&flat),
            Detections::Boxes3d(&solid),
            Detections::RotatedBoxes2d(&[]),
        ];
        let mut message = Message::default();
        message.start(1);
        all.iter().for_each(|detections| put_detections(&mut message, *detections));
        message.put_u32(WITH_KEYPOINTS + 1);
        message.tag().unwrap();
        let mut found = DetectionBuffers::default();
        for detections in all {
            take_detections(&message, &mut found).unwrap();
            assert_eq!(found.last(), detections);
        }
        assert!(take_detections(&message, &mut found).is_err());
    }

    #[test]
    fn reports_and_errors_come_back() {
        let mut report = FrameReport::new();
        report.add_duration(Stage::Infer, Duration::from_micros(1250));
        report.add_count(Count::CandidatesOverTopK, 4);
        report.add_images(ImageDecoder::Gpu, 6);
        report.add_bytes(Stage::Upload, Transfer::Upload, 123);
        for (num_sites, num_over_capacity) in [(9, 0), (5, 3)] {
            report.add_level(LevelCounts {
                num_sites,
                num_over_capacity,
                num_inputs_without_output: 1,
            });
        }
        let cloud = UnpackCounts { num_points: 7, num_cropped: 2, ..UnpackCounts::default() };
        report.set_cloud(3, UnpackCounts { num_without_time: 1, num_over_capacity: 5, ..cloud });
        let mut sent = report.clone();
        sent.add_duration(Stage::Total, Duration::from_micros(9));
        let error = Error::new(ErrorKind::Codec, "decompress", "no image");
        let mut message = Message::default();
        message.start(1);
        let stages = [Stage::Upload, Stage::Infer];
        put_report(&mut message, &stages, &sent);
        put_error(&mut message, &error);
        message.tag().unwrap();
        let mut back = FrameReport::new();
        take_report(&message, &stages, &mut back).unwrap();
        assert_eq!(back, report);
        let back = take_error(&message).unwrap();
        assert_eq!((back.kind(), back.message()), (ErrorKind::Codec, "decompress: no image"));
    }
}
