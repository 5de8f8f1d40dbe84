//! On the CPU.

use super::memory::Memory;
use super::types::{Queries, argument};
use crate::detectors::surround::matrices::RigMatrices;
use crate::detectors::surround::streampetr::{
    CameraMatrices, Lengths, Signature, Specs, StatedImages, StreamPetr, StreamPetrFamily,
};
use crate::detectors::surround::views::{
    ViewMaps, input_size, motion_of, unseen_views, write_views,
};
use crate::detectors::surround::{Step, ViewFamily};
use det_post_infer::view_decoder::{CpuViewDecoder, View, ViewNetwork};
use det_post_types::{Result, Stamp, TensorValues, TensorView};

/// The networks of a family.
#[expect(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Network {
    Views { decoder: CpuViewDecoder, maps: ViewMaps, views: Vec<View> },
    StreamPetr { network: StreamPetr, embedded: Option<u64>, rows: [Vec<f32>; 2] },
}

impl Network {
    pub(super) fn of_views(family: &ViewFamily<'_>, network: &ViewNetwork) -> Result<Self> {
        let [num_views, ..] = network.map_sizes();
        Ok(Self::Views {
            decoder: CpuViewDecoder::new(network),
            maps: ViewMaps::new(family, network, family.map_scales.map(<[f32]>::to_vec))?,
            views: unseen_views(num_views, input_size(&family.config.facts)?),
        })
    }

    pub(super) fn of_streampetr(
        family: &StreamPetrFamily<'_>,
        backbone: Specs<'_>,
    ) -> Result<Self> {
        let config = family.config;
        let load = |path| det_post_infer::load(path, &config.engine);
        let (position, head) = (load(family.position_embedding_path)?, load(family.head_path)?);
        let signature = Signature::new(
            backbone,
            Specs { inputs: position.inputs(), outputs: position.outputs() },
            Specs { inputs: head.inputs(), outputs: head.outputs() },
            config.facts.class_names.len(),
            StatedImages::of(&config.facts),
        )?;
        let network = StreamPetr::with_signature(signature, position, head)?;
        Ok(Self::StreamPetr { network, embedded: None, rows: [Vec::new(), Vec::new()] })
    }

    pub(super) fn lengths(&self) -> Option<Lengths> {
        match self {
            Self::Views { .. } => None,
            Self::StreamPetr { network, .. } => Some(network.signature().lengths),
        }
    }

    pub(super) fn run(
        &mut self,
        matrices: &RigMatrices,
        inputs: &[TensorView<'_>],
        step: &Step,
        stamp: Stamp,
    ) -> Result<()> {
        match self {
            Self::Views { decoder, maps, views } => {
                write_views(views, matrices.image_from_target());
                let maps = maps.read(|index| Ok(inputs[index]))?;
                decoder.set_views(views)?;
                decoder.run(maps, motion_of(step).as_ref()).map(drop)
            }
            Self::StreamPetr { network, embedded, rows } => {
                let shape = with_batch(inputs[0].shape());
                let features = TensorView::new(&shape, inputs[0].values())?;
                if *embedded != Some(matrices.revision()) {
                    *embedded = None;
                    let (intrinsics, target_from_image) =
                        (matrices.intrinsics(), matrices.target_from_image());
                    network.embed(&CameraMatrices { intrinsics, target_from_image }, &features)?;
                    *embedded = Some(matrices.revision());
                }
                let lengths = network.signature().lengths;
                let outputs = network.run(&features, stamp, step)?;
                let [logits, boxes] = rows;
                write_rows(&outputs.logits, &lengths, logits)?;
                write_rows(&outputs.boxes, &lengths, boxes)
            }
        }
    }

    pub(super) fn queries(&self) -> Result<Queries<'_>> {
        Ok(match self {
            Self::Views { decoder, .. } => {
                let decoded = decoder.decoded();
                Queries {
                    boxes: decoded.boxes.as_flattened(),
                    logits: decoded.logits,
                    quality: decoded.quality.map(<[[f32; 2]]>::as_flattened),
                }
            }
            Self::StreamPetr { rows: [logits, boxes], .. } => {
                Queries { boxes, logits, quality: None }
            }
        })
    }

    pub(super) fn memory(&self, stamp: Stamp) -> Option<Memory> {
        match self {
            Self::Views { decoder, .. } => decoder.memory().map(Memory::Anchors),
            Self::StreamPetr { network, .. } => Some(Memory::Queries(network.memory(stamp))),
        }
    }

    pub(super) fn set_memory(&mut self, memory: Memory, stamp: Stamp) -> Result<()> {
        match (self, memory) {
            (Self::Views { decoder, .. }, Memory::Anchors(anchors)) => decoder.set_memory(&anchors),
            (Self::StreamPetr { network, .. }, Memory::Queries(values)) => {
                network.set_memory(values, stamp);
                Ok(())
            }
            _ => argument("the memory is of another kind of head".into()),
        }
    }
}

/// A shape with a leading 1 of the batch.
fn with_batch(shape: &[usize]) -> Vec<usize> {
    let one = [1];
    let batch = if shape.len() == 4 { &one[..] } else { &[] };
    [batch, shape].concat()
}

/// The numbers of an output of StreamPETR's head, query by query.
pub(super) fn write_rows(
    output: &TensorView<'_>,
    lengths: &Lengths,
    rows: &mut Vec<f32>,
) -> Result<()> {
    let TensorValues::F32(values) = output.values() else {
        return argument(format!("an output of the head is {}", output.values().element()));
    };
    let num_queries = lengths.num_queries;
    rows.clear();
    if lengths.channels_last {
        rows.extend_from_slice(values);
    } else {
        let columns = 0..num_queries;
        rows.extend(columns.flat_map(|query| values.iter().skip(query).step_by(num_queries)));
    }
    Ok(())
}
