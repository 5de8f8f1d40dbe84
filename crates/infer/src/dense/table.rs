//! A plan as a table.

use std::fmt;

use super::{Buffer, Network, Step};

/// What a GPU can do, for the floor of a step.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// The network.
    pub network: &'a Network,
    /// Bytes that memory moves in a nanosecond.
    pub gigabytes_per_second: f64,
    /// Operations of products in a picosecond.
    pub teraflops: f64,
}

/// The elements that a step writes, `f16 f32` where it writes several kinds.
fn stored(step: &Step, buffers: &[Buffer]) -> String {
    let targets = step.kind.targets();
    let mut elements: Vec<String> = targets
        .iter()
        .filter_map(|target| buffers.get(target.buffer))
        .map(|buffer| buffer.element.to_string())
        .collect();
    elements.sort();
    elements.dedup();
    elements.join(" ")
}

/// The shortest time of a kernel in a recorded graph, in microseconds.
const LAUNCH: f64 = 0.54;

impl Table<'_> {
    /// The shortest time of a step in microseconds: of its bytes, its operations and its launch, the longest.
    pub fn floor(&self, step: usize) -> f64 {
        let plan = &self.network.plan;
        let Some(step) = plan.steps().get(step) else { return 0.0 };
        let cost = step.kind.cost(plan.buffers());
        let bytes = cost.bytes as f64 / (self.gigabytes_per_second * 1e3);
        let operations = cost.flop as f64 / (self.teraflops * 1e6);
        bytes.max(operations).max(LAUNCH)
    }
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = &self.network.plan;
        writeln!(
            f,
            "{:>4} {:12} {:20} {:8} {:6} {:>10} {:>10} {:>7}  layer",
            "step", "kernel", "shape", "products", "stored", "KB", "MFLOP", "us"
        )?;
        let (mut bytes, mut flop, mut floor) = (0, 0, 0.0);
        for (at, step) in plan.steps().iter().enumerate() {
            let cost = step.kind.cost(plan.buffers());
            let shape = format!("{:?}", step.kind.output_dims());
            let least = self.floor(at);
            (bytes, flop, floor) = (bytes + cost.bytes, flop + cost.flop, floor + least);
            let (kb, mflop) = (cost.bytes as f64 / 1e3, cost.flop as f64 / 1e6);
            let (kernel, name) = (step.kind.shown(), &step.name);
            let products = step.kind.products().map_or("-".to_owned(), |of| of.to_string());
            let stored = stored(step, plan.buffers());
            writeln!(
                f,
                "{at:>4} {kernel:12} {shape:20} {products:8} {stored:6} {kb:>10.1} {mflop:>10.1} {least:>7.2}  {name}"
            )?;
        }
        let (kb, mflop) = (bytes as f64 / 1e3, flop as f64 / 1e6);
        let num = plan.steps().len();
        writeln!(
            f,
            "{num} steps, {kb:.0} KB, {mflop:.0} MFLOP, at least {floor:.1} us; {} KB between steps",
            plan.num_work_bytes() / 1000
        )
    }
}
