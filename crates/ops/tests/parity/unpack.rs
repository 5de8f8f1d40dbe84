//! Unpacking: the same points in the same order, and the same counts.

use det_post_ops::cloud::unpack::cuda::{CloudCounts, Part, Workspace};
use det_post_ops::cloud::unpack::placement::{Placement, Rows, Sweep};
use det_post_ops::cloud::unpack::{UnpackCounts, UnpackParams, append, unpack};
use det_post_ops::cloud::{DeviceCloud, DevicePoints, num_bytes};
use det_post_ops::device::cuda::{CudaDevice, InPlaceUploads, PageLocked};
use det_post_ops::shared::DeviceCounters;
use det_post_types::ErrorKind;
use det_post_types::{
    CloudView, Count, PointChannel, PointRange, PointTimes, Points, Stamp, TimeField, Usage,
};

use det_post_testing::clouds::{Cloud, shared_scans};
use det_post_testing::random::Random;

struct Problem<'a> {
    cloud: &'a Cloud,
    params: UnpackParams,
    capacity: usize,
}

impl Problem<'_> {
    fn reference(&self) -> (Points, UnpackCounts) {
        let num_channels = 3 + self.params.channels.len();
        let mut points = Points::with_capacity(num_channels, self.capacity);
        let counts = unpack(&self.cloud.view(), &self.params, &mut points).unwrap();
        (points, counts)
    }

    fn check(&self, device: &CudaDevice) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let view = self.cloud.view();
        let mut workspace = Workspace::new(&stream, self.cloud.num_points()).unwrap();
        let mut uploaded = DeviceCloud::with_capacity(&stream, num_bytes(&view)).unwrap();
        let num_channels = 3 + self.params.channels.len();
        let mut out = DevicePoints::with_capacity(&stream, num_channels, self.capacity).unwrap();
        let (expected, counts) = self.reference();
        let dropped = det_post_testing::counted([
            (Count::PointsNotFinite, counts.num_not_finite),
            (Count::PointsOutOfRange, counts.num_out_of_range),
            (Count::PointsOverCapacity, counts.num_over_capacity),
        ]);
        for run in 0..3 {
            uploaded.enqueue_upload(&view).unwrap();
            workspace
                .enqueue(&uploaded, view.fields(), &self.params, &mut out, &mut counters)
                .unwrap();
            let found = out.read().unwrap();
            let context = format!(
                "run {run}: {:?} {:?} big_endian {} {:?}, capacity {}, {:?}",
                self.cloud.size,
                self.cloud.fields,
                self.cloud.big_endian,
                [self.cloud.point_step, self.cloud.row_step],
                self.capacity,
                self.params
            );
            assert_eq!(counters.take().unwrap(), dropped, "{context}");
            let bits = |points: &Points| -> Vec<u32> {
                points.values().iter().map(|value| value.to_bits()).collect()
            };
            let (found, expected) = (bits(&found), bits(&expected));
            let first = found.iter().zip(&expected).position(|(a, b)| a != b);
            assert!(
                found == expected,
                "{context}: {} values, expected {}; first difference {first:?}: {:x?} {:x?}",
                found.len(),
                expected.len(),
                first.map(|i| found[i]),
                first.map(|i| expected[i]),
            );
        }
    }
}

fn params(channels: Vec<PointChannel>, range: Option<PointRange>) -> UnpackParams {
    UnpackParams { channels, intensity_scale: 1.0 / 255.0, range }
}

fn box_of(half_side: f32) -> PointRange {
    PointRange { min: [-half_side; 3], max: [half_side; 3] }
}

#[test]
fn any_layout_agrees() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(100);
    let channels = [
        PointChannel::Intensity,
        PointChannel::Ring,
        PointChannel::TimeLag,
        PointChannel::Named("t".into()),
    ];
    for case in 0..120 {
        let size = [1 + random.below(700) as u32, 1 + random.below(4) as u32];
        let cloud = Cloud::random(&mut random, size, 0.05);
        let wanted = channels[..random.below(5)].to_vec();
        let range = (case % 2 == 0).then(|| box_of(40.0));
        let capacity = 1 + random.below(2 * cloud.num_points());
        Problem { cloud: &cloud, params: params(wanted, range), capacity }.check(&device);
    }
}

