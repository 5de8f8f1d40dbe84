//! Feature maps in device memory, borrowed: where a network has left them, or
//! [`DeviceFeatureMaps`].

use half::f16;

use super::cuda::{DeviceFeatureMaps, DeviceTexels};
use super::kernels::{LevelArgs, MAX_LEVELS, MapsArgs, Texel};
use super::{BLOCK, Strides};
use crate::device::cuda::{DeviceBuffer, DeviceTensor, DeviceValues, In, Stream};
use det_post_types::{Error, ErrorKind, MapLayout, Result};

/// Bytes that a lane of a kernel reads at once begin at a multiple of their number.
const LANE_CHANNELS: u64 = 8;

/// One level of all views as a network gives it.
#[derive(Clone, Copy, Debug)]
pub struct DeviceMapSource<'a> {
    /// Views, channels, rows and columns.
    pub shape: [usize; 4],
    /// The order of the values.
    pub layout: MapLayout,
    /// The values.
    pub values: &'a DeviceTensor,
    /// Whether only texels of even rows and columns are taken.
    pub subsampled: bool,
}

impl DeviceMapSource<'_> {
    /// Width and height of the level.
    pub fn size(&self) -> [usize; 2] {
        let [_, _, height, width] = self.shape;
        let step = if self.subsampled { 2 } else { 1 };
        [width, height].map(|n| n.div_ceil(step))
    }

    /// Whether kernels can sample the values where they are: channels are side by side, and the
    /// memory begins at an address that vectors of them can be read from.
    pub fn is_sampled_in_place(&self) -> bool {
        let size = match self.values.values() {
            DeviceValues::F32(_) => 4,
            DeviceValues::F16(_) => 2,
            DeviceValues::I8(_) => 1,
        };
        // A vector has at most 16 bytes.
        let vector = (LANE_CHANNELS * size).min(16);
        let is_aligned = self.values.address().is_multiple_of(vector);
        is_aligned && Strides::new(self.shape, self.layout, self.subsampled).is_some()
    }

    /// The texels that the values are.
    pub fn texel(&self) -> Texel {
        match self.values.values() {
            DeviceValues::F32(_) => Texel::F32,
            DeviceValues::F16(_) => Texel::F16,
            DeviceValues::I8(_) => Texel::I8,
        }
    }
}

/// A level of [`DeviceMaps`].
#[derive(Clone, Copy, Debug)]
struct DeviceLevelView<'a> {
    size: [usize; 2],
    strides: Strides,
    values: LevelBuffer<'a>,
}

