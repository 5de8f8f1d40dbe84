//! Masks: the same windows, bits and counts, behind the same gathering.

use half::f16;

use det_post_ops::decode::gather::cuda::Workspace as Gatherer;
use det_post_ops::decode::gather::{gather_2d, sources_2d};
use det_post_ops::decode::mask::cuda::{Outputs, ReadMasks, Workspace};
use det_post_ops::decode::mask::{self, Coefficients, MaskInputs, MaskMapping, mask};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, DeviceTensor, Graph, Stream};
use det_post_ops::nms::cuda::NmsCounts;
use det_post_ops::shared::{DeviceCandidates, DeviceCounters};
use det_post_types::{
    Affine2, Box2d, Candidate, ElementType, Kept, Letterbox, MaskParams, MaskRule, Placement, Size,
    TensorValues, TensorView,
};

use det_post_testing::random::Random;

const NUM_ROWS: usize = 900;
/// Rows with a map each.
const NUM_MAPS: usize = 40;

struct Problem {
    image: Size,
    network: Size,
    map: Size,
    params: MaskParams,
    placement: Placement,
    num_prototypes: usize,
    is_by_plane: bool,
    /// A map for each row, no coefficients.
    are_maps: bool,
    is_half: bool,
    num_detections: usize,
    /// The largest side of a box, in source pixels.
    max_side: f32,
    capacity_bytes: usize,
    /// One in so many numbers of both tensors is NaN or infinite; 0: none.
    one_invalid_in: usize,
}

impl Default for Problem {
    fn default() -> Self {
        Self {
            image: Size::new(640, 360),
            network: Size::new(320, 320),
            map: Size::new(80, 80),
            params: MaskParams::default(),
            placement: Placement::Center,
            num_prototypes: 32,
            is_by_plane: true,
            are_maps: false,
            is_half: false,
            num_detections: 40,
            max_side: 200.0,
            capacity_bytes: 4 << 20,
            one_invalid_in: 0,
        }
    }
}

/// A tensor on the host, in both element types.
struct Values {
    shape: Vec<usize>,
    f32: Vec<f32>,
    f16: Vec<f16>,
}

impl Values {
    fn new(random: &mut Random, shape: &[usize]) -> Self {
        let num = shape.iter().product();
        let f32: Vec<f32> = (0..num).map(|_| random.range(-1.0, 1.0)).collect();
        let f16 = f32.iter().map(|&value| f16::from_f32(value)).collect();
        Self { shape: shape.to_vec(), f32, f16 }
    }

    /// Breaks one in `num` numbers.
    fn broken(mut self, random: &mut Random, num: usize) -> Self {
        for at in 0..if num == 0 { 0 } else { self.f32.len() } {
            if random.below(num) == 0 {
                self.f32[at] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][random.below(3)];
                self.f16[at] = f16::from_f32(self.f32[at]);
            }
        }
        self
    }

    fn view(&self, is_half: bool) -> TensorView<'_> {
        let values = match is_half {
            true => TensorValues::F16(&self.f16),
            false => TensorValues::F32(&self.f32),
        };
        TensorView::new(&self.shape, values).unwrap()
    }

    fn on_device(&self, stream: &Stream, is_half: bool) -> DeviceTensor {
        let element = if is_half { ElementType::F16 } else { ElementType::F32 };
        let mut tensor = DeviceTensor::zeros(stream, element, &self.shape).unwrap();
        tensor.write(&self.view(is_half)).unwrap();
        tensor
    }
}

impl Problem {
    fn boxes(&self, random: &mut Random) -> Vec<Candidate<Box2d>> {
        let Size { width, height } = self.image;
        let one = |index: usize| {
            let [x, y] = [width, height].map(|side| random.range(-20.0, side as f32 + 10.0));
            let [w, h] = [0, 1].map(|_| random.range(0.0, self.max_side));
            // Rows that the predictions do not have, too, and edges on whole pixels.
            let num_rows = if self.are_maps { NUM_MAPS } else { NUM_ROWS };
            let source = random.below(num_rows + 2) as u32;
            let bbox = match index % 3 {
                0 => Box2d::new(x.round(), y.round(), (x + w).round(), (y + h).round()),
                _ => Box2d::new(x, y, x + w, y + h),
            };
            Candidate { bbox, score: 0.5, class: 0, source }
        };
        (0..self.num_detections).map(one).collect()
    }

