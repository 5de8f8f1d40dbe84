//! The same problems on the CPU and on the GPU, and the answers compared.
//!
//! A problem knows how to make itself, its answer on the CPU and its answer on
//! the device. Integers, orders and indices must be equal; floats are equal or
//! within the units in the last place that `docs/numerics.md` states. Without
//! a GPU the suite says so and passes, unless `DET_POST_REQUIRE=cuda` makes
//! that a failure.
#![cfg(feature = "cuda")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking"
)]

use det_post::device::Device;
use det_post::device::cuda::CudaDevice;
use det_post::types::{Count, DeviceChoice, FrameReport, Kept};

#[path = "parity/camera_frame.rs"]
mod camera_frame;
#[path = "parity/camera_pipeline.rs"]
mod camera_pipeline;
#[path = "parity/clouds.rs"]
mod clouds;
#[path = "parity/decode_anchor.rs"]
mod decode_anchor;
#[path = "parity/decode_center.rs"]
mod decode_center;
#[path = "parity/decode_yolo.rs"]
mod decode_yolo;
#[path = "parity/decode_yolo_outputs.rs"]
mod decode_yolo_outputs;
#[path = "parity/densify.rs"]
mod densify;
#[path = "common/detect.rs"]
mod detect;
#[path = "parity/gather.rs"]
mod gather;
#[path = "parity/heads.rs"]
mod heads;
#[path = "parity/letterbox.rs"]
mod letterbox;
#[path = "parity/lidar_pipeline.rs"]
mod lidar_pipeline;
#[path = "parity/nms.rs"]
mod nms;
#[path = "parity/nms_bev.rs"]
mod nms_bev;
#[path = "parity/nms_circle.rs"]
mod nms_circle;
#[path = "parity/nms_fast.rs"]
mod nms_fast;
#[path = "parity/nms_iou.rs"]
mod nms_iou;
#[path = "parity/nms_iou_3d.rs"]
mod nms_iou_3d;
#[path = "parity/nms_none.rs"]
mod nms_none;
#[path = "parity/nms_rotated.rs"]
mod nms_rotated;
#[path = "parity/nms_soft.rs"]
mod nms_soft;
#[path = "parity/pillar_features.rs"]
mod pillar_features;
#[path = "parity/random.rs"]
mod random;
#[path = "common/require.rs"]
mod require;
#[path = "parity/scatter.rs"]
mod scatter;
#[path = "parity/select.rs"]
mod select;
#[path = "common/shared_data.rs"]
mod shared_data;
#[path = "parity/slot.rs"]
mod slot;
#[path = "parity/tensors.rs"]
mod tensors;
#[path = "parity/unpack.rs"]
mod unpack;
#[path = "parity/voxelize.rs"]
mod voxelize;

/// The GPU, or `None` with the reason printed.
fn gpu() -> Option<CudaDevice> {
    match Device::open(DeviceChoice::Cuda(0)) {
        Ok(Device::Cuda(device)) => Some(device),
        Ok(Device::Cpu) => unreachable!("a GPU was asked for by number"),
        Err(reason) => {
            require::skip(require::Need::Cuda, reason);
            None
        }
    }
}

/// The report of a frame that counted this and nothing else.
fn counted<const N: usize>(counts: [(Count, usize); N]) -> FrameReport {
    let mut report = FrameReport::new();
    for (count, num) in counts {
        report.add_count(count, num);
    }
    report
}

/// Fails when the survivors, their order or their scores differ in any bit.
fn assert_same_kept(found: &[Kept], expected: &[Kept], context: impl Fn() -> String) {
    let bits = |kept: &Kept| (kept.index, kept.score.to_bits());
    let first = found.iter().zip(expected).position(|(a, b)| bits(a) != bits(b));
    let pair = first.map(|i| (found[i], expected[i]));
    assert!(
        first.is_none() && found.len() == expected.len(),
        "{}: {} kept, expected {}; first difference {first:?} {pair:?}",
        context(),
        found.len(),
        expected.len(),
    );
}
