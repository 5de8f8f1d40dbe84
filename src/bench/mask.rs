//! Masks of 100 instances of 200x200 pixels on average: what they take over the boxes.

use super::case::Case;
use super::decode::{HeadOutput, MAX_DETECTIONS, NUM_CLASSES, OnCpu, placed};
use super::inputs::{NUM_INSTANCES, instances};
use super::measure::Bench;
use det_post_ops::decode::mask::{Coefficients, MaskInputs, MaskMapping, Workspace, mask};
use det_post_ops::device::Device;
use det_post_types::ElementType::{self, F16, F32};
use det_post_types::{
    Error, ErrorKind, MaskParams, MaskRule, Placement, Result, Size, Tensor, YoloLayout,
};

/// The parameter `mask_capacity_bytes` by default.
const CAPACITY_BYTES: usize = 4 << 20;
const RULES: [MaskRule; 2] = [MaskRule::Straight, MaskRule::Native];

/// A network with masks.
struct Scene {
    head: HeadOutput,
    prototypes: Tensor,
    coefficients: Coefficients,
}

impl Scene {
    fn new(element: ElementType) -> Result<Self> {
        let [predictions, prototypes] = instances(NUM_CLASSES, element);
        let [_, num_coefficients, _, _] = prototypes.view().dims::<4>()?;
        let layout = YoloLayout::Seg { num_coefficients };
        let coefficients = Coefficients::Planes(4 + NUM_CLASSES);
        let head = HeadOutput { layout, tensors: vec![predictions], name: name(element) };
        Ok(Self { head, prototypes, coefficients })
    }

    fn mapping(&self, rule: MaskRule) -> Result<MaskMapping> {
        let [_, _, height, width] = self.prototypes.view().dims::<4>()?;
        let map = Size::new(width as u32, height as u32);
        MaskMapping::new(&MaskParams::of(rule), Placement::Center, &placed(), map)
    }
}

fn name(element: ElementType) -> String {
    format!("{NUM_INSTANCES} of 200x200 {element}")
}

pub(super) fn cases(bench: &mut Bench<'_>, device: &Device) -> Result<()> {
    for element in [F32, F16] {
        let boxes = format!("mask: only boxes, {}", name(element));
        let of_rules = RULES.map(|rule| format!("mask: {}, {}", rule.name(), name(element)));
        if !of_rules.iter().chain([&boxes]).any(|name| bench.wants(name)) {
            continue;
        }
        let scene = Scene::new(element)?;
        match device {
            Device::Cpu => on_cpu(bench, &scene, boxes, of_rules)?,
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => cuda::measure(bench, device, &scene, boxes, of_rules)?,
        }
    }
    Ok(())
}

/// Refuses to measure anything but the masks of all instances.
fn check(num_detections: usize, num_masks: usize) -> Result<()> {
    if [num_detections, num_masks] == [NUM_INSTANCES; 2] {
        return Ok(());
    }
    let message = format!("{num_detections} detections with {num_masks} masks of {NUM_INSTANCES}");
    Err(Error::new(ErrorKind::Argument, "bench", message))
}

fn on_cpu(
    bench: &mut Bench<'_>,
    scene: &Scene,
    boxes: String,
    of_rules: [String; 2],
) -> Result<()> {
    let Scene { head, prototypes, coefficients } = scene;
    let mut steps = <OnCpu>::new(head);
    bench.host(Case::new(boxes), || steps.gather(head))?;
    let mut workspace = Workspace::with_capacity(MAX_DETECTIONS, CAPACITY_BYTES);
    let mut sources = Vec::with_capacity(MAX_DETECTIONS);
    for (rule, name) in RULES.into_iter().zip(of_rules) {
        let mapping = scene.mapping(rule)?;
        bench.host(Case::new(name), || {
            steps.gather(head)?;
            steps.sources(&mut sources);
            let inputs = MaskInputs {
                predictions: head.tensors[0].view(),
                coefficients: *coefficients,
                prototypes: prototypes.view(),
                mapping,
                sources: &sources,
                detections: &steps.detections,
            };
            mask(&inputs, &mut workspace).map(drop)
        })?;
        check(steps.detections.len(), workspace.masks().windows.len())?;
    }
    Ok(())
}

