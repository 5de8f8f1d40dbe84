//! Parameters of the letterbox: placement, channel order, normalisation.

use super::boxes::{Box2d, RotatedBox2d};
use super::image::Size;

/// The placement of the resized image in the network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Aspect kept, centred, padded on both sides (YOLOv5, v8 and later).
    Center,
    /// Aspect kept, at the top left, padded right and below (YOLOX).
    TopLeft,
    /// Aspect ignored, no padding.
    Stretch,
}

/// Order of the three planes of the network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelOrder {
    /// Red first.
    Rgb,
    /// Blue first.
    Bgr,
}

/// `value * alpha[c] + beta[c]` per plane of the network's input, with `value`
/// in 0 to 255. Mean and standard deviation become alpha and beta by
/// [`Normalization::from_mean_std`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalization {
    /// Factor per plane, in the order of the planes.
    pub alpha: [f32; 3],
    /// Summand per plane, in the order of the planes.
    pub beta: [f32; 3],
}

impl Normalization {
    /// `(value - mean) / std` per plane, mean and std in units of 0 to 255.
    pub fn from_mean_std(mean: [f32; 3], std: [f32; 3]) -> Self {
        Self {
            alpha: std::array::from_fn(|c| 1.0 / std[c]),
            beta: std::array::from_fn(|c| -mean[c] / std[c]),
        }
    }
}

/// A 2x3 affine without rotation or shear:
/// `(x, y) -> (scale_x * x + offset_x, scale_y * y + offset_y)`,
/// on continuous coordinates (pixel `i` covers `[i, i + 1)`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Affine2 {
    /// Factor along x and y.
    pub scale: [f32; 2],
    /// Shift along x and y, in target pixels.
    pub offset: [f32; 2],
}

impl Affine2 {
    /// The transform that changes nothing.
    pub const IDENTITY: Self = Self { scale: [1.0; 2], offset: [0.0; 2] };

    /// The transform back.
    pub fn inverse(&self) -> Self {
        Self {
            scale: self.scale.map(|s| 1.0 / s),
            offset: std::array::from_fn(|axis| -self.offset[axis] / self.scale[axis]),
        }
    }

    /// The geometric mean of the two factors, by which lengths of any direction
    /// are scaled: it keeps areas.
    pub fn mean_scale(&self) -> f32 {
        (self.scale[0] * self.scale[1]).sqrt()
    }

    /// A rotated box in target coordinates. Its angle is kept and its sides are
    /// scaled by [`Self::mean_scale`], which is exact where both factors are equal.
    pub fn apply_rotated(&self, b: RotatedBox2d) -> RotatedBox2d {
        let ([sx, sy], [tx, ty], scale) = (self.scale, self.offset, self.mean_scale());
        RotatedBox2d {
            cx: sx * b.cx + tx,
            cy: sy * b.cy + ty,
            width: scale * b.width,
            height: scale * b.height,
            angle_rad: b.angle_rad,
        }
    }

    /// A box in target coordinates.
    pub fn apply(&self, b: Box2d) -> Box2d {
        let [sx, sy] = self.scale;
        let [tx, ty] = self.offset;
        Box2d::new(sx * b.x1 + tx, sy * b.y1 + ty, sx * b.x2 + tx, sy * b.y2 + ty)
    }
}

/// The placement of one source size in one network size.
///
/// The content rectangle has whole pixels, as the trainers of these networks
/// make it: centred placements round the resized size (half to even, as
/// Python's `round`) and give the smaller half of the padding to the left and
/// the top; the top-left placement rounds the resized size down. The two
/// scales are therefore content over source per axis, and may differ a little.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Letterbox {
    /// Size of the source image.
    pub source: Size,
    /// Size of the network's input.
    pub network: Size,
    /// Left and top of the content in the network's input.
    pub content_origin: [u32; 2],
    /// Size of the content in the network's input.
    pub content: Size,
}

impl Letterbox {
    /// Places a source of one size in a network's input of another. Sizes are
    /// at least 1x1; the content is never smaller than one pixel.
    pub fn new(source: Size, network: Size, placement: Placement) -> Self {
        let (sw, sh) = (f64::from(source.width.max(1)), f64::from(source.height.max(1)));
        let (nw, nh) = (f64::from(network.width), f64::from(network.height));
        let ratio = (nw / sw).min(nh / sh);
        let (width, height) = match placement {
            Placement::Center => ((sw * ratio).round_ties_even(), (sh * ratio).round_ties_even()),
            Placement::TopLeft => ((sw * ratio).floor(), (sh * ratio).floor()),
            Placement::Stretch => (nw, nh),
        };
        let content = Size::new(
            (width as u32).clamp(1, network.width),
            (height as u32).clamp(1, network.height),
        );
        let content_origin = match placement {
            Placement::Center => {
                [(network.width - content.width) / 2, (network.height - content.height) / 2]
            }
            Placement::TopLeft | Placement::Stretch => [0, 0],
        };
        Self { source, network, content_origin, content }
    }

    /// Source pixels to network pixels.
    pub fn network_from_source(&self) -> Affine2 {
        Affine2 {
            scale: [
                self.content.width as f32 / self.source.width as f32,
                self.content.height as f32 / self.source.height as f32,
            ],
            offset: self.content_origin.map(|o| o as f32),
        }
    }

    /// Network pixels to source pixels.
    pub fn source_from_network(&self) -> Affine2 {
        self.network_from_source().inverse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_match_the_trainers() {
        // (source, network, placement, origin, content)
        let cases = [
            ((1242, 375), (416, 416), Placement::TopLeft, [0, 0], (416, 125)),
            ((1242, 375), (640, 640), Placement::Center, [0, 223], (640, 193)),
            ((810, 1080), (640, 640), Placement::Center, [80, 0], (480, 640)),
            ((1600, 900), (640, 640), Placement::Stretch, [0, 0], (640, 640)),
            ((10_000, 1), (64, 64), Placement::TopLeft, [0, 0], (64, 1)),
        ];
        for ((sw, sh), (nw, nh), placement, origin, (cw, ch)) in cases {
            let letterbox = Letterbox::new(Size::new(sw, sh), Size::new(nw, nh), placement);
            assert_eq!(letterbox.content_origin, origin, "{sw}x{sh} {placement:?}");
            assert_eq!(letterbox.content, Size::new(cw, ch), "{sw}x{sh} {placement:?}");
        }
    }

    #[test]
    fn the_inverse_undoes_the_transform() {
        let letterbox =
            Letterbox::new(Size::new(1242, 375), Size::new(640, 480), Placement::Center);
        let b = Box2d::new(17.0, 3.5, 900.25, 311.0);
        let back = letterbox.source_from_network().apply(letterbox.network_from_source().apply(b));
        for (a, b) in [(back.x1, b.x1), (back.y1, b.y1), (back.x2, b.x2), (back.y2, b.y2)] {
            assert!((a - b).abs() < 1e-3, "{a} {b}");
        }
    }

    #[test]
    fn mean_std_is_the_same_map() {
        let n = Normalization::from_mean_std([100.0, 110.0, 120.0], [50.0, 55.0, 60.0]);
        assert!((150.0 * n.alpha[0] + n.beta[0] - 1.0).abs() < 1e-6);
    }
}
