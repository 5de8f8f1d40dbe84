//! Cases of reference data of view decoders, and maps made from them.
#![allow(dead_code, reason = "each program uses its part")]

use std::path::{Path, PathBuf};

use det_post_infer::safetensors::{SafeTensors, StoredTensor};
use det_post_infer::view_decoder::View;
use det_post_ops::view::channels_last::{MapSource, MapValues, channels_last};
use det_post_ops::view::sample::{FeatureLevel, FeatureMaps, Texels};
use det_post_types::{
    AttentionResidual, CachedYaw, Detr3d, MapLayout, Motion, PointRange, Sparse4d,
};
use half::f16;

use super::shared_data::shared_data;

/// A case of the reference data: its files, read.
pub struct Case {
    folder: PathBuf,
}

impl Case {
    /// `None` without the data, which skips the calling test.
    #[track_caller]
    pub fn open(name: &str) -> Option<Self> {
        Some(Self { folder: shared_data()?.join("surround").join(name) })
    }

    pub fn file(&self, name: &str) -> File {
        File::open(self.folder.join(format!("{name}.safetensors")))
    }

    pub fn json(&self, name: &str) -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(self.folder.join(name)).unwrap()).unwrap()
    }
}

pub struct File {
    bytes: Vec<u8>,
}

impl File {
    pub fn open(path: impl AsRef<Path>) -> Self {
        Self { bytes: std::fs::read(path).unwrap() }
    }

    pub fn tensors(&self) -> SafeTensors<'_> {
        SafeTensors::parse(&self.bytes).unwrap()
    }

    pub fn tensor(&self, name: &str) -> StoredTensor<'_> {
        self.tensors().get(name).unwrap_or_else(|| panic!("no tensor {name}")).clone()
    }

    pub fn f32s(&self, name: &str) -> Vec<f32> {
        self.tensor(name).to_f32().unwrap()
    }

    /// Rows of a fixed length.
    pub fn rows<const N: usize>(&self, name: &str) -> Vec<[f32; N]> {
        self.f32s(name).as_chunks().0.to_vec()
    }

    pub fn indices(&self, name: &str) -> Vec<u32> {
        let tensor = self.tensor(name);
        tensor.data().as_chunks().0.iter().map(|&b| u32::from_le_bytes(b)).collect()
    }

    pub fn masks(&self, name: &str) -> Vec<bool> {
        self.tensor(name).data().iter().map(|&b| b != 0).collect()
    }

    /// The views of `matrices` and `image_wh`; `matrices` may be another file's.
    pub fn views(&self, matrices: &File) -> Vec<View> {
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
    pub fn maps(&self, prefix: &str, extra_level: bool) -> FeatureMaps {
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

/// A level of planar values.
pub fn level(tensor: &StoredTensor<'_>, subsampled: bool) -> FeatureLevel {
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
pub fn converted(maps: &FeatureMaps, to_i8: bool) -> FeatureMaps {
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
pub fn poison(maps: &mut FeatureMaps, is_missing: impl Fn(usize) -> bool) {
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

/// The decoder of a case of DETR3D.
pub fn detr3d(name: &str, inputs: &File) -> Detr3d {
    let (num_channels, num_queries, num_blocks, min_depth_m) = match name {
        "detr3d_c64" => (64, 96, 4, 1e-2),
        _ => (256, 300, 1, 1e-5),
    };
    Detr3d {
        num_views: 6,
        num_levels: 4,
        num_channels,
        num_heads: 8,
        num_queries,
        num_blocks,
        num_classes: 10,
        range: PointRange::from_bounds(inputs.rows("point_range")[0]),
        min_depth_m,
        attention_residual: AttentionResidual::Query,
    }
}

/// The facts of the case `sparse4d_c64`.
pub fn sparse4d_c64() -> Sparse4d {
    Sparse4d {
        num_views: 6,
        num_levels: 4,
        num_channels: 64,
        num_heads: 8,
        num_groups: 8,
        num_anchors: 48,
        num_cached: 32,
        num_blocks: 3,
        num_single_frame_blocks: 1,
        num_classes: 10,
        min_depth_m: 1e-5,
        cached_yaw: CachedYaw::CosSin,
        has_quality: true,
        confidence_decay: 0.6,
        default_interval_s: 0.5,
    }
}

/// The motion before a frame of `sparse4d_c64`; none before the first.
pub fn motion(inputs: &File, frame: usize) -> Option<Motion> {
    (frame > 0).then(|| {
        let rows = inputs.rows::<4>(&format!("frame{frame}.current_from_past"));
        Motion {
            interval_s: inputs.f32s(&format!("frame{frame}.dt"))[0],
            current_from_past: [rows[0], rows[1], rows[2]],
        }
    })
}
