//! Feature maps channels last, from planar ones and from those that are so already.

use det_post_ops::device::cuda::{CudaDevice, DeviceTensor, Stream};
use det_post_ops::view::channels_last::cuda::Kernels;
use det_post_ops::view::channels_last::{MapSource, MapValues, channels_last};
use det_post_ops::view::sample::cuda::{DeviceFeatureMaps, DeviceMapSource, Texel};
use det_post_ops::view::sample::{FeatureLevel, FeatureMaps, Texels};
use det_post_types::{ElementType, MapLayout, TensorValues, TensorView};
use half::f16;

use det_post_testing::random::Random;

/// Values of two levels, of which the second is made into a third, subsampled one.
struct Network {
    shapes: [[usize; 4]; 2],
    layout: MapLayout,
    values: [Vec<f32>; 2],
}

const SCALES: [f32; 3] = [0.02, 0.031, 0.031];

impl Network {
    fn new([num_views, num_channels]: [usize; 2], layout: MapLayout) -> Self {
        let shapes = [[num_views, num_channels, 7, 13], [num_views, num_channels, 3, 5]];
        let mut random = Random::new(5);
        let values = shapes.map(|shape| {
            let mut values: Vec<f32> = (0..shape.iter().product())
                .map(|_| f16::from_f32(random.range(-5.0, 5.0)).to_f32())
                .collect();
            // Between two steps of an integer, beyond all of them, and none.
            values[..4].copy_from_slice(&[0.03, -0.07, 1e4, f32::NAN]);
            values
        });
        Self { shapes, layout, values }
    }

    fn round_to_f16(&mut self) {
        for value in self.values.iter_mut().flatten() {
            *value = f16::from_f32(*value).to_f32();
        }
    }

    fn levels(&self) -> impl Iterator<Item = (usize, bool)> {
        [(0, false), (1, false), (1, true)].into_iter()
    }

    fn expected(&self, texel: Texel) -> FeatureMaps {
        let levels = self.levels().zip(SCALES).map(|((index, subsampled), scale)| {
            let shape = self.shapes[index];
            let values = MapValues::F32(&self.values[index]);
            let source = MapSource { shape, layout: self.layout, values, subsampled };
            let size = source.size();
            let len = shape[0] * shape[1] * size[0] * size[1];
            let texels = match texel {
                Texel::F32 => Texels::F32(vec![0.0; len]),
                Texel::F16 => Texels::F16(vec![f16::ZERO; len]),
                Texel::I8 => Texels::I8 { values: vec![0; len], scale },
            };
            let mut level = FeatureLevel::new(size, texels);
            channels_last(&source, &mut level).unwrap();
            level
        });
        FeatureMaps::new(self.shapes[0][0], self.shapes[0][1], levels.collect()).unwrap()
    }

    fn on_device(&self, stream: &Stream, element: ElementType) -> [DeviceTensor; 2] {
        [0, 1].map(|index| {
            let [n, c, h, w] = self.shapes[index];
            let shape = match self.layout {
                MapLayout::ChannelsLast => vec![n, h, w, c],
                MapLayout::Planar => vec![n, c, h, w],
                MapLayout::Blocks32 => vec![n, c / 32, h, w, 32],
            };
            let mut tensor = DeviceTensor::zeros(stream, element, &shape).unwrap();
            let halves: Vec<f16> = self.values[index].iter().map(|&v| f16::from_f32(v)).collect();
            let values = match element {
                ElementType::F16 => TensorValues::F16(&halves),
                _ => TensorValues::F32(&self.values[index]),
            };
            tensor.write(&TensorView::new(&shape, values).unwrap()).unwrap();
            tensor
        })
    }
}

/// The bits of all texels; which bits a NaN has is not compared.
fn bits(maps: &FeatureMaps) -> Vec<Vec<u32>> {
    let bits = |level: &FeatureLevel| match level.texels() {
        Texels::F32(values) => {
            let canonical = |v: &f32| if v.is_nan() { f32::NAN } else { *v };
            values.iter().map(|v| canonical(v).to_bits()).collect()
        }
        Texels::F16(values) => values
            .iter()
            .map(|v| if v.is_nan() { f16::NAN } else { *v })
            .map(|v| u32::from(v.to_bits()))
            .collect(),
        Texels::I8 { values, .. } => values.iter().map(|&v| u32::from(v.cast_unsigned())).collect(),
    };
    maps.levels().iter().map(bits).collect()
}

