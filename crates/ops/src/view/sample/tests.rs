use half::f16;
use proptest::prelude::*;

use super::*;

/// A camera at the origin that looks along +x, with y to the left: 90 degrees wide,
/// an image of 64 x 32.
fn forward() -> Projection {
    let rows = [[32.0, -32.0, 0.0, 0.0], [16.0, 0.0, -32.0, 0.0], [1.0, 0.0, 0.0, 0.0]];
    Projection::new(&rows, [64, 32]).unwrap()
}

fn level(size: [usize; 2], num_views: usize, num_channels: usize, seed: f32) -> FeatureLevel {
    let len = num_views * size[0] * size[1] * num_channels;
    let values = (0..len).map(|i| ((i as f32 + seed) * 0.37).sin()).collect();
    FeatureLevel::new(size, Texels::F32(values))
}

fn run(maps: &FeatureMaps, sampling: &ViewSampling<'_>) -> Vec<f32> {
    let num_queries = sampling.points.len() / sampling.num_points;
    let mut out = vec![f32::NAN; num_queries * maps.num_channels()];
    view_sample(&maps.into(), sampling, &mut Workspace::default(), &mut out).unwrap();
    out
}

#[test]
fn selection_is_strict_at_every_border() {
    let eps = 0.5;
    let project = |point| forward().project(point, eps);
    let seen = |point| project(point).is_seen;
    assert_eq!(project([2.0, 0.0, 0.0]).at, [0.5, 0.5]);
    assert_eq!(
        project([2.0, 1.0, 0.5]),
        Projected { at: [0.25, 0.25], depth_m: 2.0, is_seen: true }
    );
    // (point, whether seen)
    let cases = [
        ([2.0, 2.0, 0.0], false),  // u = 0
        ([2.0, -2.0, 0.0], false), // u = 1
        ([2.0, 1.999_999, 0.0], true),
        ([2.0, 0.0, 1.0], false),  // v = 0
        ([2.0, 0.0, -1.0], false), // v = 1
        ([0.5, 0.0, 0.0], false),  // at the least depth
        ([0.500_001, 0.0, 0.0], true),
        ([-2.0, 0.0, 0.0], false),
        ([f32::NAN, 0.0, 0.0], false),
        ([2.0, f32::NAN, 0.0], false),
        ([f32::INFINITY, 0.0, 0.0], false),
    ];
    for (point, expected) in cases {
        assert_eq!(seen(point), expected, "{point:?}");
    }
    assert!(!Projection::UNSEEN.project([1.0, 1.0, 1.0], 1e-5).is_seen);
    assert!(Projection::new(&[[1.0; 4]; 3], [0, 1]).is_err());
}

#[test]
fn samples_at_centres_between_them_and_at_borders() {
    // 2 x 2 texels: 1 2 / 4 8.
    let texels = Texels::F32(vec![1.0, 2.0, 4.0, 8.0]);
    let maps = FeatureMaps::new(1, 1, vec![FeatureLevel::new([2, 2], texels)]).unwrap();
    let sample = |at| {
        let mut out = [0.0];
        add_sample(&(&maps).into(), [0, 0], at, &[1.0], &mut out);
        out[0]
    };
    assert_eq!(sample([0.25, 0.25]), 1.0);
    assert_eq!(sample([0.75, 0.75]), 8.0);
    assert_eq!(sample([0.5, 0.5]), 3.75);
    assert_eq!(sample([0.5, 0.25]), 1.5);
    // A quarter of a texel outside: half of the border's weight is lost at u = 0.
    assert_eq!(sample([0.0, 0.25]), 0.5);
    assert_eq!(sample([1.0, 1.0]), 2.0);
    for far in [[-0.3, 0.5], [1.3, 0.5], [0.5, 1e30], [-1e30, 0.5], [0.5, f32::INFINITY]] {
        assert_eq!(sample(far), 0.0, "{far:?}");
    }
}

#[test]
fn unseen_views_are_not_read_and_unseen_queries_are_zero() {
    let clean =
        FeatureMaps::new(2, 4, vec![level([8, 4], 2, 4, 0.0), level([4, 2], 2, 4, 9.0)]).unwrap();
    let mut poisoned = clean.clone();
    for index in 0..2 {
        let Some(Texels::F32(values)) = poisoned.level_mut(index).map(FeatureLevel::texels_mut)
        else {
            panic!("f32 texels")
        };
        let half = values.len() / 2;
        values[half..].fill(f32::NAN);
    }
    let points = [[3.0, 0.4, 0.2], [-3.0, 0.0, 0.0]];
    let logits = [0.3; 2 * 2 * 2];
    let sampling = ViewSampling {
        points: &points,
        num_points: 1,
        projections: &[forward(), Projection::UNSEEN],
        min_depth_m: 1e-5,
        weighting: Weighting::Sigmoid { logits: &logits },
    };
    let found = run(&poisoned, &sampling);
    assert_eq!(found, run(&clean, &sampling));
    assert!(found[..4].iter().all(|x| *x != 0.0));
    assert_eq!(found[4..], [0.0; 4]);
}

