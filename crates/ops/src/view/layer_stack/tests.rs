use super::*;
use crate::view::linear::Finish;

fn layer(sizes: [usize; 2], seed: usize) -> LinearLayer {
    let [num_outputs, num_inputs] = sizes;
    let weights: Vec<f32> =
        (0..num_outputs * num_inputs).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect();
    let bias: Vec<f32> = (0..num_outputs).map(|i| (i + seed) as f32).collect();
    LinearLayer::new(sizes, &weights, Some(&bias)).unwrap().with(Finish::Relu).unwrap()
}

fn run(workspace: &mut Workspace, rows: &[f32], layers: &[LinearLayer], width: usize) -> Vec<f32> {
    let mut out = vec![f32::NAN; rows.len() / 3 * width];
    workspace.run(Part::Of(Rows::new(rows, 3)), layers, RowsMut::new(&mut out, width)).unwrap();
    out
}

#[test]
fn layers_are_applied_in_order() {
    let layers = [layer([5, 3], 1), layer([4, 5], 2), layer([2, 4], 3)];
    let rows: Vec<f32> = (0..12).map(|i| i as f32 - 4.0).collect();
    let mut workspace = Workspace::default();
    let found = run(&mut workspace, &rows, &layers, 2);
    let mut values = rows.clone();
    for layer in &layers {
        let (num_inputs, num_outputs) = (layer.num_inputs(), layer.num_outputs());
        let mut out = vec![0.0; values.len() / num_inputs * num_outputs];
        let input = [Part::Of(Rows::new(&values, num_inputs))];
        let to = RowsMut::new(&mut out, num_outputs);
        linear(&input, layer, &[], &mut Vec::new(), to).unwrap();
        values = out;
    }
    assert_eq!(found, values);
    // The memory of a wider stack does not reach a later one.
    assert_eq!(run(&mut workspace, &rows, &layers[..1], 5).len(), 20);
    assert_eq!(run(&mut workspace, &rows, &layers, 2), found);
}

#[test]
fn no_layers_write_nothing_and_nan_stays_in_its_row() {
    let mut workspace = Workspace::default();
    assert!(run(&mut workspace, &[1.0; 6], &[], 2).iter().all(|value| value.is_nan()));
    let layers = [layer([5, 3], 1), layer([2, 5], 2)];
    let found = run(&mut workspace, &[1.0, f32::NAN, 1.0, 1.0, 2.0, 1.0], &layers, 2);
    assert!(found[..2].iter().all(|value| value.is_nan()));
    assert!(found[2..].iter().all(|value| value.is_finite()));
    assert!(run(&mut workspace, &[], &layers, 2).is_empty());
}

#[test]
fn layers_that_do_not_fit_each_other_are_refused() {
    let mut workspace = Workspace::default();
    let layers = [layer([5, 3], 1), layer([2, 4], 2)];
    let mut out = [0.0; 2];
    let rows = Part::Of(Rows::new(&[0.0; 3], 3));
    assert!(workspace.run(rows, &layers, RowsMut::new(&mut out, 2)).is_err());
}
