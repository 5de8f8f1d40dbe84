//! Messages that wait in a slot whose memory is page-locked: uploaded from
//! there, without another copy on the host, and nothing else changes.

use det_post::device::{Device, PayloadMemory};
use det_post::node::slot::Frame;
use det_post::transport::door::Received;
use det_post::types::{
    CloudView, Encoding, FrameReport, Header, ImageView, Size, Stage, Stamp, Transfer,
};

use super::camera_pipeline;
use super::lidar_pipeline;
use super::random::Random;

/// Bytes that the upload of a frame moved: on the host, to the device.
fn moved(report: &FrameReport) -> [u64; 2] {
    [Transfer::HostCopy, Transfer::Upload].map(|transfer| report.bytes(Stage::Upload, transfer))
}

const HEADER: Header<'_> = Header { stamp: Stamp::from_nanos(1_400_000_000), frame_id: "sensor" };

#[test]
fn a_picture_is_uploaded_from_its_slot() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(175);
    let (size, encoding) = (Size::new(320, 200), Encoding::Bgr8);
    let mut pipeline = camera_pipeline::on_gpu(&device);
    let mut frame = Frame::new(PayloadMemory::of(&Device::Cuda(device)));
    // Growing, shrinking, growing: the memory is taken anew once.
    for (round, rows) in [100, 200, 40, 200].into_iter().enumerate() {
        let size = Size::new(size.width, rows);
        let data = random.bytes(encoding.row_bytes(size.width) * encoding.num_rows(rows));
        let image = ImageView::new(size, 3 * 320, encoding, false, &data).unwrap();
        let payload = det_post::types::ImagePayload::Raw(image);
        let processed = pipeline.process(&payload).unwrap();
        assert_eq!(moved(processed.report), [data.len() as u64; 2]);
        let expected = camera_pipeline::bits(processed.detections);
        frame.fill(&Received::Picture { header: HEADER, payload }, usize::MAX).unwrap();
        frame
            .read(|message| {
                let Received::Picture { payload, .. } = message else { panic!("a picture") };
                let processed = pipeline.process(payload).unwrap();
                assert_eq!(moved(processed.report), [0, data.len() as u64], "round {round}");
                assert_eq!(camera_pipeline::bits(processed.detections), expected);
            })
            .unwrap();
    }
}

#[test]
fn a_cloud_is_uploaded_from_its_slot() {
    let Some(device) = super::gpu() else { return };
    let mut random = Random::new(176);
    let mut pipeline = lidar_pipeline::on_gpu(&device);
    let mut frame = Frame::new(PayloadMemory::of(&Device::Cuda(device)));
    for num_points in [1500, 900, 1500] {
        let cloud = lidar_pipeline::cloud(&mut random, num_points);
        let (view, stamp) = (cloud.view(), HEADER.stamp);
        let num_bytes = cloud.data.len() as u64;
        let mut serve = |view: &CloudView<'_>| {
            let frame =
                det_post::pipeline::LidarFrame { cloud: view, stamp, world_from_sensor: None };
            let processed = pipeline.process(&frame).unwrap();
            (moved(processed.report), format!("{:?}", processed.detections))
        };
        let (copied, expected) = serve(&view);
        assert_eq!(copied, [num_bytes; 2]);
        frame.fill(&Received::Cloud { header: HEADER, view: &view }, usize::MAX).unwrap();
        frame
            .read(|message| {
                let Received::Cloud { view, .. } = message else { panic!("a cloud") };
                assert_eq!(serve(view), ([0, num_bytes], expected));
            })
            .unwrap();
    }
}
