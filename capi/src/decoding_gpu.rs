//! Outputs of networks in the memory of a GPU to candidates there.

use det_post::Result;
use det_post_ops::arrays::candidates::cuda::{
    Columns, DecodedAnchor, DecodedCenter, DecodedYolo, Ranked, SurvivorColumns, SurvivorIds,
};
use det_post_ops::decode::anchor::AnchorOutputs;
use det_post_ops::decode::center::CenterTask;
use det_post_ops::decode::yolo::cuda::Decoded as YoloBox;
use det_post_ops::device::cuda::{DeviceBuffer, DeviceTensor, Plain, Stream};
use det_post_ops::nms::cuda::Suppressible;
use det_post_types::{
    AnchorDecode, Box2d, Candidate, CenterDecode, Nms2d, RotatedBox2d, Size, YoloLayout,
};

use super::call::{Call, Const};
use super::decoding::Decoded;
use super::gpu::{Gpu, finish, in_order, tensor_of};
use super::tensors::Tensor;

/// The memory of decoders on a GPU: of each, that for the last head and shapes.
#[derive(Default)]
pub(super) struct OnGpu {
    aligned: Option<Session<YoloHead, DecodedYolo<Box2d>>>,
    rotated: Option<Session<YoloHead, DecodedYolo<RotatedBox2d>>>,
    center: Option<Session<CenterDecode, DecodedCenter>>,
    anchor: Option<Session<AnchorDecode, DecodedAnchor>>,
}

/// How outputs of a YOLO-family network become boxes.
#[derive(Clone, PartialEq)]
pub(super) struct YoloHead {
    pub(super) layout: YoloLayout,
    pub(super) input: Size,
    pub(super) num_classes: usize,
    pub(super) score_threshold: f32,
}

/// A decoder for a head, outputs of these shapes and the best `capacity` candidates, and the
/// arrays of its result.
struct Session<H, D> {
    head: H,
    shapes: Vec<Vec<usize>>,
    capacity: usize,
    stream: Stream,
    decode: D,
    boxes: DeviceBuffer<f32>,
    scores: DeviceBuffer<f32>,
    classes: DeviceBuffer<u32>,
    sources: DeviceBuffer<u32>,
    velocities: DeviceBuffer<f32>,
}

/// A call: the GPU, the outputs, and the most candidates.
#[derive(Clone, Copy)]
pub(super) struct Outputs<'a> {
    pub(super) gpu: &'a Gpu,
    pub(super) call: &'a Call,
    pub(super) tensors: &'a [Tensor],
    pub(super) capacity: usize,
}

impl Outputs<'_> {
    fn shapes(&self) -> Result<Vec<Vec<usize>>> {
        let shapes = self.tensors.iter().map(|tensor| tensor.floats_on_device(self.call));
        shapes.map(|found| found.map(|(_, shape, _)| shape.to_vec())).collect()
    }

    /// The last session if it fits, otherwise a new one with a decoder that `decode` makes.
    fn session<'s, H: Clone + PartialEq, D>(
        &self,
        slot: &'s mut Option<Session<H, D>>,
        head: &H,
        decode: impl FnOnce(&Stream, &[&[usize]]) -> Result<D>,
    ) -> Result<&'s mut Session<H, D>> {
        let shapes = self.shapes()?;
        let fits = |of: &Session<H, D>| {
            of.head == *head && of.shapes == shapes && of.capacity == self.capacity
        };
        match slot.take() {
            Some(of_before) if fits(&of_before) => Ok(slot.insert(of_before)),
            other => {
                other.map(|of_before| finish(&of_before.stream, self.gpu.caller)).transpose()?;
                let stream = self.gpu.stream()?;
                let slices: Vec<&[usize]> = shapes.iter().map(Vec::as_slice).collect();
                Ok(slot.insert(Session {
                    decode: decode(&stream, &slices)?,
                    head: head.clone(),
                    capacity: self.capacity,
                    boxes: DeviceBuffer::zeros(&stream, 7 * self.capacity)?,
                    scores: DeviceBuffer::zeros(&stream, self.capacity)?,
                    classes: DeviceBuffer::zeros(&stream, self.capacity)?,
                    sources: DeviceBuffer::zeros(&stream, self.capacity)?,
                    velocities: DeviceBuffer::zeros(&stream, 2 * self.capacity)?,
                    shapes,
                    stream,
                }))
            }
        }
    }

    fn on_stream(&self, stream: &Stream) -> Result<Vec<DeviceTensor>> {
        self.tensors.iter().map(|tensor| tensor_of(self.call, stream, tensor)).collect()
    }
}

