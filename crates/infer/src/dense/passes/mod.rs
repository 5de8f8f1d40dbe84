//! Passes over a [`Graph`]: each leaves what the network computes as it is, but for the last bits.
//!
//! | pass | what it does |
//! |---|---|
//! | [`constants`] | convolutions of constants are computed |
//! | [`activations`] | `x * sigmoid(x)` and its relatives become one function |
//! | [`views`] | transpositions move down, slices up, until they meet and vanish |
//! | [`expectation`] | softmax, weights and a sum or a 1x1 convolution become one operation |
//! | [`inputs`] | pads and YOLOX's focus move into the convolution |
//! | [`affine`] | batch normalization, constant factors and summands move into weights, in f64 |
//! | [`epilogue`] | activations and residual sums move into the convolution before them |
//! | [`enlarged`] | a nearest enlargement by 2 moves into the convolutions around it |
//! | [`merge`] | convolutions of the same input become one |
//! | [`linear_max`] | a product and the largest of its rows become one operation |
//! | [`separable`] | a pooling of many taps becomes one along columns and one along rows |
//! | [`programs`] | functions of elements in a row become one launch |

mod activations;
mod affine;
mod constants;
mod enlarged;
mod epilogue;
mod expectation;
mod inputs;
mod linear_max;
mod merge;
mod programs;
mod separable;
mod uses;
mod views;

use super::graph::Graph;

pub(super) use uses::Uses;
pub(super) use views::inverse;

/// Runs all passes.
pub(super) fn run(graph: &mut Graph) {
    uses::tidy(graph);
    constants::run(graph);
    activations::run(graph);
    affine::run(graph);
    epilogue::activations(graph);
    views::run(graph);
    expectation::run(graph);
    inputs::run(graph);
    affine::run(graph);
    epilogue::activations(graph);
    enlarged::run(graph);
    epilogue::residuals(graph);
    affine::spell_out(graph);
    merge::run(graph);
    views::resolve(graph);
    linear_max::run(graph);
    separable::run(graph);
    programs::run(graph);
}
