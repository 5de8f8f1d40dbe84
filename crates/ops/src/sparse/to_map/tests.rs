use super::*;
use crate::sparse::rulebook::sites_of_coordinates;
use det_post_types::ElementType;

const CELLS: [[i32; 4]; 4] = [[0, 0, 0, 0], [0, 1, 2, 3], [1, 1, 0, 4], [1, 0, 2, 0]];
const NUM_CHANNELS: usize = 3;

fn level() -> (Sites, Vec<f32>) {
    let mut sites = Sites::new(SiteGrid::new(2, [2, 3, 5]).unwrap(), 4);
    sites_of_coordinates(&CELLS, &mut sites, &mut Vec::new());
    // Row and channel; exact in f16.
    let features = (0..12).map(|i| (10 * (i / NUM_CHANNELS) + i % NUM_CHANNELS) as f32 + 0.25);
    (sites, features.collect())
}

fn filled(element: ElementType, shape: &[usize]) -> Tensor {
    let mut out = Tensor::zeros(element, shape).unwrap();
    match &mut out {
        Tensor::F32 { values, .. } => values.fill(7.0),
        Tensor::F16 { values, .. } => values.fill(f16::from_f32(7.0)),
    }
    out
}

#[test]
fn every_order_of_axes_lands_where_it_should() {
    let (sites, features) = level();
    for axes in [[0, 1, 2], [2, 0, 1], [2, 1, 0], [1, 2, 0]] {
        let size = axes.map(|axis| [2, 3, 5][axis]);
        let [depth, num_rows, num_columns] = size;
        let shape = map_shape(sites.grid(), axes, NUM_CHANNELS).unwrap();
        assert_eq!(shape, [2, NUM_CHANNELS * depth, num_rows, num_columns]);
        let mut expected = vec![0.0; shape.iter().product()];
        for (row, &index) in sites.indices().iter().enumerate() {
            let [batch, cell @ ..] = sites.grid().cell_of(index).map(|cell| cell as usize);
            let [d, y, x] = axes.map(|axis| cell[axis]);
            for channel in 0..NUM_CHANNELS {
                let plane = (batch * NUM_CHANNELS + channel) * depth + d;
                expected[(plane * num_rows + y) * num_columns + x] =
                    features[row * NUM_CHANNELS + channel];
            }
        }
        for element in [ElementType::F32, ElementType::F16] {
            let mut out = filled(element, &shape);
            to_map(&features, &sites, axes, NUM_CHANNELS, &mut out).unwrap();
            let found: Vec<f32> = match out {
                Tensor::F32 { values, .. } => values,
                Tensor::F16 { values, .. } => values.iter().map(|value| value.to_f32()).collect(),
            };
            assert_eq!(found, expected, "{axes:?} {element}");
        }
    }
}

#[test]
fn no_sites_clear_the_map() {
    let sites = Sites::new(SiteGrid::new(1, [2, 3, 5]).unwrap(), 4);
    let mut out = filled(ElementType::F32, &[1, 4, 3, 5]);
    to_map(&[], &sites, [0, 1, 2], 2, &mut out).unwrap();
    assert_eq!(out, Tensor::zeros(ElementType::F32, &[1, 4, 3, 5]).unwrap());
}

#[test]
fn what_does_not_fit_is_refused() {
    let (sites, features) = level();
    for (num_features, axes, num_channels, shape, message) in [
        (12, [0, 1, 2], 3, [2, 6, 5, 3], "[2, 6, 3, 5] is required"),
        (11, [0, 1, 2], 3, [2, 6, 3, 5], "11 features of 4 sites"),
        (0, [0, 1, 2], 0, [2, 6, 3, 5], "0 channels"),
        (12, [0, 1, 1], 3, [2, 6, 3, 5], "axes [0, 1, 1]"),
        (12, [1, 2, 3], 3, [2, 6, 3, 5], "axes [1, 2, 3]"),
    ] {
        let mut out = Tensor::zeros(ElementType::F32, &shape).unwrap();
        let error = to_map(&features[..num_features], &sites, axes, num_channels, &mut out);
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument);
        assert!(error.message().contains(message), "{error}");
    }
}
