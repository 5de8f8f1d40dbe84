//! The same buffers on the host and on a GPU, for the operations of dense layers.

use det_post_ops::dense::arena::{Arena, ArenaBuffer};
use det_post_ops::dense::host::{HostBuffer, round_f16};
use det_post_ops::dense::{HostArena, Region, Window};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, Plain, Stream};
use det_post_types::ElementType;
use half::f16;

use det_post_testing::random::Random;

pub const FLOATS: [ElementType; 2] = [ElementType::F32, ElementType::F16];

/// Arenas with the same buffers.
pub struct Pair {
    pub host: HostArena,
    pub device: Arena,
    pub random: Random,
}

impl Pair {
    pub fn new(device: &CudaDevice, seed: u64) -> Self {
        let stream = device.stream().unwrap();
        Self { host: HostArena::new(), device: Arena::new(&stream), random: Random::new(seed) }
    }

    /// A buffer of values by their position, rounded to f16 in a buffer of f16.
    pub fn push(&mut self, element: ElementType, values: &[f32]) -> usize {
        let stream = self.device.stream().clone();
        let (host, device) = match element {
            ElementType::F16 => {
                let halves: Vec<f16> = values.iter().map(|&v| f16::from_f32(v)).collect();
                let rounded = values.iter().map(|&v| round_f16(v)).collect();
                (HostBuffer::F16(rounded), ArenaBuffer::F16(uploaded(&stream, &halves)))
            }
            _ => (HostBuffer::F32(values.to_vec()), ArenaBuffer::F32(uploaded(&stream, values))),
        };
        self.pushed(host, device)
    }

    pub fn push_indices(&mut self, values: &[i32]) -> usize {
        let device = ArenaBuffer::I32(uploaded(self.device.stream(), values));
        self.pushed(HostBuffer::I32(values.to_vec()), device)
    }

    fn pushed(&mut self, host: HostBuffer, device: ArenaBuffer) -> usize {
        let number = self.host.push(host);
        assert_eq!(self.device.push(device).unwrap(), number);
        number
    }

    /// A buffer of random values.
    pub fn random(&mut self, element: ElementType, len: usize, limit: f32) -> usize {
        let values: Vec<f32> = (0..len).map(|_| self.random.range(-limit, limit)).collect();
        self.push(element, &values)
    }

    /// A buffer that is to be written: what is not has to stay.
    pub fn output(&mut self, element: ElementType, len: usize) -> usize {
        if element == ElementType::I32 {
            return self.push_indices(&vec![-7; len]);
        }
        self.push(element, &vec![-7.0; len])
    }

    /// A buffer of random values that has just a window.
    pub fn random_window(&mut self, element: ElementType, window: &Window, limit: f32) -> Region {
        let buffer = self.random(element, window.end().unwrap() + 3, limit);
        Region { buffer, window: *window }
    }

    /// A buffer to be written through a window.
    pub fn output_window(&mut self, element: ElementType, window: &Window) -> Region {
        let buffer = self.output(element, window.end().unwrap() + 3);
        Region { buffer, window: *window }
    }

    /// The floats of a buffer on the host and on the GPU.
    fn floats(&self, buffer: usize) -> [Vec<f32>; 2] {
        let host = match self.host.buffer(buffer).unwrap() {
            HostBuffer::F32(values) | HostBuffer::F16(values) => values.clone(),
            HostBuffer::I32(_) => panic!("floats"),
        };
        let device = match self.device.buffer(buffer).unwrap() {
            ArenaBuffer::F32(values) => values.read().unwrap(),
            ArenaBuffer::F16(values) => {
                values.read().unwrap().into_iter().map(f16::to_f32).collect()
            }
            ArenaBuffer::I32(_) => panic!("floats"),
        };
        [host, device]
    }

    /// All of a buffer has the same bits on both sides; NaN is NaN.
    pub fn assert_equal(&self, buffer: usize, what: &str) {
        if let (HostBuffer::I32(host), ArenaBuffer::I32(device)) =
            (self.host.buffer(buffer).unwrap(), self.device.buffer(buffer).unwrap())
        {
            assert_eq!(*host, device.read().unwrap(), "{what}");
            return;
        }
        let [host, device] = self.floats(buffer);
        assert_eq!(host.len(), device.len());
        let is_equal = |a: f32, b: f32| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
        let different = host.iter().zip(&device).position(|(&a, &b)| !is_equal(a, b));
        if let Some(at) = different {
            panic!("{what}: {} on the host, {} on the GPU at {at}", host[at], device[at]);
        }
    }

    /// All of a buffer is on both sides within a share of the largest value.
    pub fn assert_near(&self, buffer: usize, share: f32, what: &str) {
        let [host, device] = self.floats(buffer);
        let finite = host.iter().filter(|value| value.is_finite());
        let largest = finite.fold(0.0_f32, |largest, value| largest.max(value.abs()));
        for (at, (&a, &b)) in host.iter().zip(&device).enumerate() {
            let is_near = a == b || (a - b).abs() <= share * largest || a.is_nan() && b.is_nan();
            assert!(is_near, "{what}: {a} on the host, {b} on the GPU at {at} of {largest}");
        }
    }
}

/// A buffer with these values.
pub fn uploaded<T: Plain>(stream: &Stream, values: &[T]) -> DeviceBuffer<T> {
    let mut buffer = DeviceBuffer::zeros(stream, values.len()).unwrap();
    buffer.write(values).unwrap();
    buffer
}

/// Windows of maps `[N, C, H, W]`: channels-last, a slice of a wider pixel, an unaligned one, planes,
/// and every second row of columns first.
pub fn map_windows(dims: [usize; 4]) -> Vec<Window> {
    let [n, c, h, w] = dims;
    let pixel = c.next_multiple_of(8);
    let wide = Window::channels_last([n, pixel + 16, h, w], pixel + 16).unwrap();
    let columns_first = Window::contiguous(&[n, w, 2 * h, c]).unwrap();
    vec![
        Window::channels_last(dims, pixel).unwrap(),
        wide.slice(1, 8, 1, c).unwrap(),
        wide.slice(1, 3, 1, c).unwrap(),
        Window::contiguous(&dims).unwrap(),
        columns_first.slice(2, 1, 2, h).unwrap().permute(&[0, 3, 2, 1]).unwrap(),
    ]
}
