//! Where the points of a cloud go: one matrix for all, or one for the time of each.
//!
//! A sensor that moves while it measures sees every point from another pose. [`Sweep`] has the
//! matrices of [`NUM_KNOTS`] times at equal distances over the sweep. That of a point is
//! interpolated: with `u = (time - first) * knots_per_s`, `k` the whole part of `u` within 0 and
//! `NUM_KNOTS - 2`, and `w = u - k`, each value is `a + (b - a) * w` of the matrices `k` and
//! `k + 1`, in f32 without fused operations. Before the first and after the last knot the motion of
//! the first and of the last interval goes on.
//!
//! Between two knots a rotation by `a` rad is linear to `a^2 / 8` of the distance to the point: at
//! 1 rad/s and a sweep of 0.1 s to 0.5 mm at 100 m.

use nalgebra::Matrix3x4;

use det_post_types::{Error, ErrorKind, PointRange, Result, TimeField};

/// The times of a sweep with a matrix.
pub const NUM_KNOTS: usize = 17;

/// Rows of a 3x4 matrix: three values of the rotation, then the translation in metres.
pub type Rows = [[f32; 4]; 3];

/// Where the points of a cloud go. By default they stay where they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Placement {
    /// The transform into the frame of the output, also of points without a usable time; `None`
    /// leaves the bits of x, y, z.
    pub rows: Option<Rows>,
    /// The motion of the sensor while it measured; `None` for a cloud of one instant.
    pub sweep: Option<Sweep>,
    /// Points inside are dropped, in the frame of the output.
    pub crop: Option<PointRange>,
}

/// The transforms of a cloud whose sensor moved while it measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The times of its points.
    pub times: TimeField,
    /// The time of the first matrix, in seconds from the stamp.
    pub first_s: f32,
    /// Matrices per second; 0 where all times are equal.
    pub knots_per_s: f32,
    /// The transforms into the frame of the output.
    pub knots: [Rows; NUM_KNOTS],
}

/// The rows of a matrix.
pub fn rows_of(matrix: &Matrix3x4<f64>) -> Rows {
    std::array::from_fn(|row| std::array::from_fn(|column| matrix[(row, column)] as f32))
}

/// A point in the frame of the output.
#[inline]
pub(super) fn moved(rows: &Rows, [x, y, z]: [f32; 3]) -> [f32; 3] {
    rows.map(|row| row[0] * x + row[1] * y + row[2] * z + row[3])
}

impl Placement {
    /// Checks that the time of a point ends within the point.
    pub(super) fn check(&self, point_step: usize) -> Result<()> {
        let Some(Sweep { times, .. }) = &self.sweep else { return Ok(()) };
        let (offset, size) = (times.offset as usize, times.datatype.size());
        if offset.saturating_add(size) <= point_step {
            return Ok(());
        }
        let message = format!(
            "the time of a point has {size} bytes at offset {offset}, which end beyond point_step \
             {point_step}"
        );
        Err(Error::new(ErrorKind::PointField, "unpack", message))
    }
}

