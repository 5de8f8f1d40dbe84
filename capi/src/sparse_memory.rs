//! The memory of sparse operations of a workspace, and where a call runs.

use det_post_ops::sparse::conv::Workspace as Threads;

use super::call::Const;
use super::sparse_arrays::{SparseMap, SparsePairs, SparseResult};
use super::sparse_gpu::{Block, SparseGpu};
use super::status::Failure;
use super::workspace::Opened;

/// The memory of a workspace.
#[derive(Default)]
pub(super) struct Memory {
    host: HostMemory,
    on_gpu: Option<SparseGpu>,
    pub(super) pooled: Outcome,
    pub(super) map: Outcome,
    pub(super) public: Public,
}

/// Memory of operations on the host.
pub(super) struct HostMemory {
    pub(super) threads: Threads,
    /// Rows of features in the order of the sites.
    pub(super) sorted: Vec<f32>,
}

/// Structs that results point to.
#[derive(Default)]
pub(super) struct Public {
    pub(super) pooled: Option<SparseResult>,
    pub(super) map: Option<SparseMap>,
    pub(super) pairs: Option<SparsePairs>,
    pub(super) table: Vec<i32>,
    pub(super) num_pairs: Vec<usize>,
    pub(super) table_on_gpu: Option<Block>,
}

impl Default for HostMemory {
    fn default() -> Self {
        let num_threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self { threads: Threads::new(num_threads), sorted: Vec::new() }
    }
}

/// Where a call runs.
pub(super) enum Place<'a> {
    Host(&'a mut HostMemory),
    /// With the driver's handle of the caller's stream.
    Gpu(&'a SparseGpu, u64),
}

impl<'a> Place<'a> {
    pub(super) fn of(opened: &'a mut Opened) -> Result<Self, Failure> {
        let Opened { gpu, sparse: Memory { host, on_gpu, .. }, .. } = opened;
        let Some(gpu) = gpu else { return Ok(Self::Host(host)) };
        let sparse = match on_gpu {
            Some(sparse) => sparse,
            none => none.insert(SparseGpu::new(&gpu.stream()?)?),
        };
        Ok(Self::Gpu(sparse, gpu.caller))
    }
}

/// What a call has made.
pub(super) enum Made {
    Host(Vec<f32>),
    Gpu(Block),
}

/// The result of the last call. The one before stays whole while the next is made, as its input may be this
/// result.
#[derive(Default)]
pub(super) struct Outcome {
    values: Vec<f32>,
    spare: Vec<f32>,
    on_gpu: Option<Block>,
}

impl Outcome {
    /// Memory for the next result on the host, zeros.
    pub(super) fn next(&mut self, len: usize) -> Vec<f32> {
        let mut next = std::mem::take(&mut self.spare);
        next.clear();
        next.resize(len, 0.0);
        next
    }

    /// Replaces the result.
    pub(super) fn keep(&mut self, made: Made) -> Const<f32> {
        match made {
            Made::Host(values) => {
                self.spare = std::mem::replace(&mut self.values, values);
                Const::of(&self.values)
            }
            Made::Gpu(block) => Const::on_device(self.on_gpu.insert(block).address()),
        }
    }
}