    fn check(&self, device: &CudaDevice, random: &mut Random) {
        let Self { image, network, map, num_prototypes, is_half, .. } = *self;
        let (shape, mut coefficients) = match self.is_by_plane {
            true => ([1, 9 + num_prototypes, NUM_ROWS], Coefficients::Planes(9)),
            false => ([1, NUM_ROWS, 6 + num_prototypes], Coefficients::Columns(6)),
        };
        let num = self.one_invalid_in;
        let predictions = Values::new(random, &shape).broken(random, num);
        let mut map_shape = [1, num_prototypes, map.height as usize, map.width as usize];
        if self.are_maps {
            map_shape[1] = NUM_MAPS;
            coefficients = Coefficients::Maps;
        }
        let prototypes = Values::new(random, &map_shape).broken(random, num);
        let candidates = self.boxes(random);
        let keep: Vec<Kept> =
            (0..candidates.len() as u32).map(|index| Kept { index, score: 0.5 }).collect();
        let placed = Letterbox::new(image, network, self.placement);
        let mapping = MaskMapping::new(&self.params, self.placement, &placed, map).unwrap();

        let (mut detections, mut sources) = (Vec::new(), Vec::new());
        let limit = candidates.len();
        let identity = Affine2::IDENTITY;
        gather_2d(&candidates, &keep, &identity, image, limit, &mut detections);
        sources_2d(&candidates, &keep, &identity, image, limit, &mut sources);
        let inputs = MaskInputs {
            predictions: predictions.view(is_half),
            coefficients,
            prototypes: prototypes.view(is_half),
            mapping,
            sources: &sources,
            detections: &detections,
        };
        let mut reference = mask::Workspace::with_capacity(limit, self.capacity_bytes);
        let num_over = mask(&inputs, &mut reference).unwrap();
        assert!(self.one_invalid_in == 0 || reference.num_invalid() > 0);

        let stream = device.stream().unwrap();
        let mut on_device = DeviceCandidates::with_capacity(&stream, limit.max(1)).unwrap();
        on_device.write(&candidates).unwrap();
        let mut kept = DeviceBuffer::zeros(&stream, limit).unwrap();
        kept.write(&keep).unwrap();
        let mut nms_counts = DeviceBuffer::zeros(&stream, 1).unwrap();
        nms_counts.write(&[NmsCounts { num_kept: limit as u32, class_over: 0 }]).unwrap();
        let mut counters = DeviceCounters::new(&stream).unwrap();
        let mut gather = Gatherer::<Box2d>::new(&stream, limit).unwrap().with_rows().unwrap();
        gather.set_placement(&identity, image).unwrap();
        let mut workspace = Workspace::new(&stream, limit, self.capacity_bytes).unwrap();
        workspace.set(&mapping, &map_shape).unwrap();
        let predictions = predictions.on_device(&stream, is_half);
        let prototypes = prototypes.on_device(&stream, is_half);
        let outputs = Outputs { predictions: &predictions, coefficients, prototypes: &prototypes };
        let graph = Graph::capture(&stream, || {
            gather.enqueue(&on_device, (&kept, &nms_counts), &mut counters)?;
            workspace.enqueue(&outputs, gather.rows().unwrap())
        })
        .unwrap();
        let mut found = Vec::new();
        let mut masks = ReadMasks::default();
        for _ in 0..2 {
            graph.enqueue().unwrap();
            gather.read(&mut found).unwrap();
            assert_eq!(found, detections);
            let totals = workspace.read_complete(&mut masks);
            assert_eq!(masks.num_invalid(), reference.num_invalid());
            let (masks, expected) = (masks.masks(), reference.masks());
            let context = format!(
                "{image:?} on {map:?}, {:?} {:?}, half {is_half}",
                self.params, self.placement
            );
            assert_eq!(masks.image, expected.image, "{context}");
            assert_eq!(masks.windows, expected.windows, "{context}");
            assert_eq!(totals.num_over_capacity as usize, num_over, "{context}");
            if self.params.sigmoid {
                let differing =
                    masks.words.iter().zip(expected.words).map(|(a, b)| (a ^ b).count_ones());
                let num: u32 = differing.sum();
                assert_eq!(masks.words.len(), expected.words.len(), "{context}");
                assert!(num <= 1, "{context}: {num} pixels");
            } else {
                assert!(masks.words == expected.words, "{context}");
            }
        }
    }
}

#[test]
fn rules_layouts_and_elements_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(71);
    for rule in MaskRule::ALL {
        for sigmoid in [false, true] {
            for is_by_plane in [false, true] {
                for is_half in [false, true] {
                    let params = MaskParams { sigmoid, ..MaskParams::of(rule) };
                    let problem = Problem { params, is_by_plane, is_half, ..Problem::default() };
                    problem.check(&device, &mut random);
                }
            }
        }
    }
    for placement in [Placement::TopLeft, Placement::Stretch] {
        for rule in MaskRule::ALL {
            let params = MaskParams::of(rule);
            Problem { params, placement, ..Problem::default() }.check(&device, &mut random);
        }
    }
}

