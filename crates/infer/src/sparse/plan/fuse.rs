//! Fusion: a convolution takes in the sum and the ReLU that follow it.

use super::{PlannedRulebook, Step, StepKind, rulebook_of};
use crate::sparse::operation::{Operator, SparseNetwork};

/// The steps of a network. A step stands where its last operation stands in the
/// list, so that everything it reads is written before.
///
/// A sum or a ReLU is fused where nothing else reads what it is computed from.
/// Of two convolutions that a sum joins, the later one takes it in.
pub(super) fn steps(network: &SparseNetwork, rulebooks: &[PlannedRulebook]) -> Vec<Step> {
    let num_readers = num_readers(network);
    // The step that writes each tensor, by its place in `steps`; operations
    // that a later one has taken in leave an empty place.
    let mut step_of: Vec<Option<usize>> = vec![None; network.tensors.len()];
    let mut steps: Vec<Option<Step>> = Vec::new();
    for (index, operation) in network.operations.iter().enumerate() {
        let fusable = |tensor: usize, kinds: fn(&Step) -> bool| {
            let at = step_of[tensor].filter(|_| num_readers[tensor] == 1)?;
            steps[at].as_ref().is_some_and(|step| !step.relu && kinds(step)).then_some(at)
        };
        let taken_in = match &operation.operator {
            Operator::Convolution(_) | Operator::MaxPool { .. } | Operator::Merge { .. } => None,
            Operator::Relu { input } => fusable(*input, |step| {
                matches!(step.kind, StepKind::Convolution { .. } | StepKind::Add { .. })
            }),
            Operator::Add { inputs } => {
                let without_residual =
                    |step: &Step| matches!(step.kind, StepKind::Convolution { residual: None, .. });
                inputs.iter().filter_map(|&input| fusable(input, without_residual)).max()
            }
        };
        let mut step = match taken_in.and_then(|at| steps[at].take()) {
            Some(step) => step,
            None => unfused(network, index, rulebooks),
        };
        match (&operation.operator, &mut step.kind) {
            (Operator::Relu { .. }, StepKind::Convolution { .. } | StepKind::Add { .. }) => {
                step.relu = true;
            }
            (Operator::Add { inputs: [a, b] }, StepKind::Convolution { residual, .. }) => {
                *residual = Some(if *a == step.output { *b } else { *a });
            }
            _ => {}
        }
        step.output = operation.output;
        step_of[operation.output] = Some(steps.len());
        steps.push(Some(step));
    }
    steps.into_iter().flatten().collect()
}

/// The step of an operation with nothing fused into it.
fn unfused(network: &SparseNetwork, operation: usize, rulebooks: &[PlannedRulebook]) -> Step {
    let super::super::Operation { operator, output, .. } = &network.operations[operation];
    let rulebook = rulebook_of(network, *output, operator)
        .and_then(|wanted| rulebooks.iter().position(|rulebook| *rulebook == wanted))
        .unwrap_or_default();
    let kind = match operator {
        Operator::Convolution(convolution) => {
            StepKind::Convolution { input: convolution.input, rulebook, residual: None }
        }
        Operator::MaxPool { input, .. } => StepKind::MaxPool { input: *input, rulebook },
        Operator::Add { inputs } => StepKind::Add { inputs: *inputs },
        Operator::Relu { input } => StepKind::Relu { input: *input },
        Operator::Merge { inputs } => StepKind::Merge { inputs: *inputs },
    };
    Step { operation, kind, relu: false, output: *output }
}

/// How often each tensor is read.
fn num_readers(network: &SparseNetwork) -> Vec<usize> {
    let mut num_readers = vec![0; network.tensors.len()];
    // An output is read as it is, though a later operation reads it, too.
    network.ends().for_each(|tensor| num_readers[tensor] += 1);
    for tensor in network.operations.iter().flat_map(|operation| operation.operator.inputs()) {
        num_readers[tensor] += 1;
    }
    num_readers
}
