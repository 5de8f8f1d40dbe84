//! Sparse convolution on arrays.

mod axes;
mod convolution;
mod maps;
mod rulebook;
mod sites;
mod weights;

pub use self::axes::Axes;
pub use self::convolution::{check_shape, sparse_conv};
pub use self::maps::{channels, scatter, sparse_max_pool, to_map};
pub use self::rulebook::Rulebook;
pub use self::sites::Sites;
pub use self::weights::SparseWeights;