impl Sweep {
    /// The matrix of a time.
    #[inline]
    pub(super) fn rows_at(&self, seconds: f32) -> Rows {
        let u = (seconds - self.first_s) * self.knots_per_s;
        let first = if u >= 1.0 { u.min((NUM_KNOTS - 2) as f32) as usize } else { 0 };
        let share = u - first as f32;
        let [from, to] = [first, first + 1].map(|knot| &self.knots[knot]);
        std::array::from_fn(|row| {
            std::array::from_fn(|i| from[row][i] + (to[row][i] - from[row][i]) * share)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{UnpackCounts, UnpackParams, append};
    use super::*;
    use det_post_types::{CloudView, Datatype, PointField, PointFields, Points};

    const IDENTITY: Rows = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    const TIMES: TimeField =
        TimeField { offset: 12, datatype: Datatype::F32, base: 0.0, unit_s: 1.0 };

    fn shifted(x: f32) -> Rows {
        [[1.0, 0.0, 0.0, x], IDENTITY[1], IDENTITY[2]]
    }

    /// Appends points of x, y, z and a time.
    fn add(
        points: &[[f32; 4]],
        placement: &Placement,
        range: Option<PointRange>,
        out: &mut Points,
    ) -> Result<UnpackCounts> {
        let mut fields = PointFields::new();
        for (name, offset) in [("x", 0), ("y", 4), ("z", 8), ("time", 12)] {
            fields.push(PointField { name, offset, datatype: 7, count: 1 }).unwrap();
        }
        let data: Vec<u8> =
            points.as_flattened().iter().flat_map(|value| value.to_le_bytes()).collect();
        let size = [points.len() as u32, 1];
        let cloud = CloudView::new(size, [16, 0], false, fields, &data).unwrap();
        let params = UnpackParams { channels: Vec::new(), intensity_scale: 1.0, range };
        append(&cloud, &params, placement, out)
    }

    fn box_of(min: f32, max: f32) -> PointRange {
        PointRange { min: [min; 3], max: [max; 3] }
    }

    #[test]
    fn clouds_follow_each_other_and_every_loss_has_its_counter() {
        let mut out = Points::with_capacity(3, 4);
        let first = Placement { rows: Some(shifted(10.0)), ..Placement::default() };
        let counts = add(&[[1.0, 2.0, 3.0, 0.0]], &first, None, &mut out).unwrap();
        assert_eq!(counts, UnpackCounts { num_points: 1, ..UnpackCounts::default() });
        // Cropped and out of range where they are moved to; the largest float is not finite then.
        let turn = [[0.0, -1.0, 0.0, 5.0], [1.0, 0.0, 0.0, f32::MAX], [0.0, 0.0, 1.0, 0.0]];
        let second = Placement {
            rows: Some([turn[0], [1.0, 0.0, 0.0, 0.0], turn[2]]),
            crop: Some(box_of(-1.0, 1.0)),
            ..Placement::default()
        };
        let points = [
            [0.0, 5.0, 0.0, 0.0],
            [f32::NAN, 0.0, 0.0, 0.0],
            [1.0, 5.0, 0.0, 0.0],
            [1.5, 2.0, 0.5, 0.0],
            [0.0, -200.0, 0.0, 0.0],
            [2.0, 0.0, 0.0, 0.0],
            [3.0, 0.0, 0.0, 0.0],
            [4.0, 0.0, 0.0, 0.0],
        ];
        let counts = add(&points, &second, Some(box_of(-100.0, 100.0)), &mut out).unwrap();
        let expected = UnpackCounts {
            num_points: 3,
            num_not_finite: 1,
            num_cropped: 1,
            num_out_of_range: 1,
            num_over_capacity: 2,
            num_without_time: 0,
        };
        assert_eq!(counts, expected);
        let rows: Vec<&[f32]> = out.iter().collect();
        assert_eq!(rows, [[11.0, 2.0, 3.0], [0.0, 1.0, 0.0], [3.0, 1.5, 0.5], [5.0, 2.0, 0.0]]);
        let far = Placement { rows: Some(turn), ..Placement::default() };
        let mut out = Points::with_capacity(3, 4);
        let counts = add(&[[f32::MAX, 0.0, 0.0, 0.0]], &far, None, &mut out).unwrap();
        assert_eq!(counts, UnpackCounts { num_not_finite: 1, ..UnpackCounts::default() });
    }

    #[test]
    fn points_stay_as_they_are_by_default() {
        let bits = [f32::MIN_POSITIVE / 2.0, -0.0, 3.0e38];
        for crop in [None, Some(box_of(-1.0, -0.5))] {
            let placement = Placement { crop, ..Placement::default() };
            let mut out = Points::with_capacity(3, 4);
            add(&[[bits[0], bits[1], bits[2], 0.0]], &placement, None, &mut out).unwrap();
            let found: Vec<u32> = out.values().iter().map(|value| value.to_bits()).collect();
            assert_eq!(found, bits.map(f32::to_bits));
        }
    }

    #[test]
    fn a_point_is_moved_by_the_matrix_of_its_time() {
        // A shift of 1 m per knot from 100 m on, knots from -0.08 s on, each 0.01 s.
        let knots = std::array::from_fn(|knot| shifted(100.0 + knot as f32));
        let sweep = Sweep { times: TIMES, first_s: -0.08, knots_per_s: 100.0, knots };
        let placement =
            Placement { rows: Some(shifted(7.0)), sweep: Some(sweep), ..Placement::default() };
        let cases = [
            (-0.08, 100.0),
            (-0.075, 100.5),
            (0.0, 108.0),
            (0.08, 116.0),
            // Before the first knot and after the last one its motion goes on.
            (-0.1, 98.0),
            (0.1, 118.0),
            // Without a usable time.
            (f32::NAN, 7.0),
            (1.5, 7.0),
            (f32::NEG_INFINITY, 7.0),
        ];
        let points = cases.map(|(time, _)| [0.0, 0.0, 0.0, time]);
        let mut out = Points::with_capacity(3, 20);
        let counts = add(&points, &placement, None, &mut out).unwrap();
        let expected =
            UnpackCounts { num_points: 9, num_without_time: 3, ..UnpackCounts::default() };
        assert_eq!(counts, expected);
        for ((time, expected), found) in cases.iter().zip(out.iter()) {
            assert!((found[0] - expected).abs() < 1e-3, "{time}: {} {expected}", found[0]);
        }
        // All times are one.
        let Some(sweep) = &placement.sweep else { panic!("a sweep") };
        let once = Sweep { knots_per_s: 0.0, ..sweep.clone() };
        let once = Placement { sweep: Some(once), ..placement };
        let mut out = Points::with_capacity(3, 1);
        add(&[[0.0, 0.0, 0.0, 0.02]], &once, None, &mut out).unwrap();
        assert_eq!(out.values(), [100.0, 0.0, 0.0]);
    }

    #[test]
    fn a_time_beyond_the_point_is_refused() {
        let times = TimeField { offset: 13, ..TIMES };
        let sweep = Sweep { times, first_s: 0.0, knots_per_s: 1.0, knots: [IDENTITY; NUM_KNOTS] };
        let placement = Placement { sweep: Some(sweep), ..Placement::default() };
        let mut out = Points::with_capacity(3, 4);
        let error = add(&[[0.0; 4]], &placement, None, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PointField);
        assert!(add(&[], &placement, None, &mut out).is_ok());
    }
}
