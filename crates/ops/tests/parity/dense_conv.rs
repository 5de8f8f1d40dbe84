//! Dense convolutions: the same bits in f32, within bounds in f16, on every tile; nothing beside
//! the windows is read or written.

use det_post_ops::dense::arena::{Arena, ArenaBuffer};
use det_post_ops::dense::conv::cuda::DeviceConv;
use det_post_ops::dense::conv::{Conv, ConvParameters, ConvRegions, Geometry, Products, conv};
use det_post_ops::dense::host::{HostArena, HostBuffer, round_f16};
use det_post_ops::dense::{Activation, Epilogue, Region, Residual, Window};
use det_post_ops::device::cuda::{CudaDevice, Event, Graph, Stream};
use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_types::ElementType;
use half::f16;

use crate::sparse_conv::distance;

/// How a map is in its buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// Channels last, with so many channels before and behind it in each pixel.
    Slice(usize, usize),
    Planes,
}

use Layout::{Planes, Slice};

#[derive(Clone, Debug)]
struct Problem {
    items: usize,
    inputs: usize,
    size: [usize; 2],
    outputs: usize,
    geometry: Geometry,
    epilogue: Epilogue,
    products: Products,
    from: (ElementType, Layout),
    to: (ElementType, Layout),
}

pub const F16: ElementType = ElementType::F16;
pub const F32: ElementType = ElementType::F32;

impl Problem {
    fn new(
        [items, inputs, h, w]: [usize; 4],
        outputs: usize,
        kernel: usize,
        stride: usize,
    ) -> Self {
        let pad = (kernel - 1) / 2;
        let geometry =
            Geometry { stride: [stride; 2], pads: [pad; 4], ..Geometry::of_kernel([kernel; 2]) };
        let after = |channels: usize| channels.next_multiple_of(8) - channels;
        Self {
            items,
            inputs,
            size: [h, w],
            outputs,
            geometry,
            epilogue: Epilogue { activation: Activation::Relu, residual: None },
            products: Products::F16,
            from: (F16, Slice(0, after(inputs))),
            to: (F16, Slice(0, after(outputs))),
        }
    }

    fn geometry(mut self, change: impl FnOnce(&mut Geometry)) -> Self {
        change(&mut self.geometry);
        self
    }

    fn epilogue(mut self, activation: Activation, residual: Option<Residual>) -> Self {
        self.epilogue = Epilogue { activation, residual };
        self
    }

    fn from(mut self, element: ElementType, layout: Layout) -> Self {
        self.from = (element, layout);
        self
    }

    fn to(mut self, element: ElementType, layout: Layout) -> Self {
        self.to = (element, layout);
        self
    }

    fn exact(mut self) -> Self {
        self.products = Products::F32;
        self.from.0 = F32;
        self.to.0 = F32;
        self
    }
}

/// A window and the size of its buffer.
pub fn window([n, c, h, w]: [usize; 4], layout: Layout) -> (Window, usize) {
    match layout {
        Slice(before, after) => {
            let pixel = before + c + after;
            let all = Window::channels_last([n, pixel, h, w], pixel).unwrap();
            (all.slice(1, before, 1, c).unwrap(), all.len())
        }
        Planes => {
            let window = Window::contiguous(&[n, c, h, w]).unwrap();
            (window, window.len())
        }
    }
}

/// The same problem on both sides. Elements beside the windows are NaN.
struct Made {
    conv: Conv,
    host: HostArena,
    device: Arena,
    regions: ConvRegions,
}

pub fn put(arenas: &mut (HostArena, Arena), element: ElementType, values: &[f32]) -> usize {
    let (host, device) = arenas;
    let stream = device.stream().clone();
    let number = match element {
        ElementType::F16 => {
            let rounded = values.iter().map(|&value| round_f16(value)).collect();
            host.push(HostBuffer::F16(rounded))
        }
        _ => host.push(HostBuffer::F32(values.to_vec())),
    };
    let buffer = ArenaBuffer::zeros(&stream, element, values.len()).unwrap();
    assert_eq!(device.push(buffer).unwrap(), number);
    match device.buffer_mut(number).unwrap() {
        ArenaBuffer::F16(buffer) => {
            let values: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
            buffer.write(&values).unwrap();
        }
        ArenaBuffer::F32(buffer) => buffer.write(values).unwrap(),
        ArenaBuffer::I32(_) => unreachable!("floats were asked for"),
    }
    number
}

