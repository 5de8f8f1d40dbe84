//! Layers that follow each other.

use crate::error::Result;
use crate::ops::linear::{LinearLayer, linear};
use crate::ops::rows::{Part, Rows, RowsMut};

/// Memory of stacks of layers.
#[derive(Clone, Debug, Default)]
pub(super) struct Workspace {
    /// Rows of an input.
    pub(super) rows: Vec<f32>,
    /// The outputs between layers.
    between: [Vec<f32>; 2],
}

impl Workspace {
    /// Runs layers, at least one, from the first's input to the last's output.
    pub(super) fn run(
        &mut self,
        input: Part<'_>,
        layers: &[LinearLayer],
        out: RowsMut<'_>,
    ) -> Result<()> {
        let Some((last, others)) = layers.split_last() else { return Ok(()) };
        let num_rows = out.len();
        let Self { rows, between: [previous, next] } = self;
        // The columns of what the layer before has written.
        let mut written = None;
        for layer in others {
            let num_outputs = layer.num_outputs();
            next.clear();
            next.resize(num_rows * num_outputs, 0.0);
            let input = written.map_or(input, |columns| Part::Of(Rows::new(previous, columns)));
            linear(&[input], layer, &[], rows, RowsMut::new(next, num_outputs))?;
            written = Some(num_outputs);
            std::mem::swap(previous, next);
        }
        let input = written.map_or(input, |columns| Part::Of(Rows::new(previous, columns)));
        linear(&[input], last, &[], rows, out)
    }
}
