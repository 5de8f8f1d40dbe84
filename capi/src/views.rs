//! The decoder of a surround channel on arrays.

use std::ffi::CString;

use super::call::{Address, Call, Const, ConstText, In, Out, Text, run};
use super::configuration::Configuration;
use super::gpu::{in_order, tensor_of};
use super::handles::Handles;
use super::status::{Failure, Status};
use super::tensors::Tensor;
use super::view_arrays::{
    Queries, ViewCamera, ViewDecoder, ViewDecoderInfo, ViewMemory, ViewMemoryPart, ViewMotion,
};
use det_post::config::ChannelKind;
use det_post::detectors::surround::Step;
use det_post::detectors::surround::on_arrays::{
    Queries as Decoded, ViewDecoder as Decoder, ViewSizes,
};
use det_post_infer::view_decoder::QueryBuffers;
use det_post_ops::device::Device;
use det_post_ops::device::cuda::{DeviceBuffer, Stream};

/// The object of a [`ViewDecoder`].
struct Opened {
    decoder: Decoder,
    on_gpu: Option<OnGpu>,
    info: ViewDecoderInfo,
    _class_names: Vec<ConstText>,
    _texts: Vec<CString>,
    queries: Option<Queries>,
    memory: Memory,
}

/// The queries of a decoder on a GPU.
struct OnGpu {
    stream: Stream,
    /// The driver's handle of the caller's stream.
    caller: u64,
    buffers: QueryBuffers,
}

/// A memory that the caller reads.
#[derive(Default)]
struct Memory {
    parts: Vec<ViewMemoryPart>,
    names: Vec<CString>,
    values: Vec<Vec<f32>>,
    public: Option<ViewMemory>,
}

static VIEW_DECODERS: Handles<Opened> = Handles::new("view decoder", 5);

impl OnGpu {
    fn new(stream: &Stream, sizes: &ViewSizes) -> det_post::Result<Self> {
        let zeros = |columns| DeviceBuffer::zeros(stream, sizes.num_queries * columns);
        let quality = sizes.has_quality.then(|| zeros(2)).transpose()?;
        let [boxes, logits] = [zeros(sizes.box_len)?, zeros(sizes.num_classes)?];
        Ok(Self {
            stream: stream.clone(),
            caller: 0,
            buffers: QueryBuffers { boxes, logits, quality },
        })
    }

    fn queries(&self, sizes: &ViewSizes) -> Queries {
        let QueryBuffers { boxes, logits, quality } = &self.buffers;
        let on_device = |buffer: &DeviceBuffer<f32>| Const::on_device(buffer.address());
        Queries {
            boxes: on_device(boxes),
            logits: on_device(logits),
            quality: quality.as_ref().map_or(Const::NULL, on_device),
            num_queries: sizes.num_queries,
            box_len: sizes.box_len,
            num_classes: sizes.num_classes,
        }
    }
}

fn queries_of(decoded: &Decoded<'_>, sizes: &ViewSizes) -> Queries {
    Queries {
        boxes: Const::of(decoded.boxes),
        logits: Const::of(decoded.logits),
        quality: decoded.quality.map_or(Const::NULL, Const::of),
        num_queries: sizes.num_queries,
        box_len: sizes.box_len,
        num_classes: sizes.num_classes,
    }
}

impl Opened {
    fn open(call: &Call, configuration: &Configuration) -> Result<Self, Failure> {
        let (config, position) = configuration.read(call)?;
        let channel = &config.channels[position];
        let ChannelKind::Surround(surround) = &channel.kind else {
            let message = format!("channel {} has one sensor: its head has no views", channel.name);
            return Err(Failure::config(message));
        };
        let decoder = Decoder::open(surround, &Device::open(channel.device)?)?;
        let sizes = *decoder.sizes();
        let on_gpu = decoder.stream().map(|stream| OnGpu::new(stream, &sizes)).transpose()?;
        // Names in a configuration have no 0.
        let texts = surround.facts.class_names.iter();
        let texts: Vec<CString> =
            texts.map(|name| CString::new(name.as_str()).unwrap_or_default()).collect();
        let class_names: Vec<ConstText> = texts.iter().map(|text| ConstText::of(text)).collect();
        let info = ViewDecoderInfo {
            class_names: Const::of(&class_names),
            num_classes: sizes.num_classes,
            num_cameras: sizes.num_cameras,
            num_maps: sizes.num_maps,
            num_queries: sizes.num_queries,
            box_len: sizes.box_len,
            input_width: sizes.input_size.width,
            input_height: sizes.input_size.height,
            has_quality: u32::from(sizes.has_quality),
            has_memory: u32::from(sizes.has_memory),
            needs_intrinsics: u32::from(sizes.needs_intrinsics),
            is_on_device: u32::from(on_gpu.is_some()),
        };
        Ok(Self {
            decoder,
            on_gpu,
            info,
            _class_names: class_names,
            _texts: texts,
            queries: None,
            memory: Memory::default(),
        })
    }

    fn run(&mut self, call: &Call, maps: &[Tensor], step: Step) -> Result<Const<Queries>, Failure> {
        let Self { decoder, on_gpu, queries, .. } = self;
        let sizes = *decoder.sizes();
        let found = match on_gpu {
            None => {
                let views = maps.iter().map(|map| map.view(call)).collect::<Result<Vec<_>, _>>()?;
                queries_of(&decoder.run(&views, step)?, &sizes)
            }
            Some(gpu) => {
                let OnGpu { stream, caller, buffers } = gpu;
                in_order(stream, *caller, || {
                    let maps = maps.iter().map(|map| tensor_of(call, stream, map));
                    let maps = maps.collect::<det_post::Result<Vec<_>>>()?;
                    decoder.enqueue(&maps, step, buffers)
                })?;
                gpu.queries(&sizes)
            }
        };
        Ok(Const::one(queries.insert(found)))
    }

