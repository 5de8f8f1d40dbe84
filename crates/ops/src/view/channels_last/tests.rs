use super::*;

const SHAPE: [usize; 4] = [2, 64, 3, 5];

/// The value of a view, a channel, a row and a column.
fn value([n, c, y, x]: [usize; 4]) -> f32 {
    (n * 10_000 + c * 100 + y * 10 + x) as f32
}

/// The values of a layout by its definition.
fn laid_out(layout: MapLayout) -> Vec<f32> {
    let [num_views, num_channels, height, width] = SHAPE;
    let mut values = Vec::new();
    for n in 0..num_views {
        match layout {
            MapLayout::Planar => {
                for c in 0..num_channels {
                    for y in 0..height {
                        values.extend((0..width).map(|x| value([n, c, y, x])));
                    }
                }
            }
            MapLayout::Blocks32 => {
                for block in 0..num_channels / 32 {
                    for y in 0..height {
                        for x in 0..width {
                            values.extend((0..32).map(|c| value([n, 32 * block + c, y, x])));
                        }
                    }
                }
            }
            MapLayout::ChannelsLast => {
                for y in 0..height {
                    for x in 0..width {
                        values.extend((0..num_channels).map(|c| value([n, c, y, x])));
                    }
                }
            }
        }
    }
    values
}

fn level(size: [usize; 2], shape: [usize; 4]) -> FeatureLevel {
    let len = shape[0] * shape[1] * size[0] * size[1];
    FeatureLevel::new(size, Texels::F32(vec![f32::NAN; len]))
}

#[test]
fn every_layout_gives_the_same_level() {
    let expected = laid_out(MapLayout::ChannelsLast);
    for layout in [MapLayout::Planar, MapLayout::Blocks32, MapLayout::ChannelsLast] {
        let values = laid_out(layout);
        let source =
            MapSource { shape: SHAPE, layout, values: MapValues::F32(&values), subsampled: false };
        let mut out = level(source.size(), SHAPE);
        assert_eq!(channels_last(&source, &mut out).unwrap(), 0);
        let Texels::F32(found) = out.texels() else { panic!("f32") };
        assert_eq!(*found, expected, "{layout:?}");
    }
}

#[test]
fn a_subsampled_level_takes_even_rows_and_columns() {
    let values = laid_out(MapLayout::Planar);
    let source = MapSource {
        shape: SHAPE,
        layout: MapLayout::Planar,
        values: MapValues::F32(&values),
        subsampled: true,
    };
    assert_eq!(source.size(), [3, 2]);
    let mut out = level([3, 2], SHAPE);
    channels_last(&source, &mut out).unwrap();
    let Texels::F32(found) = out.texels() else { panic!("f32") };
    let texels = (0..2).flat_map(|n| [0, 2].into_iter().map(move |y| (n, y)));
    let texels = texels.flat_map(|(n, y)| [0, 2, 4].into_iter().map(move |x| (n, y, x)));
    let expected: Vec<f32> =
        texels.flat_map(|(n, y, x)| (0..64).map(move |c| value([n, c, y, x]))).collect();
    assert_eq!(*found, expected);
}

#[test]
fn integers_are_rounded_to_even_cut_and_counted() {
    let cases = [
        (0.25, 0), // half a step, to even
        (0.75, 2), // one and a half, to even
        (-0.75, -2),
        (1.25, 2),
        (63.5, 127),
        (1e9, 127),
        (-1e9, -127),
        (f32::INFINITY, 127),
        (f32::NAN, 0),
        (-0.0, 0),
    ];
    let values = cases.map(|(value, _)| value);
    let source = MapSource {
        shape: [1, 1, 1, cases.len()],
        layout: MapLayout::Planar,
        values: MapValues::F32(&values),
        subsampled: false,
    };
    let texels = Texels::I8 { values: vec![9; cases.len()], scale: 0.5 };
    let mut out = FeatureLevel::new([cases.len(), 1], texels);
    assert_eq!(channels_last(&source, &mut out).unwrap(), 1);
    let Texels::I8 { values: found, .. } = out.texels() else { panic!("int8") };
    assert_eq!(found[..], cases.map(|(_, expected)| expected));

    // Halves are rounded as their value; integers are kept.
    let halves = values.map(f16::from_f32);
    let source = MapSource { values: MapValues::F16(&halves), ..source };
    channels_last(&source, &mut out).unwrap();
    let Texels::I8 { values: found, .. } = out.texels() else { panic!("int8") };
    assert_eq!(found[..5], [0, 2, -2, 2, 127]);
    let integers = [1, -127, 5, 0, 0, 0, 0, 0, 0, 7];
    let source = MapSource { values: MapValues::I8(&integers), ..source };
    channels_last(&source, &mut out).unwrap();
    let Texels::I8 { values: found, .. } = out.texels() else { panic!("int8") };
    assert_eq!(found[..], integers);
}

#[test]
fn what_does_not_fit_is_refused() {
    let values = [0.0; 2 * 32 * 6];
    let source = MapSource {
        shape: [2, 32, 2, 3],
        layout: MapLayout::Blocks32,
        values: MapValues::F32(&values),
        subsampled: false,
    };
    let fits = |source: &MapSource<'_>, size| {
        channels_last(source, &mut level(size, [2, 32, 0, 0])).is_ok()
    };
    assert!(fits(&source, [3, 2]));
    assert!(!fits(&source, [2, 3]));
    assert!(!fits(&MapSource { subsampled: true, ..source }, [3, 2]));
    assert!(fits(&MapSource { subsampled: true, ..source }, [2, 1]));
    assert!(!fits(&MapSource { shape: [2, 32, 2, 4], ..source }, [3, 2]));
    assert!(!fits(&MapSource { shape: [4, 16, 2, 3], ..source }, [3, 2]));
    assert!(!fits(&MapSource { values: MapValues::I8(&[0; 2 * 32 * 6]), ..source }, [3, 2]));
}
