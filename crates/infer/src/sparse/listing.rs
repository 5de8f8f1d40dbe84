//! A plan as text: levels, steps, memory.

use std::fmt::Write as _;

use super::operation::{Operator, Origin, SparseTensor};
use super::plan::{Memory, Plan, PlannedRulebook, Step, StepKind};
use det_post_types::text::{LineBreaks, shown};

impl Plan {
    /// The levels with their capacities, the steps with what is fused into them,
    /// the map, and the memory with elements of 32 and 16 bits.
    pub fn listing(&self) -> String {
        let mut text = String::new();
        let network = self.network();
        let _ = writeln!(
            text,
            "{:<5}  {:<16}  {:>8}  sites",
            "level",
            format!("grid {}", network.axes),
            "capacity"
        );
        for (at, (level, capacity)) in network.levels.iter().zip(self.capacities()).enumerate() {
            let sites = match level.origin {
                Origin::Voxels => "voxels".into(),
                Origin::Strided { from, geometry } => format!("of level {from}, {geometry}"),
                Origin::Transposed { from, geometry } => {
                    format!("of level {from}, transposed, {geometry}")
                }
                Origin::Merged { from } => {
                    let from: Vec<_> = from
                        .iter()
                        .flatten()
                        .map(|source| format!("{} times {}", source.level, source.scale))
                        .collect();
                    format!("under levels {}", from.join(", "))
                }
            };
            let grid = spaced(level.shape);
            let _ = writeln!(text, "{at:<5}  {grid:<16}  {capacity:>8}  {sites}");
        }
        let _ = writeln!(
            text,
            "\n{:<24}  {:<7}  {:<12}  {:<7}  {:<8}  {:>10}  buffers",
            "step", "level", "channels", "kernel", "rulebook", "parameters"
        );
        for step in self.steps() {
            let _ = writeln!(text, "{}", self.line(step));
        }
        let _ = match network.site_outputs.is_empty() {
            true => writeln!(text, "map {:?}\n", network.map_shape()),
            false => writeln!(text, "{}\n", self.outputs()),
        };
        for (name, element_bytes) in [("f32", 4), ("f16", 2)] {
            let memory = self.memory(element_bytes);
            let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
            let Memory { features, tables, sites, weights, map } = memory;
            let _ = writeln!(
                text,
                "memory, {name}: {:.1} MiB (features {:.1}, tables {:.1}, sites {:.1}, weights \
                 {:.1}, map {:.1})",
                mib(memory.total()),
                mib(features),
                mib(tables),
                mib(sites),
                mib(weights),
                mib(map)
            );
        }
        text
    }

    fn outputs(&self) -> String {
        let network = self.network();
        let outputs = network.site_outputs.iter().map(|output| {
            let name = shown(output.name.clone(), LineBreaks::Escaped);
            format!("{name} [sites, {}]", network.tensors[output.tensor].channels)
        });
        let outputs: Vec<_> = outputs.collect();
        format!("outputs on the sites of level {}: {}", network.last_level(), outputs.join(", "))
    }

    fn line(&self, step: &Step) -> String {
        let network = self.network();
        let operation = &network.operations[step.operation];
        let tensors = |at: usize| network.tensors[at];
        let first = step.kind.inputs().next().unwrap_or_default();
        let SparseTensor { level: from, channels: num_inputs } = tensors(first);
        let SparseTensor { level: to, channels: num_outputs } = tensors(step.output);
        let levels = if from == to { from.to_string() } else { format!("{from} > {to}") };
        let channels = format!("{num_inputs} > {num_outputs}");
        let (kernel, rulebook) = match step.kind {
            StepKind::Convolution { rulebook, .. } | StepKind::MaxPool { rulebook, .. } => {
                let PlannedRulebook { geometry, .. } = &self.rulebooks()[rulebook];
                let [k0, k1, k2] = geometry.kernel;
                (format!("{k0}x{k1}x{k2}"), rulebook.to_string())
            }
            StepKind::Add { .. } | StepKind::Relu { .. } | StepKind::Merge { .. } => {
                ("-".into(), "-".into())
            }
        };
        let num_parameters = match &operation.operator {
            Operator::Convolution(convolution) => {
                convolution.weight.len() + convolution.bias.as_ref().map_or(0, |bias| bias.len())
            }
            _ => 0,
        };
        let buffer = |at: usize| self.buffer_of(at).unwrap_or_default();
        let read: Vec<String> = step.kind.inputs().map(|at| buffer(at).to_string()).collect();
        let fused = match (step.kind, step.relu) {
            (StepKind::Convolution { residual: Some(_), .. }, true) => "  + residual, ReLU",
            (StepKind::Convolution { residual: Some(_), .. }, false) => "  + residual",
            (_, true) => "  ReLU",
            (_, false) => "",
        };
        format!(
            "{:<24}  {levels:<7}  {channels:<12}  {kernel:<7}  {rulebook:<8}  {num_parameters:>10}  \
             {} > {}{fused}",
            shown(operation.name.clone(), LineBreaks::Escaped),
            read.join("+"),
            buffer(step.output)
        )
    }
}

fn spaced(shape: [u32; 3]) -> String {
    shape.map(|cells| cells.to_string()).join(" ")
}
