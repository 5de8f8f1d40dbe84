//! The same problems on the CPU and on the GPU, and the answers compared.
//!
//! A problem knows how to make itself, its answer on the CPU and its answer on
//! the device. Integers, orders and indices must be equal; floats are equal or
//! within the units in the last place that `docs/numerics.md` states. Without
//! a GPU the suite says so and passes, unless `DET_POST_REQUIRE=cuda` makes
//! that a failure.
#![cfg(feature = "cuda")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;

use common::bounds::bound;
use common::{detect, require, shared_data};
use det_post_ops::device::Device;
use det_post_ops::device::cuda::CudaDevice;
use det_post_types::{Count, DeviceChoice, FrameReport, Kept};

mod attention;
mod camera_frame;
mod camera_pipeline;
mod candidate_arrays;
mod channels_last;
mod clouds;
mod decode_anchor;
mod decode_center;
mod decode_query;
mod decode_streampetr;
mod decode_yolo;
mod decode_yolo_outputs;
mod decompress;
mod densify;
mod detr3d_block;
mod detr3d_reference;
mod gather;
mod heads;
mod images;
mod layer_stack;
mod layer_stack_folded;
mod letterbox;
mod lidar_pipeline;
mod linear;
mod nms;
mod nms_bev;
mod nms_bev_fast;
mod nms_circle;
mod nms_fast;
mod nms_iou;
mod nms_iou_3d;
mod nms_none;
mod nms_rotated;
mod nms_soft;
mod pillar_features;
mod random;
mod resample;
mod rotated_pipeline;
mod rulebook;
mod scatter;
mod select;
mod slot;
mod sparse4d;
mod sparse4d_width;
mod sparse_arrays;
mod sparse_conv;
mod sparse_encoder;
mod sparse_max_pool;
mod sparse_scenes;
mod surround_pipeline;
mod survivors;
mod tensors;
mod to_map;
mod top_rows;
mod unpack;
mod view_sample;
mod voxel_arrays;
mod voxel_mean;
mod voxelize;
mod voxels_pipeline;

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
