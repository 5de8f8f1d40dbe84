//! The CUDA implementation of [`gather_2d`](super::gather_2d),
//! [`gather_rotated`](super::gather_rotated) and [`gather_3d`](super::gather_3d):
//! the last kernel of a frame, which writes detections and counters to mapped host
//! memory. Equal to the CPU, bit for bit.

pub use super::kernels::Gathered;
use super::kernels::{
    BOX_WORDS, GRID, Gather3d, Gather3dArgs, GatherArgs, GatherBoxes, GatherSettings,
    VARIANCE_WORDS, VELOCITY_WORDS,
};
use crate::device::cuda::{DeviceBuffer, In, Kernel, KernelSpec, MappedBuffer, Out, Stream};
use crate::nms::cuda::NmsCounts;
use crate::shared::Motion;
use crate::shared::kernels::Detected;
use crate::shared::{DeviceCandidates, DeviceCounters, PublishedCounters};
use det_post_types::{
    Affine2, Box2d, Box3d, Detection2d, Detection3d, Kept, Object3d, Result, RotatedBox2d, Size,
    Variance3d,
};

/// Boxes in images that a kernel gathers.
pub trait Gather: Detected {
    /// The kernel.
    type Kernel: for<'a> KernelSpec<Args<'a> = GatherArgs<'a, Self>>;
}

impl Gather for Box2d {
    type Kernel = GatherBoxes<Self>;
}

impl Gather for RotatedBox2d {
    type Kernel = GatherBoxes<Self>;
}

/// The detections of a frame in device memory, for kernels that compute more of each.
pub struct GatheredRows<B: Gather> {
    /// The detections, in source pixels.
    pub(crate) detections: DeviceBuffer<Detection2d<B>>,
    /// By detection, its row among the network's: [`Candidate::source`](det_post_types::Candidate).
    pub(crate) sources: DeviceBuffer<u32>,
    /// Their number.
    pub(crate) num: DeviceBuffer<u32>,
}

impl<B: Gather> GatheredRows<B> {
    /// By detection, its row among the network's, and the number of detections.
    pub fn sources(&self) -> (&DeviceBuffer<u32>, &DeviceBuffer<u32>) {
        (&self.sources, &self.num)
    }
}

/// Kernel and memory of the op on one stream.
pub struct Workspace<B: Gather = Box2d> {
    stream: Stream,
    kernel: Kernel<B::Kernel>,
    settings: DeviceBuffer<GatherSettings>,
    detections: MappedBuffer<Detection2d<B>>,
    gathered: MappedBuffer<Gathered>,
    rows: Option<GatheredRows<B>>,
    max_detections: usize,
}

impl<B: Gather> Workspace<B> {
    /// Loads the kernel and allocates memory for `max_detections`. There are no
    /// detections before [`Workspace::set_placement`].
    ///
    /// # Errors
    /// `Device` when this build has no such kernel or there is not enough
    /// memory.
    pub fn new(stream: &Stream, max_detections: usize) -> Result<Self> {
        Ok(Self {
            stream: stream.clone(),
            kernel: stream.device().kernel()?,
            settings: DeviceBuffer::zeros(stream, 1)?,
            detections: MappedBuffer::zeros(stream, max_detections)?,
            gathered: MappedBuffer::zeros(stream, 1)?,
            rows: None,
            max_detections,
        })
    }

    /// Leaves the detections in device memory, too: [`Workspace::rows`].
    ///
    /// # Errors
    /// `Device` when there is not enough memory.
    pub fn with_rows(mut self) -> Result<Self> {
        let num = self.max_detections.max(1);
        self.rows = Some(GatheredRows {
            detections: DeviceBuffer::zeros(&self.stream, num)?,
            sources: DeviceBuffer::zeros(&self.stream, num)?,
            num: DeviceBuffer::zeros(&self.stream, 1)?,
        });
        Ok(self)
    }

    /// The detections in device memory, behind [`Workspace::enqueue`]; `None` without
    /// [`Workspace::with_rows`].
    pub fn rows(&self) -> Option<&GatheredRows<B>> {
        self.rows.as_ref()
    }

