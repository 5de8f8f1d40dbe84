//! Sparse convolutions against results of spconv and numpy in f64, and the files
//! and plans of their networks.

mod autoware;
mod dialects;
mod encoders;
mod export;
mod files;
mod frames;
mod on_sites;
mod plans;
