//! Writes feature maps in the order in which they are sampled: channels last.
//!
//! Input: one level of all views as a network gives it ([`MapLayout`]), f32, f16 or int8. It is for
//! maps that are sampled neither where nor as they are: planar ones, and elements that a decoder
//! does not read. Output: a level of
//! [`FeatureMaps`](crate::view::sample::FeatureMaps), `[N, H, W, C]`, as f32, f16
//! (rounded once, to nearest even) or int8: `x / scale` in f32, rounded to nearest
//! even, cut to -127 to 127; NaN becomes 0, which
//! is counted. Values of int8 input keep their integers and need an int8 level.
//!
//! A subsampled level takes the texels of even rows and columns: the further level
//! of a feature pyramid that max pooling with kernel 1 and stride 2 makes.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

use half::f16;

use crate::view::sample::{FeatureLevel, LevelValues, LevelView, Strides, Texels};
use det_post_types::{Error, ErrorKind, MapLayout, Result};

/// Values of feature maps.
#[derive(Clone, Copy, Debug)]
pub enum MapValues<'a> {
    /// f32.
    F32(&'a [f32]),
    /// IEEE half.
    F16(&'a [f16]),
    /// Integers of the scale of the level that is written.
    I8(&'a [i8]),
}

impl MapValues<'_> {
    fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F16(values) => values.len(),
            Self::I8(values) => values.len(),
        }
    }
}

/// One level of all views as a network gives it.
#[derive(Clone, Copy, Debug)]
pub struct MapSource<'a> {
    /// Views, channels, rows and columns.
    pub shape: [usize; 4],
    /// The order of the values.
    pub layout: MapLayout,
    /// The values.
    pub values: MapValues<'a>,
    /// Whether texels of only even rows and columns are taken.
    pub subsampled: bool,
}

impl<'a> MapSource<'a> {
    /// The level where it is, as it is: nothing is written. `None` where channels are not side by
    /// side. `scale` is the value of 1 of int8, not read for floats.
    pub fn in_place(&self, scale: f32) -> Option<LevelView<'a>> {
        let strides = Strides::new(self.shape, self.layout, self.subsampled)?;
        let values = match self.values {
            MapValues::F32(values) => LevelValues::F32(values),
            MapValues::F16(values) => LevelValues::F16(values),
            MapValues::I8(values) => LevelValues::I8 { values, scale },
        };
        Some(LevelView::new(self.size(), strides, values))
    }

    /// Width and height of the level that is written.
    pub fn size(&self) -> [usize; 2] {
        let [_, _, height, width] = self.shape;
        if self.subsampled { [width.div_ceil(2), height.div_ceil(2)] } else { [width, height] }
    }

    /// The index of a value of a view.
    fn index(&self, channel: usize, row: usize, column: usize) -> usize {
        let [_, num_channels, height, width] = self.shape;
        match self.layout {
            MapLayout::Planar => (channel * height + row) * width + column,
            MapLayout::Blocks32 => {
                ((channel / 32 * height + row) * width + column) * 32 + channel % 32
            }
            MapLayout::ChannelsLast => (row * width + column) * num_channels + channel,
        }
    }
}

/// Writes all texels of `level` and returns the number of NaNs that became 0.
///
/// # Errors
/// `Argument` when the values are not those of the shape, channels do not fill
/// blocks, the level is not of the source's size, or the elements are int8 on the
/// side of only the source.
pub fn channels_last(source: &MapSource<'_>, level: &mut FeatureLevel) -> Result<usize> {
    let [num_views, num_channels, height, width] = source.shape;
    let len = |sizes: &[usize]| sizes.iter().try_fold(1_usize, |len, &size| len.checked_mul(size));
    let [out_width, out_height] = source.size();
    let fits = len(&source.shape) == Some(source.values.len())
        && (source.layout != MapLayout::Blocks32 || num_channels.is_multiple_of(32))
        && level.size() == [out_width, out_height]
        && len(&[num_views, num_channels, out_height, out_width]) == Some(level.texels().len())
        && (!matches!(source.values, MapValues::I8(_))
            || matches!(level.texels(), Texels::I8 { .. }));
    if !fits {
        return Err(Error::new(
            ErrorKind::Argument,
            "channels_last",
            format!(
                "{} values of {num_views} views, {num_channels} channels and {width}x{height} \
                 texels in {:?} do not fit a level of {:?} with {} values",
                source.values.len(),
                source.layout,
                level.size(),
                level.texels().len()
            ),
        ));
    }
    let mut num_nan = 0;
    match (source.values, level.texels_mut()) {
        (MapValues::F32(values), Texels::F32(out)) => transpose(source, values, out, |x| x),
        (MapValues::F16(values), Texels::F32(out)) => transpose(source, values, out, f16::to_f32),
        (MapValues::F32(values), Texels::F16(out)) => transpose(source, values, out, f16::from_f32),
        (MapValues::F16(values), Texels::F16(out)) => transpose(source, values, out, |x| x),
        (MapValues::F32(values), Texels::I8 { values: out, scale }) => {
            transpose(source, values, out, |x| quantize(x, *scale, &mut num_nan));
        }
        (MapValues::F16(values), Texels::I8 { values: out, scale }) => {
            transpose(source, values, out, |x| quantize(x.to_f32(), *scale, &mut num_nan));
        }
        (MapValues::I8(values), Texels::I8 { values: out, .. }) => {
            transpose(source, values, out, |x| x);
        }
        // Refused above.
        (MapValues::I8(_), Texels::F32(_) | Texels::F16(_)) => {}
    }
    Ok(num_nan)
}

fn quantize(value: f32, scale: f32, num_nan: &mut usize) -> i8 {
    if value.is_nan() {
        *num_nan += 1;
        return 0;
    }
    (value / scale).round_ties_even().clamp(-127.0, 127.0) as i8
}

fn transpose<T: Copy, U>(
    source: &MapSource<'_>,
    values: &[T],
    out: &mut [U],
    mut convert: impl FnMut(T) -> U,
) {
    let [num_views, num_channels, ..] = source.shape;
    let step = if source.subsampled { 2 } else { 1 };
    let [width, height] = source.size();
    let view_len = values.len() / num_views;
    let texels = (0..num_views)
        .flat_map(|view| (0..height).map(move |row| (view, row)))
        .flat_map(|(view, row)| (0..width).map(move |column| (view, row, column)));
    for ((view, row, column), texel) in texels.zip(out.chunks_exact_mut(num_channels)) {
        let values = &values[view * view_len..][..view_len];
        for (channel, out) in texel.iter_mut().enumerate() {
            *out = convert(values[source.index(channel, step * row, step * column)]);
        }
    }
}
