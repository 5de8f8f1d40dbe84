//! Maps that kernels sample where a network has left them, channels last and in blocks of channels: to
//! the bit as from a copy channels last.

use det_post_infer::view_decoder::{CudaViewDecoder, QueryBuffers, ViewNetwork, parse};
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, Graph, Stream};
use det_post_ops::view::sample::cuda::{DeviceFeatureMaps, DeviceMapSource, DeviceMaps};
use det_post_types::{Detr3d, ElementType, MapLayout, Sparse4d, ViewDecoder, ViewPrecision};

use det_post_testing::view_layouts::LaidOut;
use det_post_testing::view_networks::{
    As, detr3d_facts, detr3d_of_width, maps, sparse4d, sparse4d_facts, two_views,
};

fn networks() -> Vec<ViewNetwork> {
    let small = Detr3d { num_channels: 64, num_heads: 4, num_queries: 150, ..detr3d_facts() };
    // Of a width of which a block is one launch.
    let whole = Detr3d { num_channels: 256, num_heads: 8, num_queries: 200, ..detr3d_facts() };
    let detr3d = [(small, 24), (whole, 512)].map(|(facts, hidden)| {
        (detr3d_of_width(&facts, hidden).to_safetensors(), ViewDecoder::Detr3d(facts))
    });
    let sparse = Sparse4d { num_channels: 64, num_heads: 4, ..sparse4d_facts() };
    let sparse4d = (sparse4d(&sparse).to_safetensors(), ViewDecoder::Sparse4d(sparse));
    let all = detr3d.into_iter().chain([sparse4d]);
    all.map(|(weights, facts)| parse(&weights, &facts).unwrap()).collect()
}

struct Frames {
    stream: Stream,
    decoder: CudaViewDecoder,
    queries: QueryBuffers,
}

impl Frames {
    fn new(stream: &Stream, network: &ViewNetwork, precision: ViewPrecision) -> Self {
        let mut decoder = CudaViewDecoder::new(stream, network, precision).unwrap();
        decoder.set_views(&two_views()).unwrap();
        let [num_queries, num_classes] = network.query_sizes();
        let zeros = |columns: usize| DeviceBuffer::zeros(stream, num_queries * columns).unwrap();
        let queries = QueryBuffers {
            boxes: zeros(11),
            logits: zeros(num_classes),
            quality: network.has_quality().then(|| zeros(2)),
        };
        Self { stream: stream.clone(), decoder, queries }
    }

    /// The bits of a recorded frame, and its kernels.
    fn run<'m>(&mut self, maps: impl Into<DeviceMaps<'m>>) -> (Vec<u32>, Vec<&'static str>) {
        let Self { stream, decoder, queries } = self;
        let maps = maps.into();
        decoder.set_views(&two_views()).unwrap();
        let uses_memory = decoder.begin(None).unwrap();
        assert!(!uses_memory);
        let graph = Graph::capture(stream, || decoder.enqueue(maps, false)).unwrap();
        graph.enqueue().unwrap();
        decoder.enqueue_outputs(queries).unwrap();
        let (boxes, logits) = (queries.boxes.read().unwrap(), queries.logits.read().unwrap());
        let bits = boxes.iter().chain(&logits).map(|value| value.to_bits()).collect();
        decoder.forget();
        (bits, graph.kernels().to_vec())
    }
}

#[test]
fn every_layout_gives_the_same_queries() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let pairs = [
        (ViewPrecision::F32, As::F32),
        (ViewPrecision::F32, As::F16),
        (ViewPrecision::F16, As::F16),
        (ViewPrecision::F16, As::I8),
    ];
    for network in networks() {
        let [_, _, channels] = network.map_sizes();
        for (precision, texels) in pairs {
            let maps = maps(channels, texels);
            let copied = DeviceFeatureMaps::from_host(&stream, &maps).unwrap();
            let mut frames = Frames::new(&stream, &network, precision);
            let (expected, kernels) = frames.run(&copied);
            assert!(expected.iter().any(|bits| *bits != 0));
            for layout in [MapLayout::ChannelsLast, MapLayout::Blocks32] {
                let laid_out = LaidOut::of(&maps, layout);
                let tensors = laid_out.on_device(&stream);
                let sources = laid_out.sources(&tensors);
                let in_place = DeviceMaps::in_place(&sources, &laid_out.scales()).unwrap();
                let context = format!("{channels} channels, {precision:?}, {texels:?}, {layout:?}");
                let (found, of_found) = frames.run(in_place);
                assert!(found == expected, "{context}");
                assert_eq!(of_found, kernels, "{context}");
            }
        }
    }
}

#[test]
fn what_cannot_be_sampled_in_place_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let tensor = |element| DeviceTensor::zeros(&stream, element, &[2, 64, 4, 8]).unwrap();
    let integers = tensor(ElementType::I8);
    let source = DeviceMapSource {
        shape: [2, 64, 4, 8],
        layout: MapLayout::Blocks32,
        values: &integers,
        subsampled: false,
    };
    assert!(DeviceMaps::in_place(&[source], &[0.5]).is_ok());
    assert!(DeviceMaps::in_place(&[source], &[]).is_err());
    assert!(DeviceMaps::in_place(&[source], &[f32::NAN]).is_err());
    assert!(DeviceMaps::in_place(&[], &[0.5]).is_err());
    assert!(DeviceMaps::in_place(&[source; 5], &[0.5; 5]).is_err());
    let planar = DeviceMapSource { layout: MapLayout::Planar, ..source };
    assert!(DeviceMaps::in_place(&[planar], &[0.5]).is_err());
    let floats = tensor(ElementType::F16);
    let mixed = [source, DeviceMapSource { values: &floats, ..source }];
    assert!(DeviceMaps::in_place(&mixed, &[0.5; 2]).unwrap().texel().is_err());
}
