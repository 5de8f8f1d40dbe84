//! Feature maps where a network has left them: borrowed, in its order.

use half::f16;

use super::maps::{FeatureLevel, FeatureMaps, MAX_LEVELS, Texels};
use det_post_types::{Error, ErrorKind, MapLayout, Result};

/// Channels that are side by side in [`MapLayout::Blocks32`].
pub const BLOCK: usize = 32;

/// Where the values of a level are, counted in values from its first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Strides {
    /// From a view to the next.
    pub view: usize,
    /// From a row of texels to the next.
    pub row: usize,
    /// From a texel to the next of its row.
    pub column: usize,
    /// From a block of [`BLOCK`] channels to the next; channels of a block are side by side.
    pub block: usize,
}

impl Strides {
    /// Of a network's map `[views, channels, rows, columns]` in a layout; `None` for
    /// [`MapLayout::Planar`], whose channels are not side by side. A subsampled level has even rows
    /// and columns.
    pub fn new(shape: [usize; 4], layout: MapLayout, subsampled: bool) -> Option<Self> {
        let [_, channels, height, width] = shape;
        let step = if subsampled { 2 } else { 1 };
        let (column, block) = match layout {
            MapLayout::Planar => return None,
            MapLayout::ChannelsLast => (channels, BLOCK),
            MapLayout::Blocks32 => (BLOCK, height * width * BLOCK),
        };
        let row = step * width * column;
        Some(Self { view: channels * height * width, row, column: step * column, block })
    }

    /// Values up to the last that a level has, its first included.
    pub fn reach(&self, num_views: usize, num_channels: usize, size: [usize; 2]) -> usize {
        let last = |num: usize, stride: usize| num.saturating_sub(1).saturating_mul(stride);
        let [width, height] = size;
        let channel = num_channels.saturating_sub(1);
        let ends = [
            last(num_views, self.view),
            last(height, self.row),
            last(width, self.column),
            (channel / BLOCK).saturating_mul(self.block),
            channel % BLOCK,
            1,
        ];
        ends.into_iter().fold(0, usize::saturating_add)
    }

    /// Channels that are side by side.
    fn run(&self, num_channels: usize) -> usize {
        if self.block == BLOCK { num_channels } else { BLOCK }
    }
}

/// The values of a level, borrowed.
#[derive(Clone, Copy, Debug)]
pub enum LevelValues<'a> {
    /// f32.
    F32(&'a [f32]),
    /// IEEE half.
    F16(&'a [f16]),
    /// Integers in -128 to 127: a value is `scale` times the integer.
    I8 {
        /// The integers.
        values: &'a [i8],
        /// The value of 1; positive and finite.
        scale: f32,
    },
}

impl LevelValues<'_> {
    fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::I8 { values, .. } => values.len(),
        }
    }
}

/// One level, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct LevelView<'a> {
    size: [usize; 2],
    strides: Strides,
    values: LevelValues<'a>,
}

impl<'a> LevelView<'a> {
    const NONE: Self = Self {
        size: [0; 2],
        strides: Strides { view: 0, row: 0, column: 0, block: 0 },
        values: LevelValues::F32(&[]),
    };

    /// A level of `[width, height]`.
    pub fn new(size: [usize; 2], strides: Strides, values: LevelValues<'a>) -> Self {
        Self { size, strides, values }
    }

    /// Width and height.
    pub fn size(&self) -> [usize; 2] {
        self.size
    }

    /// Where its values are.
    pub fn strides(&self) -> Strides {
        self.strides
    }

    /// Its values.
    pub fn values(&self) -> LevelValues<'a> {
        self.values
    }
}

/// The feature maps of all views, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct MapsView<'a> {
    num_views: usize,
    num_channels: usize,
    levels: [LevelView<'a>; MAX_LEVELS],
    num_levels: usize,
}

impl<'a> MapsView<'a> {
    /// Maps without levels.
    pub fn new(num_views: usize, num_channels: usize) -> Self {
        Self { num_views, num_channels, levels: [LevelView::NONE; MAX_LEVELS], num_levels: 0 }
    }

