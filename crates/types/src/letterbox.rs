//! Parameters of the letterbox: placement, channel order, normalisation.

use std::ops::Range;

use super::boxes::{Box2d, RotatedBox2d};
use super::image::Size;

/// The placement of the resized image in the network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Aspect kept, centred, padded on both sides (YOLOv5, v8 and later).
    Center,
    /// Aspect kept, at the top left, padded right and below (YOLOX).
    TopLeft,
    /// As [`Self::TopLeft`], the resized size rounded half up (mmdetection, mmdeploy).
    TopLeftRounded,
    /// Aspect ignored, no padding.
    Stretch,
    /// Aspect kept, the whole input filled: surplus rows are cut off at the top, of surplus
    /// columns half at each side (the smaller half at the left). The placement of networks for
    /// surround cameras.
    CropTop,
}

/// The filter that resizes an image to the network's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resize {
    /// Of the four nearest pixels, whatever the scale: thin structures are lost below a half.
    Bilinear,
    /// By a triangle filter as wide as the scale asks for: Pillow's bilinear filter, and
    /// `antialias=True` of PyTorch.
    Antialias,
    /// The same in 8 bits per colour, rounded after the columns and again after the rows: Pillow's
    /// `resize` of an image.
    Antialias8Bit,
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
    /// The identity.
    pub const IDENTITY: Self = Self { scale: [1.0; 2], offset: [0.0; 2] };

    /// The inverse.
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
/// The content rectangle has whole pixels, as the trainers of these networks make it:
/// centred placements round the resized size (half to even, as Python's `round`) and give
/// the smaller half of the padding to the left and the top; the top-left placement and
/// the cropped one round the resized size down, the rounded one half up. The two scales are therefore content over
/// source per axis, and may differ slightly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Letterbox {
    /// Size of the source image.
    pub source: Size,
    /// Size of the network's input.
    pub network: Size,
    /// Left and top of the content in the network's input; negative where it is cut off.
    pub content_origin: [i32; 2],
    /// Size of the whole content, in pixels of the network's input.
    pub content: Size,
}

impl Letterbox {
    /// Places a source of one size in a network's input of another. Sizes are
    /// at least 1x1; the content is never smaller than one pixel.
    pub fn new(source: Size, network: Size, placement: Placement) -> Self {
        if placement == Placement::CropTop {
            return Self::cropped(source, network);
        }
        let (sw, sh) = (f64::from(source.width.max(1)), f64::from(source.height.max(1)));
        let (nw, nh) = (f64::from(network.width), f64::from(network.height));
        let ratio = (nw / sw).min(nh / sh);
        let (width, height) = match placement {
            Placement::Center => ((sw * ratio).round_ties_even(), (sh * ratio).round_ties_even()),
            Placement::TopLeft => ((sw * ratio).floor(), (sh * ratio).floor()),
            Placement::TopLeftRounded => ((sw * ratio + 0.5).floor(), (sh * ratio + 0.5).floor()),
            Placement::Stretch | Placement::CropTop => (nw, nh),
        };
        let content = Size::new(
            (width as u32).clamp(1, network.width),
            (height as u32).clamp(1, network.height),
        );
        let content_origin = match placement {
            Placement::Center => [network.width - content.width, network.height - content.height]
                .map(|surplus| (surplus / 2) as i32),
            Placement::TopLeft
            | Placement::TopLeftRounded
            | Placement::Stretch
            | Placement::CropTop => [0, 0],
        };
        Self { source, network, content_origin, content }
    }

    /// As with [`Placement::CropTop`], of a source that is resized by a factor in place of the least that
    /// fills the network's input. The resized size is rounded down in f32, as CUDA-BEVFusion's `NormalizationImplement` has it.
    pub fn scaled(source: Size, network: Size, scale: f32) -> Self {
        let side = |side: u32| (side as f32 * scale).clamp(1.0, i32::MAX as f32) as u32;
        Self::cut(source, network, Size::new(side(source.width), side(source.height)))
    }