#[test]
fn maps_of_rows_and_extents_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(75);
    for rule in [MaskRule::Straight, MaskRule::Box] {
        for (crop, threshold) in [(true, None), (false, Some(0.3)), (true, Some(-0.2))] {
            for (sigmoid, is_half) in [(false, false), (false, true), (true, false)] {
                for map in [Size::new(28, 28), Size::new(80, 80), Size::new(1, 1)] {
                    let params = MaskParams { rule, sigmoid, threshold, crop };
                    let base = Problem { params, is_half, map, ..Problem::default() };
                    Problem { are_maps: true, ..base }.check(&device, &mut random);
                    Problem { params, is_half, map, ..Problem::default() }
                        .check(&device, &mut random);
                }
            }
        }
    }
}

#[test]
fn numbers_of_detections_and_prototypes_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(72);
    for num_detections in [0, 1, 2, 31, 300, 511, 512, 513, 1100] {
        let problem = Problem { num_detections, max_side: 40.0, ..Problem::default() };
        problem.check(&device, &mut random);
    }
    for num_prototypes in [1, 2, 7, 64, 255, 256] {
        Problem { num_prototypes, ..Problem::default() }.check(&device, &mut random);
    }
}

#[test]
fn numbers_that_are_not_finite_are_counted_alike() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(76);
    for (are_maps, sigmoid, is_half, one_invalid_in) in [
        (false, false, false, 20_000),
        (false, false, true, 20_000),
        (false, false, false, 100),
        (true, false, true, 1000),
        (false, true, false, 10_000),
    ] {
        let params = MaskParams { sigmoid, ..MaskParams::default() };
        let base = Problem { params, are_maps, is_half, ..Problem::default() };
        Problem { one_invalid_in, ..base }.check(&device, &mut random);
    }
    // Pixels that compute their four cells, and some masks over the capacity.
    let (image, map) = (Size::new(90, 70), Size::new(320, 320));
    let base = Problem { image, map, max_side: 60.0, one_invalid_in: 20_000, ..Problem::default() };
    base.check(&device, &mut random);
    Problem { one_invalid_in: 500, capacity_bytes: 20_000, ..Problem::default() }
        .check(&device, &mut random);
}

#[test]
fn scales_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(73);
    // Enlarged, of one size, reduced: cells of a tile within shared memory and beyond it.
    for (image, map) in [
        (Size::new(1920, 1080), Size::new(160, 160)),
        (Size::new(160, 160), Size::new(160, 160)),
        (Size::new(320, 200), Size::new(320, 320)),
        (Size::new(90, 70), Size::new(320, 320)),
        (Size::new(3, 2), Size::new(160, 160)),
        (Size::new(1, 1), Size::new(1, 1)),
        (Size::new(3000, 31), Size::new(80, 48)),
        (Size::new(33, 3000), Size::new(48, 80)),
    ] {
        for rule in MaskRule::ALL {
            for max_side in [8.0, 3000.0] {
                let params = MaskParams::of(rule);
                let capacity_bytes = 64 << 20;
                let problem =
                    Problem { image, map, params, max_side, capacity_bytes, ..Problem::default() };
                problem.check(&device, &mut random);
            }
        }
    }
}

#[test]
fn capacities_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(74);
    for capacity_bytes in [0, 3, 4, 100, 999, 1000, 1001, 5000, 20_000, 20_003, 100_000] {
        for num_detections in [1, 40, 700] {
            let max_side = if num_detections == 700 { 30.0 } else { 200.0 };
            let problem =
                Problem { capacity_bytes, num_detections, max_side, ..Problem::default() };
            problem.check(&device, &mut random);
        }
    }
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let tensor = |element, shape: &[usize]| DeviceTensor::zeros(&stream, element, shape).unwrap();
    let gather = Gatherer::<Box2d>::new(&stream, 5).unwrap().with_rows().unwrap();
    let mut workspace = Workspace::new(&stream, 5, 1000).unwrap();
    let (single, half) = (ElementType::F32, ElementType::F16);
    let prototypes = tensor(single, &[1, 3, 4, 5]);
    let coefficients = Coefficients::Planes(6);
    for (element, shape, fits) in [
        (single, [1, 9, 7], true),
        (single, [1, 8, 7], false),
        (single, [2, 9, 7], false),
        (half, [1, 9, 7], false),
    ] {
        let predictions = tensor(element, &shape);
        let outputs = Outputs { predictions: &predictions, coefficients, prototypes: &prototypes };
        let queued = workspace.enqueue(&outputs, gather.rows().unwrap());
        assert_eq!(queued.is_ok(), fits, "{element} {shape:?}: {queued:?}");
    }
    let placed = Letterbox::new(Size::new(9, 9), Size::new(20, 16), Placement::Center);
    let map = Size::new(5, 4);
    let mapping =
        MaskMapping::new(&MaskParams::default(), Placement::Center, &placed, map).unwrap();
    assert!(workspace.set(&mapping, &[1, 3, 4, 5]).is_ok());
    assert!(workspace.set(&mapping, &[1, 3, 5, 4]).is_err());
    assert!(workspace.set(&mapping, &[3, 4, 5]).is_err());
    stream.synchronize().unwrap();
}
