//! The parameters of `kernels/decode/select.cuh`, which all decoders share.

use super::Limits;
use crate::device::cuda::{In, Out, Plain, kernel_constant, mirrors};
use crate::shared::kernels::Floats;
use det_post_types::{Candidate, Count};

/// Threads per block of a decoder.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("decode/select.cuh", "kThreads");
/// The maximum number of candidates that may be found, limited by the counts in the
/// kernels' totals.
pub const MAX_FOUND: usize = (1 << kernel_constant!("decode/select.cuh", "kTotalBits")) - 1;

/// The settings of the selection, in device memory: `Settings` in the kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct SelectSettings {
    /// The score threshold of decoders that have one for all classes.
    pub score_threshold: f32,
    /// The maximum number of candidates for suppression.
    pub top_k: u32,
    /// Not 0: only classes whose bit is set are wanted.
    pub has_filter: u32,
    /// The maximum number of candidates that pass, the best; at least 1.
    pub capacity: u32,
}

impl SelectSettings {
    /// Settings for all classes, without a score threshold for all of them.
    pub fn new(limits: Limits) -> Self {
        let count = |num: usize| u32::try_from(num).unwrap_or(u32::MAX);
        let Limits { candidate_capacity, pre_nms_top_k } = limits;
        let (top_k, capacity) = (count(pre_nms_top_k), count(candidate_capacity.max(1)));
        Self { score_threshold: f32::NAN, top_k, has_filter: 0, capacity }
    }
}

// SAFETY: 4 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for SelectSettings {}

/// The shared parameters: `Slices` in the kernels.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SelectSlices<'a, B> {
    /// The settings.
    pub settings: In<'a, SelectSettings>,
    /// A bit per class.
    pub wanted: In<'a, u32>,
    /// All candidates that pass the thresholds.
    pub found: Out<'a, Candidate<B>>,
    /// By found candidate, the first word of its key in the total order.
    pub words: Out<'a, u32>,
    /// The selected candidates.
    pub items: Out<'a, Candidate<B>>,
    /// Their number.
    pub num: Out<'a, u32>,
    /// The numbers of found and wanted candidates and finished blocks in one word, zero
    /// between launches; the candidates written to `found` in all launches; those
    /// written before the launch.
    pub totals: Out<'a, u64>,
    /// The counters of the frame.
    pub counters: Out<'a, u32>,
}

mirrors!(SelectSettings, "decode/select.cuh", "Settings");
mirrors!(SelectSlices<'_, B>, "decode/select.cuh", "Slices", Candidate<B>; where B: Floats);

impl<B> SelectSlices<'_, B> {
    /// The slices with their lengths and the lengths needed for as many candidates as
    /// may be found.
    pub(crate) fn needed(&self, num_found: usize) -> [(&'static str, usize, usize); 7] {
        [
            ("settings", self.settings.len(), 1),
            ("found", self.found.len(), num_found),
            ("words", self.words.len(), self.found.len()),
            ("items", self.items.len(), 1),
            ("num", self.num.len(), 1),
            ("totals", self.totals.len(), 3),
            ("counters", self.counters.len(), Count::ALL.len()),
        ]
    }
}
