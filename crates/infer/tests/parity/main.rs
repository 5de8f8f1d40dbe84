//! The same networks of our operations on the CPU and on the GPU, and the answers compared.
//!
//! A problem knows how to make itself, its answer on the CPU and its answer on
//! the device. Integers, orders and indices must be equal; floats are equal or
//! within the units in the last place that `docs/numerics.md` states. Without
//! a GPU the suite says so and passes, unless `DET_POST_REQUIRE=cuda` makes
//! that a failure.
#![cfg(feature = "cuda")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod decode_query;
mod detr3d_block;
mod detr3d_reference;
mod integers;
mod maps_in_place;
mod mixed_precision;
mod sparse4d;
mod sparse4d_width;
mod sparse_encoder;
mod sparse_on_sites;
mod staged;
mod view_sample;
