//! The CUDA implementation of [`decode_query`](super::decode_query()): pairs pass and are ranked
//! on the device, in logit space; scores, extents and yaws of the few that are kept are computed
//! on the host. Equal to the CPU, bit for bit.

use super::kernels::{
    DecodeArgs, DecodePairs, KEYS_AT_ONCE, MAX_BINS, Pair, QuerySettings, THREADS_PER_BLOCK,
};
use super::{argument, candidate_of};
use crate::decode::logit::logit_bound;
use crate::device::cuda::{DeviceBuffer, Grid, In, Kernel, MappedBuffer, Stream};
use det_post_types::{Candidates, Object3d, QueryDecode, Result};

/// The outputs of a view decoder in device memory.
#[derive(Clone, Copy, Debug)]
pub struct DeviceQueries<'a> {
    /// `[Q, 11]`.
    pub boxes: In<'a, f32>,
    /// `[Q, classes]`.
    pub logits: In<'a, f32>,
    /// Logits of centreness and yawness, `[Q, 2]`; empty where there are none.
    pub quality: In<'a, f32>,
}

/// Kernel and memory of the op on one stream.
pub struct Workspace {
    stream: Stream,
    kernel: Kernel<DecodePairs>,
    params: QueryDecode,
    num_queries: usize,
    num_classes: usize,
    settings: DeviceBuffer<QuerySettings>,
    bounds: DeviceBuffer<f32>,
    norms: DeviceBuffer<f32>,
    pairs: MappedBuffer<Pair>,
    counts: MappedBuffer<u32>,
    capacity: usize,
}

impl Workspace {
    /// Loads the kernel, and takes memory for the pairs of queries and classes, of which at
    /// most `max_pairs` are kept.
    ///
    /// # Errors
    /// `Argument` for more than [`QueryDecode::MAX_PAIRS`], or as [`Self::set`]; `Device` when this build
    /// has no such kernel, the GPU has too little shared memory, or there is not enough memory.
    pub fn new(
        stream: &Stream,
        [num_queries, num_classes]: [usize; 2],
        params: &QueryDecode,
        max_pairs: usize,
    ) -> Result<Self> {
        let max_pairs = max_pairs.min(num_queries.saturating_mul(num_classes));
        if max_pairs > QueryDecode::MAX_PAIRS {
            return argument(format!(
                "{max_pairs} pairs exceed the limit of a GPU, {}",
                QueryDecode::MAX_PAIRS
            ));
        }
        let capacity = max_pairs.max(KEYS_AT_ONCE as usize);
        let kernel: Kernel<DecodePairs> = stream.device().kernel()?;
        let num_bytes = num_keys(capacity).saturating_mul(size_of::<u64>() as u32);
        kernel.reserve_shared(num_bytes, THREADS_PER_BLOCK)?;
        let mut workspace = Self {
            stream: stream.clone(),
            kernel,
            params: params.clone(),
            num_queries,
            num_classes,
            settings: DeviceBuffer::zeros(stream, 1)?,
            bounds: DeviceBuffer::zeros(stream, num_classes * MAX_BINS)?,
            norms: DeviceBuffer::zeros(stream, num_classes)?,
            pairs: MappedBuffer::zeros(stream, capacity)?,
            counts: MappedBuffer::zeros(stream, NUM_COUNTS)?,
            capacity,
        };
        workspace.set(params, max_pairs)?;
        Ok(workspace)
    }

    /// Whether [`Self::set`] takes so many pairs.
    pub fn holds(&self, max_pairs: usize) -> bool {
        max_pairs.min(self.num_queries * self.num_classes) <= self.capacity
    }

