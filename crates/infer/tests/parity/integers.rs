//! Integers of dense layers on a GPU: outputs of f32, equal to the CPU's, without a copy to the host.

use det_post_infer::Engine;
use det_post_infer::dense::{DenseEngine, PlanOptions};
use det_post_infer::device::{DeviceEngine, StagedOutput, fixed_shape};
use det_post_ops::device::cuda::DeviceValues;
use det_post_testing::gpu;
use det_post_testing::proposal_onnx::{CHANNELS, HEAT, proposals};
use det_post_testing::random::Random;
use det_post_types::{
    ElementType, EngineKind, EngineOptions, GpuEngineOptions, Tensor, TensorValues, TensorView,
};

const SHAPE: [usize; 4] = [1, CHANNELS as usize, HEAT[1] as usize, HEAT[2] as usize];

fn floats(tensor: Tensor) -> Vec<f32> {
    match tensor {
        Tensor::F32 { values, .. } => values,
        Tensor::F16 { values, .. } => values.into_iter().map(f32::from).collect(),
    }
}

#[test]
fn proposals_are_equal_on_both_devices() {
    let Some(device) = gpu() else { return };
    let stream = device.stream().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("proposals.onnx");
    proposals().save(&path).unwrap();
    let gpu = GpuEngineOptions { tf32: false, ..GpuEngineOptions::default() };
    let plan = PlanOptions { integers_as_floats: true, ..PlanOptions::from(&gpu) };
    let mut on_cpu = DenseEngine::load(&path, plan, &fixed_shape).unwrap();
    // Chosen by itself, too: every node is covered.
    for kind in [EngineKind::Cuda, EngineKind::Auto] {
        let options = EngineOptions { kind, gpu: gpu.clone(), ..EngineOptions::default() };
        let mut engine = DeviceEngine::load(&path, &options, &stream, fixed_shape).unwrap();
        assert!(engine.name().contains("dense layers"), "{}", engine.name());
        let staged = [0, 1, 2].map(|position| StagedOutput { position, rows: None });
        engine.stage(&staged).unwrap();
        assert_eq!(engine.output(2).unwrap().element(), ElementType::F32);
        let mut random = Random::new(3);
        for round in 0..8 {
            let num = SHAPE.iter().product();
            let values: Vec<f32> = (0..num).map(|_| random.range(-2.0, 2.0)).collect();
            on_cpu.run(&[TensorView::new(&SHAPE, TensorValues::F32(&values)).unwrap()]).unwrap();
            let DeviceValues::F32(to) = engine.input(0).unwrap().values_mut() else {
                panic!("an input of other than f32")
            };
            to.write(&values).unwrap();
            engine.enqueue().unwrap();
            stream.synchronize().unwrap();
            for index in 0..3 {
                let found = floats(engine.output(index).unwrap().read().unwrap());
                let TensorValues::F32(expected) = on_cpu.output(index).unwrap().values() else {
                    panic!("not f32")
                };
                match index {
                    2 => assert_eq!(found, expected, "round {round}"),
                    _ => found.iter().zip(expected).for_each(|(found, expected)| {
                        assert!(
                            (found - expected).abs() < 1e-5,
                            "round {round}: {found} {expected}"
                        );
                    }),
                }
            }
        }
    }
}
