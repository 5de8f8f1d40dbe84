//! stub
use super::onnx::Model;
use super::operation::SparseNetwork;
use super::refuse;
use crate::error::Result;
pub(super) fn read(_model: &Model<'_>) -> Result<(SparseNetwork, Option<Vec<u8>>)> {
    refuse("x".into())
}
