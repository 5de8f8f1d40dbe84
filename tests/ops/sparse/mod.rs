//! Sparse convolutions against results of spconv and numpy in f64.

mod operations;