#[test]
fn sizes_around_blocks_and_capacities_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(101);
    for num in [0, 1, 2, 31, 32, 33, 511, 512, 513, 1024, 5000] {
        let values: Vec<f32> = (0..4 * num).map(|_| random.range(-50.0, 50.0)).collect();
        let cloud = Cloud::plain(&values, &["intensity"]);
        let intensity = || vec![PointChannel::Intensity];
        let usable = Problem {
            cloud: &cloud,
            params: params(intensity(), Some(box_of(30.0))),
            capacity: num,
        }
        .reference()
        .1
        .num_points;
        for capacity in [1, usable.max(2) - 1, usable, usable + 1, num + 10] {
            for range in [None, Some(box_of(30.0)), Some(box_of(1e-6))] {
                let params = params(intensity(), range);
                Problem { cloud: &cloud, params, capacity }.check(&device);
            }
        }
    }
}

/// A message of a recording begins at any address of its mapped file.
#[test]
fn clouds_are_read_in_place_wherever_they_begin() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let uploads = InPlaceUploads::with_zero_copy(&stream, Usage::Always).unwrap();
    let mut random = Random::new(104);
    let values: Vec<f32> = (0..4 * 700).map(|_| random.range(-50.0, 50.0)).collect();
    let cloud = Cloud::plain(&values, &["intensity"]);
    let params = params(vec![PointChannel::Intensity], Some(box_of(30.0)));
    let problem = Problem { cloud: &cloud, params, capacity: 700 };
    let (expected, _) = problem.reference();
    for offset in 0..9 {
        let mut memory = PageLocked::zeros(&device, offset + cloud.data.len() + 16).unwrap();
        memory.bytes_mut()[offset..][..cloud.data.len()].copy_from_slice(&cloud.data);
        let bytes = &memory.bytes()[offset..][..cloud.data.len()];
        let steps = [cloud.point_step, cloud.row_step];
        let view = CloudView::new(cloud.size, steps, false, cloud.fields(), bytes).unwrap();
        let mut on_device = DeviceCloud::with_capacity(&stream, num_bytes(&view)).unwrap();
        let mut workspace = Workspace::new(&stream, cloud.num_points()).unwrap();
        let mut out = DevicePoints::with_capacity(&stream, 4, 700).unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let (moved, found) = uploads.scope(|scope| {
            let moved = on_device.enqueue_payload(&view, scope).unwrap();
            let (fields, params) = (view.fields(), &problem.params);
            workspace.enqueue(&on_device, fields, params, &mut out, &mut counters).unwrap();
            (moved, out.read().unwrap())
        });
        assert_eq!([moved.num_copied, moved.num_uploaded], [0, 0], "offset {offset}");
        assert_eq!(found.values(), expected.values(), "offset {offset}");
    }
}

#[test]
fn clouds_without_a_usable_point_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let empty = Cloud::plain(&[], &[]);
    let nan = Cloud::plain(&[f32::NAN; 3 * 3000], &[]);
    let far = Cloud::plain(&[1e9; 3 * 3000], &[]);
    for cloud in [&empty, &nan, &far] {
        for range in [None, Some(box_of(50.0))] {
            Problem { cloud, params: params(vec![], range), capacity: 100 }.check(&device);
        }
    }
}

#[test]
fn sixteen_channels_and_many_points_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(102);
    let names: Vec<String> = (0..13).map(|i| format!("c{i}")).collect();
    let borrowed: Vec<&str> = names.iter().map(String::as_str).collect();
    let values: Vec<f32> = (0..16 * 20_000).map(|_| random.range(-50.0, 50.0)).collect();
    let cloud = Cloud::plain(&values, &borrowed);
    let channels = names.iter().map(|name| PointChannel::Named(name.clone())).collect();
    let wide = params(channels, Some(box_of(45.0)));
    Problem { cloud: &cloud, params: wide, capacity: 15_000 }.check(&device);

    let mut values: Vec<f32> = (0..4 * 300_000).map(|_| random.range(-80.0, 80.0)).collect();
    values.iter_mut().step_by(97).for_each(|value| *value = f32::NAN);
    let cloud = Cloud::plain(&values, &["intensity"]);
    let params = params(vec![PointChannel::Intensity], Some(box_of(70.0)));
    Problem { cloud: &cloud, params, capacity: 250_000 }.check(&device);
}

