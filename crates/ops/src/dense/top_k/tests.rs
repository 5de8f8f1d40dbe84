use proptest::prelude::*;

use super::*;
use crate::dense::testing::Tensors;

fn of(op: TopK, dims: &[usize], num: usize, values: &[f32]) -> (Vec<f32>, Vec<i32>) {
    let mut tensors = Tensors::default();
    let mut out = dims.to_vec();
    out[op.axis] = num;
    let input = tensors.floats(dims, values);
    let (to, at) = (tensors.output(&out), tensors.index_output(&out));
    let chosen = Chosen { values: Some(to), positions: Some(at) };
    top_k(&mut tensors.arena, &op, &input, &chosen).unwrap();
    (tensors.read(&to), tensors.arena.read_indices(&at).unwrap())
}

const LARGEST: TopK = TopK { axis: 0, is_smallest: false };
const SMALLEST: TopK = TopK { axis: 0, is_smallest: true };

#[test]
fn a_table_of_rows() {
    // test_top_k, test_top_k_smallest, test_top_k_same_values.
    let values: Vec<f32> = (0..12).map(|v| v as f32).collect();
    let across = TopK { axis: 1, ..LARGEST };
    let (found, at) = of(across, &[3, 4], 3, &values);
    assert_eq!(found, [3.0, 2.0, 1.0, 7.0, 6.0, 5.0, 11.0, 10.0, 9.0]);
    assert_eq!(at, [3, 2, 1, 3, 2, 1, 3, 2, 1]);
    let (found, at) = of(TopK { axis: 1, ..SMALLEST }, &[3, 4], 2, &values);
    assert_eq!((found[..4].to_vec(), at[..4].to_vec()), (vec![0., 1., 4., 5.], vec![0, 1, 0, 1]));
    assert_eq!(of(LARGEST, &[4], 3, &[0.0; 4]).1, [0, 1, 2]);
    assert_eq!(of(SMALLEST, &[4], 3, &[0.0; 4]).1, [0, 1, 2]);
    assert_eq!(of(LARGEST, &[2, 2], 1, &[1.0, 4.0, 3.0, 2.0]).1, [1, 0]);
    let special = [f32::NAN, -0.0, f32::INFINITY, 0.0, f32::NEG_INFINITY, -f32::NAN];
    assert_eq!(of(LARGEST, &[6], 6, &special).1, [2, 1, 3, 4, 0, 5]);
    assert_eq!(of(SMALLEST, &[6], 6, &special).1, [4, 1, 3, 2, 0, 5]);
    assert!(of(LARGEST, &[3], 0, &[1.0; 3]).1.is_empty());
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut tensors = Tensors::default();
    let input = tensors.output(&[2, 5]);
    let op = TopK { axis: 1, ..LARGEST };
    let mut check = |values: &[usize], positions: Option<&[usize]>| {
        let values = Some(tensors.output(values));
        let positions = positions.map(|dims| tensors.index_output(dims));
        op.check(&input, &Chosen { values, positions })
    };
    assert_eq!(check(&[2, 3], Some(&[2, 3])).unwrap(), 3);
    assert!(check(&[2, 6], None).is_err());
    assert!(check(&[1, 3], None).is_err());
    assert!(check(&[2, 3], Some(&[2, 4])).is_err());
    assert!(check(&[2], None).is_err());
}

proptest! {
    #[test]
    fn is_the_start_of_a_sort(steps in prop::collection::vec(-5_i8..5, 1..60), share in 0.0..1.0) {
        let values: Vec<f32> = steps.iter().map(|&step| f32::from(step)).collect();
        let num = (share * values.len() as f64) as usize + 1;
        let (found, at) = of(LARGEST, &[values.len()], num, &values);
        let mut sorted: Vec<(i8, usize)> = (0..steps.len()).map(|i| (-steps[i], i)).collect();
        sorted.sort_unstable();
        for (n, (step, i)) in sorted[..num].iter().enumerate() {
            prop_assert_eq!((found[n], at[n]), (f32::from(-step), *i as i32));
        }
    }
}
