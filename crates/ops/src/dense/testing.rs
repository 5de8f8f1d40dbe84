//! Tensors of the references' tests.

use super::host::HostBuffer;
use super::{HostArena, Region, Window};

/// Buffers that hold one dense tensor each.
#[derive(Default)]
pub(super) struct Tensors {
    pub arena: HostArena,
}

impl Tensors {
    pub fn floats(&mut self, dims: &[usize], values: &[f32]) -> Region {
        self.region(dims, HostBuffer::F32(values.to_vec()))
    }

    pub fn indices(&mut self, dims: &[usize], values: &[i32]) -> Region {
        self.region(dims, HostBuffer::I32(values.to_vec()))
    }

    /// A tensor to be written.
    pub fn output(&mut self, dims: &[usize]) -> Region {
        let len = dims.iter().product();
        self.region(dims, HostBuffer::F32(vec![-7.0; len]))
    }

    /// A tensor of i32 to be written.
    pub fn index_output(&mut self, dims: &[usize]) -> Region {
        let len = dims.iter().product();
        self.region(dims, HostBuffer::I32(vec![-7; len]))
    }

    fn region(&mut self, dims: &[usize], buffer: HostBuffer) -> Region {
        let window = Window::contiguous(dims).unwrap();
        assert_eq!(window.len(), buffer.len());
        Region { buffer: self.arena.push(buffer), window }
    }

    pub fn read(&self, region: &Region) -> Vec<f32> {
        self.arena.read(region).unwrap()
    }
}
