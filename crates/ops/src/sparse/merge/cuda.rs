//! The CUDA implementation of [`sparse_merge`](super::sparse_merge): equal to the CPU.

use super::kernels::{
    MergeArgs, MergeBf16, MergeF16, MergeF32, SITES_PER_BLOCK, SourceArgs, THREADS_PER_BLOCK,
};
use super::{MAX_SOURCES, argument, check_num_sources};
use crate::device::cuda::{Grid as Blocks, Stream, blocks};
use crate::sparse::conv::ByPrecision;
use crate::sparse::conv::cuda::DeviceFeatures;
use crate::sparse::rulebook::args::GridArgs;
use crate::sparse::rulebook::cuda::DeviceSites;
use crate::sparse::rulebook::{Scaled, check_merge};
use det_post_types::Result;

/// The features of a level that is merged.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSource<'a> {
    /// The sites, and their scale.
    pub sites: Scaled<&'a DeviceSites>,
    /// Rows of the level.
    pub features: &'a DeviceFeatures,
}

/// Kernels of the op on one stream.
pub struct Workspace {
    stream: Stream,
    merge: ByPrecision<MergeF32, MergeF16, MergeBf16>,
}

impl Workspace {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn new(stream: &Stream) -> Result<Self> {
        Ok(Self { stream: stream.clone(), merge: ByPrecision::load(stream.device())? })
    }

    /// Queues the writing of the rows of `out`, of `num_channels`, which are of the plane, from
    /// rows of the levels.
    ///
    /// # Errors
    /// `Argument` as of [`super::sparse_merge`], and when features are stored otherwise; `Device`
    /// when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &self,
        sources: &[DeviceSource<'_>],
        num_channels: usize,
        plane: &DeviceSites,
        out: &mut DeviceFeatures,
    ) -> Result<()> {
        check_num_sources(sources.len())?;
        let precision = out.precision();
        if let Some(other) = sources.iter().find(|of| of.features.precision() != precision) {
            let found = other.features.precision();
            return argument(format!("features are in {found:?}, the result in {precision:?}"));
        }
        let stream = &self.stream;
        for DeviceSource { sites, .. } in sources {
            check_merge(sites.level.grid(), sites.scale, plane.grid())?;
        }
        // Those past the last repeat the first.
        let at = |place: usize| sources.get(place).unwrap_or(&sources[0]);
        const { assert!(MAX_SOURCES == 3) };
        let args = MergeArgs {
            sources: [
                source_args(stream, at(0))?,
                source_args(stream, at(1))?,
                source_args(stream, at(2))?,
            ],
            sites: plane.indices(stream)?,
            counts: plane.counts(stream)?,
            output: out.bytes.output(stream)?,
            grid: GridArgs::new(plane.grid()),
            num_sources: sources.len() as u32,
            row_len: DeviceFeatures::row_len(num_channels) as u32,
            capacity: plane.capacity() as u32,
            reserved: 0,
        };
        let num_blocks = [blocks(plane.capacity(), SITES_PER_BLOCK), 1];
        let grid = Blocks { num_blocks, threads_per_block: THREADS_PER_BLOCK };
        self.merge.enqueue(precision, stream, grid, args)
    }
}

fn source_args<'a>(stream: &Stream, source: &DeviceSource<'a>) -> Result<SourceArgs<'a>> {
    let Scaled { level, scale } = source.sites;
    Ok(SourceArgs {
        features: source.features.bytes.input(stream)?,
        sites: level.index(stream)?,
        grid: GridArgs::new(level.grid()),
        scale,
        capacity: level.capacity() as u32,
    })
}
