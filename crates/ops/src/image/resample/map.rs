//! Positions of the source that an input image shows, and the weights of the pixels around them.

use det_post_types::{CameraView, Error, ErrorKind, ImageView, Letterbox, Resize, Result, Size};

/// Bits after the binary point of a position.
const FRACTION_BITS: u32 = 16;
/// A pixel, as a difference of positions.
const ONE: i32 = 1 << FRACTION_BITS;

/// Where nothing of the source is shown.
const NO_SOURCE: i32 = i32::MIN;

pub(super) fn error(message: String) -> Error {
    Error::new(ErrorKind::Argument, "resample", message)
}

/// The positions of an image that the pixels of a network's input image show.
#[derive(Clone, Debug, PartialEq)]
pub struct SampleMap {
    source: Size,
    network: Size,
    reach: [u32; 2],
    positions: Positions,
}

/// Positions in units of 2^-16 pixels; the centre of the first pixel is 0.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Positions {
    /// Rows and columns are those of the source.
    Separable { columns: Vec<i32>, rows: Vec<i32> },
    /// x and y of each pixel, row by row.
    PerPixel(Vec<[i32; 2]>),
}

impl SampleMap {
    /// The most source pixels per network pixel, along an axis.
    pub const MAX_SCALE: u32 = 32;

    /// A map without undistortion.
    ///
    /// # Errors
    /// `Argument` when a side is not from 1 to [`ImageView::MAX_SIDE`], or the source has
    /// more than [`SampleMap::MAX_SCALE`] pixels per network pixel.
    pub fn of_placement(placed: &Letterbox, resize: Resize) -> Result<Self> {
        let reach = reach(nominal_scale(placed), resize)?;
        check_sides(placed)?;
        let [visible_columns, visible_rows] = placed.visible();
        let columns = (0..placed.network.width)
            .map(|x| visible_columns.contains(&x).then(|| placed.source_position([x, 0])[0]));
        let rows = (0..placed.network.height)
            .map(|y| visible_rows.contains(&y).then(|| placed.source_position([0, y])[1]));
        let positions = Positions::Separable {
            columns: columns.map(rounded).collect(),
            rows: rows.map(rounded).collect(),
        };
        Ok(Self { source: placed.source, network: placed.network, reach, positions })
    }

    /// The map of what a network sees of a camera. Where it is undistorted, this takes
    /// milliseconds and 8 bytes per pixel of the network's input image.
    ///
    /// # Errors
    /// Returns the errors of [`SampleMap::of_placement`].
    pub fn of_view(view: &CameraView, resize: Resize) -> Result<Self> {
        let placed = view.placed();
        if !view.is_undistorted() {
            return Self::of_placement(placed, resize);
        }
        check_sides(placed)?;
        let scale = scale_in_the_middle(view).unwrap_or(nominal_scale(placed));
        let Size { width, height } = placed.network;
        let pixels = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        let position = |(x, y)| {
            let position = view.raw_position(x, y);
            [0, 1].map(|axis: usize| rounded(position.map(|position| position[axis])))
        };
        Ok(Self {
            source: placed.source,
            network: placed.network,
            reach: reach(scale, resize)?,
            positions: Positions::PerPixel(pixels.map(position).collect()),
        })
    }

    /// The map of an affine from the source to the network's input image, rows of factors of x, of
    /// y and a summand, on continuous coordinates (pixel `i` covers `[i, i + 1)`). It takes 8 bytes
    /// per pixel of the network's input image.
    ///
    /// # Errors
    /// `Argument` when the affine has no inverse in f64, or as [`SampleMap::of_placement`].
    pub fn of_affine(
        source: Size,
        network: Size,
        affine: [[f64; 3]; 2],
        resize: Resize,
    ) -> Result<Self> {
        check_sizes(source, network)?;
        let [[a, b, tx], [c, d, ty]] = affine;
        let determinant = a * d - b * c;
        let inverse = [[d, -b, b * ty - d * tx], [-c, a, c * tx - a * ty]]
            .map(|row| row.map(|number| number / determinant));
        if !inverse.iter().flatten().all(|number| number.is_finite()) {
            return Err(error(format!("the affine {affine:?} has no inverse")));
        }
        let scale = inverse.map(|[x, y, _]| x.hypot(y));
        let pixels = (0..network.height).flat_map(|y| (0..network.width).map(move |x| (x, y)));
        let position = |(x, y): (u32, u32)| {
            let (x, y) = (f64::from(x) + 0.5, f64::from(y) + 0.5);
            inverse.map(|[a, b, t]| rounded(Some(a * x + b * y + t - 0.5)))
        };
        let positions = Positions::PerPixel(pixels.map(position).collect());
        Ok(Self { source, network, reach: reach(scale, resize)?, positions })
    }

    /// Size of the images that are read.
    pub fn source(&self) -> Size {
        self.source
    }

