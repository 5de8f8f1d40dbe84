//! The CUDA implementation of [`channels_last`](super::channels_last()): equal to the CPU. NaNs
//! that become 0 are not counted.

use half::f16;

use super::kernels::{
    ChannelsLastArgs, LevelArgs, MAX_LEVELS, TEXELS_PER_BLOCK, THREADS_PER_BLOCK, Write,
};
use crate::device::cuda::{DeviceBuffer, DeviceFloat, Grid, Kernel, KernelSpec, Plain, Stream};
use crate::view::sample::Strides;
use crate::view::sample::cuda::{DeviceFeatureMaps, DeviceLevel, DeviceMapSource, DeviceTexels};
use det_post_types::{ElementType, Error, ErrorKind, Result};

/// The loaded kernels.
pub struct Kernels {
    f32: OfElement<f32>,
    f16: OfElement<f16>,
    i8: Kernel<Write<i8, i8>>,
}

/// The kernels that read maps of `T`.
struct OfElement<T>
where
    Write<T, f32>: KernelSpec,
    Write<T, f16>: KernelSpec,
    Write<T, i8>: KernelSpec,
{
    to_f32: Kernel<Write<T, f32>>,
    to_f16: Kernel<Write<T, f16>>,
    to_i8: Kernel<Write<T, i8>>,
}

impl Kernels {
    /// Loads the kernels.
    ///
    /// # Errors
    /// `Device` when this build has no such kernels.
    pub fn load(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            f32: OfElement {
                to_f32: device.kernel()?,
                to_f16: device.kernel()?,
                to_i8: device.kernel()?,
            },
            f16: OfElement {
                to_f32: device.kernel()?,
                to_f16: device.kernel()?,
                to_i8: device.kernel()?,
            },
            i8: device.kernel()?,
        })
    }

    /// Queues the writing of all levels of `maps` from `sources`, all of the same element, in
    /// one launch.
    ///
    /// # Errors
    /// `Argument` when sources and levels do not fit each other, or only the sources are int8; `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &self,
        stream: &Stream,
        sources: &[DeviceMapSource<'_>],
        maps: &mut DeviceFeatureMaps,
    ) -> Result<()> {
        match sources.first().map(|source| source.values.element()) {
            Some(ElementType::F16) => self.f16.enqueue(stream, sources, maps),
            Some(ElementType::I8) => {
                let [num_views, _, num_channels] = maps.sizes();
                let sizes = [num_views, num_channels];
                launch(stream, &self.i8, sizes, sources, maps.levels_mut(), integers)
            }
            _ => self.f32.enqueue(stream, sources, maps),
        }
    }
}

impl<T: DeviceFloat> OfElement<T>
where
    Write<T, f32>: for<'a> KernelSpec<Args<'a> = ChannelsLastArgs<'a, T, f32>>,
    Write<T, f16>: for<'a> KernelSpec<Args<'a> = ChannelsLastArgs<'a, T, f16>>,
    Write<T, i8>: for<'a> KernelSpec<Args<'a> = ChannelsLastArgs<'a, T, i8>>,
{
    fn enqueue(
        &self,
        stream: &Stream,
        sources: &[DeviceMapSource<'_>],
        maps: &mut DeviceFeatureMaps,
    ) -> Result<()> {
        let [num_views, _, num_channels] = maps.sizes();
        let sizes = [num_views, num_channels];
        let levels = maps.levels_mut();
        match levels.first().map(|level| &level.texels) {
            Some(DeviceTexels::F16(_)) => {
                launch(stream, &self.to_f16, sizes, sources, levels, f16s)
            }
            Some(DeviceTexels::I8 { .. }) => {
                launch(stream, &self.to_i8, sizes, sources, levels, integers)
            }
            _ => launch(stream, &self.to_f32, sizes, sources, levels, f32s),
        }
    }
}

/// The texels of one type, and their scale.
type TexelsOf<To> = fn(&mut DeviceTexels) -> Option<(&mut DeviceBuffer<To>, f32)>;

fn f32s(texels: &mut DeviceTexels) -> Option<(&mut DeviceBuffer<f32>, f32)> {
    if let DeviceTexels::F32(values) = texels { Some((values, 1.0)) } else { None }
}

fn f16s(texels: &mut DeviceTexels) -> Option<(&mut DeviceBuffer<f16>, f32)> {
    if let DeviceTexels::F16(values) = texels { Some((values, 1.0)) } else { None }
}

fn integers(texels: &mut DeviceTexels) -> Option<(&mut DeviceBuffer<i8>, f32)> {
    if let DeviceTexels::I8 { values, scale } = texels { Some((values, *scale)) } else { None }
}

fn launch<From: DeviceFloat, To: Plain>(
    stream: &Stream,
    kernel: &Kernel<Write<From, To>>,
    [num_views, num_channels]: [usize; 2],
    sources: &[DeviceMapSource<'_>],
    levels: &mut [DeviceLevel],
    texels_of: TexelsOf<To>,
) -> Result<()>
where
    Write<From, To>: for<'a> KernelSpec<Args<'a> = ChannelsLastArgs<'a, From, To>>,
{
    let num_levels = levels.len();
    if sources.len() != num_levels || num_levels > MAX_LEVELS {
        return argument(format!(
            "{} sources for {num_levels} levels; one for each of at most {MAX_LEVELS} levels is \
             required",
            sources.len()
        ));
    }
    let mut args = ChannelsLastArgs {
        levels: [LevelArgs::empty(); MAX_LEVELS],
        num_levels: num_levels as u32,
        num_views: num_views as u32,
        num_channels: num_channels as u32,
        reserved: 0,
    };
    let mut end_block = 0;
    let pairs = sources.iter().zip(levels).zip(&mut args.levels);
    for (index, ((source, level), to)) in pairs.enumerate() {
        let [views, channels, height, width] = source.shape;
        let size = source.size();
        let Some((texels, scale)) = texels_of(&mut level.texels) else {
            return argument(format!("level {index} has other texels than the first"));
        };
        if [views, channels] != [num_views, num_channels] || level.size != size {
            return argument(format!(
                "{views} views, {channels} channels and {width}x{height} texels do not fit level \
                 {index} of {:?} with {num_views} views and {num_channels} channels",
                level.size
            ));
        }
        end_block += (size[0] * size[1]).div_ceil(TEXELS_PER_BLOCK as usize) as u32;
        // Steps are the kernel's.
        let strides = Strides::new(source.shape, source.layout, false);
        *to = LevelArgs {
            values: source.values.input(stream)?,
            texels: texels.output(stream)?,
            source_size: [width, height].map(|n| n as u32),
            size: size.map(|n| n as u32),
            step: if source.subsampled { 2 } else { 1 },
            column_stride: strides.map_or(0, |strides| strides.column as u32),
            block_stride: strides.map_or(0, |strides| strides.block as u32),
            scale,
            end_block,
            reserved: 0,
        };
    }
    let num_blocks = [end_block, num_views as u32];
    kernel.enqueue(stream, Grid { num_blocks, threads_per_block: THREADS_PER_BLOCK }, args)
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "channels_last", message))
}
