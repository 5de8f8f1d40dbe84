//! The positions of source pixels on the map of prototypes or of a mask.

use super::{MaskParams, MaskRule, argument};
use det_post_types::{Box2d, Letterbox, MaskWindow, Placement, Result, Size};

/// The pixels of a detection that may be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MaskExtent {
    /// Those in its box: [`MaskWindow::of_box`].
    Box = 0,
    /// All.
    Image = 1,
    /// Those that its box touches: the map is over the box, with zeros around it.
    Touched = 2,
}

/// An axis: pixel `i` is at `(i + 0.5) * scale + shift`, in cells from the centre of `first`.
/// Positions before the first or behind the last of `count` cells are clamped to them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct MaskAxis {
    /// Cells of a pixel.
    pub scale: f32,
    /// The position of the left edge of the first pixel.
    pub shift: f32,
    /// The first cell.
    pub first: u32,
    /// The number of cells.
    pub count: u32,
}

impl MaskAxis {
    /// The axis of a map of `cells` from `low` to `high` source pixels, with a cell of zeros at
    /// either end: the first cell of the map is 1.
    pub fn of_box(low: f32, high: f32, cells: u32) -> Self {
        let scale = cells as f32 / (high - low);
        Self { scale, shift: 0.5 - low * scale, first: 0, count: cells + 2 }
    }
}

/// A source image on the map of prototypes, or of a mask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MaskMapping {
    /// Columns.
    pub x: MaskAxis,
    /// Rows.
    pub y: MaskAxis,
    /// Size of the source image.
    pub image: Size,
    /// As [`MaskParams::sigmoid`].
    pub sigmoid: bool,
    /// The value above which a pixel is set.
    pub level: f32,
    /// The pixels that may be set. Of [`MaskExtent::Touched`] only the number of cells of the axes is read.
    pub extent: MaskExtent,
}

impl MaskMapping {
    /// The mapping of an image that was placed in the network's input, on prototypes of the size
    /// `map`. The numbers are computed in f64 and rounded once.
    ///
    /// # Errors
    /// `Argument` for [`MaskRule::Native`] and an image that the input cuts off, and for a side of 0.
    pub fn new(
        params: &MaskParams,
        placement: Placement,
        placed: &Letterbox,
        map: Size,
    ) -> Result<Self> {
        let Letterbox { source, network, content, content_origin } = *placed;
        let sides = [source.width, source.height, network.width, network.height];
        if sides.into_iter().chain([map.width, map.height]).any(|side| side == 0) {
            return Err(argument(format!("{placed:?} on a map of {map:?}: a side is 0")));
        }
        let [x, y] = match params.rule {
            MaskRule::Straight => {
                let axis = |content: u32, origin: i32, source: u32, network: u32, map: u32| {
                    let gain = f64::from(content) / f64::from(source);
                    Self::straight(gain, f64::from(origin), network, map)
                };
                let [left, top] = content_origin;
                [
                    axis(content.width, left, source.width, network.width, map.width),
                    axis(content.height, top, source.height, network.height, map.height),
                ]
            }
            MaskRule::Native => Self::native(placement, source, map)?,
            MaskRule::Box => {
                [map.width, map.height].map(|count| MaskAxis { count, ..MaskAxis::default() })
            }
        };
        let extent = match (params.rule, params.crop) {
            (MaskRule::Box, _) => MaskExtent::Touched,
            (_, true) => MaskExtent::Box,
            (_, false) => MaskExtent::Image,
        };
        Ok(Self { x, y, image: source, sigmoid: params.sigmoid, level: params.level(), extent })
    }

    /// The pixels of a detection that may be set.
    pub(super) fn window(&self, bbox: &Box2d) -> MaskWindow {
        match self.extent {
            MaskExtent::Box => MaskWindow::of_box(bbox, self.image),
            MaskExtent::Image => MaskWindow::of_image(self.image),
            MaskExtent::Touched => MaskWindow::around_box(bbox, self.image),
        }
    }

    /// The axes of a detection, along x and y.
    pub(super) fn axes(&self, bbox: &Box2d) -> [MaskAxis; 2] {
        match self.extent {
            MaskExtent::Box | MaskExtent::Image => [self.x, self.y],
            MaskExtent::Touched => [
                MaskAxis::of_box(bbox.x1, bbox.x2, self.x.count),
                MaskAxis::of_box(bbox.y1, bbox.y2, self.y.count),
            ],
        }
    }

    /// An axis by [`MaskRule::Straight`]: a source pixel has `gain` pixels of the input, of
    /// which the first is at `origin`.
    pub fn straight(gain: f64, origin: f64, network: u32, map: u32) -> MaskAxis {
        let cells = f64::from(map) / f64::from(network);
        MaskAxis {
            scale: (gain * cells) as f32,
            shift: (origin * cells - 0.5) as f32,
            first: 0,
            count: map,
        }
    }

    /// Both axes by [`MaskRule::Native`]: the image is letterboxed into the map as into an input of
    /// its size, and the padding rounded to whole cells.
    fn native(placement: Placement, source: Size, map: Size) -> Result<[MaskAxis; 2]> {
        let sides = [(source.width, map.width), (source.height, map.height)];
        let gains = sides.map(|(source, map)| f64::from(map) / f64::from(source));
        let gain = gains[0].min(gains[1]);
        let window = |(source, map): (u32, u32)| -> Result<(f64, f64)> {
            let padding = f64::from(map) - (f64::from(source) * gain).round_ties_even();
            match placement {
                Placement::Center => {
                    let half = padding / 2.0;
                    let first = (half - 0.1).round_ties_even().max(0.0);
                    Ok((first, f64::from(map) - (half + 0.1).round_ties_even()))
                }
                Placement::TopLeft | Placement::TopLeftRounded => {
                    Ok((0.0, f64::from(map) - padding))
                }
                Placement::Stretch => Ok((0.0, f64::from(map))),
                Placement::CropTop => Err(argument(
                    "the rule `native` is not defined for images that the input cuts off".into(),
                )),
            }
        };
        let axis = |side: (u32, u32)| -> Result<MaskAxis> {
            let (first, end) = window(side)?;
            // A content narrower than a cell keeps one.
            let first = (first as u32).min(side.1 - 1);
            let count = (end as u32).clamp(first + 1, side.1) - first;
            let scale = (f64::from(count) / f64::from(side.0)) as f32;
            Ok(MaskAxis { scale, shift: -0.5, first, count })
        };
        Ok([axis(sides[0])?, axis(sides[1])?])
    }

    /// Refuses prototypes of another size.
    pub(super) fn check(&self, prototypes: &[usize]) -> Result<()> {
        let fits = |axis: &MaskAxis, side: usize| {
            let end = axis.first as usize + axis.count as usize;
            let covers = self.extent != MaskExtent::Touched || axis.count as usize == side;
            let is_finite = axis.scale.is_finite() && axis.shift.is_finite();
            axis.count > 0 && end <= side && covers && is_finite
        };
        match *prototypes {
            [1, _, height, width] if fits(&self.x, width) && fits(&self.y, height) => Ok(()),
            _ => Err(argument(format!("the mapping {self:?} does not fit {prototypes:?}"))),
        }
    }
}
