//! Merging of the sites of levels: the same sites and equal sums.

use det_post_ops::device::cuda::{DeviceBuffer, Stream};
use det_post_ops::sparse::conv::Precision;
use det_post_ops::sparse::conv::cuda::DeviceFeatures;
use det_post_ops::sparse::merge::cuda::{DeviceSource, Workspace};
use det_post_ops::sparse::merge::{Source, sparse_merge};
use det_post_ops::sparse::rulebook::cuda::{Cells, DeviceSites, Workspace as Rulebooks};
use det_post_ops::sparse::rulebook::{Scaled, SiteGrid, Sites, merged_sites, sites_of_coordinates};

use det_post_testing::random::Random;
use det_post_testing::sparse_scenes::values;

/// A level on both sides.
struct Level {
    scale: u32,
    sites: Sites,
    on_device: DeviceSites,
}

impl Level {
    fn new(stream: &Stream, random: &mut Random, scale: u32, shape: [u32; 3], num: usize) -> Self {
        let grid = SiteGrid::new(1, shape).unwrap();
        let cell = |random: &mut Random| {
            let [z, y, x] = shape.map(|size| random.below(size as usize) as i32);
            [0, z, y, x]
        };
        let cells: Vec<[i32; 4]> = (0..num).map(|_| cell(random)).collect();
        let mut sites = Sites::new(grid, num.max(1));
        sites_of_coordinates(&cells, &mut sites, &mut Vec::new());
        let mut on_device = DeviceSites::input(stream, grid, num.max(1)).unwrap();
        let rows: Vec<[u32; 4]> = cells.iter().map(|row| row.map(i32::cast_unsigned)).collect();
        let mut coordinates = DeviceBuffer::zeros(stream, num.max(1)).unwrap();
        coordinates.write(&rows).unwrap();
        let mut number = DeviceBuffer::zeros(stream, 1).unwrap();
        number.write(&[num as u32]).unwrap();
        let rulebooks = Rulebooks::new(stream).unwrap();
        rulebooks.enqueue_input(Cells::Coordinates(&coordinates), &number, &mut on_device).unwrap();
        assert_eq!(on_device.read().unwrap(), sites.indices());
        Self { scale, sites, on_device }
    }
}

/// Levels with the scale, the grid and the number of cells of each, and the capacity of a plane.
struct Problem<'a> {
    name: &'a str,
    levels: &'a [(u32, [u32; 3], usize)],
    plane: [u32; 2],
    capacity: usize,
}

impl Problem<'_> {
    fn check(&self, stream: &Stream, random: &mut Random) {
        let [rows, columns] = self.plane;
        let grid = SiteGrid::new(1, [1, rows, columns]).unwrap();
        let levels: Vec<Level> = self
            .levels
            .iter()
            .map(|&(scale, shape, num)| Level::new(stream, random, scale, shape, num))
            .collect();
        let mut plane = Sites::new(grid, self.capacity);
        let sources: Vec<_> =
            levels.iter().map(|of| Scaled { level: &of.sites, scale: of.scale }).collect();
        let counts = merged_sites(&sources, &mut plane).unwrap();
        let mut on_device = DeviceSites::output(stream, grid, self.capacity).unwrap();
        let device_sources: Vec<_> =
            levels.iter().map(|of| Scaled { level: &of.on_device, scale: of.scale }).collect();
        let rulebooks = Rulebooks::new(stream).unwrap();
        // Twice: nothing stays of the first.
        for _ in 0..2 {
            rulebooks.enqueue_clear(std::slice::from_mut(&mut on_device)).unwrap();
            rulebooks.enqueue_merged(&device_sources, &mut on_device).unwrap();
            assert_eq!(on_device.read().unwrap(), plane.indices(), "{}", self.name);
            assert_eq!(on_device.output_counts().unwrap(), counts, "{}", self.name);
        }
        for (channels, precision) in [
            (1, Precision::F32),
            (16, Precision::F16),
            (40, Precision::Bf16),
            (128, Precision::F32),
            (128, Precision::F16),
            (200, Precision::F32),
        ] {
            let features: Vec<Vec<f32>> = levels
                .iter()
                .map(|of| {
                    let values = values(random, of.sites.len() * channels, 3.0);
                    values.iter().map(|&value| precision.round_stored(value)).collect()
                })
                .collect();
            let with_features: Vec<_> = sources
                .iter()
                .zip(&features)
                .map(|(&sites, features)| Source { sites, features })
                .collect();
            let mut expected = vec![0.0; plane.len() * channels];
            sparse_merge(&with_features, channels, &plane, &mut expected).unwrap();
            expected.iter_mut().for_each(|value| *value = precision.round_stored(*value));
            let row_len = DeviceFeatures::row_len(channels);
            let memory =
                |rows: usize| DeviceFeatures::new(stream, precision, rows * row_len).unwrap();
            let uploaded: Vec<DeviceFeatures> = levels
                .iter()
                .zip(&features)
                .map(|(level, values)| {
                    let mut features = memory(level.on_device.capacity());
                    features.write(values, channels).unwrap();
                    features
                })
                .collect();
            let on_devices: Vec<_> = device_sources
                .iter()
                .zip(&uploaded)
                .map(|(&sites, features)| DeviceSource { sites, features })
                .collect();
            let mut out = memory(on_device.capacity());
            let merge = Workspace::new(stream).unwrap();
            merge.enqueue(&on_devices, channels, &on_device, &mut out).unwrap();
            let found = out.read(plane.len(), channels).unwrap();
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&found), bits(&expected), "{} {channels} {precision:?}", self.name);
        }
    }
}

#[test]
fn merges_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut random = Random::new(431);
    let three = [(1, [5, 40, 50], 3000), (2, [3, 20, 25], 900), (4, [2, 10, 13], 90)];
    for (name, levels, plane, capacity) in [
        ("three", &three[..], [40, 50], 2000),
        ("one", &three[..1], [40, 50], 2000),
        ("exactly full", &[(1, [1, 1, 64], 4000)], [1, 64], 64),
        ("cut", &three[..], [40, 50], 300),
        ("empty", &[(1, [5, 4, 4], 0), (2, [3, 2, 2], 0)], [4, 4], 16),
        ("of one level", &[(1, [5, 4, 4], 0), (2, [3, 2, 2], 5)], [4, 4], 16),
        // More cells along the first axis than a warp has lanes.
        ("high", &[(3, [70, 6, 7], 1500), (1, [41, 18, 21], 2500)], [18, 21], 378),
    ] {
        Problem { name, levels, plane, capacity }.check(&stream, &mut random);
    }
}
