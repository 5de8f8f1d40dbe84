//! Linear layers that follow each other: rows pass through all of them.
//!
//! Input `[R, I]` of the first layer, output `[R, O]` of the last; every layer is one of
//! [`linear`](crate::view::linear), whose contract holds for each. A NaN reaches only its row.
//!
//! On a GPU a launch takes rows through all layers of several stacks. Activations are rounded to
//! the elements of the rows after each layer and after each normalization. [`folded`] has
//! normalizations in the layers that follow them.

#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
pub mod folded;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
mod kernels;
#[cfg(test)]
mod tests;

use crate::view::linear::{LinearLayer, linear};
use crate::view::rows::{Part, Rows, RowsMut};
use det_post_types::Result;

/// Memory of the op.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// Rows of an input.
    pub rows: Vec<f32>,
    /// The outputs between layers.
    between: [Vec<f32>; 2],
}

impl Workspace {
    /// Writes all of `out`. Without layers nothing is written.
    ///
    /// # Errors
    /// `Argument` when the layers do not fit the input, each other or the output.
    pub fn run(&mut self, input: Part<'_>, layers: &[LinearLayer], out: RowsMut<'_>) -> Result<()> {
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