    /// Writes the transform to source pixels to the device and waits: needed when the
    /// size of the image changes. Recorded graphs use the values last set.
    ///
    /// # Errors
    /// `Device` when the copy fails.
    pub fn set_placement(&mut self, source_from_network: &Affine2, source: Size) -> Result<()> {
        self.settings.write(&[GatherSettings {
            scale: source_from_network.scale,
            offset: source_from_network.offset,
            size: [source.width as f32, source.height as f32],
            max_detections: u32::try_from(self.max_detections).unwrap_or(u32::MAX),
            mean_scale: source_from_network.mean_scale(),
        }])
    }

    /// Queues the gathering of the survivors `kept` of `candidates`, as
    /// `nms::cuda::DeviceWorkspace::kept` gives them, and the publishing of the
    /// frame's `counters`.
    ///
    /// # Errors
    /// `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(
        &mut self,
        candidates: &DeviceCandidates<B>,
        (kept, nms_counts): (&DeviceBuffer<Kept>, &DeviceBuffer<NmsCounts>),
        counters: &mut DeviceCounters,
    ) -> Result<()> {
        let stream = &self.stream;
        let PublishedCounters { entries, published } = counters.publish(stream)?;
        let (copied, sources, num_copied) = match &mut self.rows {
            Some(GatheredRows { detections, sources, num }) => {
                (detections.output(stream)?, sources.output(stream)?, num.output(stream)?)
            }
            None => (Out::empty(), Out::empty(), Out::empty()),
        };
        let args = GatherArgs {
            candidates: candidates.items.input(stream)?,
            kept: kept.input(stream)?,
            nms_counts: nms_counts.input(stream)?,
            settings: self.settings.input(stream)?,
            counters: entries,
            published: self.detections.output(stream)?,
            gathered: self.gathered.output(stream)?,
            published_counters: published,
            copied,
            sources,
            num_copied,
        };
        self.kernel.enqueue(stream, GRID, args)
    }

    /// Waits for the queued frame, once, and replaces the contents of `out` by its
    /// detections. Nothing is allocated if `out` has the capacity for the maximum.
    ///
    /// # Errors
    /// `Device` when queued work failed; then `out` is empty.
    pub fn read(&mut self, out: &mut Vec<Detection2d<B>>) -> Result<Gathered> {
        out.clear();
        self.stream.synchronize()?;
        Ok(self.read_complete(out))
    }

    /// As [`Workspace::read`], after the caller has waited for the queued frame.
    pub fn read_complete(&mut self, out: &mut Vec<Detection2d<B>>) -> Gathered {
        out.clear();
        let gathered = self.gathered.get(0).unwrap_or_default();
        self.detections.copy_to(gathered.num_detections as usize, out);
        gathered
    }
}

/// The attributes that a head regresses beside the boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputAttributes {
    /// Velocities.
    pub velocity: bool,
    /// Variances.
    pub variance: bool,
}

/// The inputs of `gather_3d`, in device memory.
#[derive(Clone, Copy)]
pub struct Inputs3d<'a> {
    /// The candidates.
    pub candidates: &'a DeviceCandidates<Box3d>,
    /// Velocities and variances, and the index of each candidate among them.
    pub motions: Option<(&'a DeviceBuffer<Motion>, &'a DeviceBuffer<u32>)>,
    /// The survivors, best first, and their number.
    pub kept: (&'a DeviceBuffer<Kept>, &'a DeviceBuffer<NmsCounts>),
}

/// Kernel and memory of `gather_3d` on one stream.
pub struct Workspace3d {
    stream: Stream,
    kernel: Kernel<Gather3d>,
    attributes: OutputAttributes,
    words: MappedBuffer<u32>,
    gathered: MappedBuffer<Gathered>,
    read_words: Vec<u32>,
    max_detections: usize,
}

