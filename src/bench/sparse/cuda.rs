//! Sparse encoders and their parts on a GPU, each as one graph.

use super::{Family, NUM_VOXELS, Scene};
use crate::bench::case::{Bar, Case, wall};
use crate::bench::inputs::Random;
use crate::bench::measure::Bench;
use det_post_infer::sparse::CudaEncoder;
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, DeviceTensor, Stream};
use det_post_ops::sparse::conv::cuda::{Convolution, DeviceFeatures};
use det_post_ops::sparse::conv::{ConvParameters, Precision};
use det_post_ops::sparse::rulebook::Mode;
use det_post_ops::sparse::rulebook::cuda::Cells;
use det_post_ops::sparse::to_map::cuda::Workspace as ToMap;
use det_post_types::{ElementType, Error, ErrorKind, Result};

/// How often the parts are done in a graph.
const NUM_TIMES: u32 = 20;

pub(super) fn cases(bench: &mut Bench<'_>, device: &CudaDevice) -> Result<()> {
    let stream = &device.stream()?;
    for (size, scene_name) in [Scene::smaller_name(), "400k voxels".to_owned()].iter().enumerate() {
        let case = |family: Family, precision| {
            let name = family.case(precision, scene_name);
            Case::new(name).with_bar(bar(family, precision, size))
        };
        let encoders = Family::ALL
            .map(|family| [Precision::F16, Precision::F32].map(|precision| (family, precision)));
        let parts = Parts::new(scene_name, size);
        let wants_encoder = |&(family, precision): &(Family, Precision)| {
            bench.wants(&family.case(precision, scene_name))
        };
        if !encoders.as_flattened().iter().any(wants_encoder) && !parts.any_wanted(bench) {
            continue;
        }
        let scene = if size == 0 { Scene::smaller()? } else { Scene::generated(NUM_VOXELS[1]) };
        for &(family, precision) in encoders.as_flattened() {
            if bench.wants(&family.case(precision, scene_name)) {
                let mut frame = Frame::new(stream, &scene, family, precision)?;
                bench.recorded(case(family, precision), stream, || frame.enqueue())?;
            }
        }
        if parts.any_wanted(bench) {
            let mut frame = Frame::new(stream, &scene, Family::Res, Precision::F16)?;
            frame.enqueue()?;
            parts.measure(bench, stream, &mut frame)?;
        }
    }
    Ok(())
}

/// Bars of one H200.
fn bar(family: Family, precision: Precision, size: usize) -> Option<Bar> {
    let [small, large] = match (family, precision) {
        (Family::Res, Precision::F32) => [Some(5000.0), None],
        (Family::Res, _) => [Some(800.0), Some(2400.0)],
        (Family::Plain, Precision::F32) => [None, None],
        (Family::Plain, _) => [Some(450.0), Some(1100.0)],
    };
    [small, large][size].and_then(|must_reach_us| wall(None, must_reach_us))
}

/// An encoder with its inputs and its map.
struct Frame {
    encoder: CudaEncoder,
    cells: DeviceBuffer<[u32; 4]>,
    num: DeviceBuffer<u32>,
    features: DeviceBuffer<f32>,
    map: DeviceTensor,
}

impl Frame {
    fn new(stream: &Stream, scene: &Scene, family: Family, precision: Precision) -> Result<Self> {
        let encoder = CudaEncoder::new(stream, family.plan(scene.len())?, precision)?;
        let rows: Vec<[u32; 4]> =
            scene.coordinates.iter().map(|row| row.map(i32::cast_unsigned)).collect();
        let mut cells = DeviceBuffer::zeros(stream, rows.len())?;
        cells.write(&rows)?;
        let mut num = DeviceBuffer::zeros(stream, 1)?;
        num.write(&[rows.len() as u32])?;
        let mut features = DeviceBuffer::zeros(stream, scene.features.len())?;
        features.write(&scene.features)?;
        let element = if precision == Precision::F32 { ElementType::F32 } else { ElementType::F16 };
        let map = DeviceTensor::zeros(stream, element, &encoder.plan().network().map_shape())?;
        Ok(Self { encoder, cells, num, features, map })
    }

