//! A frame of six cameras through StreamPETR on both devices, with images that are prepared
//! on arrival and without.

use det_post::detectors::Detector;
use det_post::detectors::Payload;
use det_post::detectors::surround::{CpuDetector, CudaDetector};
use det_post::{ErrorKind, FrameInput};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_types::{Detections, FrameReport, ImagePayload, ImageView, Stage, Transfer};

use crate::common::surround_frames::{Cameras, Frame, streampetr_config};

fn detect(detector: &mut dyn Detector, frame: &Frame<'_>) -> (String, FrameReport) {
    let mut report = FrameReport::new();
    let found = match detector.detect(&frame.set(), &mut report).unwrap() {
        Detections::Boxes3d(found) => format!("{found:?}"),
        other => panic!("{other:?}"),
    };
    assert!(found.len() > 2, "there are detections");
    (found, report)
}

fn prepare(detector: &mut dyn Detector, frame: &Frame<'_>) {
    for (camera, input) in frame.inputs.iter().enumerate() {
        detector.prepare(camera, input.as_ref().unwrap()).unwrap();
    }
}

#[test]
fn both_devices_find_the_same_boxes_prepared_or_not() {
    let Some(device) = det_post_testing::gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = streampetr_config(folder.path());
    let cameras = Cameras::new();
    for is_compressed in [false, true] {
        let stream = device.stream().unwrap();
        let mut on_cpu = CpuDetector::load(&config, 6).unwrap();
        let mut on_gpu = CudaDetector::load(&config, 6, &stream).unwrap();
        let mut prepared = CudaDetector::load(&config, 6, &stream).unwrap();
        for number in 0..4 {
            let frame = cameras.frame(number, number as usize, is_compressed);
            let (expected, _) = detect(&mut on_cpu, &frame);
            assert_eq!(detect(&mut on_gpu, &frame).0, expected, "frame {number}");
            prepare(&mut prepared, &frame);
            assert_eq!(detect(&mut prepared, &frame).0, expected, "prepared frame {number}");
        }
    }
}

#[test]
fn a_prepared_frame_uploads_nothing_and_waits_once() {
    let Some(device) = det_post_testing::gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let config = streampetr_config(folder.path());
    let cameras = Cameras::new();
    let stream = device.stream().unwrap();
    let mut detector = CudaDetector::load(&config, 6, &stream).unwrap();
    let num_bytes: usize = cameras.images.iter().map(Vec::len).sum();
    let uploaded = |report: &FrameReport| {
        [Transfer::HostCopy, Transfer::Upload].map(|way| report.bytes(Stage::Upload, way) as usize)
    };
    for number in 0..2 {
        detect(&mut detector, &cameras.frame(number, 0, false));
    }
    // The networks run on the host: two waits for their inputs, one for the outputs.
    let frame = cameras.frame(2, 1, false);
    let before = stream.num_waits();
    let (_, report) = detect(&mut detector, &frame);
    assert_eq!(stream.num_waits() - before, 3);
    assert_eq!(uploaded(&report), [num_bytes, num_bytes]);

    // In page-locked memory, as live: each image is uploaded in place when it arrives.
    let mut frame = cameras.frame(3, 2, false);
    let memories: Vec<PayloadMemory> = (0..6)
        .map(|camera| {
            let mut memory = PayloadMemory::of(&Device::Cuda(device.clone()));
            memory.copy_from(&cameras.images[(camera + 2) % 6]);
            memory
        })
        .collect();
    for (input, memory) in frame.inputs.iter_mut().zip(&memories) {
        let Some(FrameInput { payload, .. }) = input else { panic!("all cameras") };
        let Payload::Image(ImagePayload::Raw(image)) = *payload else { panic!("pixels") };
        let (size, step, encoding) = (image.size(), image.step(), image.encoding());
        let view = ImageView::new(size, step, encoding, false, memory.bytes()).unwrap();
        *payload = Payload::Image(ImagePayload::Raw(view));
    }
    let before = stream.num_waits();
    prepare(&mut detector, &frame);
    // At most one for each image, until its message is no longer read.
    assert!(stream.num_waits() - before <= 6);
    let before = stream.num_waits();
    let (_, report) = detect(&mut detector, &frame);
    assert_eq!(stream.num_waits() - before, 3);
    // The uploads of its images belong to the frame, wherever they were.
    assert_eq!(uploaded(&report), [0, num_bytes]);

    // An image that was not prepared in time is uploaded with its frame.
    let frame = cameras.frame(4, 3, false);
    let error = detector.prepare(6, frame.inputs[0].as_ref().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Argument);
    for camera in 0..5 {
        detector.prepare(camera, frame.inputs[camera].as_ref().unwrap()).unwrap();
    }
    let before = stream.num_waits();
    detect(&mut detector, &frame);
    assert_eq!(stream.num_waits() - before, 3);
}
