//! Random weights under the names of a state dict.

use crate::bench::inputs::Random;

/// A state dict in the making, as a file of safetensors.
pub(super) struct Weights {
    random: Random,
    header: serde_json::Map<String, serde_json::Value>,
    data: Vec<u8>,
}

impl Weights {
    pub(super) fn new() -> Self {
        Self { random: Random::new(7), header: serde_json::Map::new(), data: Vec::new() }
    }

    /// A tensor of what `value` makes of numbers from -1 to 1.
    pub(super) fn add(&mut self, name: &str, shape: &[usize], value: impl Fn(f32) -> f32) {
        self.add_each(name, shape, |_, x| value(x));
    }

    /// A matrix of numbers from -1 to 1, each column times its `scale`.
    pub(super) fn add_rows(&mut self, name: &str, shape: [usize; 2], scale: impl Fn(usize) -> f32) {
        self.add_each(name, &shape, |index, x| scale(index % shape[1]) * x);
    }

    fn add_each(&mut self, name: &str, shape: &[usize], value: impl Fn(usize, f32) -> f32) {
        let begin = self.data.len();
        for index in 0..shape.iter().product() {
            self.data.extend(value(index, self.random.range(-1.0, 1.0)).to_le_bytes());
        }
        let offsets = [begin, self.data.len()];
        let entry = serde_json::json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
        self.header.insert(name.to_owned(), entry);
    }

    /// Weights and a bias.
    pub(super) fn linear(&mut self, name: &str, num_outputs: usize, num_inputs: usize) {
        let scale = 1.0 / (num_inputs as f32).sqrt();
        self.add(&format!("{name}.weight"), &[num_outputs, num_inputs], |x| scale * x);
        self.add(&format!("{name}.bias"), &[num_outputs], |x| 0.1 * x);
    }

    /// Layer normalization.
    pub(super) fn norm(&mut self, name: &str, num_channels: usize) {
        self.add(&format!("{name}.weight"), &[num_channels], |x| 1.0 + 0.1 * x);
        self.add(&format!("{name}.bias"), &[num_channels], |x| 0.1 * x);
    }

    /// Attention of rows of some channels.
    pub(super) fn attention(&mut self, name: &str, num_channels: usize) {
        let scale = 1.0 / (num_channels as f32).sqrt();
        let shape = [3 * num_channels, num_channels];
        self.add(&format!("{name}.attn.in_proj_weight"), &shape, |x| scale * x);
        self.add(&format!("{name}.attn.in_proj_bias"), &shape[..1], |x| 0.1 * x);
        self.linear(&format!("{name}.attn.out_proj"), num_channels, num_channels);
    }

    /// The file.
    pub(super) fn bytes(self) -> Vec<u8> {
        let header = serde_json::Value::Object(self.header).to_string();
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &self.data].concat()
    }
}