    fn memory(&mut self) -> Result<Const<ViewMemory>, Failure> {
        let found = self.decoder.memory()?;
        let Memory { parts, names, values, public } = &mut self.memory;
        names.clear();
        values.clear();
        parts.clear();
        for part in found {
            names.push(CString::new(part.name).unwrap_or_default());
            parts.push(ViewMemoryPart {
                name: Text::of(&names[names.len() - 1]),
                values: In::of(&part.values),
                num_values: part.values.len(),
                num_rows: part.shape.first().copied().unwrap_or(0),
            });
            values.push(part.values);
        }
        let memory = ViewMemory { parts: In::of(parts), num_parts: parts.len() };
        Ok(Const::one(public.insert(memory)))
    }
}

/// Opens the view decoder of a surround channel of a configuration, on the channel's `device`. Its
/// `model_path`, the backbone, is not read, unless a head of kind streampetr states no number of cameras
/// or no size of images. Close it with `det_post_view_decoder_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_view_decoder_open(
    configuration: In<Configuration>,
    decoder: Out<ViewDecoder>,
) -> Status {
    run(0, |call| {
        call.check_out(decoder, "decoder")?;
        let opened = Opened::open(call, call.one(configuration, "configuration")?)?;
        call.write(decoder, ViewDecoder { id: VIEW_DECODERS.open(opened) }, "decoder")
    })
}

/// Closes a view decoder and frees its memory. If another thread is in a call on it, that call ends as
/// usual.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_view_decoder_close(decoder: ViewDecoder) -> Status {
    run(decoder.id, |_| VIEW_DECODERS.close(decoder.id))
}

/// The lengths of the arrays of a view decoder.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_view_decoder_get_info(
    decoder: ViewDecoder,
    info: Out<Const<ViewDecoderInfo>>,
) -> Status {
    run(decoder.id, |call| {
        let found = VIEW_DECODERS.with(decoder.id, |opened| Ok(Const::one(&opened.info)))?;
        call.write(info, found, "info")
    })
}

/// Sets the CUDA stream (`cudaStream_t` or `CUstream`) of a view decoder on a GPU, as
/// `det_post_workspace_set_stream` does.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_view_decoder_set_stream(
    decoder: ViewDecoder,
    stream: Address,
) -> Status {
    run(decoder.id, |_| {
        VIEW_DECODERS.with(decoder.id, |opened| match &mut opened.on_gpu {
            Some(gpu) => {
                gpu.caller = stream.number();
                Ok(())
            }
            None => Err(Failure::argument("a view decoder on cpu has no stream")),
        })
    })
}

/// Sets the cameras of the next frames: before the first one, after a change of calibration, and when one is
/// missing.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_view_decoder_set_cameras(
    decoder: ViewDecoder,
    cameras: In<ViewCamera>,
    num_cameras: usize,
) -> Status {
    run(decoder.id, |call| {
        let cameras = call.slice(cameras, num_cameras, "cameras")?.iter();
        let cameras = cameras.map(ViewCamera::camera).collect::<Result<Vec<_>, _>>()?;
        VIEW_DECODERS.with(decoder.id, |opened| Ok(opened.decoder.set_cameras(&cameras)?))
    })
}

/// Decodes a frame: the outputs of the backbone in its order, float32, float16 or, with the configuration's
/// `decoder.map_scales`, int8; `[cameras, C, H, W]` or in the head's `feature_layout`, in the memory of the
/// decoder's device. Maps channels last or in blocks of 32 channels are read where they are. `motion` is
/// `NULL` for a first frame, which begins with an empty memory; a frame that fails empties it, too. The
/// result is valid until the next call of this function.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_view_decoder_run(
    decoder: ViewDecoder,
    maps: In<Tensor>,
    num_maps: usize,
    motion: In<ViewMotion>,
    queries: Out<Const<Queries>>,
) -> Status {
    run(decoder.id, |call| {
        call.check_out(queries, "queries")?;
        let maps = call.slice(maps, num_maps, "maps")?;
        let motion = call.slice_or_null(motion, 1, "motion")?.and_then(<[ViewMotion]>::first);
        let step = motion.map_or(Ok(Step::First), ViewMotion::step)?;
        let found = VIEW_DECODERS.with(decoder.id, |opened| opened.run(call, maps, step))?;
        call.write(queries, found, "queries")
    })
}

/// A copy of the memory of the last frame in host memory, without parts where there is none. Valid until the
/// next call of this function.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_view_decoder_get_memory(
    decoder: ViewDecoder,
    memory: Out<Const<ViewMemory>>,
) -> Status {
    run(decoder.id, |call| {
        call.check_out(memory, "memory")?;
        let found = VIEW_DECODERS.with(decoder.id, Opened::memory)?;
        call.write(memory, found, "memory")
    })
}

/// Replaces the memory by a copy that `det_post_view_decoder_get_memory` gave for a decoder of the same files;
/// without parts, the decoder forgets past frames.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_view_decoder_set_memory(
    decoder: ViewDecoder,
    memory: In<ViewMemory>,
) -> Status {
    run(decoder.id, |call| {
        let memory = call.one(memory, "memory")?;
        let mut parts = Vec::new();
        for part in call.slice(memory.parts, memory.num_parts, "memory.parts")? {
            let name = call.text(part.name, "memory.part.name")?;
            parts.push((name, call.slice(part.values, part.num_values, "memory.part.values")?));
        }
        VIEW_DECODERS.with(decoder.id, |opened| Ok(opened.decoder.set_memory(&parts)?))
    })
}
