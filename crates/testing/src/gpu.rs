//! Problems on a GPU.

use det_post_ops::device::Device;
use det_post_ops::device::cuda::CudaDevice;
use det_post_types::{Count, DeviceChoice, FrameReport, Kept};

use super::require::{Need, skip};

/// The GPU, or `None` with the reason printed.
pub fn gpu() -> Option<CudaDevice> {
    match Device::open(DeviceChoice::Cuda(0)) {
        Ok(Device::Cuda(device)) => Some(device),
        Ok(Device::Cpu) => unreachable!("a GPU was asked for by number"),
        Err(reason) => {
            skip(Need::Cuda, reason);
            None
        }
    }
}

/// The report of a frame that counted this and nothing else.
pub fn counted<const N: usize>(counts: [(Count, usize); N]) -> FrameReport {
    let mut report = FrameReport::new();
    for (count, num) in counts {
        report.add_count(count, num);
    }
    report
}

/// Fails when the survivors, their order or their scores differ in any bit.
pub fn assert_same_kept(found: &[Kept], expected: &[Kept], context: impl Fn() -> String) {
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