pub fn all_values(arena: &Arena, number: usize) -> Vec<f32> {
    match arena.buffer(number).unwrap() {
        ArenaBuffer::F16(buffer) => buffer.read().unwrap().iter().map(|v| v.to_f32()).collect(),
        ArenaBuffer::F32(buffer) => buffer.read().unwrap(),
        ArenaBuffer::I32(_) => unreachable!("floats were put there"),
    }
}

impl Made {
    fn new(stream: &Stream, problem: &Problem, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let Problem { items, inputs, size, outputs, geometry, .. } = *problem;
        let num_weights =
            outputs * (inputs / geometry.groups) * geometry.kernel[0] * geometry.kernel[1];
        let scale = (3.0 / (num_weights / outputs) as f32).sqrt();
        let weights: Vec<f32> = (0..num_weights).map(|_| random.range(-scale, scale)).collect();
        let bias: Vec<f32> = (0..outputs).map(|_| random.range(-0.5, 0.5)).collect();
        let parameters = ConvParameters {
            num_outputs: outputs,
            num_inputs: inputs,
            weights: &weights,
            bias: Some(&bias),
        };
        let conv = Conv::new(&parameters, geometry, problem.epilogue, problem.products).unwrap();
        let mut arenas = (HostArena::new(), Arena::new(stream));
        let mut region =
            |dims: [usize; 4], (element, layout): (ElementType, Layout), fill: bool| {
                let (window, len) = window(dims, layout);
                let mut values = vec![f32::NAN; len];
                if fill {
                    window.for_each_offset(|offset| values[offset] = random.range(-2.0, 2.0));
                }
                Region { buffer: put(&mut arenas, element, &values), window }
            };
        let [oh, ow] = geometry.output_size(size).unwrap();
        let output = [items, outputs, oh, ow];
        let regions = ConvRegions {
            input: region([items, inputs, size[0], size[1]], problem.from, true),
            residual: problem.epilogue.residual.map(|_| region(output, problem.to, true)),
            output: region(output, problem.to, false),
        };
        let (host, device) = arenas;
        Self { conv, host, device, regions }
    }

    fn reference(&mut self) -> Vec<f32> {
        conv(&mut self.host, &self.conv, &self.regions).unwrap();
        self.host.read(&self.regions.output).unwrap()
    }

    /// The output of a launch; checks that the elements beside it are as before.
    fn found(&self) -> Vec<f32> {
        let all = all_values(&self.device, self.regions.output.buffer);
        let mut is_written = vec![false; all.len()];
        let mut found = Vec::new();
        self.regions.output.window.for_each_offset(|offset| {
            is_written[offset] = true;
            found.push(all[offset]);
        });
        let is_kept = all.iter().zip(is_written).all(|(value, written)| written || value.is_nan());
        assert!(is_kept, "an element beside the output was written");
        found
    }
}

pub fn assert_same(found: &[f32], expected: &[f32], context: &str) {
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let (a, b) = (bits(found), bits(expected));
    let first = a.iter().zip(&b).position(|(a, b)| a != b);
    assert!(a == b, "{context}: {first:?} {:?}", first.map(|i| (found[i], expected[i])));
}

fn check(device: &CudaDevice, problem: &Problem, seed: u64) {
    let stream = device.stream().unwrap();
    let mut made = Made::new(&stream, problem, seed);
    let expected = made.reference();
    if problem.products == Products::F32 {
        let launch = DeviceConv::new(&made.device, &made.conv, &made.regions).unwrap();
        launch.enqueue(&made.device).unwrap();
        let found = made.found();
        if problem.epilogue.activation.is_exact() {
            assert_same(&found, &expected, &format!("{problem:?}"));
        } else {
            let [_, most] = distance(&found, &expected);
            // The rounding of a store may differ where the values before it do.
            let stored = if problem.to.0 == F16 { "f16" } else { "f32" };
            let bound = bound("dense/conv", stored, "share of the largest value").in_unit();
            assert!(most <= bound, "{problem:?}: {most:e}");
        }
        return;
    }
    let tiles = DeviceConv::tiles(&made.device, &made.conv, &made.regions).unwrap();
    assert!(!tiles.is_empty(), "{problem:?}");
    let [l2_bound, most_bound] = ["relative error (L2)", "share of the largest value"]
        .map(|number| bound("dense/conv", "f16", number).in_unit());
    let mut first: Option<Vec<f32>> = None;
    for tile in tiles {
        let launch = DeviceConv::with_tile(&made.device, &made.conv, &made.regions, tile).unwrap();
        launch.enqueue(&made.device).unwrap();
        let found = made.found();
        let [l2, most] = distance(&found, &expected);
        let context = format!("{} {problem:?}", tile.name);
        assert!(l2 <= l2_bound && most <= most_bound, "{context}: {l2:e} {most:e}");
        launch.enqueue(&made.device).unwrap();
        assert_same(&made.found(), &found, &format!("again {context}"));
        // All tiles of a class have the same order of sums.
        match &first {
            None => first = Some(found),
            Some(first) => assert_same(&found, first, &context),
        }
    }
}