    /// Size of the input images that are made.
    pub fn network(&self) -> Size {
        self.network
    }

    /// Half the width of the filter along x and y, in units of 2^-16 pixels of the source.
    pub(super) fn reach(&self) -> [u32; 2] {
        self.reach
    }

    pub(super) fn positions(&self) -> &Positions {
        &self.positions
    }

    /// The same map with a position for each pixel.
    #[cfg(test)]
    pub(super) fn per_pixel(&self) -> Self {
        let Positions::Separable { columns, rows } = &self.positions else { return self.clone() };
        let positions = rows.iter().flat_map(|&y| columns.iter().map(move |&x| [x, y]));
        Self { positions: Positions::PerPixel(positions.collect()), ..self.clone() }
    }
}

/// Source pixels per pixel of the content.
fn nominal_scale(placed: &Letterbox) -> [f64; 2] {
    let Letterbox { source, content, .. } = placed;
    [
        f64::from(source.width) / f64::from(content.width),
        f64::from(source.height) / f64::from(content.height),
    ]
}

/// Source pixels per network pixel in the middle of the visible image.
fn scale_in_the_middle(view: &CameraView) -> Option<[f64; 2]> {
    let [columns, rows] = view.placed().visible();
    let (x, y) = (columns.start.midpoint(columns.end), rows.start.midpoint(rows.end));
    let here = view.raw_position(x, y)?;
    let (left, above) = (x.checked_sub(1)?, y.checked_sub(1)?);
    let [dx, dy] = [view.raw_position(left, y)?, view.raw_position(x, above)?]
        .map(|there| (here[0] - there[0]).hypot(here[1] - there[1]));
    Some([dx, dy])
}

fn reach(scale: [f64; 2], resize: Resize) -> Result<[u32; 2]> {
    let most = f64::from(SampleMap::MAX_SCALE);
    if !scale.iter().all(|&scale| scale > 0.0 && scale <= most) {
        let [x, y] = scale;
        return Err(error(format!(
            "{x:.2} x {y:.2} source pixels for a pixel of the network exceed the limit of {most}"
        )));
    }
    Ok(match resize {
        Resize::Bilinear => [ONE as u32; 2],
        Resize::Antialias => scale.map(|scale| (scale.max(1.0) * f64::from(ONE)).round() as u32),
        Resize::Antialias8Bit => {
            return Err(error("samples of 8 bits are rounded by `letterbox` only".into()));
        }
    })
}

fn check_sides(placed: &Letterbox) -> Result<()> {
    check_sizes(placed.source, placed.network)
}

fn check_sizes(source: Size, network: Size) -> Result<()> {
    let sides = [source.width, source.height, network.width, network.height];
    if sides.iter().all(|side| (1..=ImageView::MAX_SIDE).contains(side)) {
        return Ok(());
    }
    Err(error(format!(
        "{}x{} pixels into {}x{}; sides must be 1 to {}",
        source.width,
        source.height,
        network.width,
        network.height,
        ImageView::MAX_SIDE
    )))
}

/// Positions that no image has become [`NO_SOURCE`].
fn rounded(position: Option<f64>) -> i32 {
    let most = f64::from(ImageView::MAX_SIDE) - 0.5;
    match position {
        Some(position) if position >= -1.0 && position < most => {
            (position * f64::from(ONE)).round() as i32
        }
        _ => NO_SOURCE,
    }
}

/// The pixels of an axis around a position, and their weights. `find_taps` in the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Taps {
    /// The first pixel.
    pub(super) first: u32,
    /// The last pixel.
    pub(super) last: u32,
    /// From the position to the first pixel.
    distance: i32,
    reach: i32,
}

impl Taps {
    /// `None` when the position is more than half a pixel outside `0..len`. Sides of up to 2^15
    /// and a reach of up to 2^21 keep every term inside an i32.
    pub(super) fn new(position: i32, reach: u32, len: u32) -> Option<Self> {
        let end = i64::from(len) << FRACTION_BITS;
        let half = i64::from(ONE / 2);
        if !(-half..=end - half).contains(&i64::from(position)) {
            return None;
        }
        let (whole, fraction) = (position >> FRACTION_BITS, position & (ONE - 1));
        let reach = reach as i32;
        let first = whole + ((fraction - reach) >> FRACTION_BITS) + 1;
        let last = whole + ((fraction + reach + ONE - 1) >> FRACTION_BITS) - 1;
        let (first, last) = (first.max(0), last.min(len as i32 - 1));
        let distance = (first - whole) * ONE - fraction;
        Some(Self { first: first as u32, last: last as u32, distance, reach })
    }

    /// The weight of a pixel from `first` to `last`, in units of 2^-16.
    fn weight(&self, pixel: u32) -> u32 {
        let distance = self.distance + (pixel - self.first) as i32 * ONE;
        (self.reach - distance.abs()) as u32
    }

