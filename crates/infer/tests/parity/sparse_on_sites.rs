//! Networks that end on sites: one graph a frame, and the outputs of the CPU.

use det_post_infer::sparse::{CpuEncoder, CudaEncoder, Plan, SparseNetwork, parse};
use det_post_ops::device::cuda::{DeviceBuffer, Graph, Stream};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::rulebook::cuda::Cells;

use det_post_testing::random::Random;
use det_post_testing::voxelnext::{SMALL, VoxelNext, voxels};

/// The outputs of a frame, one after the other.
type Outputs = Vec<Vec<f32>>;

struct Scene {
    network: SparseNetwork,
    capacities: Vec<usize>,
    cells: Vec<[i32; 4]>,
    features: Vec<f32>,
}

impl Scene {
    fn new(of: &VoxelNext<'_>, num: usize) -> Self {
        let network = parse(&of.file().to_bytes()).unwrap().network;
        let (cells, features) = voxels(&mut Random::new(441), of.grid, num, of.num_features);
        let capacities = network.default_capacities(num);
        Self { network, capacities, cells, features }
    }

    fn plan(&self) -> Plan {
        Plan::new(self.network.clone(), &self.capacities).unwrap()
    }

    fn reference(&self, num: usize, precision: Precision) -> (Outputs, CpuEncoder) {
        let mut encoder = CpuEncoder::new(self.plan(), precision, 2).unwrap();
        let features = &self.features[..num * self.network.input_channels()];
        encoder.run_on_sites(&self.cells[..num], features).unwrap();
        let positions = 0..self.network.site_outputs.len();
        let outputs = positions.map(|at| encoder.site_output(at).unwrap().to_vec()).collect();
        (outputs, encoder)
    }
}

/// A network and its frame as one graph.
struct Recorded<'a> {
    scene: &'a Scene,
    encoder: CudaEncoder,
    rows: DeviceBuffer<[u32; 4]>,
    num: DeviceBuffer<u32>,
    features: DeviceBuffer<f32>,
    graph: Graph,
}

impl<'a> Recorded<'a> {
    fn new(stream: &Stream, scene: &'a Scene, precision: Precision) -> Self {
        let mut encoder = CudaEncoder::new(stream, scene.plan(), precision).unwrap();
        let mut rows = DeviceBuffer::zeros(stream, scene.cells.len()).unwrap();
        let cells: Vec<_> = scene.cells.iter().map(|row| row.map(i32::cast_unsigned)).collect();
        rows.write(&cells).unwrap();
        let num = DeviceBuffer::zeros(stream, 1).unwrap();
        let mut features = DeviceBuffer::zeros(stream, scene.features.len()).unwrap();
        features.write(&scene.features).unwrap();
        let graph = Graph::capture(stream, || {
            encoder.enqueue_on_sites(Cells::Coordinates(&rows), &num, &features)
        })
        .unwrap();
        Self { scene, encoder, rows, num, features, graph }
    }

    fn run(&mut self, num: usize) -> Outputs {
        assert!(num <= self.rows.len() && self.features.len() >= num);
        self.num.write(&[num as u32]).unwrap();
        self.graph.enqueue().unwrap();
        let num_sites = self.encoder.last_sites().read().unwrap().len();
        let network = &self.scene.network;
        let outputs = network.site_outputs.iter().enumerate().map(|(position, output)| {
            let channels = network.tensors[output.tensor].channels;
            self.encoder.site_output(position).unwrap().read(num_sites, channels).unwrap()
        });
        outputs.collect()
    }
}

fn bits(outputs: &Outputs) -> Vec<u32> {
    outputs.iter().flatten().map(|value| value.to_bits()).collect()
}

fn relative_l2(found: &Outputs, expected: &Outputs) -> f64 {
    let sum = |of: &mut dyn Iterator<Item = f64>| of.map(|x| x * x).sum::<f64>();
    let (found, expected) = (found.concat(), expected.concat());
    assert_eq!(found.len(), expected.len());
    let pairs = found.iter().zip(&expected);
    let difference = sum(&mut pairs.map(|(a, b)| f64::from(a - b)));
    (difference / sum(&mut expected.iter().map(|&x| f64::from(x)))).sqrt()
}

#[test]
fn outputs_on_sites_agree_to_the_bit_in_f32() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let wide = VoxelNext { width: 40, tasks: &[1, 2, 20], has_iou: false, ..SMALL };
    for of in [SMALL, wide] {
        let mut scene = Scene::new(&of, 400);
        for is_cut in [false, true] {
            if is_cut {
                // Every level over its capacity, the merged one and that after it, too.
                scene.capacities = vec![300, 200, 90, 40, 15, 4, 20, 30];
            }
            let mut recorded = Recorded::new(&stream, &scene, Precision::F32);
            for num in [400, 0, 1, 130, 400] {
                let (expected, on_cpu) = scene.reference(num, Precision::F32);
                let found = recorded.run(num);
                let context = format!("{of:?} {num} {is_cut}");
                assert_eq!(recorded.encoder.counts().unwrap(), *on_cpu.counts(), "{context}");
                for (sites, expected) in recorded.encoder.levels().iter().zip(on_cpu.levels()) {
                    assert_eq!(sites.read().unwrap(), expected.indices(), "{context}");
                }
                assert!(bits(&found) == bits(&expected), "{context}");
            }
        }
    }
}

#[test]
fn outputs_on_sites_of_lower_precision_agree_and_repeat() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let scene = Scene::new(&SMALL, 400);
    let (expected, _) = scene.reference(400, Precision::F32);
    for (precision, bound) in
        [(Precision::F16, 4e-3), (Precision::Bf16, 3e-2), (Precision::Tf32, 4e-3)]
    {
        let mut recorded = Recorded::new(&stream, &scene, precision);
        let found = recorded.run(400);
        let distance = relative_l2(&found, &expected);
        assert!(distance > 0.0 && distance <= bound, "{precision:?}: {distance:e}");
        for _ in 0..20 {
            assert!(bits(&recorded.run(400)) == bits(&found), "{precision:?}");
        }
    }
}
