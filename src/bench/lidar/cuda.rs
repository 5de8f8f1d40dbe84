//! The ops of a lidar's frame on a GPU: one by one, and as a frame has them.

use super::{
    Cloud, DECODE, FEATURES, MAX_POINTS, NUM_CHANNELS, NUM_CLASSES, NUM_FEATURES, NUM_POINTS,
    SCATTER, SCATTER_LAST, SIDE, TOP_K, UNPACK, VOXELIZE, decode_params, maps_of_a_head,
    pillar_grid, scan, unpack_params,
};
use crate::bench::case::{Bar, Case, gpu, wall};
use crate::bench::measure::Bench;
use det_post_ops::cloud::pillar_features::cuda::Workspace as Features;
use det_post_ops::cloud::scatter::cuda::Workspace as Scatterer;
use det_post_ops::cloud::unpack::UnpackParams;
use det_post_ops::cloud::unpack::cuda::Workspace as Unpacker;
use det_post_ops::cloud::voxelize::cuda::{DeviceVoxels, Workspace as Voxelizer};
use det_post_ops::cloud::{DeviceCloud, DevicePoints};
use det_post_ops::decode::center::CenterTask;
use det_post_ops::decode::center::cuda::Workspace as Decoder;
use det_post_ops::decode::gather::cuda::{Inputs3d, OutputAttributes, Workspace3d};
use det_post_ops::decode::select::Limits;
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, DeviceTensor, Graph, Stream};
use det_post_ops::nms::cuda::{Capacity, Suppression3d};
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    Box3d, CircleThreshold, ClassMode, ElementType, Error, ErrorKind, MapLayout, Nms3d, NmsCircle,
    PointFields, Result,
};

const BEFORE: &str = "unpack + voxelize + pillar_features 200k points";
const AFTER: &str = "decode_center + select + nms_circle 5x480x480";
const AROUND: &str = "lidar frame but networks and upload, 200k points, 5x480x480";
const MAX_DETECTIONS: usize = 300;

pub(super) fn cases(bench: &mut Bench<'_>, device: &CudaDevice) -> Result<()> {
    let stream = &device.stream()?;
    if [UNPACK, VOXELIZE, FEATURES, SCATTER, SCATTER_LAST, BEFORE]
        .iter()
        .any(|name| bench.wants(name))
    {
        before(bench, stream)?;
    }
    if [DECODE, AFTER].iter().any(|name| bench.wants(name)) {
        after(bench, stream)?;
    }
    super::several::on_gpu(bench, stream)?;
    if bench.wants(AROUND) {
        around(bench, stream)?;
    }
    Ok(())
}

/// From the uploaded cloud to the encoder's input, and from its output to the
/// map.
struct Pillars {
    cloud: DeviceCloud,
    fields: PointFields<'static>,
    params: UnpackParams,
    unpack: Unpacker,
    points: DevicePoints,
    counters: DeviceCounters,
    voxelize: Voxelizer,
    voxels: DeviceVoxels,
    make_features: Features,
    features: DeviceTensor,
    scatter: Scatterer,
    encoded: DeviceTensor,
    map: DeviceTensor,
}

impl Pillars {
    /// With a map of f32 as every engine takes it, or of f16 as dense layers do.
    fn new(stream: &Stream, layout: MapLayout) -> Result<Self> {
        let (cloud, params) = (Cloud::of(&scan()), pillar_grid()?);
        let mut on_device = DeviceCloud::with_capacity(stream, cloud.0.len())?;
        on_device.enqueue_upload(&cloud.view()?)?;
        let num_voxels = params.voxel_capacity;
        let tensor = |shape: &[usize]| DeviceTensor::zeros(stream, ElementType::F32, shape);
        let features = tensor(&[num_voxels, MAX_POINTS, NUM_FEATURES])?;
        let map = match layout {
            MapLayout::ChannelsLast => {
                let shape = [1, SIDE, SIDE, NUM_CHANNELS];
                DeviceTensor::zeros(stream, ElementType::F16, &shape)?
            }
            _ => tensor(&[1, NUM_CHANNELS, SIDE, SIDE])?,
        };
        Ok(Self {
            cloud: on_device,
            fields: Cloud::fields()?,
            params: unpack_params()?,
            unpack: Unpacker::new(stream, NUM_POINTS)?,
            points: DevicePoints::with_capacity(stream, 4, NUM_POINTS)?,
            counters: DeviceCounters::new(stream)?,
            voxelize: Voxelizer::new(stream, &params, NUM_POINTS)?,
            voxels: DeviceVoxels::new(stream, &params, NUM_POINTS)?,
            make_features: Features::new(stream, &features)?,
            features,
            scatter: Scatterer::new(stream, &params.grid, layout)?,
            encoded: tensor(&[num_voxels, NUM_CHANNELS])?,
            map,
        })
    }

    fn unpack(&mut self) -> Result<()> {
        let (points, counters) = (&mut self.points, &mut self.counters);
        self.unpack.enqueue(&self.cloud, &self.fields, &self.params, points, counters)
    }

    fn voxelize(&mut self) -> Result<()> {
        self.voxelize.enqueue(&self.points, &mut self.voxels, &mut self.counters)
    }

    fn features(&mut self) -> Result<()> {
        let from = (&self.points, &self.voxels);
        self.make_features.enqueue(from, false, &mut self.features)
    }