#[test]
fn shared_scans_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    for (name, values, num_channels) in shared_scans() {
        let names = &["intensity", "ring"][..num_channels - 3];
        let cloud = Cloud::plain(&values, names);
        println!("{name}: {} points", cloud.num_points());
        for capacity in [cloud.num_points(), 10_000] {
            let params = params(vec![PointChannel::Intensity], Some(box_of(50.0)));
            Problem { cloud: &cloud, params, capacity }.check(&device);
        }
    }
}

#[test]
fn what_does_not_fit_is_refused_on_both() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let mut counters = DeviceCounters::new(&stream).unwrap();
    let cloud = Cloud::plain(&[1.0; 300], &[]);
    let view = cloud.view();
    let mut uploaded = DeviceCloud::with_capacity(&stream, num_bytes(&view)).unwrap();
    let mut workspace = Workspace::new(&stream, 100).unwrap();
    let mut out = DevicePoints::with_capacity(&stream, 4, 100).unwrap();
    let wanted = params(vec![PointChannel::Ring], None);
    let refused = |result: det_post_types::Result<()>| result.unwrap_err().kind();
    let early = workspace.enqueue(&uploaded, view.fields(), &wanted, &mut out, &mut counters);
    assert_eq!(refused(early), ErrorKind::Argument, "nothing was uploaded");
    uploaded.enqueue_upload(&view).unwrap();
    let missing = workspace.enqueue(&uploaded, view.fields(), &wanted, &mut out, &mut counters);
    assert_eq!(refused(missing), ErrorKind::PointField);
    let channels =
        workspace.enqueue(&uploaded, view.fields(), &params(vec![], None), &mut out, &mut counters);
    assert_eq!(refused(channels), ErrorKind::Argument);
    let mut small = Workspace::new(&stream, 99).unwrap();
    let lag = params(vec![PointChannel::TimeLag], None);
    let over = small.enqueue(&uploaded, view.fields(), &lag, &mut out, &mut counters);
    assert_eq!(refused(over), ErrorKind::Argument, "more points than there is room for");
    let mut few = DeviceCloud::with_capacity(&stream, 1199).unwrap();
    assert_eq!(refused(few.enqueue_upload(&view)), ErrorKind::Argument);
}

/// Clouds that follow each other, each in its place.
struct Several {
    clouds: Vec<Cloud>,
    placements: Vec<Placement>,
    params: UnpackParams,
    capacity: usize,
}

impl Several {
    fn reference(&self) -> (Points, Vec<UnpackCounts>) {
        let mut points = Points::with_capacity(3 + self.params.channels.len(), self.capacity);
        let clouds = self.clouds.iter().zip(&self.placements);
        let counts = clouds
            .map(|(cloud, to)| append(&cloud.view(), &self.params, to, &mut points).unwrap())
            .collect();
        (points, counts)
    }