    /// [`Placement::CropTop`], in whole numbers.
    fn cropped(source: Size, network: Size) -> Self {
        let [sw, sh, nw, nh] = [source.width, source.height, network.width, network.height]
            .map(|side| u64::from(side.max(1)));
        let (width, height) =
            if nw * sh >= nh * sw { (nw, sh * nw / sw) } else { (sw * nh / sh, nh) };
        let side = |side: u64| side.min(i32::MAX as u64) as u32;
        Self::cut(source, network, Size::new(side(width), side(height)))
    }

    /// Surplus rows of the content are cut off at the top, surplus columns on both sides.
    fn cut(source: Size, network: Size, content: Size) -> Self {
        let content_origin = [
            -((content.width.saturating_sub(network.width) / 2) as i32),
            -(content.height.saturating_sub(network.height) as i32),
        ];
        Self { source, network, content_origin, content }
    }

    /// The columns and the rows of the network's input that show the source.
    pub fn visible(&self) -> [Range<u32>; 2] {
        let axis = |origin: i32, content: u32, network: u32| {
            let end = (i64::from(origin) + i64::from(content)).clamp(0, i64::from(network));
            (origin.max(0) as u32).min(end as u32)..end as u32
        };
        let ([left, top], content, network) = (self.content_origin, self.content, self.network);
        [axis(left, content.width, network.width), axis(top, content.height, network.height)]
    }

    /// The position in the source of the centre of a network pixel; the centre of the first
    /// pixel is (0, 0).
    pub fn source_position(&self, pixel: [u32; 2]) -> [f64; 2] {
        let sides =
            [(self.source.width, self.content.width), (self.source.height, self.content.height)];
        std::array::from_fn(|axis| {
            let (source, content) = sides[axis];
            let inside = f64::from(pixel[axis]) - f64::from(self.content_origin[axis]);
            (inside + 0.5) * f64::from(source) / f64::from(content) - 0.5
        })
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
            ((1242, 375), (640, 640), Placement::TopLeftRounded, [0, 0], (640, 193)),
            ((641, 480), (640, 640), Placement::TopLeftRounded, [0, 0], (640, 479)),
            ((1280, 721), (640, 640), Placement::TopLeftRounded, [0, 0], (640, 361)),
            ((1280, 721), (640, 640), Placement::TopLeft, [0, 0], (640, 360)),
            // 1600x900 as mmdetection3d resizes and crops it.
            ((1600, 900), (704, 256), Placement::CropTop, [0, -140], (704, 396)),
            ((1600, 900), (368, 144), Placement::CropTop, [0, -63], (368, 207)),
            ((1440, 1080), (640, 480), Placement::CropTop, [0, 0], (640, 480)),
            ((2880, 1860), (640, 480), Placement::CropTop, [-51, 0], (743, 480)),
            ((7, 5), (3, 11), Placement::CropTop, [-6, 0], (15, 11)),
            ((1, 32_768), (640, 480), Placement::CropTop, [0, -20_971_040], (640, 20_971_520)),
        ];
        for ((sw, sh), (nw, nh), placement, origin, (cw, ch)) in cases {
            let letterbox = Letterbox::new(Size::new(sw, sh), Size::new(nw, nh), placement);
            assert_eq!(letterbox.content_origin, origin, "{sw}x{sh} {placement:?}");
            assert_eq!(letterbox.content, Size::new(cw, ch), "{sw}x{sh} {placement:?}");
        }
    }

    #[test]
    fn the_visible_part_is_inside_the_input() {
        let visible =
            |placement| Letterbox::new(Size::new(300, 100), Size::new(60, 40), placement).visible();
        assert_eq!(visible(Placement::Center), [0..60, 10..30]);
        assert_eq!(visible(Placement::TopLeft), [0..60, 0..20]);
        assert_eq!(visible(Placement::Stretch), [0..60, 0..40]);
        assert_eq!(visible(Placement::CropTop), [0..60, 0..40]);
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