impl<H, D> Session<H, D> {
    /// Decodes, waits for the number of candidates, and queues the writing of their arrays.
    fn run<B>(
        &mut self,
        outputs: Outputs<'_>,
        decode: impl FnOnce(&mut D, &[DeviceTensor]) -> Result<usize>,
        ranked: impl Fn(&mut D) -> &mut Ranked<B>,
        motions: impl FnOnce(&D, &mut DeviceBuffer<f32>, usize) -> Result<bool>,
    ) -> Result<Decoded>
    where
        B: Columns + Copy + Suppressible,
        Candidate<B>: Plain,
    {
        let stream = self.stream.clone();
        in_order(&stream, outputs.gpu.caller, || {
            let num = decode(&mut self.decode, &outputs.on_stream(&stream)?)?;
            let of = ranked(&mut self.decode);
            let counts = of.take_counts()?;
            let ids = [&mut self.classes, &mut self.sources].map(|ids| ids.output(&stream));
            let [classes, sources] = ids;
            of.enqueue_columns(SurvivorColumns {
                boxes: self.boxes.output(&stream)?,
                scores: self.scores.output(&stream)?.split_at(num)[0],
                ids: SurvivorIds::U32 {
                    classes: classes?.split_at(num)[0],
                    sources: sources?.split_at(num)[0],
                },
            })?;
            let has_velocity = motions(&self.decode, &mut self.velocities, num)?;
            Ok(Decoded {
                boxes: Const::on_device(self.boxes.address()),
                scores: Const::on_device(self.scores.address()),
                classes: Const::on_device(self.classes.address()),
                sources: Const::on_device(self.sources.address()),
                velocities_mps: match has_velocity {
                    true => Const::on_device(self.velocities.address()),
                    false => Const::NULL,
                },
                num_candidates: num,
                box_len: B::NUM_NUMBERS,
                num_over_capacity: counts.num_over_capacity,
                num_nan_scores: counts.num_nan_scores,
                num_invalid_boxes: counts.num_invalid_boxes,
                num_unknown_classes: counts.num_unknown_classes,
            })
        })
    }
}

impl OnGpu {
    pub(super) fn yolo(&mut self, head: &YoloHead, outputs: Outputs<'_>) -> Result<Decoded> {
        if head.layout.has_rotated_boxes() {
            return yolo(&mut self.rotated, head, outputs);
        }
        yolo(&mut self.aligned, head, outputs)
    }

    /// `outputs` are the maps of all tasks, `num_maps` of each.
    pub(super) fn center(
        &mut self,
        params: &CenterDecode,
        num_maps: usize,
        outputs: Outputs<'_>,
    ) -> Result<Decoded> {
        let session = outputs.session(&mut self.center, params, |stream, shapes| {
            let heatmaps = shapes.chunks(num_maps).filter_map(|maps| maps.first());
            let num_cells = heatmaps.map(|shape| shape.iter().skip(2).product::<usize>()).sum();
            DecodedCenter::new(stream, params, num_cells, outputs.capacity)
        })?;
        let decode = |decode: &mut DecodedCenter, tensors: &[DeviceTensor]| {
            let tasks = tensors.chunks_exact(num_maps).map(|maps| CenterTask {
                heatmap: &maps[0],
                offset: &maps[1],
                height: &maps[2],
                size: &maps[3],
                rotation: &maps[4],
                velocity: maps.get(5),
            });
            decode.run(&tasks.collect::<Vec<_>>())
        };
        let stream = session.stream.clone();
        session.run(
            outputs,
            decode,
            |decode| &mut decode.ranked,
            |decode, velocities, num| {
                if !params.has_velocity {
                    return Ok(false);
                }
                let [velocities, _] = velocities.output(&stream)?.split_at(2 * num);
                decode.enqueue_motions(velocities, det_post_ops::device::cuda::Out::empty())?;
                Ok(true)
            },
        )
    }

    /// `outputs` are class logits, boxes and, if there are any, directions.
    pub(super) fn anchor(
        &mut self,
        params: &AnchorDecode,
        outputs: Outputs<'_>,
    ) -> Result<Decoded> {
        let session = outputs.session(&mut self.anchor, params, |stream, shapes| {
            let num_cells = match (shapes.first(), params.channels_last) {
                (Some(&&[_, height, width, _]), true) | (Some(&&[_, _, height, width]), false) => {
                    height.saturating_mul(width)
                }
                // The decoder refuses the shape.
                _ => 1,
            };
            DecodedAnchor::new(stream, params, num_cells, outputs.capacity)
        })?;
        let decode = |decode: &mut DecodedAnchor, tensors: &[DeviceTensor]| {
            decode.run(&AnchorOutputs {
                classes: &tensors[0],
                boxes: &tensors[1],
                directions: tensors.get(2),
            })
        };
        session.run(outputs, decode, |decode| &mut decode.ranked, |_, _, _| Ok(false))
    }
}

fn yolo<B>(
    slot: &mut Option<Session<YoloHead, DecodedYolo<B>>>,
    head: &YoloHead,
    outputs: Outputs<'_>,
) -> Result<Decoded>
where
    B: Columns + Copy + YoloBox + Suppressible<Nms = Nms2d>,
    Candidate<B>: Plain,
{
    let session = outputs.session(slot, head, |stream, shapes| {
        let YoloHead { layout, input, num_classes, score_threshold } = head;
        let of = (layout, *input, *num_classes);
        DecodedYolo::new(stream, of, shapes, *score_threshold, outputs.capacity)
    })?;
    let decode = |decode: &mut DecodedYolo<B>, tensors: &[DeviceTensor]| {
        decode.run(&tensors.iter().collect::<Vec<_>>())
    };
    session.run(outputs, decode, |decode| &mut decode.ranked, |_, _, _| Ok(false))
}
