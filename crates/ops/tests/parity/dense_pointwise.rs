//! Programs on every element: equal where no function with an approximation is in them.

use det_post_ops::dense::pointwise::cuda::Pointwise;
use det_post_ops::dense::pointwise::{Constant, Instruction, Job, Op, Operand, Program, pointwise};
use det_post_ops::dense::{Activation, Region, Window};
use det_post_ops::device::cuda::CudaDevice;
use det_post_types::ElementType;

use crate::dense_pair::{FLOATS, Pair, map_windows};
use det_post_testing::bounds::bound;

const SOURCE: fn(usize) -> Operand = Operand::Source;
const RESULT: fn(usize) -> Operand = Operand::Result;

fn of(op: Op, operands: &[Operand]) -> Instruction {
    Instruction { op, operands: operands.to_vec() }
}

fn constant(value: f32) -> Operand {
    Operand::Constant(Constant::F32(value))
}

/// All that is exact, of two floats.
fn exact() -> Program {
    let code = [
        of(Op::Add, &[SOURCE(0), SOURCE(1)]),
        of(Op::Mul, &[RESULT(0), constant(0.37)]),
        of(Op::Div, &[RESULT(1), SOURCE(1)]),
        of(Op::Abs, &[RESULT(2)]),
        of(Op::Sqrt, &[RESULT(3)]),
        of(Op::Floor, &[RESULT(2)]),
        of(Op::Ceil, &[RESULT(1)]),
        of(Op::Round, &[RESULT(4)]),
        of(Op::Less, &[RESULT(7), RESULT(6)]),
        of(Op::Where, &[RESULT(8), RESULT(5), RESULT(4)]),
        of(Op::Min, &[RESULT(9), SOURCE(0)]),
        of(Op::Max, &[RESULT(10), constant(-2.5)]),
        of(Op::Activation(Activation::HardSwish), &[RESULT(11)]),
        of(Op::Sub, &[RESULT(12), RESULT(7)]),
        of(Op::Sign, &[RESULT(2)]),
        of(Op::Neg, &[RESULT(13)]),
    ];
    Program::new(&[false, false], &code, &[RESULT(15), RESULT(14)]).unwrap()
}

/// The windows of a case: sources, then targets.
struct Case<'a> {
    program: &'a Program,
    sources: &'a [(ElementType, Window)],
    targets: &'a [(ElementType, Window)],
}

fn agrees(device: &CudaDevice, kernels: &Pointwise, case: &Case<'_>) {
    let mut pair = Pair::new(device, 5);
    let mut sources = Vec::new();
    for (element, window) in case.sources {
        sources.push(if *element == ElementType::I32 {
            let len = window.end().unwrap();
            let special = [0, 1, -1, i32::MIN, i32::MAX, 7];
            let value = |pair: &mut Pair| match pair.random.below(4) {
                0 => special[pair.random.below(6)],
                _ => pair.random.below(41) as i32 - 20,
            };
            let values: Vec<i32> = (0..len).map(|_| value(&mut pair)).collect();
            Region { buffer: pair.push_indices(&values), window: *window }
        } else {
            pair.random_window(*element, window, 6.0)
        });
    }
    let mut targets = Vec::new();
    for (element, window) in case.targets {
        targets.push(pair.output_window(*element, window));
    }
    pointwise(&mut pair.host, case.program, &sources, &targets).unwrap();
    kernels.enqueue(&pair.device, case.program, &sources, &targets).unwrap();
    for target in &targets {
        let what = format!("{:?} {sources:?} {target:?}", case.program);
        if case.program.is_exact() {
            pair.assert_equal(target.buffer, &what);
        } else {
            let precision = match pair.host.element(target.buffer).unwrap() {
                ElementType::F16 => "f16",
                _ => "f32",
            };
            let share = bound("dense/pointwise", precision, "share of the largest value");
            pair.assert_near(target.buffer, share.in_unit() as f32, &what);
        }
    }
}

