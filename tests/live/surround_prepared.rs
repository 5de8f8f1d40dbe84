//! Images that are prepared when they arrive: the detections are those of frames whose
//! images were not.

use det_post::detectors::Detector;
use det_post::detectors::surround::CpuDetector;
use det_post::{ErrorKind, FrameInput};
use det_post_types::{
    CompressedFormat, CompressedView, Detections, FrameReport, Header, ImagePayload, Stage,
};

use crate::common::surround_frames::{Cameras, Frame, streampetr_config};

/// The detector of a small StreamPETR.
fn detector() -> CpuDetector {
    let folder = tempfile::tempdir().unwrap();
    CpuDetector::load(&streampetr_config(folder.path()), 6).unwrap()
}

fn prepare(detector: &mut CpuDetector, frame: &Frame<'_>) {
    for (camera, input) in frame.inputs.iter().enumerate() {
        detector.prepare(camera, input.as_ref().unwrap()).unwrap();
    }
}

/// The detections of a frame as text, and its report.
fn detect(detector: &mut CpuDetector, frame: &Frame<'_>) -> (String, FrameReport) {
    let mut report = FrameReport::new();
    let found = match detector.detect(&frame.set(), &mut report).unwrap() {
        Detections::Boxes3d(found) => format!("{found:?}"),
        other => panic!("{other:?}"),
    };
    assert!(found.len() > 2, "there are detections");
    (found, report)
}

#[test]
fn prepared_frames_have_the_detections_of_others() {
    let cameras = Cameras::new();
    assert!(detector().info().prepares);
    for is_compressed in [false, true] {
        let (mut plain, mut ahead) = (detector(), detector());
        for number in 0..4 {
            let frame = cameras.frame(number, number as usize, is_compressed);
            let (expected, _) = detect(&mut plain, &frame);
            prepare(&mut ahead, &frame);
            let (found, report) = detect(&mut ahead, &frame);
            assert_eq!(found, expected, "frame {number}, files: {is_compressed}");
            // What was done before is in the report of the frame.
            let has = |stage| report.duration(stage).is_some_and(|took| !took.is_zero());
            assert!(has(Stage::Letterbox));
            assert_eq!(has(Stage::Decompress), is_compressed);
        }
    }
}

#[test]
fn a_prepared_image_is_used_while_its_message_and_calibration_hold() {
    let cameras = Cameras::new();
    let mut detector = detector();
    let [frame, other] = [0, 1].map(|shift| cameras.frame(7, shift, false));
    let mut single = |frame: &Frame<'_>| {
        detector.reset().unwrap();
        detect(&mut detector, frame).0
    };
    let [of_frame, of_other] = [&frame, &other].map(&mut single);
    assert_ne!(of_frame, of_other);
    // Messages with the same stamp are the same: the images are not looked at again.
    detector.reset().unwrap();
    prepare(&mut detector, &other);
    assert_eq!(detect(&mut detector, &frame).0, of_other);
    // Discarded by a reset.
    prepare(&mut detector, &other);
    detector.reset().unwrap();
    assert_eq!(detect(&mut detector, &frame).0, of_frame);
    // Another stamp is another message.
    detector.reset().unwrap();
    prepare(&mut detector, &cameras.frame(8, 1, false));
    assert_eq!(detect(&mut detector, &frame).0, of_frame);
    // Another calibration gives another image.
    let mut zoomed = Cameras::new();
    zoomed.calibration.intrinsics[0] *= 1.25;
    let zoomed_frame = zoomed.frame(7, 0, false);
    detector.reset().unwrap();
    let (of_zoomed, _) = detect(&mut detector, &zoomed_frame);
    assert_ne!(of_zoomed, of_frame);
    detector.reset().unwrap();
    prepare(&mut detector, &frame);
    assert_eq!(detect(&mut detector, &zoomed_frame).0, of_zoomed);
}

#[test]
fn what_cannot_be_prepared_is_an_error_and_nothing_more() {
    let cameras = Cameras::new();
    let mut detector = detector();
    let frame = cameras.frame(0, 0, false);
    let (expected, _) = detect(&mut detector, &frame);
    detector.reset().unwrap();
    let message = frame.inputs[0].as_ref().unwrap();
    let Header { stamp, frame_id } = message.header;
    let damaged = CompressedView::new(CompressedFormat::Png, &[1, 2, 3]);
    let input = |calibration| FrameInput {
        calibration,
        ..FrameInput::image(Header { stamp, frame_id }, ImagePayload::Compressed(damaged))
    };
    let error = |detector: &mut CpuDetector, camera, input: &FrameInput<'_>| {
        detector.prepare(camera, input).unwrap_err().kind()
    };
    assert_eq!(error(&mut detector, 0, &input(None)), ErrorKind::Uncalibrated);
    let calibrated = input(Some(&cameras.calibration));
    assert_eq!(error(&mut detector, 0, &calibrated), ErrorKind::Codec);
    assert_eq!(error(&mut detector, 6, message), ErrorKind::Argument);
    assert_eq!(detect(&mut detector, &frame).0, expected);
}
