//! The reach of integers by the divergence of histograms.

use super::histogram::EqualBins;

/// Magnitudes that int8 tells apart, and the least number of bins that are looked at.
const NUM_STEPS: usize = 128;

/// The magnitude up to which integers reach: the end of the first bins for which the divergence of
/// their quantized counts from their counts is least; all magnitudes beyond count in the last bin.
/// The first bin, which zeros outweigh and every scale keeps, counts as the second.
pub(super) fn reach(bins: &EqualBins) -> f64 {
    let mut counts: Vec<f64> = bins.used().iter().map(|&count| count as f64).collect();
    if let [first, second, ..] = &mut counts[..] {
        *first = *second;
    }
    // What is beyond the first bins, by their number.
    let mut beyond = vec![0.0; counts.len() + 1];
    for (index, count) in counts.iter().enumerate().rev() {
        beyond[index] = beyond[index + 1] + count;
    }
    let mut best = (f64::INFINITY, counts.len());
    for num in NUM_STEPS..=counts.len() {
        let divergence = divergence(&counts[..num], beyond[num]);
        if divergence < best.0 {
            best = (divergence, num);
        }
    }
    best.1 as f64 * bins.width()
}

/// The Kullback-Leibler divergence of the counts, quantized to [`NUM_STEPS`] and spread over the bins of
/// a step that are not empty, from the counts with what is beyond them in the last; infinite where
/// that is, and the last is empty.
fn divergence(counts: &[f64], beyond: f64) -> f64 {
    let num = counts.len();
    let within: f64 = counts.iter().sum();
    if within <= 0.0 {
        return f64::INFINITY;
    }
    let total = within + beyond;
    let mut sum = 0.0;
    for step in 0..NUM_STEPS {
        let range = step * num / NUM_STEPS..(step + 1) * num / NUM_STEPS;
        let is_last = step + 1 == NUM_STEPS;
        let of_step = &counts[range];
        let num_used = of_step.iter().filter(|count| **count > 0.0).count();
        let quantized = of_step.iter().sum::<f64>() / num_used.max(1) as f64 / within;
        for (index, &count) in of_step.iter().enumerate() {
            let is_end = is_last && index + 1 == of_step.len();
            let original = (count + if is_end { beyond } else { 0.0 }) / total;
            if original > 0.0 && count <= 0.0 {
                return f64::INFINITY;
            }
            if original > 0.0 {
                sum += original * (original / quantized).ln();
            }
        }
    }
    sum
}
