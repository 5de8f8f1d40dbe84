//! Messages that wait in a slot whose memory is page-locked: uploaded from
//! there, without another copy on the host or another wait, and nothing else
//! changes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use det_post::ErrorKind;
use det_post::runtime::message_buffer::{MessageBuffer, PayloadView};
use det_post_ops::device::cuda::{DeviceBuffer, InPlaceUploads, PageLocked, PinnedBuffer};
use det_post_ops::device::{Device, PayloadMemory};
use det_post_ros::middleware::Received;
use det_post_types::{
    CloudView, Encoding, FrameReport, Header, ImageView, PointFields, Size, Stage, Stamp, Transfer,
};

use super::camera_pipeline;
use super::lidar_pipeline;
use crate::common::detect::{in_cloud, in_image};
use det_post_testing::random::Random;

/// Bytes that the upload of a frame moved: on the host, to the device.
fn moved(report: &FrameReport) -> [u64; 2] {
    [Transfer::HostCopy, Transfer::Upload].map(|transfer| report.bytes(Stage::Upload, transfer))
}

const HEADER: Header<'_> = Header { stamp: Stamp::from_nanos(1_400_000_000), frame_id: "sensor" };

#[test]
fn an_image_is_uploaded_from_its_slot() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(175);
    let (size, encoding) = (Size::new(320, 200), Encoding::Bgr8);
    let (mut pipeline, stream) = camera_pipeline::on_gpu(&device);
    let mut frame = MessageBuffer::new(PayloadMemory::of(&Device::Cuda(device)));
    // Growing, shrinking, growing: the memory is taken anew once.
    for (round, rows) in [100, 200, 40, 200].into_iter().enumerate() {
        let size = Size::new(size.width, rows);
        let data = random.bytes(encoding.row_bytes(size.width) * encoding.num_rows(rows));
        let image = ImageView::new(size, 3 * 320, encoding, false, &data).unwrap();
        let payload = det_post_types::ImagePayload::Raw(image);
        // The first image of a layout also waits to write the placement.
        in_image(&mut pipeline, &payload).unwrap();
        let processed = in_image(&mut pipeline, &payload).unwrap();
        assert_eq!(moved(&processed.report), [data.len() as u64; 2]);
        let expected = camera_pipeline::bits(&processed.detections);
        frame.fill(&Received::Image { header: HEADER, payload }, usize::MAX).unwrap();
        let PayloadView::Image(payload) = frame.view().unwrap().payload else { panic!("an image") };
        let before = stream.num_waits();
        let processed = in_image(&mut pipeline, &payload).unwrap();
        // One for the answer, unless it is there already, one by the engine on the CPU.
        assert!((1..=2).contains(&(stream.num_waits() - before)), "round {round}");
        assert_eq!(moved(&processed.report), [0, data.len() as u64], "round {round}");
        assert_eq!(camera_pipeline::bits(&processed.detections), expected);
    }
}

#[test]
fn a_cloud_is_uploaded_from_its_slot() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(176);
    let (mut pipeline, stream) = lidar_pipeline::on_gpu(&device);
    let mut frame = MessageBuffer::new(PayloadMemory::of(&Device::Cuda(device)));
    for num_points in [1500, 900, 1500] {
        let cloud = lidar_pipeline::cloud(&mut random, num_points);
        let (view, stamp) = (cloud.view(), HEADER.stamp);
        let num_bytes = cloud.data.len() as u64;
        let mut serve = |view: &CloudView<'_>| {
            let before = stream.num_waits();
            let processed = in_cloud(&mut pipeline, view, stamp, None).unwrap();
            // One for the answer, unless it is there already, one by each of the two engines on
            // the CPU.
            assert!((2..=3).contains(&(stream.num_waits() - before)));
            (moved(&processed.report), format!("{:?}", processed.detections))
        };
        let (copied, expected) = serve(&view);
        assert_eq!(copied, [num_bytes; 2]);
        frame.fill(&Received::Cloud { header: HEADER, view: &view }, usize::MAX).unwrap();
        let PayloadView::Cloud(view) = frame.view().unwrap().payload else { panic!("a cloud") };
        assert_eq!(serve(&view), ([0, num_bytes], expected));
    }
}

#[test]
fn a_cloud_that_is_refused_is_read_before_its_slot_is_filled_anew() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(177);
    let (mut pipeline, stream) = lidar_pipeline::on_gpu(&device);
    let cloud = lidar_pipeline::cloud(&mut random, 1500);
    let mut memory = PayloadMemory::of(&Device::Cuda(device));
    memory.copy_from(&cloud.data);
    // Without fields nothing can be unpacked, which shows behind the upload.
    let (fields, step) = (PointFields::new(), u32::try_from(cloud.data.len()).unwrap());
    let view = CloudView::new([1, 1], [step, step], false, fields, memory.bytes()).unwrap();
    let before = stream.num_waits();
    let refused = in_cloud(&mut pipeline, &view, HEADER.stamp, None).err().unwrap();
    assert_eq!(refused.kind(), ErrorKind::PointField);
    assert!(stream.num_waits() > before);
}

/// Large enough that its upload is under way when the panic comes.
#[test]
fn what_is_lent_is_read_before_a_panic_goes_on() {
    let Some(device) = det_post_testing::gpu() else { return };
    let (stream, num_bytes) = (device.stream().unwrap(), 1 << 27);
    let mut lent = PageLocked::zeros(&device, num_bytes).unwrap();
    lent.bytes_mut().fill(7);
    let mut pinned = PinnedBuffer::zeros(&stream, 16).unwrap();
    let mut target = DeviceBuffer::zeros(&stream, num_bytes).unwrap();
    let uploads = InPlaceUploads::new(&stream).unwrap();
    let stopped = catch_unwind(AssertUnwindSafe(|| {
        uploads.scope(|scope| {
            assert_eq!(pinned.enqueue_payload(lent.bytes(), &mut target, scope).unwrap(), 0);
            panic!("in the middle of a frame");
        })
    }));
    assert!(stopped.is_err());
    lent.bytes_mut().fill(9);
    assert!(target.read().unwrap().iter().all(|&byte| byte == 7));
}