    fn check(&self, device: &CudaDevice) {
        let stream = device.stream().unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let total = self.clouds.iter().map(Cloud::num_points).sum();
        let mut workspace = Workspace::new(&stream, total).unwrap();
        let uploaded: Vec<_> = self
            .clouds
            .iter()
            .map(|cloud| {
                let view = cloud.view();
                let num_bytes = num_bytes(&view);
                let mut uploaded = DeviceCloud::with_capacity(&stream, num_bytes).unwrap();
                uploaded.enqueue_upload(&view).unwrap();
                uploaded
            })
            .collect();
        let mut of_clouds = CloudCounts::new(&stream, self.clouds.len()).unwrap();
        let num_channels = 3 + self.params.channels.len();
        let mut out = DevicePoints::with_capacity(&stream, num_channels, self.capacity).unwrap();
        let (expected, counts) = self.reference();
        let sum = |of: fn(&UnpackCounts) -> usize| counts.iter().map(of).sum();
        let dropped = det_post_testing::counted([
            (Count::PointsNotFinite, sum(|counts| counts.num_not_finite)),
            (Count::PointsCropped, sum(|counts| counts.num_cropped)),
            (Count::PointsOutOfRange, sum(|counts| counts.num_out_of_range)),
            (Count::PointsOverCapacity, sum(|counts| counts.num_over_capacity)),
            (Count::PointsWithoutTime, sum(|counts| counts.num_without_time)),
        ]);
        for run in 0..3 {
            let batch =
                workspace.batch(&self.params, &mut out, &mut counters, Some(&mut of_clouds));
            let mut batch = batch.unwrap();
            for (index, (cloud, placement)) in uploaded.iter().zip(&self.placements).enumerate() {
                let fields = &self.clouds[index].fields();
                batch.add(&Part { cloud, fields, placement, index }).unwrap();
            }
            batch.enqueue().unwrap();
            let found = out.read().unwrap();
            assert_eq!(counters.take().unwrap(), dropped, "run {run}");
            let read: Vec<_> = (0..counts.len()).map(|index| of_clouds.read(index)).collect();
            assert_eq!(read, counts, "run {run}");
            let bits = |points: &Points| -> Vec<u32> {
                points.values().iter().map(|value| value.to_bits()).collect()
            };
            assert!(bits(&found) == bits(&expected), "run {run}: {:?}", self.placements);
        }
    }
}

fn random_rows(random: &mut Random) -> Rows {
    std::array::from_fn(|_| {
        let [a, b, c] = [0; 3].map(|_| random.range(-1.2, 1.2));
        [a, b, c, random.range(-20.0, 20.0)]
    })
}

fn random_placement(random: &mut Random, cloud: &Cloud) -> Placement {
    let times = PointTimes { field: Some("t".into()), ..PointTimes::default() };
    let times = times.find(&cloud.view(), Stamp::from_nanos(1_500_000_000)).unwrap();
    // Most values are within a second, some are not.
    let times = TimeField { unit_s: 0.02, ..times };
    let sweep = Sweep {
        times,
        first_s: random.range(-0.5, 0.2),
        knots_per_s: [0.0, 20.0, 160.0][random.below(3)],
        knots: std::array::from_fn(|_| random_rows(random)),
    };
    Placement {
        rows: (random.below(3) > 0).then(|| random_rows(random)),
        sweep: (random.below(2) > 0).then_some(sweep),
        crop: (random.below(2) > 0).then(|| box_of(15.0)),
    }
}

#[test]
fn clouds_in_their_places_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(105);
    for case in 0..120 {
        // Up to eight are one launch, more are several.
        let num = 1 + random.below(if case % 5 == 0 { 20 } else { 8 });
        let clouds: Vec<_> = (0..num)
            .map(|_| {
                let size = [random.below(700) as u32, 1 + random.below(4) as u32];
                Cloud::random(&mut random, size, 0.05)
            })
            .collect();
        let placements: Vec<_> =
            clouds.iter().map(|cloud| random_placement(&mut random, cloud)).collect();
        let total: usize = clouds.iter().map(Cloud::num_points).sum();
        let range = (case % 2 == 0).then(|| box_of(60.0));
        let params = params(vec![PointChannel::Intensity; random.below(2)], range);
        let capacity = 1 + random.below(2 * total + 1);
        Several { clouds, placements, params, capacity }.check(&device);
    }
}

#[test]
fn capacities_around_the_ends_of_clouds_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(106);
    let sizes = [0, 1, 512, 513];
    for capacity in [1, 2, 511, 512, 513, 514, 1025, 1026, 1027, 3000] {
        let cloud = |num: &usize| {
            let values: Vec<f32> = (0..4 * num).map(|_| random.range(-1.0, 1.0)).collect();
            Cloud::plain(&values, &["t"])
        };
        let clouds: Vec<_> = sizes.iter().map(cloud).collect();
        let placements: Vec<_> =
            clouds.iter().map(|cloud| random_placement(&mut random, cloud)).collect();
        Several { clouds, placements, params: params(vec![], None), capacity }.check(&device);
    }
}