#[derive(Clone, Copy, Debug)]
enum LevelBuffer<'a> {
    F32(&'a DeviceBuffer<f32>),
    F16(&'a DeviceBuffer<f16>),
    I8(&'a DeviceBuffer<i8>, f32),
}

impl LevelBuffer<'_> {
    fn texel(&self) -> Texel {
        match self {
            Self::F32(_) => Texel::F32,
            Self::F16(_) => Texel::F16,
            Self::I8(..) => Texel::I8,
        }
    }
}

/// The feature maps of all views in device memory, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct DeviceMaps<'a> {
    num_views: usize,
    num_channels: usize,
    /// As many as there are, which may be more than places.
    num_levels: usize,
    levels: [Option<DeviceLevelView<'a>>; MAX_LEVELS],
}

impl<'a> DeviceMaps<'a> {
    /// Maps that kernels sample where a network has left them. `scales` are the values of 1 of
    /// int8, one per level, and not read for floats.
    ///
    /// # Errors
    /// `Argument` when there is none or more levels than a kernel has, views or channels differ, a
    /// level cannot be sampled in place ([`DeviceMapSource::is_sampled_in_place`]), or a scale is
    /// missing or not positive and finite.
    pub fn in_place(sources: &[DeviceMapSource<'a>], scales: &[f32]) -> Result<Self> {
        let Some(&DeviceMapSource { shape: [num_views, num_channels, ..], .. }) = sources.first()
        else {
            return argument("no levels".into());
        };
        if sources.len() > MAX_LEVELS {
            let num_levels = sources.len();
            return argument(format!("{num_levels} levels exceed the limit of {MAX_LEVELS}"));
        }
        let mut maps =
            Self { num_views, num_channels, num_levels: sources.len(), levels: [None; MAX_LEVELS] };
        for (index, (source, to)) in sources.iter().zip(&mut maps.levels).enumerate() {
            let &DeviceMapSource { shape, layout, values, subsampled } = source;
            let strides = Strides::new(shape, layout, subsampled);
            let Some(strides) = strides.filter(|_| source.is_sampled_in_place()) else {
                return argument(format!("level {index} in {layout:?} is not sampled in place"));
            };
            let scale = scales.get(index).filter(|scale| **scale > 0.0 && scale.is_finite());
            let values = match (values.values(), scale) {
                _ if shape[..2] != [num_views, num_channels] => {
                    return argument(format!("level {index} is of other views or channels"));
                }
                (DeviceValues::F32(values), _) => LevelBuffer::F32(values),
                (DeviceValues::F16(values), _) => LevelBuffer::F16(values),
                (DeviceValues::I8(values), Some(&scale)) => LevelBuffer::I8(values, scale),
                (DeviceValues::I8(_), None) => {
                    return argument(format!("level {index} has no scale"));
                }
            };
            *to = Some(DeviceLevelView { size: source.size(), strides, values });
        }
        Ok(maps)
    }

    /// Views, levels and channels.
    pub fn sizes(&self) -> [usize; 3] {
        [self.num_views, self.num_levels, self.num_channels]
    }

    /// The texels' type, the same in all levels.
    ///
    /// # Errors
    /// `Argument` when the levels have different types.
    pub fn texel(&self) -> Result<Texel> {
        let mut texels = self.levels.iter().flatten().map(|level| level.values.texel());
        match texels.next() {
            Some(first) if texels.all(|other| other == first) => Ok(first),
            _ => argument("the levels have texels of different types".into()),
        }
    }

    /// What a kernel reads, with the projections of the views.
    ///
    /// # Errors
    /// `Argument` when there are more levels than a kernel has, or a level of 2^32 values of a view
    /// or more; `Device` when something belongs to another stream.
    pub fn args(
        &self,
        stream: &Stream,
        projections: &'a DeviceBuffer<f32>,
        min_depth_m: f32,
    ) -> Result<MapsArgs<'a>> {
        if self.num_levels > MAX_LEVELS {
            let num_levels = self.num_levels;
            return argument(format!("{num_levels} levels exceed the limit of {MAX_LEVELS}"));
        }
        let mut levels = [LevelArgs::none(); MAX_LEVELS];
        for (index, (to, level)) in levels.iter_mut().zip(self.levels.iter().flatten()).enumerate()
        {
            let DeviceLevelView { size, strides, values } = level;
            (to.texels, to.scale) = match values {
                LevelBuffer::F32(values) => (values.input(stream)?.bytes(), 1.0),
                LevelBuffer::F16(values) => (values.input(stream)?.bytes(), 1.0),
                LevelBuffer::I8(values, scale) => (values.input(stream)?.bytes(), *scale),
            };
            let Strides { view, row, column, block } = *strides;
            let in_32 = [view, row, column, block, size[0], size[1]].map(u32::try_from);
            let [Ok(view), Ok(row), Ok(column), Ok(block), Ok(width), Ok(height)] = in_32 else {
                return argument(format!("level {index} of {size:?} has too many values"));
            };
            (to.width, to.height, to.view_stride) = (width, height, view);
            (to.row_stride, to.column_stride, to.block_stride) = (row, column, block);
        }
        let [num_views, num_levels, num_channels] = self.sizes().map(|n| n as u32);
        let projections = projections.input(stream)?;
        let min_depth = min_depth_m;
        Ok(MapsArgs { levels, projections, num_views, num_levels, num_channels, min_depth })
    }
}

impl<'a> From<&'a DeviceFeatureMaps> for DeviceMaps<'a> {
    fn from(maps: &'a DeviceFeatureMaps) -> Self {
        let [num_views, num_levels, num_channels] = maps.sizes();
        let mut view = Self { num_views, num_channels, num_levels, levels: [None; MAX_LEVELS] };
        for (to, level) in view.levels.iter_mut().zip(maps.levels()) {
            let [width, height] = level.size;
            let column = num_channels;
            let row = width * column;
            let strides = Strides { view: height * row, row, column, block: BLOCK };
            let values = match &level.texels {
                DeviceTexels::F32(values) => LevelBuffer::F32(values),
                DeviceTexels::F16(values) => LevelBuffer::F16(values),
                DeviceTexels::I8 { values, scale } => LevelBuffer::I8(values, *scale),
            };
            *to = Some(DeviceLevelView { size: level.size, strides, values });
        }
        view
    }
}

impl<'a> From<&Self> for DeviceMaps<'a> {
    fn from(maps: &Self) -> Self {
        *maps
    }
}

impl LevelArgs<'_> {
    /// No level.
    fn none() -> Self {
        Self {
            texels: In::empty(),
            width: 0,
            height: 0,
            scale: 1.0,
            view_stride: 0,
            row_stride: 0,
            column_stride: 0,
            block_stride: 0,
            reserved: 0,
        }
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "view_sample", message))
}