fn compare(device: &CudaDevice, sizes: [usize; 2], layout: MapLayout) {
    let mut network = Network::new(sizes, layout);
    let stream = device.stream().unwrap();
    let kernels = Kernels::load(&stream).unwrap();
    let level_sizes = [[13, 7], [5, 3], [3, 2]];
    for element in [ElementType::F32, ElementType::F16] {
        if element == ElementType::F16 {
            network.round_to_f16();
        }
        let tensors = network.on_device(&stream, element);
        let sources = network.levels().map(|(index, subsampled)| DeviceMapSource {
            shape: network.shapes[index],
            layout,
            values: &tensors[index],
            subsampled,
        });
        let sources: Vec<DeviceMapSource<'_>> = sources.collect();
        for texel in [Texel::F32, Texel::F16, Texel::I8] {
            let mut maps =
                DeviceFeatureMaps::zeros(&stream, sizes, &level_sizes, texel, &SCALES).unwrap();
            kernels.enqueue(&stream, &sources, &mut maps).unwrap();
            let found = bits(&maps.read().unwrap());
            assert!(found == bits(&network.expected(texel)), "{element} {layout:?} {texel:?}");
        }
    }
}

#[test]
fn every_layout_and_element_agrees() {
    let Some(device) = det_post_testing::gpu() else { return };
    for sizes in [[2, 64], [3, 40], [1, 8]] {
        for layout in [MapLayout::Planar, MapLayout::ChannelsLast, MapLayout::Blocks32] {
            if layout != MapLayout::Blocks32 || sizes[1] % 32 == 0 {
                compare(&device, sizes, layout);
                compare_integers(&device, sizes, layout);
            }
        }
    }
}

/// Integers keep their values.
fn compare_integers(device: &CudaDevice, sizes: [usize; 2], layout: MapLayout) {
    let stream = device.stream().unwrap();
    let [num_views, num_channels] = sizes;
    let shape = [num_views, num_channels, 7, 13];
    let mut random = Random::new(6);
    let values: Vec<i8> = (0..num_views * num_channels * 7 * 13)
        .map(|_| random.range(-128.0, 127.9).floor() as i8)
        .collect();
    let mut tensor = DeviceTensor::zeros(&stream, ElementType::I8, &[values.len()]).unwrap();
    tensor.write(&TensorView::new(&[values.len()], TensorValues::I8(&values)).unwrap()).unwrap();
    let kernels = Kernels::load(&stream).unwrap();
    for subsampled in [false, true] {
        let source = MapSource { shape, layout, values: MapValues::I8(&values), subsampled };
        let size = source.size();
        let len = num_views * num_channels * size[0] * size[1];
        let texels = Texels::I8 { values: vec![0; len], scale: 0.5 };
        let mut expected = FeatureLevel::new(size, texels);
        channels_last(&source, &mut expected).unwrap();
        let expected = FeatureMaps::new(num_views, num_channels, vec![expected]).unwrap();
        let mut maps =
            DeviceFeatureMaps::zeros(&stream, sizes, &[size], Texel::I8, &[0.5]).unwrap();
        let on_device = DeviceMapSource { shape, layout, values: &tensor, subsampled };
        kernels.enqueue(&stream, &[on_device], &mut maps).unwrap();
        assert!(bits(&maps.read().unwrap()) == bits(&expected), "int8 {layout:?} {subsampled}");
        let mut floats =
            DeviceFeatureMaps::zeros(&stream, sizes, &[size], Texel::F16, &[]).unwrap();
        assert!(kernels.enqueue(&stream, &[on_device], &mut floats).is_err());
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let kernels = Kernels::load(&stream).unwrap();
    let values = DeviceTensor::zeros(&stream, ElementType::F32, &[2, 32, 3, 5]).unwrap();
    let source = DeviceMapSource {
        shape: [2, 32, 3, 5],
        layout: MapLayout::Planar,
        values: &values,
        subsampled: false,
    };
    let fits = |source: DeviceMapSource<'_>, size: [usize; 2]| {
        let maps = DeviceFeatureMaps::zeros(&stream, [2, 32], &[size], Texel::F16, &[]);
        kernels.enqueue(&stream, &[source], &mut maps.unwrap()).is_ok()
    };
    assert!(fits(source, [5, 3]));
    assert!(!fits(source, [3, 5]));
    assert!(!fits(DeviceMapSource { subsampled: true, ..source }, [5, 3]));
    assert!(fits(DeviceMapSource { subsampled: true, ..source }, [3, 2]));
    assert!(fits(DeviceMapSource { layout: MapLayout::Blocks32, ..source }, [5, 3]));
    assert!(!fits(DeviceMapSource { shape: [2, 32, 4, 5], ..source }, [5, 4]));
    let no_scale = DeviceFeatureMaps::zeros(&stream, [2, 32], &[[5, 3]], Texel::I8, &[]);
    assert!(no_scale.is_err());
}
