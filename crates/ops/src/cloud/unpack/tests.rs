use proptest::prelude::*;

use super::*;

/// Name, offset, datatype, count.
type Field<'a> = (&'a str, u32, u8, u32);

/// A cloud to be built.
struct Case<'a> {
    fields: &'a [Field<'a>],
    point_step: usize,
    size: [u32; 2],
    row_padding: usize,
    big_endian: bool,
}

const XYZ: [Field<'_>; 3] = [("x", 0, 7, 1), ("y", 4, 7, 1), ("z", 8, 7, 1)];

/// Writes `values`, point by point and field by field, as the case describes.
fn bytes_of(case: &Case<'_>, values: &[f64]) -> Vec<u8> {
    let [width, height] = case.size.map(|n| n as usize);
    let row_step = width * case.point_step + case.row_padding;
    let mut data = vec![0xEE; row_step * height];
    for (i, point) in values.chunks_exact(case.fields.len()).enumerate() {
        let start = i / width * row_step + i % width * case.point_step;
        for (&(_, offset, datatype, _), &value) in case.fields.iter().zip(point) {
            let mut bytes = match datatype {
                1 => (value as i8).to_le_bytes().to_vec(),
                2 => (value as u8).to_le_bytes().to_vec(),
                3 => (value as i16).to_le_bytes().to_vec(),
                4 => (value as u16).to_le_bytes().to_vec(),
                5 => (value as i32).to_le_bytes().to_vec(),
                6 => (value as u32).to_le_bytes().to_vec(),
                7 => (value as f32).to_le_bytes().to_vec(),
                _ => value.to_le_bytes().to_vec(),
            };
            if case.big_endian {
                bytes.reverse();
            }
            let at = start + offset as usize;
            data[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
    data
}

fn view<'a>(case: &Case<'a>, data: &'a [u8]) -> CloudView<'a> {
    let mut fields = PointFields::new();
    for &(name, offset, datatype, count) in case.fields {
        fields.push(PointField { name, offset, datatype, count }).unwrap();
    }
    let row_step = case.size[0] as usize * case.point_step + case.row_padding;
    let steps = [case.point_step as u32, row_step as u32];
    CloudView::new(case.size, steps, case.big_endian, fields, data).unwrap()
}

fn params(channels: &[PointChannel]) -> UnpackParams {
    UnpackParams { channels: channels.to_vec(), intensity_scale: 1.0, range: None }
}

fn run(
    case: &Case<'_>,
    values: &[f64],
    params: &UnpackParams,
    capacity: usize,
) -> (Vec<f32>, UnpackCounts) {
    let data = bytes_of(case, values);
    let mut out = Points::with_capacity(3 + params.channels.len(), capacity);
    let counts = unpack(&view(case, &data), params, &mut out).unwrap();
    assert_eq!(counts.num_points, out.len());
    (out.values().to_vec(), counts)
}

#[test]
fn every_datatype_order_offset_and_endianness() {
    let fields = [
        ("ring", 1, 4, 1),
        ("z", 3, 3, 1),
        ("i", 5, 2, 1),
        ("y", 7, 8, 1),
        ("t", 15, 6, 1),
        ("x", 19, 7, 2),
        ("s", 27, 1, 1),
        ("d", 28, 5, 1),
    ];
    let values = [
        [700.0, -3.0, 200.0, 2.5, 4_000_000_000.0, 1.25, -7.0, -2_000_000.0],
        [701.0, -4.0, 100.0, 0.1, 3.0, -9.5, 8.0, 5.0],
    ];
    let channels = [
        PointChannel::Named("d".into()),
        PointChannel::Intensity,
        PointChannel::Named("s".into()),
        PointChannel::Ring,
        PointChannel::TimeLag,
        PointChannel::Named("t".into()),
    ];
    let params = UnpackParams { intensity_scale: 0.5, ..params(&channels) };
    for big_endian in [false, true] {
        for (size, row_padding) in [([2, 1], 0), ([1, 2], 0), ([1, 2], 5)] {
            let case = Case { fields: &fields, point_step: 33, size, row_padding, big_endian };
            let (out, counts) = run(&case, values.as_flattened(), &params, 2);
            assert_eq!(
                out,
                [
                    [1.25, 2.5, -3.0, -2_000_000.0, 100.0, -7.0, 700.0, 0.0, 4_000_000_000.0],
                    [-9.5, 0.1, -4.0, 5.0, 50.0, 8.0, 701.0, 0.0, 3.0],
                ]
                .as_flattened()
            );
            assert_eq!(counts, UnpackCounts { num_points: 2, ..UnpackCounts::default() });
        }
    }
}

#[test]
fn each_loss_has_its_counter() {
    let fields = [XYZ[0], XYZ[1], XYZ[2], ("intensity", 12, 7, 1)];
    let case =
        Case { fields: &fields, point_step: 16, size: [8, 1], row_padding: 0, big_endian: false };
    let (nan, inf) = (f64::NAN, f64::INFINITY);
    let values = [
        [nan, 0.0, 0.0, 0.0],
        [0.0, inf, 0.0, 0.0],
        [0.0, 0.0, -inf, 0.0],
        [0.0, 0.0, 0.0, nan],
        [5.0, 0.0, 0.0, nan], // not finite comes before out of range
        [1.0, 0.0, 0.0, 1.0],
        [2.0, 0.0, 0.0, 2.0], // the border is outside
        [1.5, 0.0, 0.0, 3.0],
    ];
    let range = Some(PointRange { min: [-2.0; 3], max: [2.0; 3] });
    let params = UnpackParams { range, ..params(&[PointChannel::Intensity]) };
    for (capacity, num_points) in [(0, 0), (1, 1), (2, 2), (9, 2)] {
        let (out, counts) = run(&case, values.as_flattened(), &params, capacity);
        assert_eq!(out, &[1.0, 0.0, 0.0, 1.0, 1.5, 0.0, 0.0, 3.0][..4 * num_points]);
        let num_over_capacity = 2 - num_points;
        let expected = UnpackCounts {
            num_points,
            num_not_finite: 5,
            num_out_of_range: 1,
            num_over_capacity,
            ..UnpackCounts::default()
        };
        assert_eq!(counts, expected);
    }
}

#[test]
fn a_double_that_no_f32_holds_is_not_finite() {
    let fields = [("x", 0, 8, 1), ("y", 8, 8, 1), ("z", 16, 8, 1)];
    let case =
        Case { fields: &fields, point_step: 24, size: [2, 1], row_padding: 0, big_endian: false };
    let values = [[1e300, 0.0, 0.0], [1.0, 2.0, 3.0]];
    let (out, counts) = run(&case, values.as_flattened(), &params(&[]), 2);
    assert_eq!((out, counts.num_not_finite), (vec![1.0, 2.0, 3.0], 1));
}

#[test]
fn unusable_fields_are_named() {
    let range_only = [("range", 0, 7, 1), ("azimuth", 4, 7, 1)];
    let beyond = [XYZ[0], XYZ[1], XYZ[2], ("intensity", 14, 7, 1)];
    let none = [("x", 0, 7, 0), XYZ[1], XYZ[2]];
    let unknown = [XYZ[0], ("y", 4, 9, 1), XYZ[2]];
    let zero = [XYZ[0], ("y", 4, 0, 1), XYZ[2]];
    let far = [XYZ[0], XYZ[1], ("z", u32::MAX, 7, 1)];
    let cases: [(&[Field<'_>], &[PointChannel], &str); 7] = [
        (&range_only, &[], "no field x, only [range, azimuth]"),
        (&XYZ, &[PointChannel::Ring], "no field ring or channel, only [x, y, z]"),
        (&beyond, &[PointChannel::Intensity], "field intensity has 4 bytes at offset 14"),
        (&none, &[], "field x must have a count of at least 1, found 0"),
        (&unknown, &[], "field y has datatype 9"),
        (&zero, &[], "field y has datatype 0"),
        (&far, &[], "field z has 4 bytes at offset 4294967295"),
    ];
    let data = [0; 16];
    for (fields, channels, message) in cases {
        let case = Case { fields, point_step: 16, size: [1, 1], row_padding: 0, big_endian: false };
        let mut out = Points::with_capacity(3 + channels.len(), 1);
        let error = unpack(&view(&case, &data), &params(channels), &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PointField);
        assert!(error.message().contains(message), "{error}");
    }
    // Fields that are not read are not checked.
    let case =
        Case { fields: &beyond, point_step: 16, size: [1, 1], row_padding: 0, big_endian: false };
    assert!(unpack(&view(&case, &data), &params(&[]), &mut Points::with_capacity(3, 1)).is_ok());
}

#[test]
fn empty_clouds_replace_what_was_there() {
    let mut out = Points::with_capacity(3, 1);
    for size in [[0, 1], [0, 7], [3, 0]] {
        out.push(&[1.0, 2.0, 3.0]);
        let cloud = CloudView::new(size, [0, 999], false, PointFields::new(), &[]).unwrap();
        assert_eq!(unpack(&cloud, &params(&[]), &mut out).unwrap(), UnpackCounts::default());
        assert!(out.is_empty());
    }
}

#[test]
fn channels_must_fit_the_output() {
    let cloud = CloudView::new([0, 0], [0, 0], false, PointFields::new(), &[]).unwrap();
    let too_many = vec![PointChannel::TimeLag; MAX_CHANNELS - 2];
    for (channels, num_channels) in
        [(vec![], 4), (vec![PointChannel::Ring], 3), (too_many, MAX_CHANNELS + 1)]
    {
        let mut out = Points::with_capacity(num_channels, 1);
        let error = unpack(&cloud, &params(&channels), &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
    }
}

proptest! {
    /// Any field table over any bytes: no panic, and every point is somewhere.
    #[test]
    fn nothing_is_read_past_the_data(
        fields in prop::collection::vec((0_usize..6, 0_u32..40, 0_u8..10, 0_u32..3), 0..8),
        (width, height, point_step, padding) in (0_u32..5, 0_u32..4, 1_u32..40, 0_u32..7),
        big_endian: bool,
        bytes in prop::collection::vec(any::<u8>(), 700),
        capacity in 0_usize..20,
    ) {
        let mut table = PointFields::new();
        for (name, offset, datatype, count) in fields {
            let name = ["x", "y", "z", "intensity", "ring", "other"][name];
            table.push(PointField { name, offset, datatype, count }).unwrap();
        }
        let row_step = width * point_step + padding;
        let needed = (row_step * height) as usize;
        let cloud = CloudView::new(
            [width, height], [point_step, row_step], big_endian, table, &bytes[..needed.min(700)],
        );
        if let Ok(cloud) = cloud {
            let mut out = Points::with_capacity(4, capacity);
            if let Ok(counts) = unpack(&cloud, &params(&[PointChannel::Intensity]), &mut out) {
                prop_assert!(out.values().iter().all(|value| value.is_finite()));
                prop_assert_eq!(
                    counts.num_points + counts.num_not_finite + counts.num_over_capacity,
                    (width * height) as usize
                );
            } else {
                prop_assert!(out.is_empty());
            }
        }
    }
}
