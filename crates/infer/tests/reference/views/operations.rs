//! Sampling, projection and layouts.

use det_post_ops::view::channels_last::{MapSource, MapValues, channels_last};
use det_post_ops::view::sample::{FeatureLevel, FeatureMaps, Texels, add_sample};
use det_post_types::MapLayout;

use det_post_testing::view_cases::{Case, level};
use det_post_testing::{Bounds, assert_near};

#[test]
fn bilinear_samples_at_borders_and_far_away() {
    let Some(case) = Case::open("sampling") else { return };
    let file = case.file("bilinear");
    let places = file.rows::<2>("at");
    for index in 0..4 {
        let mut features = file.tensor(&format!("features.{index}")).to_f32().unwrap();
        let largest = features.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        let &[channels, height, width] = file.tensor(&format!("features.{index}")).shape() else {
            panic!("three dimensions")
        };
        let shape = [1, channels, height, width];
        let mut out = FeatureLevel::new([width, height], Texels::F32(features.clone()));
        let values = MapValues::F32(&features);
        let source = MapSource { shape, layout: MapLayout::Planar, values, subsampled: false };
        channels_last(&source, &mut out).unwrap();
        let maps = FeatureMaps::new(1, channels, vec![out]).unwrap();
        features.clear();
        for &at in &places {
            let mut sample = vec![0.0; channels];
            add_sample(&(&maps).into(), [0, 0], at, &[1.0], &mut sample);
            features.extend(sample);
        }
        let bounds = Bounds { max: 1e-6 * largest, p99: 1e-6 * largest };
        let expected = file.f32s(&format!("expected.level{index}"));
        assert_near(&features, &expected, bounds, &format!("level {index}"));
    }
}

#[test]
fn views_are_selected_strictly() {
    let Some(case) = Case::open("sampling") else { return };
    for (name, min_depth_m) in [("views_eps_0.01", 1e-2), ("views_eps_1e-05", 1e-5)] {
        let file = case.file(name);
        let points = file.rows::<3>("points");
        let projections = file.views(&file).into_iter().map(|view| view.projection().unwrap());
        let found: Vec<_> = projections
            .flat_map(|projection| points.iter().map(move |&p| projection.project(p, min_depth_m)))
            .collect();
        let seen: Vec<bool> = found.iter().map(|point| point.is_seen).collect();
        assert_eq!(seen, file.masks("expected.seen"), "{name}");
        assert!(seen.iter().any(|&seen| seen));
        let depths: Vec<f32> = found.iter().map(|point| point.depth_m).collect();
        assert_eq!(depths, file.f32s("expected.depth"), "{name}");
        let expected = file.rows::<2>("expected.at");
        for (point, expected) in found.iter().zip(expected).filter(|(point, _)| point.is_seen) {
            for (found, expected) in point.at.iter().zip(expected) {
                assert!((found - expected).abs() <= 1e-6, "{name}: {point:?}");
            }
        }
    }
}

#[test]
fn layouts_and_rounding_of_integers_are_exact() {
    let Some(case) = Case::open("layout") else { return };
    let file = case.file("int8");
    let scale = file.f32s("scale")[0];
    let integers = |name: &str| -> Vec<i8> {
        file.tensor(name).data().iter().map(|b| b.cast_signed()).collect()
    };
    let expected = integers("nhwc");
    let shape = [2, 64, 9, 11];
    let write = |source: &MapSource<'_>, scale: f32| {
        let [width, height] = source.size();
        let len = source.shape[0] * source.shape[1] * width * height;
        let texels = Texels::I8 { values: vec![0; len], scale };
        let mut out = FeatureLevel::new([width, height], texels);
        channels_last(source, &mut out).unwrap();
        let Texels::I8 { values, .. } = out.texels() else { panic!("int8") };
        (values.clone(), out)
    };
    for (name, layout) in [
        ("linear", MapLayout::Planar),
        ("chw32", MapLayout::Blocks32),
        ("nhwc", MapLayout::ChannelsLast),
    ] {
        let values = integers(name);
        let values = MapValues::I8(&values);
        let source = MapSource { shape, layout, values, subsampled: false };
        assert_eq!(write(&source, scale).0, expected, "{name}");
    }
    let planar = integers("linear");
    let source = MapSource {
        shape,
        layout: MapLayout::Planar,
        values: MapValues::I8(&planar),
        subsampled: true,
    };
    let subsampled = integers("subsampled");
    let source_of_expected = MapSource {
        shape: [2, 64, 5, 6],
        values: MapValues::I8(&subsampled),
        subsampled: false,
        ..source
    };
    assert_eq!(write(&source, scale).0, write(&source_of_expected, scale).0);

    let values = file.f32s("rounding.in");
    let source = MapSource {
        shape: [1, 1, 1, values.len()],
        layout: MapLayout::Planar,
        values: MapValues::F32(&values),
        subsampled: false,
    };
    assert_eq!(write(&source, 1.0).0, integers("rounding.out"));

    let values = MapValues::I8(&expected);
    let layout = MapLayout::ChannelsLast;
    let (_, level) = write(&MapSource { shape, layout, values, subsampled: false }, scale);
    let maps = FeatureMaps::new(2, 64, vec![level]).unwrap();
    let mut found = Vec::new();
    for view in 0..2 {
        for &at in &file.rows::<2>("at") {
            let mut sample = vec![0.0; 64];
            add_sample(&(&maps).into(), [view, 0], at, &[1.0], &mut sample);
            found.extend(sample);
        }
    }
    let bounds = 1e-6 * 127.0 * scale;
    let bounds = Bounds { max: bounds, p99: bounds };
    assert_near(&found, &file.f32s("expected.sampled"), bounds, "integers");
}

#[test]
fn the_level_of_a_tensor_is_channels_last() {
    let Some(case) = Case::open("detr3d_c64") else { return };
    let tensor = case.file("inputs");
    let tensor = tensor.tensor("features.2");
    let planar = tensor.to_f32().unwrap();
    let level = level(&tensor, true);
    assert_eq!(level.size(), [6, 3]);
    let Texels::F32(values) = level.texels() else { panic!("f32") };
    // View 3, channel 5, row 1 of 3, column 4 of 6: row 2 of 5, column 8 of 12.
    assert_eq!(values[((3 * 3 + 1) * 6 + 4) * 64 + 5], planar[((3 * 64 + 5) * 5 + 2) * 12 + 8]);
}