    /// Writes other settings and waits. Recorded graphs use those last set.
    ///
    /// # Errors
    /// `Argument` when there are other classes than score thresholds or yaw norms, too many
    /// distance bins, or too many pairs for the memory; `Device` when a copy fails.
    pub fn set(&mut self, params: &QueryDecode, max_pairs: usize) -> Result<()> {
        let QueryDecode { score_thresholds, yaw_norm_thresholds, center_range, .. } = params;
        let limits = &score_thresholds.distance_upper_limits_m;
        let num_norms = yaw_norm_thresholds.len();
        let fits = score_thresholds.per_class.len() == self.num_classes
            && (num_norms == 0 || num_norms == self.num_classes)
            && limits.len() <= MAX_BINS
            && self.holds(max_pairs);
        if !fits {
            return argument(format!(
                "{max_pairs} pairs, {} score thresholds in {} bins and {num_norms} yaw-norm \
                 thresholds; there are {} classes, and a GPU takes at most {MAX_BINS} bins and {} \
                 pairs",
                score_thresholds.per_class.len(),
                limits.len(),
                self.num_classes,
                self.capacity
            ));
        }
        let mut settings = QuerySettings {
            has_range: u32::from(center_range.is_some()),
            num_bins: limits.len() as u32,
            has_norms: u32::from(num_norms != 0),
            max_pairs: max_pairs.min(self.capacity) as u32,
            ..QuerySettings::default()
        };
        if let Some(range) = center_range {
            (settings.low, settings.high) = (range.min, range.max);
        }
        settings.limits[..limits.len()].copy_from_slice(limits);
        let bounds: Vec<f32> = score_thresholds
            .per_class
            .iter()
            .flat_map(|scores| {
                let score = |bin| scores.get(bin).map_or(f32::NAN, |&score| logit_bound(score));
                (0..MAX_BINS).map(score)
            })
            .collect();
        self.settings.write(&[settings])?;
        self.bounds.write(&bounds)?;
        self.norms.write(yaw_norm_thresholds)?;
        self.params = params.clone();
        Ok(())
    }

    /// Queues the choice of the best pairs.
    ///
    /// # Errors
    /// `Argument` when logits, boxes and quality are not those of the queries; `Device` when
    /// a buffer belongs to another stream or the launch fails.
    pub fn enqueue(&mut self, queries: &DeviceQueries<'_>) -> Result<()> {
        let stream = &self.stream;
        let args = DecodeArgs {
            boxes: queries.boxes,
            logits: queries.logits,
            quality: queries.quality,
            settings: self.settings.input(stream)?,
            bounds: self.bounds.input(stream)?,
            norms: self.norms.input(stream)?,
            pairs: self.pairs.output(stream)?,
            counts: self.counts.output(stream)?,
            num_queries: self.num_queries as u32,
            num_classes: self.num_classes as u32,
            num_keys: num_keys(self.capacity),
            reserved: 0,
        };
        let grid = Grid { num_blocks: [1, 1], threads_per_block: THREADS_PER_BLOCK };
        self.kernel.enqueue_dependent(stream, grid, args)
    }

    /// Waits for the queued frame, once, and replaces the contents of `candidates` by its
    /// candidates. Returns the pairs that passed and were dropped; queries with a NaN logit and
    /// invalid ones are counted in the candidates. `has_quality` says whether the queries had one.
    ///
    /// # Errors
    /// `Device` when queued work failed; there are then no candidates.
    pub fn read(
        &mut self,
        has_quality: bool,
        candidates: &mut Candidates<Object3d>,
    ) -> Result<usize> {
        candidates.clear();
        self.stream.synchronize()?;
        for pair in self.pairs() {
            let centerness = has_quality.then_some(pair.centerness);
            let of_class = (pair.class_index, pair.logit, centerness);
            candidates.push(candidate_of(pair.query, of_class, &pair.bbox, &self.params));
        }
        let [num_kept, num_passed, num_nan, num_invalid] =
            [0, 1, 2, 3].map(|index| self.counts.get(index).unwrap_or(0) as usize);
        candidates.add_nan_scores(num_nan);
        candidates.add_invalid_boxes(num_invalid);
        Ok(num_passed.saturating_sub(num_kept))
    }

    /// The pairs that were kept, best first; the caller has waited for the stream.
    pub fn pairs(&self) -> impl Iterator<Item = Pair> + '_ {
        let num_kept = self.counts.get(0).unwrap_or(0) as usize;
        (0..num_kept).map_while(|index| self.pairs.get(index))
    }

    /// Bytes that the device wrote to the host for the last frame.
    pub fn num_bytes(&self) -> usize {
        self.pairs().count() * size_of::<Pair>() + NUM_COUNTS * size_of::<u32>()
    }
}

/// Counts that the kernel writes.
const NUM_COUNTS: usize = 4;

/// Keys in shared memory: those that are kept, and those that are collected at once.
fn num_keys(capacity: usize) -> u32 {
    (capacity as u32 + KEYS_AT_ONCE).next_power_of_two()
}
