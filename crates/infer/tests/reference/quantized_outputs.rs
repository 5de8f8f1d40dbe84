//! Networks with int8 outputs: the scales of their files, and what engines give.

use det_post_infer::{Engine, OrtEngine, RtenEngine, output_scales};
use det_post_testing::onnx::{Attr, Graph};
use det_post_types::{ElementType, TensorValues, TensorView};

use super::engines::{library, save};

/// A row of eight floats, quantized, and moved.
fn quantized(zero: i8, scales: &[f32]) -> Graph {
    let dims: &[i64] = if scales.len() == 1 { &[] } else { &[scales.len() as i64] };
    Graph::new("quantized", "")
        .input("x", ElementType::F32, &[1, 2, 4])
        .constant("scale", dims, scales)
        .constant_i8("zero", dims, &vec![zero; scales.len()])
        .node("QuantizeLinear", &["x", "scale", "zero"], &["y"], &[("axis", Attr::Int(1))])
        .node("Transpose", &["y"], &["turned"], &[("perm", Attr::Ints(vec![0, 2, 1]))])
        .op("Relu", &["x"], "floats")
        .output("y", ElementType::I8, &[1, 2, 4])
        .output("turned", ElementType::I8, &[1, 4, 2])
        .output("floats", ElementType::F32, &[1, 2, 4])
}

#[test]
fn scales_are_those_of_the_file() {
    let (_folder, path) = save(&quantized(0, &[0.5]));
    assert_eq!(output_scales(&path).unwrap(), [Some(0.5), Some(0.5), None]);
    for (graph, expected) in [
        (quantized(3, &[0.5]), "a zero point other than the constant 0"),
        (quantized(0, &[0.5, 0.25]), "2 scales, of an axis"),
        (quantized(0, &[0.0]), "a scale of 0"),
        (quantized(0, &[f32::NAN]), "a scale of NaN"),
    ] {
        let (_folder, path) = save(&graph);
        let error = output_scales(&path).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
    }
    // Without a zero point it is uint8, which is no int8 output; a scale that is computed is not known.
    let open = Graph::new("open", "")
        .input("x", ElementType::F32, &[4])
        .input("s", ElementType::F32, &[])
        .constant_i8("zero", &[], &[0])
        .op("QuantizeLinear", &["x", "s"], "bytes")
        .op("QuantizeLinear", &["x", "s", "zero"], "y")
        .output("y", ElementType::I8, &[4]);
    let (_folder, path) = save(&open);
    assert_eq!(output_scales(&path).unwrap(), [None]);
    std::fs::write(&path, b"not a network").unwrap();
    assert!(output_scales(&path).is_err());
}

fn check(engine: &mut dyn Engine) {
    assert_eq!(engine.outputs()[0].element, Some(ElementType::I8), "{}", engine.name());
    engine.use_outputs(&[0, 1]).unwrap();
    // Halves to even; beyond the range.
    let values = [0.25, 0.75, -0.25, -0.75, 1.0, 1e9, -1e9, 0.0];
    let input = TensorView::new(&[1, 2, 4], TensorValues::F32(&values)).unwrap();
    engine.run(&[input]).unwrap();
    let expected = [0, 2, 0, -2, 2, 127, -128, 0];
    let output = engine.output(0).unwrap();
    let TensorValues::I8(found) = output.values() else { panic!("{output:?}") };
    assert_eq!((output.shape(), found), (&[1, 2, 4][..], &expected[..]), "{}", engine.name());
    let turned = engine.output(1).unwrap();
    let TensorValues::I8(found) = turned.values() else { panic!("{turned:?}") };
    let expected = [0, 2, 2, 127, 0, -128, -2, 0];
    assert_eq!((turned.shape(), found), (&[1, 4, 2][..], &expected[..]), "{}", engine.name());
}

#[test]
fn engines_give_int8() {
    let (_folder, path) = save(&quantized(0, &[0.5]));
    check(&mut RtenEngine::load(&path, Some(1)).unwrap());
    let Some(library) = library() else { return };
    check(&mut OrtEngine::load(&path, &library, Some(1)).unwrap());
}