fn problems() -> Vec<Problem> {
    let of = Problem::new;
    let before = Some(Residual::BeforeActivation);
    let after = Some(Residual::AfterActivation);
    vec![
        of([1, 16, 8, 8], 16, 1, 1),
        of([1, 64, 13, 13], 64, 3, 1),
        of([1, 64, 48, 80], 64, 3, 1).epilogue(Activation::Silu, after),
        of([2, 80, 24, 40], 80, 3, 1).epilogue(Activation::Relu, before),
        of([1, 32, 96, 160], 64, 3, 2),
        of([1, 32, 96, 160], 5, 1, 1).to(F32, Planes).epilogue(Activation::Sigmoid, None),
        of([1, 80, 12, 20], 48, 1, 1),
        of([1, 144, 20, 33], 64, 3, 1),
        of([1, 320, 9, 7], 130, 3, 1).epilogue(Activation::HardSwish, after),
        of([1, 1024, 5, 5], 24, 1, 1),
        of([3, 22, 11, 20], 96, 1, 1),
        of([1, 5, 44, 80], 64, 1, 1),
        of([1, 1, 1, 1], 1, 1, 1),
        of([1, 8, 1, 1], 3, 7, 1),
        of([1, 3, 64, 96], 16, 3, 2).from(F32, Planes),
        of([2, 3, 64, 96], 24, 6, 2).from(F16, Planes).geometry(|g| g.pads = [2; 4]),
        of([1, 3, 33, 31], 32, 7, 2).from(F32, Planes),
        of([1, 3, 33, 31], 33, 3, 1).from(F32, Planes),
        of([1, 4, 33, 31], 17, 5, 3).from(F16, Slice(3, 2)),
        of([1, 8, 21, 19], 24, 5, 1),
        of([1, 17, 13, 9], 23, 4, 2).from(F16, Slice(1, 6)).to(F16, Slice(3, 1)),
        of([1, 24, 13, 9], 40, 3, 1).from(F16, Slice(8, 16)).to(F16, Slice(16, 8)),
        of([1, 24, 13, 9], 20, 3, 1).to(F16, Slice(8, 5)).epilogue(Activation::Relu, before),
        of([1, 48, 17, 15], 32, 3, 3),
        of([1, 32, 17, 15], 48, 3, 1).geometry(|g| (g.dilation, g.pads) = ([2; 2], [2; 4])),
        of([1, 32, 17, 15], 48, 2, 1).geometry(|g| g.pads = [0, 0, 1, 1]),
        of([1, 64, 12, 20], 32, 1, 1).geometry(|g| g.upsample = 2),
        of([2, 64, 12, 20], 32, 3, 1).geometry(|g| g.upsample = 2),
        of([1, 64, 14, 14], 96, 3, 1).geometry(|g| g.groups = 2),
        of([1, 12, 14, 14], 18, 3, 1).geometry(|g| g.groups = 3),
        of([1, 40, 14, 14], 40, 3, 2).geometry(|g| g.groups = 40),
        of([1, 40, 14, 14], 40, 5, 1).geometry(|g| g.groups = 40).epilogue(Activation::Silu, None),
        of([1, 32, 20, 18], 64, 1, 1).geometry(|g| g.kernel = [1, 5]),
        of([1, 32, 20, 18], 64, 1, 1).geometry(|g| g.kernel = [5, 1]),
        of([1, 64, 30, 30], 128, 3, 2).to(F32, Slice(0, 0)),
        of([1, 128, 100, 100], 136, 1, 1).epilogue(Activation::GeluTanh, None),
    ]
}

/// Of as many values as warpgroups compute.
fn large_problems() -> Vec<Problem> {
    let of = Problem::new;
    let before = Some(Residual::BeforeActivation);
    let after = Some(Residual::AfterActivation);
    vec![
        of([1, 64, 50, 160], 64, 3, 1).epilogue(Activation::Silu, after),
        of([2, 24, 100, 320], 64, 3, 2),
        of([1, 144, 40, 105], 120, 3, 1).epilogue(Activation::Relu, before),
        of([1, 272, 30, 130], 130, 1, 1).epilogue(Activation::HardSwish, before),
        of([1, 8, 120, 262], 16, 3, 1),
        of([1, 32, 60, 175], 48, 3, 1).geometry(|g| (g.dilation, g.pads) = ([2; 2], [2; 4])),
        of([1, 96, 40, 132], 96, 3, 1).geometry(|g| g.groups = 2),
        of([1, 64, 30, 88], 48, 3, 1).geometry(|g| g.upsample = 2),
        of([1, 40, 100, 210], 24, 1, 1).to(F16, Slice(8, 16)).epilogue(Activation::Relu, before),
        of([1, 16, 150, 336], 10, 1, 1).to(F32, Planes),
    ]
}