    /// All weights.
    pub(super) fn weights(&self) -> impl Iterator<Item = u32> {
        let taps = *self;
        (taps.first..=taps.last).map(move |pixel| taps.weight(pixel))
    }

    /// The sum of all weights.
    pub(super) fn sum(&self) -> u32 {
        self.weights().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use det_post_types::Placement;

    #[test]
    fn weights_are_those_of_a_triangle() {
        let all = |position: f64, reach: f64, len| {
            let fixed = |value: f64| (value * f64::from(ONE)).round();
            let taps = Taps::new(fixed(position) as i32, fixed(reach) as u32, len)?;
            let weights: Vec<f64> =
                taps.weights().map(|weight| f64::from(weight) / f64::from(ONE)).collect();
            assert_eq!(f64::from(taps.sum()) / f64::from(ONE), weights.iter().sum::<f64>());
            Some((taps.first, weights))
        };
        // (position, reach, length, first pixel, weights)
        for (position, reach, len, first, weights) in [
            (3.0, 1.0, 8, 3, &[1.0][..]),
            (3.25, 1.0, 8, 3, &[0.75, 0.25]),
            (-0.5, 1.0, 8, 0, &[0.5]),
            (7.5, 1.0, 8, 7, &[0.5]),
            (-0.25, 2.0, 8, 0, &[1.75, 0.75]),
            (3.5, 2.0, 8, 2, &[0.5, 1.5, 1.5, 0.5]),
            (3.0, 2.5, 8, 1, &[0.5, 1.5, 2.5, 1.5, 0.5]),
            (7.0, 2.5, 8, 5, &[0.5, 1.5, 2.5]),
            (0.0, 32.0, 1, 0, &[32.0]),
            (
                32_767.0,
                32.0,
                32_768,
                32_736,
                &std::array::from_fn::<f64, 32, _>(|i| i as f64 + 1.0),
            ),
        ] {
            assert_eq!(all(position, reach, len), Some((first, weights.to_vec())), "{position}");
        }
        for position in [-0.51, 7.51, -32_768.0] {
            assert_eq!(all(position, 2.0, 8), None);
        }
    }

    #[test]
    fn an_affine_of_a_placement_is_its_map() {
        let (source, network) = (Size::new(320, 200), Size::new(64, 64));
        for placement in [Placement::Center, Placement::TopLeft, Placement::Stretch] {
            let placed = Letterbox::new(source, network, placement);
            let [sx, sy] = [0, 1].map(|axis| 1.0 / nominal_scale(&placed)[axis]);
            let [tx, ty] = placed.content_origin.map(f64::from);
            let affine = [[sx, 0.0, tx], [0.0, sy, ty]];
            for resize in [Resize::Bilinear, Resize::Antialias] {
                let found = SampleMap::of_affine(source, network, affine, resize).unwrap();
                let expected = SampleMap::of_placement(&placed, resize).unwrap().per_pixel();
                assert_eq!(found.reach, expected.reach, "{placement:?}");
                let (Positions::PerPixel(found), Positions::PerPixel(expected)) =
                    (found.positions, expected.positions)
                else {
                    panic!("positions of pixels")
                };
                for (found, expected) in found.iter().zip(expected) {
                    if !expected.contains(&NO_SOURCE) {
                        let [x, y] = [0, 1].map(|axis| found[axis].abs_diff(expected[axis]));
                        assert!(x <= 1 && y <= 1, "{placement:?}: {found:?} {expected:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn an_affine_turns_and_shears() {
        let size = Size::new(8, 8);
        // A quarter turn: the network's x is the source's y, its y is 8 less the source's x.
        let affine = [[0.0, 1.0, 0.0], [-1.0, 0.0, 8.0]];
        let map = SampleMap::of_affine(size, size, affine, Resize::Bilinear).unwrap();
        let Positions::PerPixel(positions) = map.positions else { panic!("positions of pixels") };
        assert_eq!(positions[0], [7 * ONE, 0]);
        assert_eq!(positions[7], [7 * ONE, 7 * ONE]);
        assert_eq!(positions[63], [0, 7 * ONE]);
        let singular = [[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]];
        for affine in [singular, [[f64::NAN, 0.0, 0.0], [0.0, 1.0, 0.0]]] {
            assert!(SampleMap::of_affine(size, size, affine, Resize::Bilinear).is_err());
        }
    }

    #[test]
    fn positions_far_outside_are_none() {
        assert_eq!(rounded(Some(1.5)), 98_304);
        assert_eq!(rounded(Some(32_767.25)), 2_147_434_496);
        for position in [None, Some(f64::NAN), Some(32_767.5), Some(1e300), Some(-1.25)] {
            assert_eq!(rounded(position), NO_SOURCE);
        }
        assert_eq!(Taps::new(NO_SOURCE, 1 << 16, 32_768), None);
    }
}