#[cfg(feature = "cuda")]
mod cuda {
    use super::super::case::{Bar, Times, gpu, wall};
    use super::super::decode::cuda::{Steps, on_device};
    use super::{Bench, CAPACITY_BYTES, Case, MAX_DETECTIONS, RULES, Result, Scene, check};
    use det_post_ops::decode::mask::cuda::{Outputs, ReadMasks, Workspace};
    use det_post_ops::device::cuda::{CudaDevice, Graph};

    pub(super) fn measure(
        bench: &mut Bench<'_>,
        device: &CudaDevice,
        scene: &Scene,
        boxes: String,
        of_rules: [String; 2],
    ) -> Result<()> {
        let stream = &device.stream()?;
        let mut steps = <Steps>::new(stream, &scene.head)?;
        let graph = Graph::capture(stream, || steps.gather())?;
        bench.device(Case::new(boxes), stream, || graph.enqueue(), || steps.read())?;
        let single = last(bench);

        let mut steps = <Steps>::new(stream, &scene.head)?.with_rows()?;
        let predictions = on_device(stream, &scene.head.tensors[0])?;
        let prototypes = on_device(stream, &scene.prototypes)?;
        let outputs = Outputs {
            predictions: &predictions,
            coefficients: scene.coefficients,
            prototypes: &prototypes,
        };
        let mut workspace = Workspace::new(stream, MAX_DETECTIONS, CAPACITY_BYTES)?;
        let mut masks = ReadMasks::with_capacity(MAX_DETECTIONS, CAPACITY_BYTES);
        for (rule, name) in RULES.into_iter().zip(of_rules) {
            workspace.set(&scene.mapping(rule)?, prototypes.shape())?;
            let graph = Graph::capture(stream, || {
                steps.gather()?;
                match steps.gather.rows() {
                    Some(rows) => workspace.enqueue(&outputs, rows),
                    None => Ok(()),
                }
            })?;
            let case = Case::new(format!("{name}, on the device"));
            bench.device(case, stream, || graph.enqueue(), || steps.read())?;
            over(bench, &name, ("on the device", gpu(None, 40.0)), single)?;
            let case = Case::new(format!("{name}, to the host"));
            bench.device(
                case,
                stream,
                || graph.enqueue(),
                || {
                    steps.read()?;
                    workspace.read_complete(&mut masks);
                    Ok(())
                },
            )?;
            over(bench, &name, ("to the host", wall(None, 80.0)), single)?;
            check(steps.detections.len(), masks.masks().windows.len())?;
        }
        Ok(())
    }

    /// The times of the case that was measured last, on the GPU and of the wall.
    fn last(bench: &Bench<'_>) -> [Times; 2] {
        let row = bench.rows().last();
        let wall = row.map_or(Times { p50: 0.0, p95: 0.0, p99: 0.0 }, |row| row.wall_us);
        [row.and_then(|row| row.gpu_us).unwrap_or(wall), wall]
    }

    /// Adds the difference of the case that was measured last to only the boxes, by the clock of its bar.
    fn over(
        bench: &mut Bench<'_>,
        name: &str,
        (place, bar): (&str, Option<Bar>),
        single: [Times; 2],
    ) -> Result<()> {
        let less = |a: Times, b: Times| Times {
            p50: a.p50 - b.p50,
            p95: a.p95 - b.p95,
            p99: a.p99 - b.p99,
        };
        let [on_gpu, wall] = last(bench);
        let [gpu_us, wall_us] = [less(on_gpu, single[0]), less(wall, single[1])];
        let case = Case::new(format!("{name}, {place}, over the boxes")).with_bar(bar);
        bench.difference(case, gpu_us, wall_us)
    }
}
