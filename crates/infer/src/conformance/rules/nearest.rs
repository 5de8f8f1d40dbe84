//! The places that a Resize by the nearest value takes, as ONNX defines them and as rten computes them.
//!
//! Both compute in f32. ONNX divides by the scale; a place that is half way but for the rounding of f32 is
//! half way, as ONNX Runtime has it. rten multiplies by the reciprocal of the scale, which is another number for most scales.

/// Outputs of an axis of unknown size that are compared.
const MAX_COMPARED: i64 = 1 << 16;
/// The longest axis that is compared or written as a table: a scale may ask for any.
const MAX_SIZE: i64 = 1 << 20;

/// How places follow from output coordinates, by the names of ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coordinates {
    Asymmetric,
    HalfPixel,
    PytorchHalfPixel,
    AlignCorners,
}

impl Coordinates {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "asymmetric" => Some(Self::Asymmetric),
            "half_pixel" => Some(Self::HalfPixel),
            "pytorch_half_pixel" => Some(Self::PytorchHalfPixel),
            "align_corners" => Some(Self::AlignCorners),
            _ => None,
        }
    }
}

/// How places are rounded, by the names of ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearest {
    RoundPreferFloor,
    RoundPreferCeil,
    Floor,
    Ceil,
}

impl Nearest {
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "round_prefer_floor" => Some(Self::RoundPreferFloor),
            "round_prefer_ceil" => Some(Self::RoundPreferCeil),
            "floor" => Some(Self::Floor),
            "ceil" => Some(Self::Ceil),
            _ => None,
        }
    }

    /// `tolerance`: how far from half way a place may be that counts as such.
    fn round(self, place: f32, tolerance: f32) -> f32 {
        let below = place.floor();
        let is_half = (place - below - 0.5).abs() <= tolerance;
        match self {
            Self::Floor => below,
            Self::Ceil => place.ceil(),
            Self::RoundPreferFloor if is_half => below,
            Self::RoundPreferCeil if is_half => below + 1.0,
            Self::RoundPreferFloor | Self::RoundPreferCeil => place.round(),
        }
    }
}

/// What the roundings of a place in f32 amount to.
fn tolerance(place: f32) -> f32 {
    4.0 * f32::EPSILON * place.abs().max(1.0)
}

/// An axis: its sizes before and after, where they are known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) from: Option<i64>,
    pub(super) to: Option<i64>,
    /// After over before.
    pub(super) scale: f32,
    /// The factor of rten.
    reciprocal: f32,
}

impl Axis {
    /// By a scale: the size is rounded down.
    pub(super) fn scaled(from: Option<i64>, scale: f32) -> Self {
        let to = from.map(|from| (from as f32 * scale).floor() as i64);
        Self { from, to, scale, reciprocal: 1.0 / scale }
    }

    /// To a size.
    pub(super) fn sized(from: i64, to: i64) -> Self {
        let [before, after] = [from, to].map(|size| size as f32);
        let (scale, reciprocal) = (after / before, before / after);
        Self { from: Some(from), to: Some(to), scale, reciprocal }
    }

    /// Whether the size may stay.
    pub(super) fn keeps_size(&self) -> bool {
        match (self.from, self.to) {
            (Some(from), Some(to)) => from == to,
            _ => (1.0..1.5).contains(&self.scale),
        }
    }

    /// Whether rten takes the places of ONNX.
    pub(super) fn takes_same(&self, coordinates: Coordinates, nearest: Nearest) -> bool {
        let to = self.to.unwrap_or(MAX_COMPARED);
        to <= MAX_SIZE
            && (0..to).all(|at| {
                let place =
                    |by: f32, is_divided| self.place(at as f32, by, is_divided, coordinates);
                let [defined, computed] = [place(self.scale, true), place(self.reciprocal, false)];
                self.limited(nearest.round(defined, tolerance(defined)))
                    == self.limited(nearest.round(computed, 0.0))
            })
    }