    fn enqueue(&mut self) -> Result<()> {
        let cells = Cells::Coordinates(&self.cells);
        self.encoder.enqueue(cells, &self.num, &self.features, &mut self.map)
    }
}

/// The parts of an encoder.
struct Parts {
    rulebooks: String,
    map: String,
    /// Channels, the level of the sites, and the name.
    convolutions: [(usize, usize, String); 4],
    size: usize,
}

impl Parts {
    fn new(scene: &str, size: usize) -> Self {
        let convolution = |width: usize, level| {
            (width, level, format!("sparse submanifold convolution f16, {width} channels, {scene}"))
        };
        Self {
            rulebooks: format!("sparse rulebooks, {scene}"),
            map: format!("sparse map f16, {scene}"),
            convolutions: [(16, 0), (32, 1), (64, 2), (128, 3)].map(|(w, l)| convolution(w, l)),
            size,
        }
    }

    fn any_wanted(&self, bench: &Bench<'_>) -> bool {
        let convolutions = self.convolutions.iter().map(|(_, _, name)| name);
        [&self.rulebooks, &self.map].into_iter().chain(convolutions).any(|name| bench.wants(name))
    }

    fn measure(&self, bench: &mut Bench<'_>, stream: &Stream, frame: &mut Frame) -> Result<()> {
        if bench.wants(&self.rulebooks) {
            let bar = wall(None, [150.0, 300.0][self.size]);
            bench.recorded(Case::new(&self.rulebooks).with_bar(bar), stream, || {
                frame.encoder.enqueue_sites_and_tables(Cells::Coordinates(&frame.cells), &frame.num)
            })?;
        }
        let encoder = &frame.encoder;
        if bench.wants(&self.map) {
            let network = encoder.plan().network();
            let tensor = network.tensors[network.map.input];
            let to_map = ToMap::new(stream)?;
            bench.recorded(Case::new(&self.map).each_of(NUM_TIMES), stream, || {
                let sites = &encoder.levels()[tensor.level];
                let (features, axes) = (encoder.map_features(), network.map.axes);
                to_map.enqueue(features, sites, axes, tensor.channels, &mut frame.map)
            })?;
        }
        for (width, level, name) in &self.convolutions {
            if bench.wants(name) {
                convolution(bench, stream, encoder, [*width, *level], name)?;
            }
        }
        Ok(())
    }
}

fn convolution(
    bench: &mut Bench<'_>,
    stream: &Stream,
    encoder: &CudaEncoder,
    [width, level]: [usize; 2],
    name: &str,
) -> Result<()> {
    let mut random = Random::new(33);
    let mut values = |num: usize| (0..num).map(|_| random.range(-1.0, 1.0)).collect::<Vec<f32>>();
    let weights = values(width * 27 * width);
    let parameters = ConvParameters::new([width, 27, width], &weights, None)?;
    let convolution = Convolution::new(stream, &parameters, Precision::F16)?;
    let capacity = encoder.plan().capacities()[level];
    let len = capacity * DeviceFeatures::row_len(width);
    let mut features = DeviceFeatures::new(stream, Precision::F16, len)?;
    features.write(&values(capacity * width), width)?;
    let mut out = DeviceFeatures::new(stream, Precision::F16, len)?;
    let rulebooks = encoder.plan().rulebooks().iter();
    let table = rulebooks
        .zip(encoder.tables())
        .find(|(rulebook, _)| rulebook.mode == Mode::Submanifold && rulebook.output_level == level)
        .map(|(_, table)| table);
    let table = table.ok_or_else(|| {
        Error::new(ErrorKind::Model, "bench", format!("level {level} has no submanifold rulebook"))
    })?;
    bench.recorded(Case::new(name).each_of(NUM_TIMES), stream, || {
        let places = (table, &encoder.levels()[level]);
        convolution.enqueue(&features, places, None, true, &mut out)
    })
}