#[test]
fn a_softmax_keeps_the_share_of_what_is_not_seen() {
    // Constant maps: the result is the sum of the weights that are seen.
    let texels = Texels::F32(vec![1.0; 3 * 9 * 2]);
    let maps = FeatureMaps::new(3, 2, vec![FeatureLevel::new([3, 3], texels)]).unwrap();
    // Each group has a logit of its own for the view that is not seen.
    let view_logits = [0.0, 0.0, 0.0, 0.0, 0.0, 2.0_f32.ln()];
    let sampling = ViewSampling {
        points: &[[2.0, 0.0, 0.0]],
        num_points: 1,
        projections: &[forward(), forward(), Projection::UNSEEN],
        min_depth_m: 1e-5,
        weighting: Weighting::Softmax {
            logits: &[1.0, 5.0],
            view_logits: &view_logits,
            num_groups: 2,
        },
    };
    let found = run(&maps, &sampling);
    assert!((found[0] - 2.0 / 3.0).abs() < 1e-6 && (found[1] - 0.5).abs() < 1e-6, "{found:?}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let size = [2, 2];
    let texels = |len| Texels::F32(vec![0.0; len]);
    assert!(FeatureMaps::new(1, 1, vec![]).is_err());
    assert!(FeatureMaps::new(1, 1, vec![FeatureLevel::new(size, texels(3))]).is_err());
    assert!(FeatureMaps::new(1, 1, vec![FeatureLevel::new([0, 2], texels(0))]).is_err());
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let texels = Texels::I8 { values: vec![0; 4], scale };
        assert!(FeatureMaps::new(1, 1, vec![FeatureLevel::new(size, texels)]).is_err());
    }
    let maps = FeatureMaps::new(1, 2, vec![level(size, 1, 2, 0.0)]).unwrap();
    let points = [[2.0, 0.0, 0.0]; 2];
    let base = ViewSampling {
        points: &points,
        num_points: 1,
        projections: &[forward()],
        min_depth_m: 1e-5,
        weighting: Weighting::Sigmoid { logits: &[0.0; 2] },
    };
    let fits = |sampling: ViewSampling<'_>, len: usize| {
        view_sample(&(&maps).into(), &sampling, &mut Workspace::default(), &mut vec![0.0; len])
            .is_ok()
    };
    assert!(fits(base, 4));
    assert!(!fits(base, 3));
    assert!(!fits(ViewSampling { num_points: 0, ..base }, 4));
    assert!(!fits(ViewSampling { projections: &[forward(); 2], ..base }, 4));
    assert!(!fits(ViewSampling { weighting: Weighting::Sigmoid { logits: &[0.0; 3] }, ..base }, 4));
    let softmax =
        |num_groups| Weighting::Softmax { logits: &[0.0; 6], view_logits: &[0.0; 3], num_groups };
    assert!(!fits(ViewSampling { weighting: softmax(3), ..base }, 4), "3 groups of 2 channels");
    assert!(!fits(ViewSampling { weighting: softmax(0), ..base }, 4));
}

proptest! {
    /// The contract with plain loops, in f64.
    #[test]
    fn is_near_the_definition(
        x in 0.6_f32..20.0, y in -12.0_f32..12.0, z in -5.0_f32..5.0,
        turn in 0.0_f32..1.0, seed in 0.0_f32..100.0, half_precision: bool,
    ) {
        let sizes = [[8, 4], [5, 3], [1, 1]];
        let mut levels: Vec<_> = sizes.iter().map(|&size| level(size, 2, 4, seed)).collect();
        for level in &mut levels {
            let Texels::F32(values) = level.texels() else { panic!("f32") };
            let halves: Vec<f16> = values.iter().map(|&x| f16::from_f32(x)).collect();
            let singles = halves.iter().map(|x| x.to_f32()).collect();
            let texels = if half_precision { Texels::F16(halves) } else { Texels::F32(singles) };
            *level = FeatureLevel::new(level.size(), texels);
        }
        let maps = FeatureMaps::new(2, 4, levels).unwrap();
        let points = [[x, y, z], [x + turn, -y, z]];
        let logits: Vec<f32> = (0..3 * 2 * 2).map(|i| (i as f32 * turn).cos()).collect();
        let view_logits: Vec<f32> = (0..2 * 3 * 2 * 2).map(|i| (i as f32 * seed).sin()).collect();
        let views = [forward(), forward()];
        let sampling = ViewSampling {
            points: &points,
            num_points: 2,
            projections: &views,
            min_depth_m: 1e-5,
            weighting: Weighting::Softmax { logits: &logits, view_logits: &view_logits, num_groups: 2 },
        };
        let mut expected = [0.0_f64; 4];
        for (channel, expected) in expected.iter_mut().enumerate() {
            let group = channel / 2;
            let weight = |i: usize| f64::from(view_logits[2 * i + group] + logits[2 * (i % 6) + group]).exp();
            let total: f64 = (0..12).map(weight).sum();
            for (index, (view, level, point)) in
                (0..2).flat_map(|n| (0..3).flat_map(move |l| (0..2).map(move |p| (n, l, p)))).enumerate()
            {
                let projected = views[view].project(points[point], 1e-5);
                if !projected.is_seen { continue }
                let [width, height] = sizes[level];
                let [px, py] = [projected.at[0] * width as f32 - 0.5, projected.at[1] * height as f32 - 0.5];
                for (row, column) in (0..height).flat_map(|r| (0..width).map(move |c| (r, c))) {
                    let near = (1.0 - (px - column as f32).abs()).max(0.0) * (1.0 - (py - row as f32).abs()).max(0.0);
                    let at = ((view * height + row) * width + column) * 4 + channel;
                    let texel = match maps.levels()[level].texels() {
                        Texels::F32(values) => values[at],
                        Texels::F16(values) => values[at].to_f32(),
                        Texels::I8 { .. } => f32::NAN,
                    };
                    *expected += f64::from(near * texel) * weight(index) / total;
                }
            }
        }
        let found = run(&maps, &sampling);
        for (found, expected) in found.iter().zip(expected) {
            prop_assert!((f64::from(*found) - expected).abs() < 2e-6, "{found} {expected}");
        }
    }
}

