use super::*;
use crate::dense::host::HostBuffer;
use crate::dense::{HostArena, Window};

const MAX_3: Pool = Pool {
    kind: Kind::Max,
    kernel: [3, 3],
    steps: [1, 1],
    dilations: [1, 1],
    pads: [1, 1, 1, 1],
    ceil_mode: false,
};

/// The pooling of one plane.
fn pooled(op: &Pool, size: [usize; 2], values: &[f32]) -> (Vec<f32>, [usize; 2]) {
    let [rows, columns] = op.output_size(size).unwrap();
    let mut arena = HostArena::new();
    let mut region = |dims: [usize; 4], values: Vec<f32>| Region {
        buffer: arena.push(HostBuffer::F32(values)),
        window: Window::contiguous(&dims).unwrap(),
    };
    let input = region([1, 1, size[0], size[1]], values.to_vec());
    let output = region([1, 1, rows, columns], vec![9.0; rows * columns]);
    pool(&mut arena, op, &input, &output).unwrap();
    (arena.read(&output).unwrap(), [rows, columns])
}

#[test]
fn values_are_those_of_onnx() {
    // test_maxpool_2d_precomputed_pads, test_averagepool_2d_precomputed_pads and its twin that
    // counts the padding, test_maxpool_2d_precomputed_strides, test_maxpool_2d_dilations.
    let values: Vec<f32> = (1..=25).map(|v| v as f32).collect();
    let five = Pool { kernel: [5, 5], pads: [2; 4], ..MAX_3 };
    let (found, size) = pooled(&five, [5, 5], &values);
    assert_eq!(size, [5, 5]);
    assert_eq!(found[..10], [13., 14., 15., 15., 15., 18., 19., 20., 20., 20.]);
    let mean = Pool { kind: Kind::Average { counts_padding: false }, ..five };
    let (found, _) = pooled(&mean, [5, 5], &values);
    assert_eq!(found[..6], [7.0, 7.5, 8.0, 8.5, 9.0, 9.5]);
    let mean = Pool { kind: Kind::Average { counts_padding: true }, ..five };
    let (found, _) = pooled(&mean, [5, 5], &values);
    assert_eq!(found[..4], [2.52, 3.6, 4.8, 4.08]);
    let two = Pool { kernel: [2, 2], steps: [2, 2], pads: [0; 4], ..MAX_3 };
    assert_eq!(pooled(&two, [5, 5], &values), (vec![7.0, 9.0, 17.0, 19.0], [2, 2]));
    let dilated = Pool { kernel: [2, 2], dilations: [2, 2], pads: [0; 4], ..MAX_3 };
    let values: Vec<f32> = (1..=16).map(|v| v as f32).collect();
    assert_eq!(pooled(&dilated, [4, 4], &values), (vec![11.0, 12.0, 15.0, 16.0], [2, 2]));
}

#[test]
fn sizes_are_rounded_up_but_no_kernel_begins_behind_the_map() {
    // test_maxpool_2d_ceil and test_averagepool_2d_ceil.
    let values: Vec<f32> = (1..=16).map(|v| v as f32).collect();
    let ceil = Pool { steps: [2, 2], pads: [0; 4], ceil_mode: true, ..MAX_3 };
    assert_eq!(pooled(&ceil, [4, 4], &values), (vec![11.0, 12.0, 15.0, 16.0], [2, 2]));
    let mean = Pool { kind: Kind::Average { counts_padding: false }, ..ceil };
    assert_eq!(pooled(&mean, [4, 4], &values).0, [6.0, 7.5, 12.0, 13.5]);
    // Taps behind the padding do not count.
    let mean = Pool { kind: Kind::Average { counts_padding: true }, ..ceil };
    assert_eq!(pooled(&mean, [4, 4], &values).0, [6.0, 7.5, 12.0, 13.5]);
    // test_averagepool_2d_ceil_last_window_starts_on_pad.
    let starts = Pool { kernel: [3, 3], steps: [3, 3], pads: [1; 4], ceil_mode: true, ..mean };
    assert_eq!(starts.output_size([2, 2]), Some([1, 1]));
    assert_eq!(pooled(&starts, [2, 2], &[0.9, 1.8, 2.7, 3.6]).0, [1.0]);
    assert_eq!(MAX_3.output_size([0, 5]), None);
    assert_eq!(Pool { steps: [0, 1], ..MAX_3 }.output_size([5, 5]), None);
    assert_eq!(Pool { kernel: [0, 1], ..MAX_3 }.output_size([5, 5]), None);
}

#[test]
fn not_a_number_stays_and_empty_kernels_are_said() {
    let values = [1.0, f32::NAN, -2.0, f32::NEG_INFINITY];
    let across = Pool { kernel: [1, 2], pads: [0; 4], ..MAX_3 };
    let (found, _) = pooled(&across, [1, 4], &values);
    assert!(found[0].is_nan() && found[1].is_nan());
    assert_eq!(found[2], -2.0);
    let beside = Pool { kernel: [1, 1], pads: [0, 1, 0, 1], ..MAX_3 };
    let (found, _) = pooled(&beside, [1, 1], &[3.0]);
    assert_eq!(found, [f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY]);
    let mean = Pool { kind: Kind::Average { counts_padding: false }, ..beside };
    let (found, _) = pooled(&mean, [1, 1], &[3.0]);
    assert!(found[0].is_nan() && found[1] == 3.0);
}

#[test]
fn what_does_not_fit_is_refused() {
    let region = |dims: &[usize]| Region { buffer: 0, window: Window::contiguous(dims).unwrap() };
    assert!(MAX_3.check(&region(&[2, 3, 4, 4]), &region(&[2, 3, 4, 4])).is_ok());
    for (from, to) in [
        (&[2, 3, 4, 4][..], &[2, 3, 4, 5][..]),
        (&[2, 3, 4, 4], &[2, 4, 4, 4]),
        (&[3, 4, 4], &[3, 4, 4]),
        (&[1, 1, 1 << 15, 4], &[1, 1, 1 << 15, 4]),
    ] {
        assert!(MAX_3.check(&region(from), &region(to)).is_err(), "{from:?}");
    }
}