    /// Adds a level behind the others.
    ///
    /// # Errors
    /// `Argument` when there are [`MAX_LEVELS`], the level has no texels or fewer values than its
    /// strides reach, or a scale is not positive and finite.
    pub fn push(&mut self, level: LevelView<'a>) -> Result<()> {
        let index = self.num_levels;
        let LevelView { size: [width, height], strides, values } = level;
        let error = |message| Err(Error::new(ErrorKind::Argument, "view_sample", message));
        let Some(place) = self.levels.get_mut(index) else {
            return error(format!("more than {MAX_LEVELS} levels"));
        };
        let reach = strides.reach(self.num_views, self.num_channels, level.size);
        if width == 0 || height == 0 || values.len() < reach {
            return error(format!(
                "level {index} of {width}x{height} has {} texel values, which do not match {} views \
                 and {} channels",
                values.len(),
                self.num_views,
                self.num_channels
            ));
        }
        if let LevelValues::I8 { scale, .. } = values
            && !(scale > 0.0 && scale.is_finite())
        {
            return error(format!("level {index} has a scale of {scale}"));
        }
        *place = level;
        self.num_levels += 1;
        Ok(())
    }

    /// Views.
    pub fn num_views(&self) -> usize {
        self.num_views
    }

    /// Channels.
    pub fn num_channels(&self) -> usize {
        self.num_channels
    }

    /// The levels.
    pub fn levels(&self) -> &[LevelView<'a>] {
        &self.levels[..self.num_levels]
    }

    /// The indices of the channels that are side by side in a texel, run after run, and the first
    /// channel of each.
    pub(super) fn runs(
        &self,
        level: &LevelView<'_>,
        [view, row, column]: [usize; 3],
    ) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + use<> {
        let (strides, num_channels) = (level.strides, self.num_channels);
        let texel = view * strides.view + row * strides.row + column * strides.column;
        let run = strides.run(num_channels);
        (0..num_channels).step_by(run).map(move |channel| {
            let first = texel + channel / BLOCK * strides.block;
            (channel, first..first + run.min(num_channels - channel))
        })
    }

    /// Calls `each` with every value of a level and a view.
    pub fn for_each_value(&self, level: usize, view: usize, mut each: impl FnMut(f32)) {
        let Some(level) = self.levels().get(level) else { return };
        let [width, height] = level.size;
        for (row, column) in (0..height).flat_map(|row| (0..width).map(move |c| (row, c))) {
            for (_, range) in self.runs(level, [view, row, column]) {
                match level.values {
                    LevelValues::F32(values) => values[range].iter().for_each(|&v| each(v)),
                    LevelValues::F16(values) => {
                        values[range].iter().for_each(|v| each(v.to_f32()));
                    }
                    LevelValues::I8 { values, scale } => {
                        values[range].iter().for_each(|&v| each(f32::from(v) * scale));
                    }
                }
            }
        }
    }
}

impl FeatureLevel {
    /// The level of maps, borrowed.
    pub fn view(&self, num_views: usize, num_channels: usize) -> LevelView<'_> {
        let [width, height] = self.size();
        let shape = [num_views, num_channels, height, width];
        // Channels last has strides.
        let strides = Strides::new(shape, MapLayout::ChannelsLast, false);
        let values = match self.texels() {
            Texels::F32(values) => LevelValues::F32(values),
            Texels::F16(values) => LevelValues::F16(values),
            Texels::I8 { values, scale } => LevelValues::I8 { values, scale: *scale },
        };
        LevelView {
            size: [width, height],
            strides: strides.unwrap_or(LevelView::NONE.strides),
            values,
        }
    }
}

impl<'a> From<&'a FeatureMaps> for MapsView<'a> {
    fn from(maps: &'a FeatureMaps) -> Self {
        let (num_views, num_channels) = (maps.num_views(), maps.num_channels());
        let mut view = Self::new(num_views, num_channels);
        // Maps have no more levels than there are places.
        view.num_levels = maps.levels().len().min(MAX_LEVELS);
        for (to, level) in view.levels.iter_mut().zip(maps.levels()) {
            *to = level.view(num_views, num_channels);
        }
        view
    }
}

impl<'a> From<&Self> for MapsView<'a> {
    fn from(maps: &Self) -> Self {
        *maps
    }
}
