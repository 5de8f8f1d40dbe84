//! Feature maps on a GPU as decoders sample them: where a backbone has left them, or written anew.

use super::family::{
    ViewFamily, inference_error, input_size, level_sizes, map_shape, model_error, scale_of,
};
use crate::config::ViewFacts;
use det_post_infer::view_decoder::ViewNetwork;
use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_ops::view::channels_last::cuda::Kernels as ChannelsLast;
use det_post_ops::view::sample::cuda::{DeviceFeatureMaps, DeviceMapSource, DeviceMaps, Texel};
use det_post_types::{Result, ViewPrecision};

/// The maps of a head on a GPU.
pub(in crate::detectors::surround) struct DeviceViewMaps {
    stream: Stream,
    kernels: ChannelsLast,
    /// Views and channels.
    shape: [usize; 2],
    sizes: Vec<[usize; 2]>,
    facts: ViewFacts,
    /// Whether activations are f32.
    is_exact: bool,
    /// The values of 1 of int8 levels, to which floats are quantized.
    scales: Option<Vec<f32>>,
    /// The levels where they are not sampled as they are, and their texels.
    written: Option<(Texel, DeviceFeatureMaps)>,
}

impl DeviceViewMaps {
    /// Maps of a head; `scales` as [`ViewFamily::level_scales`] gives them.
    ///
    /// # Errors
    /// `Model` for scales in f32, or when the head does not state the size of the images; `Device` when
    /// this build has no kernels.
    pub(in crate::detectors::surround) fn new(
        family: &ViewFamily<'_>,
        stream: &Stream,
        network: &ViewNetwork,
        scales: Option<Vec<f32>>,
    ) -> Result<Self> {
        let ViewFamily { config, facts, precision, .. } = *family;
        let is_exact = precision == ViewPrecision::F32;
        if is_exact && scales.is_some() {
            return model_error(
                "int8 maps (decoder.map_scales, or of the backbone) with decoder.precision f32: on a GPU \
                 a decoder in f32 reads maps of floats; allowed: auto, f16"
                    .into(),
            );
        }
        let [num_views, _, num_channels] = network.map_sizes();
        Ok(Self {
            stream: stream.clone(),
            kernels: ChannelsLast::load(stream)?,
            shape: [num_views, num_channels],
            sizes: level_sizes(input_size(&config.facts)?, facts),
            facts: facts.clone(),
            is_exact,
            scales,
            written: None,
        })
    }

    /// The outputs of a backbone, by level.
    ///
    /// # Errors
    /// `Inference` when an output is not of the views, channels and size of its level, or is int8
    /// without a scale; the errors of `output`.
    pub(in crate::detectors::surround) fn sources<'a>(
        &self,
        output: impl Fn(usize) -> Result<&'a DeviceTensor>,
    ) -> Result<Vec<DeviceMapSource<'a>>> {
        let num_outputs = self.facts.level_strides.len();
        let layout = self.facts.layout;
        let source = |(index, size): (usize, &[usize; 2])| {
            // The level after the outputs is made of the last.
            let of_backbone = index.min(num_outputs - 1);
            let values = output(of_backbone)?;
            let shape = map_shape(values.shape(), layout, self.shape)?;
            let subsampled = index >= num_outputs;
            let source = DeviceMapSource { shape, layout, values, subsampled };
            if source.size() != *size {
                return inference_error(format!(
                    "output {of_backbone} is {:?}: level {index} has {:?} texels, {size:?} expected",
                    values.shape(),
                    source.size()
                ));
            }
            if source.texel() == Texel::I8 {
                if self.is_exact {
                    return inference_error(format!(
                        "output {of_backbone} is int8: decoder.precision f32 reads maps of floats on a GPU"
                    ));
                }
                scale_of(self.scales.as_deref(), index, num_outputs)?;
            }
            Ok(source)
        };
        self.sizes.iter().enumerate().map(source).collect()
    }

    /// Allocates memory for levels that are not sampled where they are: before
    /// [`Self::enqueue`] is captured.
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub(in crate::detectors::surround) fn prepare(
        &mut self,
        sources: &[DeviceMapSource<'_>],
    ) -> Result<()> {
        let Some(texel) = self.texel_to_write(sources) else { return Ok(()) };
        if self.written.as_ref().is_some_and(|(written, _)| *written == texel) {
            return Ok(());
        }
        // The one before is freed.
        self.written = None;
        let scales = self.scales.as_deref().unwrap_or_default();
        let maps = DeviceFeatureMaps::zeros(&self.stream, self.shape, &self.sizes, texel, scales)?;
        self.written = Some((texel, maps));
        Ok(())
    }

    /// The maps for a decoder. Where they are not sampled as and where they are, queues the kernel that
    /// writes them, after [`Self::prepare`].
    ///
    /// # Errors
    /// `Argument` when the sources are of different elements; `Device` when the launch fails.
    pub(in crate::detectors::surround) fn enqueue<'m>(
        &'m mut self,
        sources: &[DeviceMapSource<'m>],
    ) -> Result<DeviceMaps<'m>> {
        if self.texel_to_write(sources).is_none() {
            return DeviceMaps::in_place(sources, self.scales.as_deref().unwrap_or_default());
        }
        let Self { kernels, stream, written, .. } = self;
        let Some((_, maps)) = written else {
            return inference_error("there is no memory for the feature maps".into());
        };
        kernels.enqueue(stream, sources, maps)?;
        Ok(DeviceMaps::from(&*maps))
    }

    /// The texels that have to be written; `None` where the maps are sampled in place.
    fn texel_to_write(&self, sources: &[DeviceMapSource<'_>]) -> Option<Texel> {
        let found = sources.first().map(DeviceMapSource::texel);
        let (texel, is_read) = match found {
            Some(Texel::I8) => (Texel::I8, true),
            _ if self.scales.is_some() => (Texel::I8, false),
            Some(found) if self.is_exact => (Texel::F32, found != Texel::I8),
            _ => (Texel::F16, found == Some(Texel::F16)),
        };
        let is_same = |source: &DeviceMapSource<'_>| {
            Some(source.texel()) == found && source.is_sampled_in_place()
        };
        if is_read && sources.iter().all(is_same) { None } else { Some(texel) }
    }
}
