//! Pooling of maps and maps of another size: equal.

use det_post_ops::dense::pool::cuda::Pooling;
use det_post_ops::dense::pool::{Kind, Pool, pool};
use det_post_ops::dense::resize::cuda::Resizing;
use det_post_ops::dense::resize::{Coordinates, Method, Nearest, Resize, resize};
use det_post_ops::dense::{Region, Window};
use det_post_ops::device::cuda::Graph;
use det_post_types::ElementType;

use crate::dense_pair::{FLOATS, Pair, map_windows};

fn poolings() -> Vec<(Pool, [usize; 4])> {
    let max = Pool {
        kind: Kind::Max,
        kernel: [3, 3],
        steps: [2, 2],
        dilations: [1, 1],
        pads: [1; 4],
        ceil_mode: false,
    };
    let mean = |counts_padding| Pool { kind: Kind::Average { counts_padding }, ..max };
    vec![
        (max, [2, 16, 9, 12]),
        (Pool { kernel: [5, 5], steps: [1, 1], pads: [2; 4], ..max }, [1, 32, 12, 20]),
        (Pool { kernel: [2, 2], pads: [0; 4], ceil_mode: true, ..max }, [1, 7, 5, 7]),
        (Pool { dilations: [2, 3], steps: [1, 1], pads: [0, 3, 2, 1], ..max }, [2, 5, 8, 9]),
        (mean(false), [1, 16, 9, 11]),
        (mean(true), [2, 24, 9, 11]),
        (Pool { ceil_mode: true, ..mean(true) }, [1, 3, 6, 8]),
        (Pool { kernel: [1, 4], steps: [3, 1], pads: [0, 5, 0, 5], ..mean(false) }, [1, 8, 4, 6]),
    ]
}

#[test]
fn poolings_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let pooling = Pooling::load(&device).unwrap();
    for (op, dims) in poolings() {
        let [rows, columns] = op.output_size([dims[2], dims[3]]).unwrap();
        let out_dims = [dims[0], dims[1], rows, columns];
        for element in FLOATS {
            for (at, from) in map_windows(dims).iter().enumerate() {
                for (to_at, to) in map_windows(out_dims).iter().enumerate() {
                    let mut pair = Pair::new(&device, 7);
                    let input = pair.random_window(element, from, 4.0);
                    let output = pair.output_window(FLOATS[(at + to_at) % 2], to);
                    pool(&mut pair.host, &op, &input, &output).unwrap();
                    pooling.enqueue(&pair.device, &op, &input, &output).unwrap();
                    pair.assert_equal(output.buffer, &format!("{op:?} {from:?} {to:?}"));
                }
            }
        }
    }
}

#[test]
fn not_a_number_and_infinity_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let pooling = Pooling::load(&device).unwrap();
    let window = Window::channels_last([1, 8, 6, 6], 8).unwrap();
    for (op, _) in poolings() {
        let op = Pool { dilations: [1, 1], kernel: [3, 3], pads: [1; 4], ..op };
        let [rows, columns] = op.output_size([6, 6]).unwrap();
        let mut pair = Pair::new(&device, 7);
        let values = [1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, -1.0];
        let values: Vec<f32> = (0..288).map(|_| values[pair.random.below(7)]).collect();
        let input = Region { buffer: pair.push(ElementType::F16, &values), window };
        let to = Window::channels_last([1, 8, rows, columns], 8).unwrap();
        let output = pair.output_window(ElementType::F32, &to);
        pool(&mut pair.host, &op, &input, &output).unwrap();
        pooling.enqueue(&pair.device, &op, &input, &output).unwrap();
        pair.assert_equal(output.buffer, &format!("{op:?}"));
        // An output that overlaps the input.
        let same = Region { window: to, ..input };
        assert!(pooling.enqueue(&pair.device, &op, &input, &same).is_err());
    }
}

#[test]
fn sizes_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let resizing = Resizing::load(&device).unwrap();
    let coordinates = [
        Coordinates::HalfPixel,
        Coordinates::HalfPixelSymmetric,
        Coordinates::PytorchHalfPixel,
        Coordinates::AlignCorners,
        Coordinates::Asymmetric,
    ];
    let methods = [
        Method::Linear,
        Method::Nearest(Nearest::RoundPreferFloor),
        Method::Nearest(Nearest::RoundPreferCeil),
        Method::Nearest(Nearest::Floor),
        Method::Nearest(Nearest::Ceil),
    ];
    let cases = [
        ([1, 16, 5, 7], [10, 14], None),
        ([2, 8, 6, 9], [4, 5], None),
        ([1, 5, 4, 4], [1, 13], Some([0.3, 3.3])),
        ([1, 24, 1, 6], [3, 1], None),
        ([1, 8, 8, 8], [4, 4], Some([0.6, 0.6])),
    ];
    for (at, (dims, [rows, columns], scales)) in cases.into_iter().enumerate() {
        for coordinates in coordinates {
            for method in methods {
                let op = Resize { coordinates, method, scales };
                let out = map_windows([dims[0], dims[1], rows, columns]);
                for (w, from) in map_windows(dims).iter().enumerate() {
                    let mut pair = Pair::new(&device, 11);
                    let input = pair.random_window(FLOATS[w % 2], from, 4.0);
                    let output = pair.output_window(FLOATS[at % 2], &out[(w + at) % 5]);
                    resize(&mut pair.host, &op, &input, &output).unwrap();
                    resizing.enqueue(&pair.device, &op, &input, &output).unwrap();
                    pair.assert_equal(output.buffer, &format!("{op:?} {from:?} {output:?}"));
                }
            }
        }
    }
}

/// Launches that read each other's results begin early, but wait: also in a recorded graph, and
/// with the same bytes every time.
#[test]
fn a_chain_is_recorded() {
    let Some(device) = det_post_testing::gpu() else { return };
    let (pooling, resizing) = (Pooling::load(&device).unwrap(), Resizing::load(&device).unwrap());
    let (small, large) = ([1, 64, 20, 24], [1, 64, 40, 48]);
    let [of_small, of_large] = [small, large].map(|dims| Window::channels_last(dims, 64).unwrap());
    let mut pair = Pair::new(&device, 29);
    let input = pair.random_window(ElementType::F16, &of_small, 4.0);
    let [a, b] = [0, 1].map(|_| pair.output_window(ElementType::F16, &of_large));
    let output = pair.output_window(ElementType::F16, &of_small);
    let up = Resize {
        coordinates: Coordinates::Asymmetric,
        method: Method::Nearest(Nearest::Floor),
        scales: None,
    };
    let same = Pool {
        kind: Kind::Max,
        kernel: [5, 5],
        steps: [1, 1],
        dilations: [1, 1],
        pads: [2; 4],
        ceil_mode: false,
    };
    let down = Pool { steps: [2, 2], kernel: [2, 2], pads: [0; 4], ..same };
    resize(&mut pair.host, &up, &input, &a).unwrap();
    pool(&mut pair.host, &same, &a, &b).unwrap();
    pool(&mut pair.host, &down, &b, &output).unwrap();
    let graph = Graph::capture(pair.device.stream(), || {
        resizing.enqueue(&pair.device, &up, &input, &a)?;
        pooling.enqueue(&pair.device, &same, &a, &b)?;
        pooling.enqueue(&pair.device, &down, &b, &output)
    })
    .unwrap();
    for _ in 0..20 {
        graph.enqueue().unwrap();
        pair.assert_equal(output.buffer, "a chain");
    }
}
