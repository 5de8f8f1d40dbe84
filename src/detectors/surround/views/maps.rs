//! Feature maps on the CPU as decoders sample them: where a backbone has left them, or written anew.

use super::family::{
    ViewFamily, inference_error, input_size, level_sizes, map_shape, model_error, scale_of,
};
use crate::config::ViewFacts;
use crate::detectors::surround::STAGE;
use det_post_infer::view_decoder::ViewNetwork;
use det_post_ops::view::channels_last::{MapSource, MapValues, channels_last};
use det_post_ops::view::sample::{FeatureLevel, MAX_LEVELS, MapsView, Texels};
use det_post_types::{
    Error, ErrorKind, MapLayout, Result, TensorValues, TensorView, ViewPrecision,
};

/// The maps of a head on the CPU.
pub(in crate::detectors::surround) struct ViewMaps {
    num_views: usize,
    num_channels: usize,
    sizes: Vec<[usize; 2]>,
    facts: ViewFacts,
    /// The values of 1 of int8 levels, to which floats are quantized.
    scales: Option<Vec<f32>>,
    /// Levels that are not sampled where they are, from the first frame on.
    written: Vec<Option<FeatureLevel>>,
}

impl ViewMaps {
    /// Maps of a head; `scales` as [`ViewFamily::level_scales`] gives them.
    ///
    /// # Errors
    /// `Model` when the head does not state the size of the images or has more levels than are
    /// sampled, or the precision is f16.
    pub(in crate::detectors::surround) fn new(
        family: &ViewFamily<'_>,
        network: &ViewNetwork,
        scales: Option<Vec<f32>>,
    ) -> Result<Self> {
        let ViewFamily { config, facts, precision, .. } = *family;
        if precision == ViewPrecision::F16 {
            return model_error("decoder.precision f16 requires a GPU".into());
        }
        let [num_views, _, num_channels] = network.map_sizes();
        let sizes = level_sizes(input_size(&config.facts)?, facts);
        if sizes.len() > MAX_LEVELS {
            let num = sizes.len();
            return model_error(format!("level_strides: {num} levels; allowed: {MAX_LEVELS}"));
        }
        let written = sizes.iter().map(|_| None).collect();
        Ok(Self { num_views, num_channels, sizes, facts: facts.clone(), scales, written })
    }

    /// All levels of the outputs of a backbone. Channels last and in blocks they are read where they
    /// are; planar ones are written channels last, and floats that have scales as int8.
    ///
    /// # Errors
    /// `Inference` when an output is not of the views, channels and size of its level, or is int8
    /// without a scale; the errors of `output`.
    pub(in crate::detectors::surround) fn read<'m>(
        &'m mut self,
        output: impl Fn(usize) -> Result<TensorView<'m>>,
    ) -> Result<MapsView<'m>> {
        for index in 0..self.sizes.len() {
            let (source, scale) = self.source(index, &output)?;
            if !self.is_in_place(&source) {
                self.write(index, &source, scale)?;
            }
        }
        let this = &*self;
        let mut maps = MapsView::new(this.num_views, this.num_channels);
        for index in 0..this.sizes.len() {
            let (source, scale) = this.source(index, &output)?;
            let in_place = source.in_place(scale).filter(|_| this.is_in_place(&source));
            let written = this.written[index].as_ref();
            let written = written.map(|level| level.view(this.num_views, this.num_channels));
            if let Some(level) = in_place.or(written) {
                maps.push(level)?;
            }
        }
        Ok(maps)
    }

    /// Whether a level is sampled where and as it is.
    fn is_in_place(&self, source: &MapSource<'_>) -> bool {
        let has_element = matches!(source.values, MapValues::I8(_)) || self.scales.is_none();
        has_element && source.layout != MapLayout::Planar
    }

    /// A level as the backbone gives it, and its scale; 1 for floats.
    fn source<'t>(
        &self,
        index: usize,
        output: &impl Fn(usize) -> Result<TensorView<'t>>,
    ) -> Result<(MapSource<'t>, f32)> {
        let num_outputs = self.facts.level_strides.len();
        // The level after the outputs is made of the last.
        let of_backbone = index.min(num_outputs - 1);
        let map = output(of_backbone)?;
        let layout = self.facts.layout;
        let shape = map_shape(map.shape(), layout, [self.num_views, self.num_channels])?;
        let (values, scale) = match map.values() {
            TensorValues::F32(values) => (MapValues::F32(values), 1.0),
            TensorValues::F16(values) => (MapValues::F16(values), 1.0),
            TensorValues::I8(values) => {
                let scale = scale_of(self.scales.as_deref(), index, num_outputs)?;
                (MapValues::I8(values), scale)
            }
            other => {
                return inference_error(format!("output {of_backbone} is {}", other.element()));
            }
        };
        let source = MapSource { shape, layout, values, subsampled: index >= num_outputs };
        if source.size() != self.sizes[index] {
            return inference_error(format!(
                "output {of_backbone} is {:?}: level {index} has {:?} texels, {:?} expected",
                map.shape(),
                source.size(),
                self.sizes[index]
            ));
        }
        Ok((source, scale))
    }

    fn write(&mut self, index: usize, source: &MapSource<'_>, scale: f32) -> Result<()> {
        let [width, height] = self.sizes[index];
        let len = self.num_views * self.num_channels * width * height;
        let is_integer = matches!(source.values, MapValues::I8(_));
        let level = self.written[index].get_or_insert_with(|| {
            let quantized = self.scales.as_ref().and_then(|scales| scales.get(index)).copied();
            let scale = if is_integer { Some(scale) } else { quantized };
            let texels = match scale {
                Some(scale) => Texels::I8 { values: vec![0; len], scale },
                None => Texels::F32(vec![0.0; len]),
            };
            FeatureLevel::new([width, height], texels)
        });
        channels_last(source, level)
            .map_err(|error| Error::new(ErrorKind::Inference, STAGE, error.message().to_owned()))?;
        Ok(())
    }
}
