//! The weights of a layer that has taken in the normalization of its first inputs.

use half::f16;

use super::LinearLayer;
use crate::view::layer_norm::LayerNorm;

/// `norm(y) W + b = (y V - mean(y) s) / deviation(y) + c`, where `V` is `W` times the factors of
/// the normalization, rounded to f16, `s` the sums of the rounded values over the inputs, and `c`
/// the bias and the summands of the normalization times `W`.
pub(crate) struct FoldedWeights {
    num_inputs: usize,
    /// `V`, and `W` of the inputs behind the normalized ones, a row per output.
    weights: Vec<f16>,
    /// `c` and `s` by output; `s` is 0 without a normalization.
    constants: Vec<[f32; 2]>,
}

impl FoldedWeights {
    /// `None` when a weight is infinite in f16.
    pub(crate) fn new(layer: &LinearLayer, norm: Option<&LayerNorm>) -> Option<Self> {
        let num_inputs = layer.num_inputs();
        let places = (0..layer.num_outputs())
            .flat_map(|output| (0..num_inputs).map(move |input| (output, input)));
        let norm_len = norm.map_or(0, LayerNorm::num_channels);
        let factor = |input| norm.and_then(|norm| norm.gamma().get(input)).copied().unwrap_or(1.0);
        let weights = places.map(|(output, input)| layer.weight(output, input) * factor(input));
        let weights: Vec<f16> = weights.map(f16::from_f32).collect();
        if weights.iter().any(|weight| !weight.is_finite()) {
            return None;
        }
        let constants = weights.chunks_exact(num_inputs).zip(layer.bias()).enumerate();
        let constants = constants.map(|(output, (weights, bias))| {
            let Some(norm) = norm else { return [*bias, 0.0] };
            let sum: f64 = weights.iter().take(norm_len).map(|weight| weight.to_f64()).sum();
            let summands = norm
                .beta()
                .iter()
                .enumerate()
                .map(|(input, beta)| f64::from(*beta) * f64::from(layer.weight(output, input)));
            [(f64::from(*bias) + summands.sum::<f64>()) as f32, sum as f32]
        });
        let constants = constants.collect();
        Some(Self { num_inputs, weights, constants })
    }

    /// A value of `V`; 0 beyond the layer's inputs and outputs.
    pub(crate) fn weight(&self, output: usize, input: usize) -> f16 {
        let value = (input < self.num_inputs).then(|| output * self.num_inputs + input);
        value.and_then(|at| self.weights.get(at)).copied().unwrap_or(f16::ZERO)
    }

    /// `c` and `s`; 0 beyond the layer's outputs.
    pub(crate) fn constants(&self, output: usize) -> [f32; 2] {
        self.constants.get(output).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normalization_is_in_the_layer() {
        let (gamma, beta) = (vec![2.0, 0.5, -1.0], vec![1.0, -2.0, 0.25]);
        let weights = [1.0, 2.0, 3.0, -0.3, 0.1, 4.0];
        let layer = LinearLayer::new([2, 3], &weights, Some(&[0.5, 7.0])).unwrap();
        let norm = LayerNorm::new(gamma.clone(), beta.clone()).unwrap();
        let folded = FoldedWeights::new(&layer, Some(&norm)).unwrap();
        // The same row both ways.
        let row = [0.5_f32, 4.0, -3.0];
        let mut normalized = row;
        norm.apply(&mut normalized);
        let mean = row.iter().sum::<f32>() / 3.0;
        let square = row.iter().map(|x| x * x).sum::<f32>() / 3.0;
        let deviation = (square - mean * mean + 1e-5).sqrt();
        for output in 0..2 {
            let expected: f32 = (0..3)
                .map(|input| normalized[input] * weights[3 * output + input])
                .chain([layer.bias()[output]])
                .sum();
            let values = [0, 1, 2].map(|input| folded.weight(output, input).to_f32());
            let [constant, sum] = folded.constants(output);
            assert!((values.iter().sum::<f32>() - sum).abs() < 1e-6, "of the rounded values");
            let product: f32 = row.iter().zip(values).map(|(x, v)| x * v).sum();
            let found = (product - mean * sum) / deviation + constant;
            assert!((found - expected).abs() < 5e-3, "{found} {expected}");
        }
        // -0.6, as f16 has it.
        assert_eq!(folded.constants(1)[1], f16::from_f32(-0.6).to_f32() + 0.049_987_793 - 4.0);
        assert_eq!(folded.constants(0)[0], 0.5 + 1.0 - 4.0 + 0.75);
        let beyond = [folded.weight(0, 3), folded.weight(2, 0)];
        assert_eq!((beyond, folded.constants(2)), ([f16::ZERO; 2], [0.0; 2]));
        let single = FoldedWeights::new(&layer, None).unwrap();
        assert_eq!(single.constants(1), [7.0, 0.0]);
        assert_eq!(single.weight(1, 2).to_f32(), 4.0);
    }

    #[test]
    fn what_f16_makes_infinite_is_not_folded() {
        let layer = LinearLayer::new([1, 2], &[1.0, 3e3], None).unwrap();
        let norm = LayerNorm::new(vec![1.0, 30.0], vec![0.0; 2]).unwrap();
        assert!(FoldedWeights::new(&layer, None).is_some());
        assert!(FoldedWeights::new(&layer, Some(&norm)).is_none());
    }
}
