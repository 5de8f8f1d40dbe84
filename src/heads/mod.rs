//! Which ops in which order, with which tensors.
