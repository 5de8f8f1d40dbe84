//! Whole encoders: sites and pairs of all levels are equal to those of the
//! references, f32 features agree to 2e-5 of the largest value of their stage,
//! and their sums and sums of squares to 1e-5.

use det_post_infer::sparse::{CpuEncoder, Plan, SparseNetwork, Step};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::rulebook::Mode;
use det_post_types::{ElementType, Tensor};

use det_post_testing::assert_close;
use det_post_testing::encoders::{Family, Voxelized, network, scan};
use det_post_testing::npz::Npz;
use det_post_testing::shared_data::shared_data;

const FEATURE_TOLERANCE: f32 = 2e-5;
const SUM_TOLERANCE: f64 = 1e-5;

/// A reference of one encoder on one scene.
struct Reference {
    file: Npz,
    /// Keys and shapes of the scene are in the file of the residual encoder.
    scene: Npz,
    family: Family,
    seed: u64,
}

impl Reference {
    fn open(family: Family, scene: &str, seed: u64) -> Option<Self> {
        let folder = shared_data()?.join("sparse");
        let open =
            |family: Family| Npz::open(&folder.join(format!("{}_{scene}.npz", family.name())));
        Some(Self { file: open(family), scene: open(Family::Res), family, seed })
    }

    fn voxels(&self) -> Voxelized {
        Voxelized {
            coordinates: self.scene.rows_of_4("in_coords").to_vec(),
            features: self.scene.f32("in_features").to_vec(),
        }
    }