#[test]
fn convolutions_of_f16_agree_on_every_tile() {
    let Some(device) = det_post_testing::gpu() else { return };
    for (seed, problem) in (0..).zip(problems().into_iter().chain(large_problems())) {
        check(&device, &problem, seed);
    }
}

#[test]
fn convolutions_agree_to_the_bit_in_f32() {
    let Some(device) = det_post_testing::gpu() else { return };
    for (seed, problem) in (100..).zip(problems()) {
        check(&device, &problem.exact(), seed);
    }
}

#[test]
fn convolutions_agree_at_random() {
    let Some(device) = det_post_testing::gpu() else { return };
    let mut random = Random::new(521);
    let mut seed = 1000;
    while seed < 1080 {
        let mut pick = |from: usize, to: usize| from + random.below(to + 1 - from);
        let groups = pick(1, 3).saturating_sub(1).max(1);
        let (inputs, outputs) = (groups * pick(1, 80), groups * pick(1, 70));
        let geometry = Geometry {
            kernel: [pick(1, 5), pick(1, 5)],
            stride: [pick(1, 3), pick(1, 3)],
            dilation: [pick(1, 2), pick(1, 2)],
            pads: [pick(0, 2), pick(0, 2), pick(0, 2), pick(0, 2)],
            groups,
            upsample: pick(1, 2),
        };
        let size = [pick(1, 24), pick(1, 24)];
        let items = pick(1, 3);
        let layout = |channels: usize, kind: usize| match kind {
            0 => Planes,
            1 => Slice(0, channels.next_multiple_of(8) - channels),
            2 => Slice(8, 8 + channels.next_multiple_of(8) - channels),
            _ => Slice(3, 2),
        };
        let element = |kind: usize| if kind == 0 { F32 } else { F16 };
        let from = (element(pick(0, 3)), layout(inputs, pick(0, 5).min(3)));
        let to = (element(pick(0, 3)), layout(outputs, pick(0, 3)));
        let activation = [Activation::None, Activation::LeakyRelu(0.1), Activation::Mish];
        let residual = [None, Some(Residual::BeforeActivation), Some(Residual::AfterActivation)];
        let epilogue =
            Epilogue { activation: activation[pick(0, 2)], residual: residual[pick(0, 2)] };
        let products = if seed % 3 == 0 { Products::F32 } else { Products::F16 };
        if geometry.output_size(size).is_none() {
            continue;
        }
        let problem =
            Problem { items, inputs, size, outputs, geometry, epilogue, products, from, to };
        check(&device, &problem, seed);
        seed += 1;
    }
}

#[test]
fn an_item_of_a_batch_has_the_bytes_that_it_has_alone() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for (inputs, outputs, size, kernel) in [
        (64, 64, [24, 40], 3),
        (80, 48, [12, 20], 1),
        (32, 32, [96, 160], 3),
        (64, 64, [60, 140], 3),
    ] {
        let [h, w] = size;
        let run = |items: usize, from: usize| {
            let problem = Problem::new([items, inputs, h, w], outputs, kernel, 1);
            let mut made = Made::new(&stream, &problem, 7);
            let values: Vec<f32> = (from..from + items)
                .flat_map(|item| {
                    let mut random = Random::new(900 + item as u64);
                    (0..inputs * h * w).map(move |_| random.range(-2.0, 2.0)).collect::<Vec<_>>()
                })
                .collect();
            made.host.write(&made.regions.input, &values).unwrap();
            let region = made.regions.input;
            let HostBuffer::F16(all) = made.host.buffer(region.buffer).unwrap() else {
                unreachable!("the input is f16")
            };
            let all: Vec<f16> = all.iter().map(|&value| f16::from_f32(value)).collect();
            let ArenaBuffer::F16(buffer) = made.device.buffer_mut(region.buffer).unwrap() else {
                unreachable!("the input is f16")
            };
            buffer.write(&all).unwrap();
            let launch = DeviceConv::new(&made.device, &made.conv, &made.regions).unwrap();
            launch.enqueue(&made.device).unwrap();
            made.found()
        };
        let batch = run(5, 0);
        let item = outputs * h * w;
        for at in 0..5 {
            assert_same(
                &run(1, at),
                &batch[at * item..][..item],
                &format!("{inputs} {size:?} {at}"),
            );
        }
    }
}

