use super::*;
use crate::view::sample::{FeatureLevel, FeatureMaps, Texels};

fn statistics(views: &[Vec<f32>; 2], is_present: impl Fn(usize) -> bool) -> MapStatistics {
    let size = [views[0].len(), 1];
    let level = FeatureLevel::new(size, Texels::F32(views.concat()));
    let mut statistics = MapStatistics::default();
    statistics.add(&FeatureMaps::new(2, 1, vec![level]).unwrap(), is_present);
    statistics
}

fn of(values: &[f32]) -> LevelStatistics {
    let mut level = LevelStatistics::new();
    values.iter().for_each(|&value| level.add(value));
    level
}

/// Quantiles of a distribution: the inverse of its cumulative share at evenly spread shares.
fn spread(num: usize, inverse: impl Fn(f64) -> f64) -> Vec<f32> {
    (0..num).map(|i| inverse((i as f64 + 0.5) / num as f64) as f32).collect()
}

/// Relative error and cosine, value by value.
fn exact(values: &[f32], scale: f32) -> [f64; 2] {
    let (mut difference, mut original, mut quantized, mut product) = (0.0, 0.0, 0.0, 0.0);
    for &value in values {
        let (value, scale) = (f64::from(value), f64::from(scale));
        let rounded = (value / scale).round().clamp(-127.0, 127.0) * scale;
        difference += (value - rounded).powi(2);
        original += value * value;
        quantized += rounded * rounded;
        product += value * rounded;
    }
    [(difference / original).sqrt(), product / (original * quantized).sqrt()]
}

#[test]
fn quantiles_are_within_a_percent_and_the_largest_is_exact() {
    let values: Vec<f32> = (1..=10_000_u16).map(|i| -f32::from(i) * 0.001).collect();
    let found = statistics(&[values.clone(), values], |_| true);
    let level = &found.levels()[0];
    assert_eq!((found.num_frames(), level.max()), (1, 10.0));
    for share in [0.5_f64, 0.9, 0.999, 0.9999] {
        let (exact, found) = (10.0 * share as f32, level.quantile(share));
        assert!(found >= exact * 0.9999 && found <= exact * 1.01, "{share}: {found}");
    }
    assert_eq!(level.quantile(1.0), 10.0);
    assert_eq!(level.scale(ScaleMethod::Percentile(1.0)), Some(10.0 / 127.0));
}

#[test]
fn outliers_are_cut_by_a_quantile() {
    let mut values = vec![1.0; 20_000];
    values[7] = 1000.0;
    let found = statistics(&[values.clone(), values], |_| true);
    let level = &found.levels()[0];
    assert_eq!(level.max(), 1000.0);
    assert!(level.quantile(0.9999) <= 1.01);
}

#[test]
fn missing_views_and_values_that_are_not_finite_do_not_count() {
    let views = [vec![2.0, f32::NAN, f32::NEG_INFINITY, 0.0], vec![100.0; 4]];
    let found = statistics(&views, |view| view == 0);
    let level = &found.levels()[0];
    assert_eq!((level.max(), level.num_not_finite()), (2.0, 2));
    assert_eq!(level.scale(ScaleMethod::Percentile(0.9999)), Some(2.0 / 127.0));
    let zeros = statistics(&[vec![0.0; 4], vec![0.0; 4]], |_| true);
    for method in [ScaleMethod::Percentile(1.0), ScaleMethod::Entropy, ScaleMethod::Cosine] {
        assert_eq!(zeros.levels()[0].scale(method), None, "{method:?}");
        assert_eq!(LevelStatistics::new().scale(method), None, "{method:?}");
    }
    let none = statistics(&[vec![1.0; 4], vec![1.0; 4]], |_| false);
    assert_eq!((none.num_frames(), none.levels().len()), (0, 0));
}

#[test]
fn integers_and_halves_count_as_their_values() {
    let level = |texels| {
        let maps = FeatureMaps::new(1, 1, vec![FeatureLevel::new([3, 1], texels)]).unwrap();
        let mut statistics = MapStatistics::default();
        statistics.add(&maps, |_| true);
        statistics.levels()[0].max()
    };
    assert_eq!(level(Texels::I8 { values: vec![-100, 3, 0], scale: 0.5 }), 50.0);
    let halves = [0.25, -8.0, 1.0].map(half::f16::from_f32).to_vec();
    assert_eq!(level(Texels::F16(halves)), 8.0);
}

