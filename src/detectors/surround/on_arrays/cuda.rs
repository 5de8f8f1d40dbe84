//! On a GPU.

use super::argument;
use super::cpu::write_rows;
use super::memory::Memory;
use crate::detectors::surround::matrices::RigMatrices;
use crate::detectors::surround::streampetr::{
    CameraMatrices, DeviceStreamPetr, Lengths, Specs, StatedImages, StreamPetrFamily,
};
use crate::detectors::surround::views::{
    DeviceViewMaps, input_size, motion_of, unseen_views, write_views,
};
use crate::detectors::surround::{Step, ViewFamily};
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_infer::view_decoder::{CudaViewDecoder, QueryBuffers, View, ViewNetwork};
use det_post_ops::device::cuda::{DeviceTensor, Stream};
use det_post_types::{Result, Stamp};

/// The networks of a family, and their stream.
pub(super) struct Network {
    stream: Stream,
    family: Family,
}

#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Family {
    Views { decoder: CudaViewDecoder, maps: DeviceViewMaps, views: Vec<View> },
    StreamPetr { network: DeviceStreamPetr, embedded: Option<u64>, rows: [Vec<f32>; 2] },
}

impl Network {
    pub(super) fn of_views(
        stream: &Stream,
        family: &ViewFamily<'_>,
        network: &ViewNetwork,
    ) -> Result<Self> {
        let [num_views, ..] = network.map_sizes();
        let scales = family.map_scales.map(<[f32]>::to_vec);
        let maps = DeviceViewMaps::new(family, stream, network, scales)?;
        let family = Family::Views {
            decoder: CudaViewDecoder::new(stream, network, family.precision)?,
            maps,
            views: unseen_views(num_views, input_size(&family.config.facts)?),
        };
        Ok(Self { stream: stream.clone(), family })
    }

    pub(super) fn of_streampetr(
        stream: &Stream,
        family: &StreamPetrFamily<'_>,
        backbone: Specs<'_>,
    ) -> Result<Self> {
        let config = family.config;
        let network = DeviceStreamPetr::new(
            stream,
            backbone,
            det_post_infer::load(family.position_embedding_path, &config.engine)?,
            DeviceEngine::load(family.head_path, &config.engine, stream, fixed_shape)?,
            config.facts.class_names.len(),
            StatedImages::of(&config.facts),
        )?;
        let rows = [Vec::new(), Vec::new()];
        let family = Family::StreamPetr { network, embedded: None, rows };
        Ok(Self { stream: stream.clone(), family })
    }

    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn lengths(&self) -> Option<Lengths> {
        match &self.family {
            Family::Views { .. } => None,
            Family::StreamPetr { network, .. } => Some(network.signature().lengths),
        }
    }

    pub(super) fn enqueue(
        &mut self,
        matrices: &RigMatrices,
        inputs: &[DeviceTensor],
        step: &Step,
        stamp: Stamp,
    ) -> Result<()> {
        match &mut self.family {
            Family::Views { decoder, maps, views } => {
                write_views(views, matrices.image_from_target());
                let sources = maps.sources(|index| Ok(&inputs[index]))?;
                maps.prepare(&sources)?;
                let maps = maps.enqueue(&sources)?;
                decoder.set_views(views)?;
                let uses_memory = decoder.begin(motion_of(step).as_ref())?;
                decoder.enqueue(maps, uses_memory)
            }
            Family::StreamPetr { network, embedded, .. } => {
                let (found, expected) = (inputs[0].shape(), network.features_shape());
                if found != expected && [&[1], found].concat() != expected {
                    return argument(format!("features are {found:?}; {expected:?} expected"));
                }
                if *embedded != Some(matrices.revision()) {
                    *embedded = None;
                    let (intrinsics, target_from_image) =
                        (matrices.intrinsics(), matrices.target_from_image());
                    network.embed(&CameraMatrices { intrinsics, target_from_image })?;
                    *embedded = Some(matrices.revision());
                }
                network.enqueue(&inputs[0], stamp, step)
            }
        }
    }

    pub(super) fn enqueue_outputs(&mut self, queries: &mut QueryBuffers) -> Result<()> {
        match &mut self.family {
            Family::Views { decoder, .. } => decoder.enqueue_outputs(queries),
            Family::StreamPetr { network, rows: [logits, boxes], .. } => {
                let lengths = network.signature().lengths;
                let outputs = network.outputs()?;
                write_rows(&outputs.logits, &lengths, logits)?;
                write_rows(&outputs.boxes, &lengths, boxes)?;
                queries.boxes.write(boxes)?;
                queries.logits.write(logits)
            }
        }
    }

    pub(super) fn memory(&mut self, stamp: Stamp) -> Result<Option<Memory>> {
        match &mut self.family {
            Family::Views { decoder, .. } => Ok(decoder.memory()?.map(Memory::Anchors)),
            Family::StreamPetr { network, .. } => Ok(Some(Memory::Queries(network.memory(stamp)?))),
        }
    }

    pub(super) fn set_memory(&mut self, memory: &Memory, stamp: Stamp) -> Result<()> {
        match (&mut self.family, memory) {
            (Family::Views { decoder, .. }, Memory::Anchors(anchors)) => {
                decoder.set_memory(anchors)
            }
            (Family::StreamPetr { network, .. }, Memory::Queries(values)) => {
                network.set_memory(values, stamp)
            }
            _ => argument("the memory is of another kind of head".into()),
        }
    }
}