#[test]
fn copies_agree_in_every_layout() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Pointwise::load(&device).unwrap();
    let program = Program::copy(false).unwrap();
    for dims in [[2, 16, 6, 10], [1, 5, 3, 7], [3, 40, 33, 35], [1, 85, 8, 8], [1, 1, 1, 1]] {
        for (at, from) in map_windows(dims).into_iter().enumerate() {
            for (to_at, to) in map_windows(dims).into_iter().enumerate() {
                let sources = [(FLOATS[at % 2], from)];
                let targets = [(FLOATS[to_at / 2 % 2], to)];
                agrees(
                    &device,
                    &kernels,
                    &Case { program: &program, sources: &sources, targets: &targets },
                );
            }
        }
    }
    // More dimensions than a map, and integers.
    let six = Window::contiguous(&[2, 3, 2, 5, 4, 6]).unwrap();
    let turned = Window::contiguous(&[6, 2, 4, 3, 5, 2]).unwrap();
    let turned = turned.permute(&[1, 3, 5, 4, 2, 0]).unwrap();
    let program = Program::copy(true).unwrap();
    let (sources, targets) = ([(ElementType::I32, turned)], [(ElementType::I32, six)]);
    agrees(&device, &kernels, &Case { program: &program, sources: &sources, targets: &targets });
}

#[test]
fn arithmetic_is_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Pointwise::load(&device).unwrap();
    let program = exact();
    let dims = [2, 24, 5, 8];
    let per_channel = Window::contiguous(&[24, 1, 1]).unwrap().broadcast(&dims).unwrap();
    let one = Window::contiguous(&[]).unwrap().broadcast(&dims).unwrap();
    let mut seconds = map_windows(dims);
    seconds.extend([per_channel, one]);
    for (at, first) in map_windows(dims).into_iter().enumerate() {
        for (second_at, &second) in seconds.iter().enumerate() {
            let sources = [(FLOATS[at % 2], first), (FLOATS[second_at % 2], second)];
            let targets = [
                (FLOATS[second_at / 2 % 2], first),
                (FLOATS[at / 2 % 2], map_windows(dims)[second_at % 5]),
            ];
            agrees(
                &device,
                &kernels,
                &Case { program: &program, sources: &sources, targets: &targets },
            );
        }
    }
}

#[test]
fn integers_are_equal() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Pointwise::load(&device).unwrap();
    let code = [
        of(Op::Add, &[SOURCE(0), SOURCE(1)]),
        of(Op::Mul, &[RESULT(0), SOURCE(1)]),
        of(Op::Div, &[SOURCE(0), SOURCE(1)]),
        of(Op::Mod, &[RESULT(1), SOURCE(1)]),
        of(Op::Sub, &[RESULT(2), RESULT(3)]),
        of(Op::Abs, &[RESULT(4)]),
        of(Op::Min, &[RESULT(5), SOURCE(0)]),
        of(Op::LessOrEqual, &[RESULT(6), SOURCE(1)]),
        of(Op::Equal, &[SOURCE(0), SOURCE(1)]),
        of(Op::Or, &[RESULT(7), RESULT(8)]),
        of(Op::Not, &[RESULT(9)]),
        of(Op::Where, &[RESULT(10), RESULT(5), RESULT(1)]),
        of(Op::ToF32, &[RESULT(11)]),
        of(Op::Mul, &[RESULT(12), constant(0.7)]),
        of(Op::ToI32, &[RESULT(13)]),
    ];
    let program = Program::new(&[true, true], &code, &[RESULT(14), RESULT(13)]).unwrap();
    for dims in [&[64, 24][..], &[7, 13]] {
        let window = Window::contiguous(dims).unwrap();
        let sources = [(ElementType::I32, window); 2];
        let targets = [(ElementType::I32, window), (ElementType::F32, window)];
        agrees(
            &device,
            &kernels,
            &Case { program: &program, sources: &sources, targets: &targets },
        );
    }
}

#[test]
fn functions_are_within_their_bounds() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Pointwise::load(&device).unwrap();
    let window = Window::contiguous(&[8, 40, 16]).unwrap();
    let magnitude = of(Op::Abs, &[SOURCE(0)]);
    let one = |op: Op| vec![of(op, &[SOURCE(0)])];
    let mut programs: Vec<Vec<Instruction>> =
        [Op::Exp, Op::Erf, Op::Sin, Op::Cos].into_iter().map(one).collect();
    programs.push(vec![magnitude.clone(), of(Op::Log, &[RESULT(0)])]);
    programs.push(vec![magnitude, of(Op::Pow, &[RESULT(0), SOURCE(0)])]);
    let activations = [
        Activation::Silu,
        Activation::Sigmoid,
        Activation::Tanh,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::Exp,
        Activation::Elu(0.8),
        Activation::Softplus,
        Activation::Mish,
        Activation::LeakyRelu(0.1),
        Activation::Clip(0.0, 6.0),
        Activation::HardSigmoid { alpha: 0.2, beta: 0.5 },
    ];
    programs.extend(activations.map(|activation| one(Op::Activation(activation))));
    for code in programs {
        let last = RESULT(code.len() - 1);
        let program = Program::new(&[false], &code, &[last]).unwrap();
        for element in FLOATS {
            let tensor = [(element, window)];
            agrees(
                &device,
                &kernels,
                &Case { program: &program, sources: &tensor, targets: &tensor },
            );
        }
    }
}