#[test]
fn equal_bins_do_not_depend_on_the_order() {
    let values = spread(5000, |share| 3.0 * share.powi(3));
    let mut reversed = values.clone();
    reversed.reverse();
    let [a, b] = [of(&values), of(&reversed)].map(|level| level.equal);
    assert_eq!((a.used(), a.width()), (b.used(), b.width()));
    assert!(a.used().len() > 2048 && a.used().iter().sum::<u64>() == 5000);
    // One value, the least and the greatest that is finite.
    for one in [1e-45, f32::MIN_POSITIVE, 1.0, f32::MAX] {
        let level = of(&[one]);
        assert_eq!(level.equal.used().iter().sum::<u64>(), 1, "{one}");
        let scale = level.scale(ScaleMethod::Percentile(1.0));
        assert!(one < 1e-40 || scale == Some(one / 127.0), "{one}");
    }
}

#[test]
fn errors_are_those_of_the_values() {
    let uniform = spread(200_000, |share| 8.0 * share);
    let exponential = spread(200_000, |share| -(1.0 - share).ln());
    for (name, values) in [("uniform", uniform), ("exponential", exponential)] {
        let level = of(&values);
        let max = level.max();
        for reached in [max, 0.7 * max, 0.3 * max, 0.05 * max] {
            let scale = reached / 127.0;
            let found = level.error(scale);
            let [relative, cosine] = exact(&values, scale);
            assert!(
                (found.relative / relative - 1.0).abs() < 0.02,
                "{name} {reached}: {found:?} {relative}"
            );
            assert!((found.cosine - cosine).abs() < 1e-4, "{name} {reached}: {found:?} {cosine}");
            let cut = values.iter().filter(|value| **value > reached).count() as f64;
            let cut = cut / values.len() as f64;
            assert!((found.clipped - cut).abs() < 2e-3, "{name} {reached}: {found:?} {cut}");
        }
    }
    // Every value is an integer times the scale.
    let level = of(&[0.5, 1.0, -63.5, 0.0]);
    let found = level.error(0.5);
    assert!(found.clipped == 0.0 && found.relative < 0.01, "{found:?}");
    assert_eq!(of(&[0.0; 3]).error(1.0).relative, 0.0);
}

#[test]
fn methods_of_known_distributions() {
    // Evenly spread up to 4: nothing is worth cutting.
    let level = of(&spread(100_000, |share| 4.0 * share));
    for method in [ScaleMethod::Percentile(1.0), ScaleMethod::Entropy, ScaleMethod::Cosine] {
        let reached = 127.0 * level.scale(method).unwrap();
        assert!((3.9..=4.0).contains(&reached), "{method:?}: {reached}");
    }
    // A few values of 1000 above many up to 1: a share leaves them out, squares do not.
    let mut values = spread(1_000_000, |share| share);
    values.extend([1000.0; 3]);
    let level = of(&values);
    let reached = |method| 127.0 * level.scale(method).unwrap();
    assert!(reached(ScaleMethod::Percentile(0.9999)) < 1.01);
    assert!(reached(ScaleMethod::Cosine) > 900.0);
    // An exponential tail: entropy and cosine cut it, and no scale has a greater cosine.
    let values = spread(200_000, |share| -(1.0 - share).ln());
    let level = of(&values);
    let [entropy, cosine] =
        [ScaleMethod::Entropy, ScaleMethod::Cosine].map(|m| level.scale(m).unwrap());
    assert!(127.0 * entropy < 0.95 * level.max(), "{}", 127.0 * entropy);
    assert!(127.0 * cosine < 0.95 * level.max(), "{}", 127.0 * cosine);
    let [_, best] = exact(&values, cosine);
    for factor in [0.5, 0.7, 0.85, 1.15, 1.3] {
        let [_, other] = exact(&values, cosine * factor);
        assert!(best >= other - 1e-7, "{factor}: {best} {other}");
    }
}
