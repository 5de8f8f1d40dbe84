//! Products of matrices with what follows them, as ONNX's MatMul and Gemm define them.
//!
//! Left `[..., M, K]`; right weights `[K, N]`, or a window `[..., K, N]`; output `[..., M, N]`, with
//! the same leading dimensions (a window is broadcast before). Any window may be transposed by its
//! strides. A value of the output is, each operation rounded once,
//!
//! 1. the sum of `x * w` over K; with [`Products::F32`] `fma(x, w, sum)` from +0, ascending;
//! 2. `+ bias` of its column, +0 where there is none;
//! 3. the epilogue, rounded to the elements of the output.
//!
//! Precision is as in [`conv`](super::conv).

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(test)]
mod tests;

use super::conv::Products;
use super::{Epilogue, HostArena, MAX_RANK, Region};
use det_post_types::{Error, ErrorKind, Result};

/// Weights on the right of a product, in f32.
#[derive(Clone, Copy, Debug)]
pub struct RightWeights<'a> {
    /// K.
    pub num_inputs: usize,
    /// N.
    pub num_outputs: usize,
    /// `[K, N]`.
    pub weights: &'a [f32],
    /// `[N]`; absent is zero.
    pub bias: Option<&'a [f32]>,
}

/// A product of matrices.
#[derive(Clone, Debug)]
pub struct MatMul {
    right: Option<Weights>,
    epilogue: Epilogue,
    products: Products,
}

/// Weights, rounded as products are.
#[derive(Clone, Debug)]
struct Weights {
    num_inputs: usize,
    num_outputs: usize,
    values: Vec<f32>,
    bias: Vec<f32>,
}

/// What a product reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMulRegions {
    /// `[..., M, K]`.
    pub left: Region,
    /// `[..., K, N]`, where the right side is no weights.
    pub right: Option<Region>,
    /// `[..., M, N]`, where the epilogue has one.
    pub residual: Option<Region>,
    /// `[..., M, N]`.
    pub output: Region,
}

impl MatMul {
    /// The most inputs or outputs of weights.
    pub const MAX_CHANNELS: usize = super::conv::Conv::MAX_CHANNELS;

    /// A product with weights.
    ///
    /// # Errors
    /// `Argument` when a size is 0 or above [`Self::MAX_CHANNELS`], the lengths are not those of
    /// the sizes, or a weight is not finite, also rounded.
    pub fn with_weights(
        right: &RightWeights<'_>,
        epilogue: Epilogue,
        products: Products,
    ) -> Result<Self> {
        let &RightWeights { num_inputs, num_outputs, weights, bias } = right;
        let channels = 1..=Self::MAX_CHANNELS;
        let fits = channels.contains(&num_inputs)
            && channels.contains(&num_outputs)
            && weights.len() == num_inputs * num_outputs
            && bias.is_none_or(|bias| bias.len() == num_outputs);
        if !fits {
            return argument(format!(
                "{} weights and a bias of {} do not match {num_inputs} inputs and {num_outputs} \
                 outputs; each must be 1 to {}",
                weights.len(),
                bias.map_or(0, <[f32]>::len),
                Self::MAX_CHANNELS
            ));
        }
        let values: Vec<f32> = weights.iter().map(|&weight| products.round(weight)).collect();
        let all = values.iter().chain(bias.unwrap_or_default());
        let num_not_finite = all.filter(|value| !value.is_finite()).count();
        if num_not_finite > 0 {
            return argument(format!(
                "{num_not_finite} weights or biases are not finite as {products:?}"
            ));
        }
        let bias = bias.map_or_else(|| vec![0.0; num_outputs], <[f32]>::to_vec);
        let right = Some(Weights { num_inputs, num_outputs, values, bias });
        Ok(Self { right, epilogue, products })
    }

    /// A product of two windows.
    pub fn of_windows(epilogue: Epilogue, products: Products) -> Self {
        Self { right: None, epilogue, products }
    }

    /// The elements of products.
    pub fn products(&self) -> Products {
        self.products
    }

    /// What follows the sum.
    pub fn epilogue(&self) -> &Epilogue {
        &self.epilogue
    }

    /// M, K and N, if the windows fit.
    fn check(&self, regions: &MatMulRegions) -> Result<[usize; 3]> {
        let left = regions.left.window.dims();
        let output = regions.output.window.dims();
        let right = regions.right.map(|region| region.window);
        let sizes = match (left, output) {
            ([leading @ .., m, k], [others @ .., m_out, n])
                if leading == others && m == m_out && left.len() <= MAX_RANK =>
            {
                let fits = match (&self.right, &right) {
                    (Some(weights), None) => [weights.num_inputs, weights.num_outputs] == [*k, *n],
                    (None, Some(right)) => {
                        matches!(right.dims(), [dims @ .., rows, columns]
                            if dims == leading && [rows, columns] == [k, n])
                    }
                    _ => false,
                };
                fits.then_some([*m, *k, *n])
            }
            _ => None,
        };
        let residual = regions.residual.map(|region| region.window);
        let fits = residual.is_none_or(|window| window.dims() == output)
            && residual.is_some() == self.epilogue.residual.is_some();
        let Some(sizes) = sizes.filter(|_| fits) else {
            let weights = self.right.as_ref().map(|right| [right.num_inputs, right.num_outputs]);
            return argument(format!(
                "windows of {left:?}, {:?} and {:?} do not fit an output of {output:?}, weights of \
                 {weights:?} and {:?}",
                right.map(|window| window.dims().to_vec()),
                residual.map(|window| window.dims().to_vec()),
                self.epilogue
            ));
        };
        Ok(sizes)
    }
}

/// Computes the product on the CPU.
///
/// # Errors
/// `Argument` when windows do not fit the product or their buffers.
pub fn matmul(arena: &mut HostArena, product: &MatMul, regions: &MatMulRegions) -> Result<()> {
    let sizes = product.check(regions)?;
    cpu::matmul(arena, product, regions, sizes)
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "matmul", message))
}
