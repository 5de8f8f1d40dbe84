//! Feature maps in the orders in which networks give them.

use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_ops::view::sample::cuda::DeviceMapSource;
use det_post_ops::view::sample::{FeatureMaps, LevelValues, LevelView, MapsView, Strides, Texels};
use det_post_types::{ElementType, MapLayout, TensorValues, TensorView};
use half::f16;

/// A level of all views.
struct Level {
    /// Views, channels, rows, columns.
    shape: [usize; 4],
    values: Values,
    scale: f32,
}

enum Values {
    F32(Vec<f32>),
    F16(Vec<f16>),
    I8(Vec<i8>),
}

/// Maps as the outputs of a network.
pub struct LaidOut {
    layout: MapLayout,
    levels: Vec<Level>,
}

fn laid_out<T: Copy>([n, c, h, w]: [usize; 4], layout: MapLayout, channels_last: &[T]) -> Vec<T> {
    let texel = |view: usize, y: usize, x: usize, channel: usize| {
        channels_last[((view * h + y) * w + x) * c + channel]
    };
    let mut values = Vec::with_capacity(channels_last.len());
    for view in 0..n {
        match layout {
            MapLayout::Planar => {
                for (channel, at) in
                    (0..c).flat_map(|channel| (0..h * w).map(move |at| (channel, at)))
                {
                    values.push(texel(view, at / w, at % w, channel));
                }
            }
            MapLayout::Blocks32 => {
                for (block, at) in
                    (0..c / 32).flat_map(|block| (0..h * w).map(move |at| (block, at)))
                {
                    values.extend((0..32).map(|k| texel(view, at / w, at % w, 32 * block + k)));
                }
            }
            MapLayout::ChannelsLast => {
                values.extend_from_slice(&channels_last[view * h * w * c..][..h * w * c]);
            }
        }
    }
    values
}

impl LaidOut {
    pub fn of(maps: &FeatureMaps, layout: MapLayout) -> Self {
        let levels = maps.levels().iter().map(|level| {
            let [width, height] = level.size();
            let shape = [maps.num_views(), maps.num_channels(), height, width];
            let (values, scale) = match level.texels() {
                Texels::F32(values) => (Values::F32(laid_out(shape, layout, values)), 1.0),
                Texels::F16(values) => (Values::F16(laid_out(shape, layout, values)), 1.0),
                Texels::I8 { values, scale } => {
                    (Values::I8(laid_out(shape, layout, values)), *scale)
                }
            };
            Level { shape, values, scale }
        });
        Self { layout, levels: levels.collect() }
    }

    /// The maps, read where they are; not for planar ones.
    pub fn view(&self) -> MapsView<'_> {
        let [num_views, num_channels, ..] = self.levels[0].shape;
        let mut maps = MapsView::new(num_views, num_channels);
        for Level { shape, values, scale } in &self.levels {
            let strides = Strides::new(*shape, self.layout, false).unwrap();
            let values = match values {
                Values::F32(values) => LevelValues::F32(values),
                Values::F16(values) => LevelValues::F16(values),
                Values::I8(values) => LevelValues::I8 { values, scale: *scale },
            };
            maps.push(LevelView::new([shape[3], shape[2]], strides, values)).unwrap();
        }
        maps
    }

    /// The values of 1.
    pub fn scales(&self) -> Vec<f32> {
        self.levels.iter().map(|level| level.scale).collect()
    }

    /// The outputs in device memory.
    pub fn on_device(&self, stream: &Stream) -> Vec<DeviceTensor> {
        let tensor = |Level { shape: [n, c, h, w], values, .. }: &Level| {
            let shape = match self.layout {
                MapLayout::Planar => vec![*n, *c, *h, *w],
                MapLayout::ChannelsLast => vec![*n, *h, *w, *c],
                MapLayout::Blocks32 => vec![*n, c / 32, *h, *w, 32],
            };
            let (element, values) = match values {
                Values::F32(values) => (ElementType::F32, TensorValues::F32(values)),
                Values::F16(values) => (ElementType::F16, TensorValues::F16(values)),
                Values::I8(values) => (ElementType::I8, TensorValues::I8(values)),
            };
            let mut tensor = DeviceTensor::zeros(stream, element, &shape).unwrap();
            tensor.write(&TensorView::new(&shape, values).unwrap()).unwrap();
            tensor
        };
        self.levels.iter().map(tensor).collect()
    }

    /// Levels in device memory as sources.
    pub fn sources<'a>(&self, tensors: &'a [DeviceTensor]) -> Vec<DeviceMapSource<'a>> {
        let levels = self.levels.iter().zip(tensors);
        let source = |(level, values): (&Level, &'a DeviceTensor)| DeviceMapSource {
            shape: level.shape,
            layout: self.layout,
            values,
            subsampled: false,
        };
        levels.map(source).collect()
    }
}