    /// The place that ONNX takes for each output; `None` where a size is not known.
    pub(super) fn table(&self, coordinates: Coordinates, nearest: Nearest) -> Option<Vec<i64>> {
        let (_, to) = (self.from?, self.to.filter(|to| *to <= MAX_SIZE)?);
        let place = |at: i64| self.place(at as f32, self.scale, true, coordinates);
        let taken = |place: f32| self.limited(nearest.round(place, tolerance(place)));
        Some((0..to).map(|at| taken(place(at))).collect())
    }

    fn place(&self, at: f32, by: f32, is_divided: bool, coordinates: Coordinates) -> f32 {
        let scaled = |at: f32| if is_divided { at / by } else { at * by };
        match (coordinates, self.from, self.to) {
            (Coordinates::Asymmetric, _, _) => scaled(at),
            (Coordinates::PytorchHalfPixel | Coordinates::AlignCorners, _, Some(1)) => 0.0,
            (Coordinates::HalfPixel | Coordinates::PytorchHalfPixel, _, _) => {
                scaled(at + 0.5) - 0.5
            }
            (Coordinates::AlignCorners, Some(from), Some(to)) => {
                at * (from - 1) as f32 / (to - 1) as f32
            }
            // Both have one formula, without a scale.
            (Coordinates::AlignCorners, _, _) => 0.0,
        }
    }

    fn limited(&self, place: f32) -> i64 {
        let last = self.from.map_or(i64::MAX, |from| (from - 1).max(0));
        (place as i64).clamp(0, last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocals_take_other_places_at_some_sizes() {
        let cases = [
            (7, 23, Coordinates::HalfPixel, Nearest::Floor),
            (7, 13, Coordinates::HalfPixel, Nearest::Ceil),
            (8, 14, Coordinates::HalfPixel, Nearest::RoundPreferFloor),
            (13, 44, Coordinates::Asymmetric, Nearest::RoundPreferCeil),
            (7, 26, Coordinates::Asymmetric, Nearest::RoundPreferFloor),
            (8, 28, Coordinates::Asymmetric, Nearest::Ceil),
        ];
        for (from, to, coordinates, nearest) in cases {
            let axis = Axis::sized(from, to);
            assert!(!axis.takes_same(coordinates, nearest), "{axis:?} {coordinates:?} {nearest:?}");
        }
        // Half way but for the rounding of 32 / 7.
        let table = Axis::sized(7, 32).table(Coordinates::Asymmetric, Nearest::RoundPreferCeil);
        assert_eq!(table.unwrap()[14..18], [3, 3, 4, 4]);
        // By the reciprocal, output 10 is from place 6.
        let table = Axis::sized(8, 14).table(Coordinates::HalfPixel, Nearest::RoundPreferFloor);
        assert_eq!(table, Some(vec![0, 0, 1, 1, 2, 3, 3, 4, 4, 5, 5, 6, 7, 7]));
    }

    #[test]
    fn doubled_axes_of_any_size_stay() {
        for scale in [2.0, 4.0, 8.0, 0.5] {
            for coordinates in [Coordinates::Asymmetric, Coordinates::HalfPixel] {
                for nearest in [Nearest::Floor, Nearest::RoundPreferFloor, Nearest::Ceil] {
                    assert!(Axis::scaled(None, scale).takes_same(coordinates, nearest));
                }
            }
        }
        assert!(!Axis::scaled(None, 7.0).takes_same(Coordinates::Asymmetric, Nearest::Ceil));
        let endless = Axis::scaled(Some(64), 1e15);
        assert!(!endless.takes_same(Coordinates::Asymmetric, Nearest::Floor));
        assert_eq!(endless.table(Coordinates::Asymmetric, Nearest::Floor), None);
    }

    #[test]
    fn scales_may_keep_sizes() {
        assert!(Axis::scaled(Some(4), 1.2).keeps_size() && Axis::scaled(None, 1.2).keeps_size());
        assert!(!Axis::scaled(Some(5), 1.2).keeps_size() && !Axis::scaled(None, 2.0).keeps_size());
    }
}