    fn scatter(&mut self) -> Result<()> {
        self.scatter.enqueue(&self.encoded, &self.voxels, &mut self.map)
    }

    /// All that goes before the encoder.
    fn all(&mut self) -> Result<()> {
        self.unpack()?;
        self.voxelize()?;
        self.features()
    }
}

fn before(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
    let mut pillars = Pillars::new(stream, MapLayout::Planar)?;
    // Every step reads what the steps before it wrote.
    pillars.all()?;
    type Step = fn(&mut Pillars) -> Result<()>;
    let steps: [(&str, Step, Option<Bar>); 5] = [
        (UNPACK, Pillars::unpack, None),
        (VOXELIZE, Pillars::voxelize, None),
        (FEATURES, Pillars::features, None),
        (SCATTER, Pillars::scatter, None),
        (BEFORE, Pillars::all, gpu(None, 60.0)),
    ];
    for (name, step, bar) in steps {
        if bench.wants(name) {
            bench.recorded(Case::new(name).with_bar(bar), stream, || step(&mut pillars))?;
        }
    }
    if bench.wants(SCATTER_LAST) {
        let mut pillars = Pillars::new(stream, MapLayout::ChannelsLast)?;
        pillars.all()?;
        bench.recorded(Case::new(SCATTER_LAST), stream, || pillars.scatter())?;
    }
    Ok(())
}

/// What follows the network.
struct Objects {
    maps: [DeviceTensor; 5],
    num_voxels: DeviceBuffer<u32>,
    decoder: Decoder,
    candidates: DeviceCandidates<Box3d>,
    suppression: Suppression3d,
    gather: Workspace3d,
}

impl Objects {
    fn new(stream: &Stream) -> Result<Self> {
        let mut on_device = Vec::new();
        for map in maps_of_a_head() {
            let mut tensor = DeviceTensor::zeros(stream, map.element(), map.shape())?;
            tensor.write(&map.view())?;
            on_device.push(tensor);
        }
        let maps = <[DeviceTensor; 5]>::try_from(on_device)
            .map_err(|_| Error::new(ErrorKind::Argument, "bench", "not five maps"))?;
        let mut num_voxels = DeviceBuffer::zeros(stream, 1)?;
        num_voxels.write(&[1])?;
        let params = decode_params();
        let limits = Limits { candidate_capacity: 8192, pre_nms_top_k: TOP_K };
        let mut decoder = Decoder::new(stream, &params, SIDE * SIDE, TOP_K)?;
        decoder.set(&params, limits)?;
        let circle = NmsCircle {
            thresholds: vec![0.5, 1.5, 3.0, 0.85, 1.0],
            reading: CircleThreshold::Radius,
            class_mode: ClassMode::Aware,
        };
        let capacity = Capacity { candidates: TOP_K, classes: NUM_CLASSES };
        let attributes = OutputAttributes { velocity: false, variance: false };
        Ok(Self {
            maps,
            num_voxels,
            decoder,
            candidates: DeviceCandidates::with_capacity(stream, TOP_K)?,
            suppression: Suppression3d::new(stream, &Nms3d::Circle(circle), capacity)?,
            gather: Workspace3d::new(stream, attributes, MAX_DETECTIONS)?,
        })
    }

    fn decode(&mut self, counters: &mut DeviceCounters) -> Result<()> {
        let [heatmap, offset, height, size, rotation] = &self.maps;
        let task = CenterTask { heatmap, offset, height, size, rotation, velocity: None };
        self.decoder.enqueue(&[task], &self.num_voxels, &mut self.candidates, counters)
    }

    fn suppress(&mut self, counters: &mut DeviceCounters) -> Result<()> {
        self.decode(counters)?;
        self.suppression.enqueue(&self.candidates)
    }

    fn gather(&mut self, counters: &mut DeviceCounters) -> Result<()> {
        self.suppress(counters)?;
        let inputs = Inputs3d {
            candidates: &self.candidates,
            motions: Some(self.decoder.motions()),
            kept: self.suppression.kept(),
        };
        self.gather.enqueue(&inputs, counters)
    }
}

fn after(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
    let (mut objects, mut counters) = (Objects::new(stream)?, DeviceCounters::new(stream)?);
    if bench.wants(DECODE) {
        bench.recorded(Case::new(DECODE), stream, || objects.decode(&mut counters))?;
    }
    if bench.wants(AFTER) {
        let case = Case::new(AFTER).with_bar(wall(None, 20.0));
        bench.recorded(case, stream, || objects.suppress(&mut counters))?;
    }
    Ok(())
}

/// Three launches and one wait, as a frame has them.
fn around(bench: &mut Bench<'_>, stream: &Stream) -> Result<()> {
    let (mut pillars, mut objects) =
        (Pillars::new(stream, MapLayout::ChannelsLast)?, Objects::new(stream)?);
    let before = Graph::capture(stream, || pillars.all())?;
    let between = Graph::capture(stream, || pillars.scatter())?;
    let after = Graph::capture(stream, || objects.gather(&mut pillars.counters))?;
    let enqueue = || [&before, &between, &after].into_iter().try_for_each(Graph::enqueue);
    let mut out = Vec::with_capacity(MAX_DETECTIONS);
    let case = Case::new(AROUND).with_bar(wall(None, 120.0));
    bench.device(case, stream, enqueue, || objects.gather.read(&mut out).map(|_| ()))
}