#[test]
fn overlaps_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let made = Made::new(&stream, &Problem::new([1, 16, 8, 8], 16, 1, 1), 3);
    let regions = ConvRegions { output: made.regions.input, ..made.regions };
    let launch = DeviceConv::new(&made.device, &made.conv, &regions).unwrap();
    assert!(launch.enqueue(&made.device).is_err());
}

/// Microseconds of a launch within a recorded graph of some.
fn micros(stream: &Stream, launch: &DeviceConv, arena: &Arena) -> f32 {
    const LAUNCHES: usize = 20;
    let graph =
        Graph::capture(stream, || (0..LAUNCHES).try_for_each(|_| launch.enqueue(arena))).unwrap();
    let [start, end] = [(); 2].map(|()| Event::new(stream).unwrap());
    let mut best = f32::INFINITY;
    for _ in 0..20 {
        start.record(stream).unwrap();
        graph.enqueue().unwrap();
        end.record(stream).unwrap();
        end.wait().unwrap();
        best = best.min(start.micros_until(&end).unwrap() / LAUNCHES as f32);
    }
    best
}

/// Keeps the GPU busy until its clocks are those of work.
fn warm_up(stream: &Stream) {
    let made = Made::new(stream, &Problem::new([1, 64, 128, 128], 64, 3, 1), 1);
    let launch = DeviceConv::new(&made.device, &made.conv, &made.regions).unwrap();
    let start = std::time::Instant::now();
    while start.elapsed().as_millis() < 300 {
        micros(stream, &launch, &made.device);
    }
}

/// `cargo test --test parity -- --ignored --nocapture times_of_layers`: the convolutions of real
/// networks, one after the other.
#[test]
#[ignore = "measures"]
fn times_of_layers() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    let with_all = std::env::var("DET_POST_ALL_TILES").is_ok();
    warm_up(&stream);
    let mut totals: Vec<(String, f32, f32, usize)> = Vec::new();
    for line in include_str!("dense_layers.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let network = words.next().unwrap().to_owned();
        let numbers: Vec<usize> = words.map(|word| word.parse().unwrap()).collect();
        let [count, n, c, h, w, o, ky, kx, stride, pad, groups] = numbers[..] else {
            panic!("{line}: not eleven numbers")
        };
        let mut problem = Problem::new([n, c, h, w], o, ky, stride).geometry(|g| {
            (g.kernel, g.pads, g.groups) = ([ky, kx], [pad; 4], groups);
        });
        if c == 3 {
            problem = problem.from(F32, Planes);
        }
        let mut made = Made::new(&stream, &problem, 1);
        made.conv = made.conv.with_fixed_items(n);
        let tiles = DeviceConv::tiles(&made.device, &made.conv, &made.regions).unwrap();
        let tiles = if with_all { &tiles[..] } else { &tiles[..1] };
        let times: Vec<(f32, &str)> = tiles
            .iter()
            .map(|&tile| {
                let launch =
                    DeviceConv::with_tile(&made.device, &made.conv, &made.regions, tile).unwrap();
                (micros(&stream, &launch, &made.device), tile.name)
            })
            .collect();
        let [oh, ow] = problem.geometry.output_size(problem.size).unwrap();
        let flop = 2.0 * (n * oh * ow * o * (c / groups) * ky * kx) as f32;
        let bytes = 2.0 * (n * (h * w * c + oh * ow * o) + o * c / groups * ky * kx) as f32;
        let chosen = times[0].0;
        let best = times.iter().map(|time| time.0).fold(f32::INFINITY, f32::min);
        print!(
            "{line}: {chosen:.2} us, {:.1} TFLOP/s, {:.0} GB/s;",
            flop / chosen / 1e6,
            bytes / chosen / 1e3
        );
        for (time, name) in &times {
            print!(
                " {} {time:.2}",
                name.trim_start_matches("dense_conv_").trim_end_matches("_f16")
            );
        }
        println!();
        if totals.last().is_none_or(|total| total.0 != network) {
            totals.push((network, 0.0, 0.0, 0));
        }
        let total = totals.last_mut().unwrap();
        total.1 += chosen * count as f32;
        total.2 += best * count as f32;
        total.3 += count;
    }
    for (network, chosen, best, count) in totals {
        println!("{network}: {count} convolutions, {chosen:.1} us, best tiles {best:.1} us");
    }
}
