//! Feature maps as decoders sample them, written from the outputs of a backbone.

use super::family::{ViewFamily, inference_error, input_size, level_sizes, map_shape, model_error};
#[cfg(feature = "cuda")]
use crate::config::ViewFacts;
use crate::detectors::surround::STAGE;
use det_post_infer::view_decoder::ViewNetwork;
#[cfg(feature = "cuda")]
use det_post_ops::device::cuda::{DeviceTensor, Stream};
#[cfg(feature = "cuda")]
use det_post_ops::view::channels_last::cuda::DeviceMapSource;
use det_post_ops::view::channels_last::{MapSource, MapValues, channels_last};
#[cfg(feature = "cuda")]
use det_post_ops::view::sample::cuda::{DeviceFeatureMaps, Texel};
use det_post_ops::view::sample::{FeatureLevel, FeatureMaps, Texels};
use det_post_types::{
    Error, ErrorKind, MapLayout, Result, TensorValues, TensorView, ViewPrecision,
};

/// The maps of a head on the CPU.
pub(in crate::detectors::surround) struct ViewMaps {
    maps: FeatureMaps,
    layout: MapLayout,
    /// Outputs of the backbone.
    num_outputs: usize,
}

impl ViewMaps {
    /// Maps of zeros.
    ///
    /// # Errors
    /// `Model` when the head does not state the size of the images, or the precision is f16.
    pub(in crate::detectors::surround) fn new(
        family: &ViewFamily<'_>,
        network: &ViewNetwork,
    ) -> Result<Self> {
        let ViewFamily { config, facts, precision, map_scales, .. } = *family;
        if precision == ViewPrecision::F16 {
            return model_error("decoder.precision f16 requires a GPU".into());
        }
        let [num_views, _, num_channels] = network.map_sizes();
        let level = |(index, [width, height]): (usize, [usize; 2])| {
            let len = num_views * num_channels * width * height;
            let texels = match map_scales.and_then(|scales| scales.get(index)) {
                Some(&scale) => Texels::I8 { values: vec![0; len], scale },
                None => Texels::F32(vec![0.0; len]),
            };
            FeatureLevel::new([width, height], texels)
        };
        let sizes = level_sizes(input_size(&config.facts)?, facts);
        let levels = sizes.into_iter().enumerate().map(level).collect();
        Ok(Self {
            maps: FeatureMaps::new(num_views, num_channels, levels)?,
            layout: facts.layout,
            num_outputs: facts.level_strides.len(),
        })
    }

    /// The maps.
    pub(in crate::detectors::surround) fn maps(&self) -> &FeatureMaps {
        &self.maps
    }

    /// Writes all levels from the outputs of a backbone.
    ///
    /// # Errors
    /// `Inference` when an output is not of the views, channels and size of its level; the errors of
    /// `output`.
    pub(in crate::detectors::surround) fn write<'t>(
        &mut self,
        output: impl Fn(usize) -> Result<TensorView<'t>>,
    ) -> Result<()> {
        let num_levels = self.maps.levels().len();
        let (num_views, num_channels) = (self.maps.num_views(), self.maps.num_channels());
        for index in 0..num_levels {
            // The level after the outputs is made of the last.
            let of_backbone = index.min(self.num_outputs - 1);
            let map = output(of_backbone)?;
            let shape = map_shape(map.shape(), self.layout, [num_views, num_channels])?;
            let values = match map.values() {
                TensorValues::F32(values) => MapValues::F32(values),
                TensorValues::F16(values) => MapValues::F16(values),
                other => {
                    return inference_error(format!("output {of_backbone} is {}", other.element()));
                }
            };
            let subsampled = index >= self.num_outputs;
            let source = MapSource { shape, layout: self.layout, values, subsampled };
            if let Some(level) = self.maps.level_mut(index) {
                channels_last(&source, level).map_err(|error| {
                    Error::new(ErrorKind::Inference, STAGE, error.message().to_owned())
                })?;
            }
        }
        Ok(())
    }
}

/// Maps of zeros on a GPU.
///
/// # Errors
/// `Model` for int8 maps in f32, or when the head does not state the size of the images; `Device` when
/// there is not enough memory.
#[cfg(feature = "cuda")]
pub(in crate::detectors::surround) fn device_maps(
    family: &ViewFamily<'_>,
    stream: &Stream,
    network: &ViewNetwork,
) -> Result<DeviceFeatureMaps> {
    let ViewFamily { config, facts, precision, map_scales: scales, .. } = *family;
    let texel = match (precision, scales) {
        (ViewPrecision::F32, Some(_)) => {
            return model_error(
                "decoder.map_scales with decoder.precision f32: on a GPU a decoder in f32 reads maps \
                 of f32"
                    .into(),
            );
        }
        (ViewPrecision::F32, None) => Texel::F32,
        (_, Some(_)) => Texel::I8,
        (_, None) => Texel::F16,
    };
    let [num_views, _, num_channels] = network.map_sizes();
    let sizes = level_sizes(input_size(&config.facts)?, facts);
    let maps = [num_views, num_channels];
    DeviceFeatureMaps::zeros(stream, maps, &sizes, texel, scales.unwrap_or_default())
}

/// The outputs of a backbone, by level.
///
/// # Errors
/// `Inference` when an output is not of the views and channels; the errors of `output`.
#[cfg(feature = "cuda")]
pub(in crate::detectors::surround) fn device_sources<'a>(
    output: impl Fn(usize) -> Result<&'a DeviceTensor>,
    facts: &ViewFacts,
    maps: &DeviceFeatureMaps,
) -> Result<Vec<DeviceMapSource<'a>>> {
    let [num_views, num_levels, num_channels] = maps.sizes();
    let num_outputs = facts.level_strides.len();
    let source = |index: usize| {
        // The level after the outputs is made of the last.
        let values = output(index.min(num_outputs - 1))?;
        let shape = map_shape(values.shape(), facts.layout, [num_views, num_channels])?;
        let subsampled = index >= num_outputs;
        Ok(DeviceMapSource { shape, layout: facts.layout, values, subsampled })
    };
    (0..num_levels).map(source).collect()
}
