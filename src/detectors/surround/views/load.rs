//! Loads the networks of a head, on either device.

use super::ViewFamily;
use super::cpu::ViewHead;
#[cfg(feature = "cuda")]
use super::cuda::DeviceViewHead;
use super::family::input_size;
use crate::detectors::surround::decoder::{Family, Networks, has_batch};
#[cfg(feature = "cuda")]
use det_post_infer::device::DeviceEngine;
use det_post_infer::view_decoder::{self, ViewNetwork};
use det_post_infer::{Engine, output_scales};
#[cfg(feature = "cuda")]
use det_post_ops::device::cuda::Stream;
#[cfg(feature = "cuda")]
use det_post_types::Size;
use det_post_types::{Result, TensorSpec};

impl ViewFamily<'_> {
    /// Networks with a backbone in an engine of the CPU. `stated`: the scales of its int8 outputs, where
    /// its file states them.
    ///
    /// # Errors
    /// `Model` when the outputs of the backbone are not those that the head states, or the
    /// decoder requires a GPU.
    pub fn on_cpu(
        &self,
        mut backbone: Box<dyn Engine>,
        network: &ViewNetwork,
        stated: &[Option<f32>],
    ) -> Result<Networks<dyn Engine>> {
        let head = ViewHead::new(self, backbone.as_mut(), network, stated)?;
        let [num_cameras, ..] = network.map_sizes();
        Ok(Networks {
            has_batch: has_batch(backbone.inputs().first(), false),
            backbone,
            decoder: Box::new(head),
            num_cameras,
            input_size: input_size(&self.config.facts)?,
        })
    }

    /// Networks with a backbone in the memory of a GPU, whose stream is `stream`; `stated` as
    /// [`Self::on_cpu`] takes it.
    ///
    /// # Errors
    /// `Model` when the outputs of the backbone are not those that the head states, or the
    /// network is larger than the kernels, or for int8 maps in f32; `Argument` for more candidates than a
    /// GPU can choose; `Device` when there is not enough memory.
    #[cfg(feature = "cuda")]
    pub fn on_gpu(
        &self,
        stream: &Stream,
        backbone: DeviceEngine,
        network: &ViewNetwork,
        stated: &[Option<f32>],
    ) -> Result<Networks<DeviceEngine>> {
        let head = DeviceViewHead::new(self, stream, &backbone, network, stated)?;
        let [num_cameras, ..] = network.map_sizes();
        Ok(Networks {
            has_batch: has_batch(backbone.inputs().first(), false),
            backbone: Box::new(backbone),
            decoder: Box::new(head),
            num_cameras,
            input_size: input_size(&self.config.facts)?,
        })
    }

    /// The scales of int8 outputs that the backbone's file states; none for other outputs.
    fn stated_scales(&self, outputs: &[TensorSpec]) -> Result<Vec<Option<f32>>> {
        if self.are_int8(outputs)? {
            output_scales(&self.config.model_path)
        } else {
            Ok(Vec::new())
        }
    }

    /// The decoder's weights, read.
    ///
    /// # Errors
    /// As [`view_decoder::load`].
    pub(in crate::detectors::surround) fn network(&self) -> Result<ViewNetwork> {
        view_decoder::load(self.weights_path, &self.facts.decoder)
    }
}

impl Family for ViewFamily<'_> {
    fn load_on_cpu(&self) -> Result<Networks<dyn Engine>> {
        let network = self.network()?;
        let config = self.config;
        let backbone = det_post_infer::load(&config.model_path, &config.engine)?;
        let stated = self.stated_scales(backbone.outputs())?;
        self.on_cpu(backbone, &network, &stated)
    }

    #[cfg(feature = "cuda")]
    fn load_on_gpu(&self, stream: &Stream) -> Result<Networks<DeviceEngine>> {
        let network = self.network()?;
        let config = self.config;
        let input_size = input_size(&config.facts)?;
        let [num_views, ..] = network.map_sizes();
        let shape_of = |spec: &TensorSpec| Ok(images_shape(spec, num_views, input_size));
        let backbone = DeviceEngine::load(&config.model_path, &config.engine, stream, shape_of)?;
        let stated = self.stated_scales(backbone.outputs())?;
        self.on_gpu(stream, backbone, &network, &stated)
    }
}

/// The shape of the backbone's input, with a batch of 1 where it has one.
#[cfg(feature = "cuda")]
fn images_shape(input: &TensorSpec, num_views: usize, input_size: Size) -> Vec<usize> {
    let shape = [1, num_views, 3, input_size.height as usize, input_size.width as usize];
    shape[usize::from(!has_batch(Some(input), false))..].to_vec()
}