impl Workspace3d {
    /// Loads the kernel and allocates memory for `max_detections`.
    ///
    /// # Errors
    /// `Device` when this build has no such kernel or there is not enough
    /// memory.
    pub fn new(
        stream: &Stream,
        attributes: OutputAttributes,
        max_detections: usize,
    ) -> Result<Self> {
        let num_words = max_detections.saturating_mul(attributes.num_words());
        Ok(Self {
            stream: stream.clone(),
            kernel: stream.device().kernel()?,
            attributes,
            words: MappedBuffer::zeros(stream, num_words)?,
            gathered: MappedBuffer::zeros(stream, 1)?,
            read_words: Vec::with_capacity(num_words),
            max_detections,
        })
    }

    /// Queues the gathering of the survivors and the publishing of the frame's
    /// `counters`.
    ///
    /// # Errors
    /// `Device` when a buffer belongs to another stream or the launch fails.
    pub fn enqueue(&mut self, inputs: &Inputs3d<'_>, counters: &mut DeviceCounters) -> Result<()> {
        let stream = &self.stream;
        let PublishedCounters { entries, published } = counters.publish(stream)?;
        let (motions, places) = match inputs.motions {
            Some((motions, places)) => (motions.input(stream)?, places.input(stream)?),
            None => (In::empty(), In::empty()),
        };
        let args = Gather3dArgs {
            candidates: inputs.candidates.items.input(stream)?,
            motions,
            places,
            kept: inputs.kept.0.input(stream)?,
            nms_counts: inputs.kept.1.input(stream)?,
            counters: entries,
            published: self.words.output(stream)?,
            gathered: self.gathered.output(stream)?,
            published_counters: published,
            max_detections: u32::try_from(self.max_detections).unwrap_or(u32::MAX),
            has_velocity: u32::from(self.attributes.velocity),
            has_variance: u32::from(self.attributes.variance),
            reserved: 0,
        };
        self.kernel.enqueue(stream, GRID, args)
    }

    /// Waits for the queued frame, once, and replaces the contents of `out` by its
    /// detections. Nothing is allocated if `out` has the capacity for the maximum.
    ///
    /// # Errors
    /// `Device` when queued work failed; then `out` is empty.
    pub fn read(&mut self, out: &mut Vec<Detection3d>) -> Result<Gathered> {
        out.clear();
        self.stream.synchronize()?;
        Ok(self.read_complete(out))
    }

    /// As [`Workspace3d::read`], after the caller has waited for the queued frame.
    pub fn read_complete(&mut self, out: &mut Vec<Detection3d>) -> Gathered {
        out.clear();
        let gathered = self.gathered.get(0).unwrap_or_default();
        let Self { attributes, words, read_words, .. } = self;
        let num_words = attributes.num_words();
        read_words.clear();
        words.copy_to(gathered.num_detections as usize * num_words, read_words);
        out.extend(read_words.chunks_exact(num_words).map(|words| attributes.detection(words)));
        gathered
    }
}

impl OutputAttributes {
    /// Words of a detection.
    pub fn num_words(self) -> usize {
        let velocity = if self.velocity { VELOCITY_WORDS } else { 0 };
        let variance = if self.variance { VARIANCE_WORDS } else { 0 };
        BOX_WORDS + velocity + variance
    }

    /// A detection from its words.
    fn detection(self, words: &[u32]) -> Detection3d {
        let at = |index: usize| words.get(index).map_or(0.0, |&word| f32::from_bits(word));
        let three = |first| [at(first), at(first + 1), at(first + 2)];
        let [length_m, width_m, height_m] = three(5);
        let variances = BOX_WORDS + if self.velocity { VELOCITY_WORDS } else { 0 };
        let object = Object3d {
            bbox: Box3d { center: three(2), length_m, width_m, height_m, yaw_rad: at(8) },
            velocity_mps: self.velocity.then(|| [at(BOX_WORDS), at(BOX_WORDS + 1)]),
            variance: self.variance.then(|| Variance3d {
                center: three(variances),
                size: three(variances + 3),
                yaw: at(variances + 6),
                velocity: [at(variances + 7), at(variances + 8)],
            }),
        };
        Detection3d { class: words.first().copied().unwrap_or(0), score: at(1), object }
    }
}