#[test]
fn a_target_may_be_a_source_but_no_part_of_one() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Pointwise::load(&device).unwrap();
    let program = exact();
    let window = Window::channels_last([1, 16, 4, 4], 16).unwrap();
    let mut pair = Pair::new(&device, 5);
    let first = pair.random_window(ElementType::F16, &window, 3.0);
    let second = pair.random_window(ElementType::F16, &window, 3.0);
    let targets = [second, first];
    pointwise(&mut pair.host, &program, &[first, second], &targets).unwrap();
    kernels.enqueue(&pair.device, &program, &[first, second], &targets).unwrap();
    pair.assert_equal(first.buffer, "the first in place");
    pair.assert_equal(second.buffer, "the second in place");
    let at = |offset| {
        let window = Window::new(offset, window.dims(), window.strides()).unwrap();
        Region { window, ..first }
    };
    let enqueue = |targets: [Region; 2]| {
        kernels.enqueue(&pair.device, &program, &[first, second], &targets).is_ok()
    };
    assert!(!enqueue([at(1), second]) && !enqueue([first, first]));
    // Beyond the buffer.
    assert!(!enqueue([at(9), second]));
}

#[test]
fn independent_jobs_share_launches() {
    let Some(device) = det_post_testing::gpu() else { return };
    let kernels = Pointwise::load(&device).unwrap();
    let (copy, other) = (Program::copy(false).unwrap(), exact());
    let mut pair = Pair::new(&device, 5);
    // Parts of one buffer, by elements, vectors and tiles.
    let dims = [2, 48, 20, 24];
    let whole = Window::channels_last(dims, 48).unwrap();
    let target = pair.output_window(ElementType::F16, &whole);
    let part = |start, len| Region { window: whole.slice(1, start, 1, len).unwrap(), ..target };
    let mut sources = Vec::new();
    for (at, len) in [(3, 3), (0, 29), (2, 16)] {
        let window = map_windows([2, len, 20, 24])[at];
        sources.push(pair.random_window(FLOATS[at % 2], &window, 3.0));
    }
    let small = Window::contiguous(&[5, 3]).unwrap();
    let [a, b] = [0, 1].map(|at| pair.random_window(FLOATS[at], &small, 3.0));
    let beside = pair.output_window(ElementType::F32, &small);
    let targets = [part(0, 3), part(3, 29), part(32, 16)];
    let two = [(a, b), (b, a)].map(|(first, second)| [first, second]);
    let mut jobs: Vec<Job<'_>> = (0..3)
        .map(|at| Job { program: &copy, sources: &sources[at..=at], targets: &targets[at..=at] })
        .collect();
    let results = [pair.output_window(ElementType::F32, &small), beside];
    jobs.push(Job { program: &other, sources: &two[0], targets: &results });
    let more = [0, 1].map(|_| pair.output_window(ElementType::F16, &small));
    jobs.push(Job { program: &other, sources: &two[1], targets: &more });
    for job in &jobs {
        pointwise(&mut pair.host, job.program, job.sources, job.targets).unwrap();
    }
    kernels.enqueue_jobs(&pair.device, &jobs).unwrap();
    for buffer in [target, results[0], results[1], more[0], more[1]].map(|region| region.buffer) {
        pair.assert_equal(buffer, "jobs");
    }
    // One reads what another writes.
    let reads = [Job { program: &copy, sources: &targets[..1], targets: &[sources[0]] }, jobs[0]];
    assert!(kernels.enqueue_jobs(&pair.device, &reads).is_err());
    kernels.enqueue_jobs(&pair.device, &[]).unwrap();
}
