//! Engines that run a network.

mod engine;

pub use engine::Engine;
