//! `kernels/select.cuh`: what every decoder has among its parameters.

use crate::device::cuda::{In, Out, Plain, assert_mirrors, kernel_constant};
use crate::types::{Box2d, Candidate, Count};

/// Threads of a block of a decoder.
pub const THREADS_PER_BLOCK: u32 = kernel_constant!("select.cuh", "kThreads");
/// The most places where something may be found, as many as the kernels' totals
/// can count.
pub const MAX_FOUND: usize = (1 << kernel_constant!("select.cuh", "kTotalBits")) - 1;

/// What passes and what is wanted: the mirror of `Settings`, in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct SelectSettings {
    /// Where a decoder has one threshold: scores below it are no candidates.
    pub score_threshold: f32,
    /// The most candidates that go on to suppression.
    pub top_k: u32,
    /// Not 0: only classes with a bit go on.
    pub has_filter: u32,
    /// What passes beyond it is lost, the worst first; at least 1.
    pub capacity: u32,
}

impl SelectSettings {
    /// All classes, and the decoder's own thresholds.
    pub fn limits(candidate_capacity: usize, top_k: usize) -> Self {
        let count = |num: usize| u32::try_from(num).unwrap_or(u32::MAX);
        let (top_k, capacity) = (count(top_k), count(candidate_capacity.max(1)));
        Self { score_threshold: f32::NAN, top_k, has_filter: 0, capacity }
    }
}

// SAFETY: 4 values of 4 bytes each, no gap, any bits are a value.
unsafe impl Plain for SelectSettings {}

/// The mirror of `Slices`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Selection<'a, B> {
    /// The settings.
    pub settings: In<'a, SelectSettings>,
    /// A bit a class.
    pub wanted: In<'a, u32>,
    /// Everything that passed: a place for whatever may.
    pub found: Out<'a, Candidate<B>>,
    /// The first word of its place in the total order.
    pub words: Out<'a, u32>,
    /// What goes on.
    pub items: Out<'a, Candidate<B>>,
    /// How many go on.
    pub num: Out<'a, u32>,
    /// What was found and wanted so far and blocks that are done, in one word,
    /// zero between launches; what was ever written to `found`; how much of that
    /// before the launch.
    pub totals: Out<'a, u64>,
    /// The counters of the frame.
    pub counters: Out<'a, u32>,
}

assert_mirrors!(SelectSettings, "select.cuh", "Settings");
assert_mirrors!(Selection<'_, Box2d>, "select.cuh", "Slices<Candidate2d>");

impl<B> Selection<'_, B> {
    /// The slices that must hold something, with their lengths and the lengths
    /// needed for what may be found.
    pub(in crate::ops) fn needed(&self, num_found: usize) -> [(&'static str, usize, usize); 7] {
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
