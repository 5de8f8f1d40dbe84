//! View decoders against a reference in f64 that agrees with the published modules of
//! DETR3D and Sparse4D v3: operations, blocks, whole frames, chosen pairs.

mod detr3d;
mod export;
mod files;
mod operations;
mod sparse4d;
mod trained_decoder;

use std::path::PathBuf;

use det_post::infer::safetensors::{SafeTensors, StoredTensor};
use det_post::infer::view_decoder::View;
use det_post::ops::channels_last::{MapSource, MapValues, channels_last};
use det_post::ops::decode_query::{Queries, Workspace, decode_query};
use det_post::ops::view_sample::{FeatureLevel, FeatureMaps, Texels};
use det_post::types::{
    Candidates, MapLayout, QueryBox, QueryDecode, ScoreThresholds, SizeOrder, YawConvention,
};
use half::f16;

use crate::common::shared_data::shared_data;

/// A case of the reference data: its files, read.
struct Case {
    folder: PathBuf,
}

impl Case {
    /// `None` without the data, which skips the calling test.
    #[track_caller]
    fn open(name: &str) -> Option<Self> {
        Some(Self { folder: shared_data()?.join("surround").join(name) })
    }

    fn file(&self, name: &str) -> File {
        File { bytes: std::fs::read(self.folder.join(format!("{name}.safetensors"))).unwrap() }
    }

    fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.folder.join(name)).unwrap()).unwrap()
    }
}

struct File {
    bytes: Vec<u8>,
}

impl File {
    fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::parse(&self.bytes).unwrap()
    }

    fn tensor(&self, name: &str) -> StoredTensor<'_> {
        self.tensors().get(name).unwrap_or_else(|| panic!("no tensor {name}")).clone()
    }

    fn f32s(&self, name: &str) -> Vec<f32> {
        self.tensor(name).to_f32().unwrap()
    }

    /// Rows of a fixed length.
    fn rows<const N: usize>(&self, name: &str) -> Vec<[f32; N]> {
        self.f32s(name).as_chunks().0.to_vec()
    }

    fn indices(&self, name: &str) -> Vec<u32> {
        let tensor = self.tensor(name);
        tensor.data().as_chunks().0.iter().map(|&b| u32::from_le_bytes(b)).collect()
    }

    fn masks(&self, name: &str) -> Vec<bool> {
        self.tensor(name).data().iter().map(|&b| b != 0).collect()
    }

    /// The views of `matrices` and `image_wh`; `matrices` may be another file's.
    fn views(&self, matrices: &File) -> Vec<View> {
        let sizes = self.rows::<2>("image_wh");
        let matrices = matrices.f32s("matrices");
        let matrices = matrices.as_chunks::<4>().0.as_chunks::<4>().0;
        let views = matrices.iter().zip(sizes).map(|([a, b, c, _], size)| View {
            pixels_from_base: [a, b, c].map(|row| row.map(f64::from)),
            size: size.map(|x| x as u32),
            is_present: true,
        });
        views.collect()
    }

    /// The maps of `{prefix}features.N`, and one more level, subsampled, if wanted.
    fn maps(&self, prefix: &str, extra_level: bool) -> FeatureMaps {
        let tensors = self.tensors();
        let named = (0..).map(|level| format!("{prefix}features.{level}"));
        let present = named.take_while(|name| tensors.get(name).is_some());
        let names: Vec<String> = present.collect();
        let last = names.last().unwrap().clone();
        let mut levels: Vec<_> =
            names.iter().map(|name| level(&self.tensor(name), false)).collect();
        if extra_level {
            levels.push(level(&self.tensor(&last), true));
        }
        let &[num_views, num_channels, ..] = tensors.get(&last).unwrap().shape() else { panic!() };
        FeatureMaps::new(num_views, num_channels, levels).unwrap()
    }
}

fn level(tensor: &StoredTensor<'_>, subsampled: bool) -> FeatureLevel {
    let shape: [usize; 4] = tensor.shape().try_into().unwrap();
    let values = tensor.to_f32().unwrap();
    let values = MapValues::F32(&values);
    let source = MapSource { shape, layout: MapLayout::Planar, values, subsampled };
    let [width, height] = source.size();
    let texels = Texels::F32(vec![0.0; shape[0] * shape[1] * width * height]);
    let mut level = FeatureLevel::new([width, height], texels);
    channels_last(&source, &mut level).unwrap();
    level
}