    fn network(&self) -> (SparseNetwork, Vec<(&'static str, usize)>) {
        let shape = self.scene.i32("level0/shape");
        let shape = std::array::from_fn(|axis| shape[axis] as u32);
        network(&self.family.layers(self.seed, &self.file), shape).unwrap()
    }

    /// Runs the encoder and compares everything but the map. Returns the map.
    fn check(&self, voxels: &Voxelized, num_threads: usize) -> Vec<f32> {
        let (network, stages) = self.network();
        let capacities = network.default_capacities(voxels.coordinates.len());
        let mut map = Tensor::zeros(ElementType::F32, &network.map_shape()).unwrap();
        let plan = Plan::new(network, &capacities).unwrap();
        let mut encoder = CpuEncoder::new(plan, Precision::F32, num_threads).unwrap();
        let mut num_compared = 0;
        let compare = |step: &Step, features: &[f32]| {
            for (stage, _) in stages.iter().filter(|(_, tensor)| *tensor == step.output) {
                self.compare_stage(stage, features);
                num_compared += 1;
            }
        };
        encoder.run_observed(&voxels.coordinates, &voxels.features, &mut map, compare).unwrap();
        assert_eq!(num_compared, 5);
        self.compare_sites(&encoder);
        let Tensor::F32 { values, .. } = map else { panic!("{map:?}") };
        values
    }

    fn compare_sites(&self, encoder: &CpuEncoder) {
        let levels = encoder.levels();
        assert_eq!(levels.len(), 5);
        for (level, sites) in levels.iter().enumerate() {
            let expected = self.scene.i32(&format!("level{level}/keys"));
            assert!(sites.indices().iter().map(|&key| key as i32).eq(expected.iter().copied()));
        }
        let counts = encoder.counts();
        assert_eq!(counts.entrance.num_sites, levels[0].len());
        assert_eq!(counts.entrance.num_duplicates + counts.entrance.num_outside, 0);
        assert!(counts.levels.iter().all(|counts| counts.num_over_capacity == 0));
        let rulebooks = encoder.plan().rulebooks();
        assert_eq!(rulebooks.len(), 8);
        for (rulebook, table) in rulebooks.iter().zip(encoder.tables()) {
            let kind = if rulebook.mode == Mode::Submanifold { "subm" } else { "down" };
            let expected = self.scene.i32(&format!("level{}/{kind}_pairs", rulebook.output_level));
            let pairs = table.pairs_per_tap();
            assert!(pairs.iter().map(|&num| num as i32).eq(expected.iter().copied()));
        }
    }

    fn compare_stage(&self, stage: &str, features: &[f32]) {
        let name = |array| format!("{stage}/{array}");
        let num_channels = self.file.f64(&name("sum")).len();
        let largest = features.iter().fold(0_f32, |largest, value| largest.max(value.abs()));
        let rows = self.file.i32(&name("rows")).iter().map(|&row| row as usize * num_channels);
        let found = rows.flat_map(|start| &features[start..start + num_channels]);
        let errors = found.zip(self.file.f32(&name("features"))).map(|(a, b)| (a - b).abs());
        let error = errors.fold(0.0, f32::max);
        println!("{stage}: error {:.1e} of {largest}", error / largest);
        assert!(error <= FEATURE_TOLERANCE * largest, "{stage}: {error} of {largest}");

        let [mut sums, mut squares] = [(); 2].map(|()| vec![0.0; num_channels]);
        for row in features.chunks_exact(num_channels) {
            for (channel, &value) in row.iter().enumerate() {
                sums[channel] += f64::from(value);
                squares[channel] += f64::from(value) * f64::from(value);
            }
        }
        for (found, array) in [(sums, "sum"), (squares, "sumsq")] {
            for (found, expected) in found.iter().zip(self.file.f64(&name(array))) {
                let error = (found - expected).abs();
                assert!(
                    error <= SUM_TOLERANCE * expected.abs(),
                    "{stage} {array}: {error} of {expected}"
                );
            }
        }
    }
}

#[test]
fn encoders_of_small_scenes() {
    for (scene, seed) in [("mini", 21), ("crop", 22)] {
        for family in [Family::Res, Family::Plain] {
            let Some(reference) = Reference::open(family, scene, seed) else { return };
            let voxels = reference.voxels();
            let map = reference.check(&voxels, 1);
            assert_close(&map, reference.file.f32("bev"), "map");
            let threads = reference.check(&voxels, 2);
            assert!(map.iter().map(|v| v.to_bits()).eq(threads.iter().map(|v| v.to_bits())));
        }
    }
}

/// The voxels, all levels and samples of all stages of a whole scan.
fn encoder_of_the_scan(family: Family) {
    let (Some(reference), Some(voxels)) = (Reference::open(family, "scan", 23), scan()) else {
        return;
    };
    let keys = voxels.coordinates.iter().map(|&[_, z, y, x]| (z * 1440 + y) * 1440 + x);
    assert!(keys.eq(reference.scene.i32("in_keys").iter().copied()));
    let rows = reference.scene.i32("in_feature_rows").iter().map(|&row| row as usize * 5);
    let samples = rows.flat_map(|start| &voxels.features[start..start + 5]);
    assert!(samples.eq(reference.scene.f32("in_feature_samples")));

    let map = reference.check(&voxels, 2);
    let [_, num_planes, num_rows, num_columns] = [1, 256, 180, 180];
    let mut found = Vec::new();
    for &[_, z, y, x] in reference.file.rows_of_4("bev_sample_coords") {
        let [z, y, x] = [z, y, x].map(|cell| cell as usize);
        found.extend((0..128).map(|c| map[((2 * c + z) * num_rows + y) * num_columns + x]));
    }
    assert_close(&found, reference.file.f32("bev_sample_features"), "map");
    let planes = map.chunks_exact(num_rows * num_columns);
    assert_eq!(planes.len(), num_planes);
    for (plane, expected) in planes.zip(reference.file.f64("bev_channel_sum")) {
        let sum: f64 = plane.iter().copied().map(f64::from).sum();
        assert!((sum - expected).abs() <= SUM_TOLERANCE * expected.abs(), "{sum} for {expected}");
    }
}

#[test]
fn residual_encoder_of_the_scan() {
    encoder_of_the_scan(Family::Res);
}

#[test]
fn plain_encoder_of_the_scan() {
    encoder_of_the_scan(Family::Plain);
}

#[test]
fn precisions_are_within_their_bounds_of_f64() {
    // Relative L2 error of a stage.
    for (precision, bound) in
        [(Precision::Tf32, 2e-3), (Precision::F16, 4e-3), (Precision::Bf16, 3e-2)]
    {
        let Some(reference) = Reference::open(Family::Res, "crop", 22) else { return };
        let voxels = reference.voxels();
        let (network, stages) = reference.network();
        let capacities = network.default_capacities(voxels.coordinates.len());
        let mut map = Tensor::zeros(ElementType::F32, &network.map_shape()).unwrap();
        let plan = Plan::new(network, &capacities).unwrap();
        let mut encoder = CpuEncoder::new(plan, precision, 2).unwrap();
        let compare = |step: &Step, features: &[f32]| {
            for (stage, _) in stages.iter().filter(|(_, tensor)| *tensor == step.output) {
                let name = |array| format!("{stage}/{array}");
                let num_channels = reference.file.f64(&name("sum")).len();
                let rows = reference.file.i32(&name("rows")).iter();
                let found =
                    rows.flat_map(|&row| &features[row as usize * num_channels..][..num_channels]);
                let (mut squares, mut all) = (0.0, 0.0);
                for (&found, &expected) in found.zip(reference.file.f32(&name("features"))) {
                    squares += f64::from(found - expected).powi(2);
                    all += f64::from(expected).powi(2);
                }
                let error = (squares / all).sqrt();
                println!("{precision:?} {stage}: {error:.1e}");
                assert!(error <= bound && error > 1e-6, "{precision:?} {stage}: {error}");
            }
        };
        encoder.run_observed(&voxels.coordinates, &voxels.features, &mut map, compare).unwrap();
    }
}
