//! What a frame launches on a GPU behind a backbone with int8 maps: no kernel quantizes or copies maps
//! whose channels are side by side.

use det_post::config::SurroundKind;
use det_post::detectors::surround::{CudaDetector, ViewFamily};
use det_post::{Error, ErrorKind, Result};
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_infer::{Engine, view_decoder};
use det_post_types::{Dim, ElementType, MapLayout, TensorSpec, TensorValues, TensorView};

use crate::common::surround_frames::surround_config;
use crate::common::view_rig::{INT8_CHANNELS, INT8_SCALE, int8_decoder};

/// A network whose output is always the same.
struct Constant {
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    integers: Vec<i8>,
    floats: Vec<f32>,
    shape: Vec<usize>,
}

impl Constant {
    fn boxed(layout: MapLayout, element: ElementType) -> Box<dyn Engine> {
        let c = INT8_CHANNELS;
        let shape = match layout {
            MapLayout::Planar => vec![6, c, 6, 12],
            MapLayout::ChannelsLast => vec![6, 6, 12, c],
            MapLayout::Blocks32 => vec![6, c / 32, 6, 12, 32],
        };
        let spec = |name: &str, element, shape: &[usize]| TensorSpec {
            name: name.into(),
            element: Some(element),
            shape: Some(shape.iter().map(|&n| Dim::Fixed(n)).collect()),
        };
        let integers: Vec<i8> = (0..6 * c * 6 * 12).map(|i| (i * 37 % 251) as u8 as i8).collect();
        Box::new(Self {
            inputs: vec![spec("images", ElementType::F32, &[6, 3, 48, 96])],
            outputs: vec![spec("maps", element, &shape)],
            floats: integers.iter().map(|&value| f32::from(value) * INT8_SCALE).collect(),
            integers,
            shape,
        })
    }
}

impl Engine for Constant {
    fn inputs(&self) -> &[TensorSpec] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorSpec] {
        &self.outputs
    }

    fn run(&mut self, _inputs: &[TensorView<'_>]) -> Result<()> {
        Ok(())
    }

    fn output(&self, index: usize) -> Result<TensorView<'_>> {
        if index > 0 {
            return Err(Error::new(ErrorKind::Inference, "constant", "no such output"));
        }
        TensorView::new(
            &self.shape,
            match self.outputs[0].element {
                Some(ElementType::I8) => TensorValues::I8(&self.integers),
                _ => TensorValues::F32(&self.floats),
            },
        )
    }

    fn name(&self) -> &str {
        "constant"
    }
}

#[test]
fn a_frame_with_int8_maps_has_no_kernel_before_the_decoder() {
    let Some(device) = det_post_testing::gpu() else { return };
    let folder = tempfile::tempdir().unwrap();
    let [head, weights] = ["head.yaml", "weights.safetensors"].map(|name| folder.path().join(name));
    for is_detr3d in [true, false] {
        // Without what writes the maps, the kernels of all forms are the same.
        let kernels = |layout, element, more: &str| -> Vec<&'static str> {
            let (text, values) = int8_decoder(is_detr3d, layout);
            std::fs::write(&head, text).unwrap();
            std::fs::write(&weights, values).unwrap();
            let config = surround_config(&format!(
                "head: {}, model_path: b, weights_path: {}, score_thresholds: 0.01{more}",
                head.display(),
                weights.display()
            ));
            let stream = device.stream().unwrap();
            let engine = Constant::boxed(layout, element);
            let engine = DeviceEngine::on_host(engine, &stream, fixed_shape).unwrap();
            let family = ViewFamily::of(&config).unwrap();
            let stated = [Some(INT8_SCALE)];
            let SurroundKind::Views(facts) = &config.facts.kind else { panic!("a view decoder") };
            let network = view_decoder::load(&weights, &facts.decoder).unwrap();
            let networks = family.on_gpu(&stream, engine, &network, &stated).unwrap();
            CudaDetector::new(&config, 6, &stream, networks).unwrap().decoder_kernels()
        };
        let writes = |kernels: &[&'static str]| -> Vec<&'static str> {
            kernels.iter().copied().filter(|name| name.starts_with("channels_last")).collect()
        };
        let i8 = ElementType::I8;
        let blocks = kernels(MapLayout::Blocks32, i8, "");
        assert!(blocks.len() > 2 && writes(&blocks).is_empty(), "{blocks:?}");
        assert_eq!(kernels(MapLayout::ChannelsLast, i8, ""), blocks);
        let planar = kernels(MapLayout::Planar, i8, "");
        assert_eq!(writes(&planar), ["channels_last_i8"], "moved, not quantized");
        assert_eq!(planar[1..], blocks[..]);
        // Floats that are quantized here.
        let scales = format!(", decoder: {{map_scales: [{INT8_SCALE}, {INT8_SCALE}]}}");
        let floats = kernels(MapLayout::Blocks32, ElementType::F32, &scales);
        assert_eq!(writes(&floats), ["channels_last_f32_to_i8"]);
        assert_eq!(floats[1..], blocks[..]);
        let floats =
            kernels(MapLayout::ChannelsLast, ElementType::F32, ", decoder: {precision: f32}");
        assert!(writes(&floats).is_empty(), "{floats:?}");
    }
}