/// The maps as halves, or as integers with the scale of each level's largest value.
fn converted(maps: &FeatureMaps, to_i8: bool) -> FeatureMaps {
    let levels = maps.levels().iter().map(|level| {
        let Texels::F32(values) = level.texels() else { panic!("f32 maps") };
        let largest = values.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
        let len = values.len();
        let shape = [maps.num_views(), maps.num_channels(), level.size()[1], level.size()[0]];
        let values = MapValues::F32(values);
        let layout = MapLayout::ChannelsLast;
        let texels = if to_i8 {
            Texels::I8 { values: vec![0; len], scale: largest / 127.0 }
        } else {
            Texels::F16(vec![f16::ZERO; len])
        };
        let mut out = FeatureLevel::new(level.size(), texels);
        channels_last(&MapSource { shape, layout, values, subsampled: false }, &mut out).unwrap();
        out
    });
    FeatureMaps::new(maps.num_views(), maps.num_channels(), levels.collect()).unwrap()
}

/// Overwrites all texels of some views with NaN.
fn poison(maps: &mut FeatureMaps, is_missing: impl Fn(usize) -> bool) {
    let num_views = maps.num_views();
    for index in 0..maps.levels().len() {
        let Some(Texels::F32(values)) = maps.level_mut(index).map(FeatureLevel::texels_mut) else {
            panic!("f32 maps")
        };
        let len = values.len() / num_views;
        for (view, values) in values.chunks_exact_mut(len).enumerate() {
            if is_missing(view) {
                values.fill(f32::NAN);
            }
        }
    }
}

/// How far results may be from the reference: the largest difference, and the 99th
/// percentile.
#[derive(Clone, Copy)]
struct Bounds {
    max: f32,
    p99: f32,
}

/// Of attention, feed-forward layers and refinement.
const EXACT: Bounds = Bounds { max: 5e-6, p99: 5e-6 };
/// Of what has sampled the views: a query half a metre before a camera magnifies the
/// rounding of its projection.
const SAMPLED: Bounds = Bounds { max: 5e-4, p99: 3e-5 };

#[track_caller]
fn assert_near(found: &[f32], expected: &[f32], bounds: Bounds, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let mut errors: Vec<f32> = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).collect();
    errors.sort_by(f32::total_cmp);
    let max = errors.last().copied().unwrap_or_default();
    let p99 = errors[(errors.len() - 1) * 99 / 100];
    println!("{what}: largest {max:.1e}, 99 % within {p99:.1e}");
    assert!(max <= bounds.max && p99 <= bounds.p99, "{what}: largest {max:e}, 99 % {p99:e}");
}

/// Boxes as the reference gives them: the centre, extents, yaw and velocity, N numbers.
fn decoded_boxes<const N: usize>(boxes: &[QueryBox]) -> Vec<f32> {
    let decoded = boxes.iter().flat_map(|&[x, y, z, e0, e1, e2, sin, cos, vx, vy, vz]| {
        let values = [x, y, z, e0.exp(), e1.exp(), e2.exp(), sin.atan2(cos), vx, vy, vz];
        values.into_iter().take(N)
    });
    decoded.collect()
}

/// The pairs of `selected` are those that decoding chooses, in order.
fn assert_selected(selected: &serde_json::Value, logits: &[f32], num_classes: usize) {
    let max_pairs = selected["top_k"].as_u64().unwrap() as usize;
    let threshold = selected["threshold"].as_f64().unwrap() as f32;
    let params = QueryDecode {
        size_order: SizeOrder::LengthWidthHeight,
        yaw: YawConvention::CounterClockwise,
        score_thresholds: ScoreThresholds::uniform(threshold, num_classes),
        yaw_norm_thresholds: Vec::new(),
        center_range: None,
    };
    let boxes = vec![[0.5; 11]; logits.len() / num_classes];
    let queries = Queries { logits, boxes: &boxes, quality: None };
    let mut workspace = Workspace::new(max_pairs);
    let mut candidates = Candidates::with_capacity(max_pairs);
    decode_query(&queries, &params, &mut workspace, &mut candidates).unwrap();
    let found: Vec<(u64, u64)> =
        workspace.pairs().iter().map(|p| (u64::from(p.source), u64::from(p.class))).collect();
    let kept = selected["kept"].as_array().unwrap();
    let expected: Vec<(u64, u64)> = kept
        .iter()
        .map(|pair| (pair["query"].as_u64().unwrap(), pair["class"].as_u64().unwrap()))
        .collect();
    assert_eq!(found, expected);
    let num_over = selected["num_over_threshold"].as_u64().unwrap() as usize;
    assert_eq!(workspace.num_dropped() + found.len(), num_over);
    for (candidate, pair) in candidates.as_slice().iter().zip(kept) {
        assert!((f64::from(candidate.score) - pair["score"].as_f64().unwrap()).abs() < 1e-6);
    }
}