/// Samples of maps in place, subsampled too, are to the bit the samples of a copy channels last.
#[test]
fn layouts_are_sampled_in_place() {
    use crate::view::channels_last::{MapSource, MapValues, channels_last};
    use det_post_types::MapLayout;

    let at = [[0.03, 0.2], [0.5, 0.51], [0.97, 0.99], [0.3, 0.7]];
    for (num_channels, weights) in
        [(32, &[0.7][..]), (64, &[0.3, -0.2, 0.9, 1.1]), (96, &[0.5, 2.0])]
    {
        let shape = [2, num_channels, 5, 6];
        let len = shape.iter().product();
        let floats: Vec<f32> = (0..len).map(|i| (i as f32 * 0.37).sin()).collect();
        let halves: Vec<f16> = floats.iter().map(|&value| f16::from_f32(value)).collect();
        let integers: Vec<i8> = floats.iter().map(|value| (value * 128.0) as i8).collect();
        let (zeros, scale) = (vec![0_i8; len], 0.25);
        let forms = [
            (MapValues::F32(&floats), Texels::F32(vec![0.0; len])),
            (MapValues::F16(&halves), Texels::F16(vec![f16::ZERO; len])),
            (MapValues::I8(&integers), Texels::I8 { values: zeros, scale }),
        ];
        for (values, texels) in forms {
            for layout in [MapLayout::ChannelsLast, MapLayout::Blocks32] {
                for subsampled in [false, true] {
                    let source = MapSource { shape, layout, values, subsampled };
                    let [width, height] = source.size();
                    let texels = match &texels {
                        Texels::F32(values) => {
                            Texels::F32(values[..2 * num_channels * width * height].to_vec())
                        }
                        Texels::F16(values) => {
                            Texels::F16(values[..2 * num_channels * width * height].to_vec())
                        }
                        Texels::I8 { values, scale } => Texels::I8 {
                            values: values[..2 * num_channels * width * height].to_vec(),
                            scale: *scale,
                        },
                    };
                    let mut level = FeatureLevel::new([width, height], texels);
                    channels_last(&source, &mut level).unwrap();
                    let copied = FeatureMaps::new(2, num_channels, vec![level]).unwrap();
                    let mut in_place = MapsView::new(2, num_channels);
                    in_place.push(source.in_place(scale).unwrap()).unwrap();
                    for (view, at) in [0, 1].into_iter().flat_map(|v| at.map(|at| (v, at))) {
                        let sample = |maps: &MapsView<'_>| {
                            let mut out = vec![0.0; num_channels];
                            add_sample(maps, [view, 0], at, weights, &mut out);
                            out
                        };
                        let expected = sample(&(&copied).into());
                        assert!(expected.iter().any(|value| *value != 0.0));
                        assert_eq!(sample(&in_place), expected, "{layout:?} {subsampled} {at:?}");
                    }
                }
            }
        }
        let planar = MapSource {
            shape,
            layout: MapLayout::Planar,
            values: MapValues::F32(&floats),
            subsampled: false,
        };
        assert!(planar.in_place(1.0).is_none());
        let mut short = MapsView::new(2, num_channels);
        let blocks = MapSource {
            layout: MapLayout::Blocks32,
            values: MapValues::F32(&floats[..len - 1]),
            ..planar
        };
        assert!(short.push(blocks.in_place(1.0).unwrap()).is_err());
    }
}
