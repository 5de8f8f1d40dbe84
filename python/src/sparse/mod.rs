//! Sparse convolution on arrays.

mod convolution;
mod rulebook;
mod sites;

pub use self::convolution::{SparseWeights, check_shape, sparse_conv};
pub use self::rulebook::Rulebook;
pub use self::sites::Sites;
