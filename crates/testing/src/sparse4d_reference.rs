//! A frame of a Sparse4D decoder in f64: the formulas of the published modules on the tensors of a
//! state dict, nothing folded, one anchor after the other.
#![allow(dead_code, reason = "each program uses its part")]
#![allow(clippy::print_stdout, reason = "tests print what they measure")]

use std::collections::HashMap;

use det_post_infer::view_decoder::View;
use det_post_ops::view::sample::{FeatureLevel, FeatureMaps, Texels};
use det_post_types::{CachedYaw, Motion, QueryBox, Sparse4d};
use half::f16;

use super::view_networks::{StateDict, noise};

/// What becomes of the values that a GPU stores in f16: weights, and the rows after each layer,
/// normalization, sum and attention.
#[derive(Clone, Copy, Debug)]
pub enum Rounding {
    /// They are kept.
    None,
    /// Rounded to the nearest f16.
    Nearest,
    /// Moved by at most half a step, evenly distributed; this is the seed.
    Random(u64),
}

impl Rounding {
    fn of(&mut self, x: f64) -> f64 {
        match self {
            Self::None => x,
            Self::Nearest => f16::from_f64(x).to_f64(),
            Self::Random(state) => {
                *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let share = (*state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5;
                let exponent = if x == 0.0 { -14.0 } else { x.abs().log2().floor().max(-14.0) };
                x + share * (exponent - 10.0).exp2()
            }
        }
    }
}

/// What the frame before has left.
pub struct Past<'a> {
    pub features: &'a [f32],
    pub anchors: &'a [QueryBox],
    pub motion: Motion,
}

/// The result of a frame, in rows of an anchor each.
pub struct Frame {
    pub logits: Vec<f64>,
    /// Empty without quality.
    pub quality: Vec<f64>,
    pub boxes: Vec<f64>,
}

type Rows = Vec<Vec<f64>>;

/// Frames whose values are moved at random.
const NUM_RANDOM: u64 = 3;

/// A frame, and how far from it one may be that is rounded to f16 and, with maps of integers,
/// reads texels of this step: as docs/numerics.md states.
pub struct Bounded {
    pub exact: Frame,
    /// By column of logits, quality and boxes.
    bounds: [Vec<f64>; 3],
}

impl Bounded {
    /// Rounded to f16 where `is_half`, from maps of f32 that `map_step` rounds.
    pub fn of(
        dict: &StateDict,
        facts: &Sparse4d,
        (views, maps): (&[View], &FeatureMaps),
        past: Option<&Past<'_>>,
        (is_half, map_step): (bool, f32),
    ) -> Self {
        let exact = frame(dict, facts, (views, maps), past, Rounding::None);
        let mut squares = [facts.num_classes, 2, 11].map(|num_columns| vec![0.0; num_columns]);
        for seed in 1..=NUM_RANDOM {
            let moved = moved_maps(maps, map_step, seed as u32);
            let rounding = if is_half { Rounding::Random(seed) } else { Rounding::None };
            let found = frame(dict, facts, (views, &moved), past, rounding);
            for (squares, (found, exact)) in squares.iter_mut().zip(found.parts(&exact)) {
                let num_columns = squares.len();
                for (at, (found, exact)) in found.iter().zip(exact).enumerate() {
                    squares[at % num_columns] += (found - exact).powi(2);
                }
            }
        }
        let num = (facts.num_anchors as u64 * NUM_RANDOM) as f64;
        let bound = |square: f64| 12.0 * (square / num).sqrt();
        let bounds = squares.map(|squares| squares.into_iter().map(bound).collect());
        Self { exact, bounds }
    }

    /// Refuses logits, quality and boxes farther from the exact ones than a share of the largest.
    #[track_caller]
    pub fn check_exact(&self, found: &Frame, share: f64, what: &str) {
        for (found, exact) in found.parts(&self.exact) {
            assert_eq!(found.len(), exact.len(), "{what}");
            let largest = exact.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
            let near = found.iter().zip(exact).all(|(a, b)| (a - b).abs() <= share * largest);
            assert!(near, "{what}: {found:?}, {exact:?} expected");
        }
    }

    /// Refuses logits, quality and boxes that are farther from the exact ones than the bounds.
    #[track_caller]
    pub fn check(&self, found: &Frame, what: &str) {
        let parts = found.parts(&self.exact).into_iter().zip(&self.bounds);
        for (part, ((found, exact), bounds)) in ["logits", "quality", "boxes"].iter().zip(parts) {
            assert_eq!(found.len(), exact.len(), "{what}: {part}");
            for (column, bound) in bounds.iter().enumerate() {
                let of_column = |values: &[f64]| -> Vec<f64> {
                    values.iter().skip(column).step_by(bounds.len()).copied().collect()
                };
                let pairs = of_column(found).into_iter().zip(of_column(exact));
                let apart = pairs.map(|(a, b)| (a - b).abs());
                let apart = apart.map(|x| if x.is_nan() { f64::INFINITY } else { x });
                let most = apart.fold(0.0, f64::max);
                println!("{what}, column {column} of {part}: {most:.1e}, {bound:.1e} allowed");
                assert!(
                    most <= *bound,
                    "{what}, column {column} of {part}: {most:e}, {bound:e} allowed"
                );
            }
        }
    }
}

impl Frame {
    /// From results in f32.
    pub fn of(logits: &[f32], quality: &[f32], boxes: &[QueryBox]) -> Self {
        let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect();
        let boxes = wide(boxes.as_flattened());
        Self { logits: wide(logits), quality: wide(quality), boxes }
    }

    fn parts<'a>(&'a self, other: &'a Self) -> [(&'a [f64], &'a [f64]); 3] {
        [
            (&self.logits, &other.logits),
            (&self.quality, &other.quality),
            (&self.boxes, &other.boxes),
        ]
    }
}

/// Maps of f32, each texel moved by at most half a step.
fn moved_maps(maps: &FeatureMaps, step: f32, seed: u32) -> FeatureMaps {
    let mut moved = maps.clone();
    for index in 0..maps.levels().len() {
        let Some(Texels::F32(values)) = moved.level_mut(index).map(FeatureLevel::texels_mut) else {
            panic!("f32 maps")
        };
        let shares = noise(values.len(), 100 * seed + index as u32);
        values.iter_mut().zip(shares).for_each(|(x, share)| *x += 0.5 * step * share);
    }
    moved
}

/// Computes a frame.
pub fn frame(
    dict: &StateDict,
    facts: &Sparse4d,
    (views, maps): (&[View], &FeatureMaps),
    past: Option<&Past<'_>>,
    mut rounding: Rounding,
) -> Frame {
    let tensors = dict.tensors.iter().map(|(name, shape, values)| {
        let is_single = ["instance_bank.anchor", "fix_scale", "camera_encoder", "_fc.0.weight"];
        let stored = shape.len() > 1 && !is_single.iter().any(|part| name.contains(part));
        let values = values.iter().map(|&x| f64::from(x));
        let values = match stored {
            true => values.map(|x| rounding.of(x)).collect(),
            false => values.collect(),
        };
        (name.as_str(), values)
    });
    let tensors = tensors.collect();
    let decoder = Decoder { tensors, facts, views, maps };
    decoder.run(past, &mut rounding)
}

struct Decoder<'a> {
    tensors: HashMap<&'a str, Vec<f64>>,
    facts: &'a Sparse4d,
    views: &'a [View],
    maps: &'a FeatureMaps,
}

fn rows(values: &[f64], len: usize) -> Rows {
    values.chunks_exact(len).map(<[f64]>::to_vec).collect()
}

fn join(a: &Rows, b: &Rows) -> Rows {
    a.iter().zip(b).map(|(a, b)| [&a[..], &b[..]].concat()).collect()
}

fn add(a: &Rows, b: &Rows) -> Rows {
    let row = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a + b).collect();
    a.iter().zip(b).map(row).collect()
}

fn relu(mut rows: Rows) -> Rows {
    rows.iter_mut().flatten().for_each(|x| *x = x.max(0.0));
    rows
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (a, b) in a.iter().zip(b) {
        sum += a * b;
    }
    sum
}

fn softmax(logits: &mut [f64]) {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logits.iter_mut().for_each(|x| *x = (*x - largest).exp());
    let sum: f64 = logits.iter().sum();
    logits.iter_mut().for_each(|x| *x /= sum);
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn stored(mut rows: Rows, rounding: &mut Rounding) -> Rows {
    rows.iter_mut().flatten().for_each(|x| *x = rounding.of(*x));
    rows
}

impl Decoder<'_> {
    fn tensor(&self, name: &str) -> &[f64] {
        self.tensors.get(name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    /// `x W^T + b`; without a bias where the network has none.
    fn linear(&self, name: &str, input: &Rows) -> Rows {
        let bias = self.tensors.get(format!("{name}.bias").as_str());
        self.product(self.tensor(&format!("{name}.weight")), bias.map(Vec::as_slice), input)
    }

    fn product(&self, weights: &[f64], bias: Option<&[f64]>, input: &Rows) -> Rows {
        let row = |row: &Vec<f64>| {
            let outputs = weights.chunks_exact(row.len()).enumerate();
            outputs.map(|(i, weights)| dot(row, weights) + bias.map_or(0.0, |b| b[i])).collect()
        };
        input.iter().map(row).collect()
    }

    fn norm(&self, name: &str, input: &Rows) -> Rows {
        let [gamma, beta] = ["weight", "bias"].map(|part| self.tensor(&format!("{name}.{part}")));
        let row = |row: &Vec<f64>| {
            let len = row.len() as f64;
            let mean = row.iter().sum::<f64>() / len;
            let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / len;
            let scale = 1.0 / (variance + 1e-5).sqrt();
            let parts = row.iter().zip(gamma.iter().zip(beta));
            parts.map(|(x, (gamma, beta))| (x - mean) * scale * gamma + beta).collect()
        };
        input.iter().map(row).collect()
    }

    /// A layer with ReLU and a normalization.
    fn layer(&self, [layer, norm]: [&str; 2], input: &Rows, rounding: &mut Rounding) -> Rows {
        let hidden = stored(relu(self.linear(layer, input)), rounding);
        stored(self.norm(norm, &hidden), rounding)
    }

    fn run(&self, past: Option<&Past<'_>>, rounding: &mut Rounding) -> Frame {
        let facts = self.facts;
        let mut anchors = rows(self.tensor("instance_bank.anchor"), 11);
        let mut features = rows(self.tensor("instance_bank.instance_feature"), facts.num_channels);
        let mut embeddings = self.encode(&anchors, rounding);
        let past_features = past.map(|past| {
            let values: Vec<f64> = past.features.iter().map(|&x| f64::from(x)).collect();
            stored(rows(&values, facts.num_channels), rounding)
        });
        let interval = past.map_or(facts.default_interval_s, |past| past.motion.interval_s);
        let mut layer = 0;
        let mut next = || {
            layer += 1;
            format!("layers.{}", layer - 1)
        };
        let (mut logits, mut quality) = (Rows::new(), Rows::new());
        for block in 0..facts.num_blocks {
            if block >= facts.num_single_frame_blocks {
                let keys = past_features.as_ref();
                features = self.attend(&next(), [&features, &embeddings], keys, rounding);
            }
            if block > 0 {
                let keys = Some(&features);
                let attended = self.attend(&next(), [&features, &embeddings], keys, rounding);
                features = stored(self.norm(&next(), &attended), rounding);
            }
            let name = next();
            let gathered = self.sample(&name, [&features, &embeddings], &anchors, rounding);
            let output = stored(self.linear(&format!("{name}.output_proj"), &gathered), rounding);
            let name = next();
            let wide = join(&output, &features);
            let wide = stored(self.norm(&format!("{name}.pre_norm"), &wide), rounding);
            let hidden = relu(self.linear(&format!("{name}.layers.0.0"), &wide));
            let hidden = stored(hidden, rounding);
            let output = self.linear(&format!("{name}.layers.1"), &hidden);
            let identity = self.linear(&format!("{name}.identity_fc"), &wide);
            let output = stored(add(&identity, &output), rounding);
            features = stored(self.norm(&next(), &output), rounding);
            let name = next();
            let sum = stored(add(&features, &embeddings), rounding);
            if block + 1 == facts.num_single_frame_blocks || block + 1 == facts.num_blocks {
                logits = self.head(&format!("{name}.cls_layers"), &features, rounding);
                if facts.has_quality {
                    quality = self.head(&format!("{name}.quality_layers"), &sum, rounding);
                }
            }
            let deltas = self.deltas(&name, &sum, rounding);
            for (anchor, delta) in anchors.iter_mut().zip(&deltas) {
                for (column, (value, delta)) in anchor.iter_mut().zip(delta).enumerate() {
                    *value += if column < 8 { *delta } else { delta / f64::from(interval) };
                }
            }
            if let (Some(past), Some(kept)) = (past, &past_features)
                && block + 1 == facts.num_single_frame_blocks
            {
                let rows = best_rows(&logits, anchors.len() - past.anchors.len());
                let moved = past.anchors.iter().map(|a| moved(a, &past.motion, facts.cached_yaw));
                anchors = moved.chain(rows.iter().map(|&row| anchors[row].clone())).collect();
                let best = rows.iter().map(|&row| features[row].clone());
                features = kept.iter().cloned().chain(best).collect();
            }
            embeddings = self.encode(&anchors, rounding);
        }
        let [logits, quality, boxes] = [logits, quality, anchors].map(|rows| rows.concat());
        Frame { logits, quality, boxes }
    }

    fn encode(&self, anchors: &Rows, rounding: &mut Rounding) -> Rows {
        let parts = [("pos", 0..3), ("size", 3..6), ("yaw", 6..8), ("vel", 8..11)];
        let parts = parts.map(|(name, columns)| {
            let mut rows: Rows = anchors.iter().map(|a| a[columns.clone()].to_vec()).collect();
            for layer in [0, 3, 6, 9] {
                let names = [layer, layer + 2].map(|i| format!("anchor_encoder.{name}_fc.{i}"));
                rows = self.layer([&names[0], &names[1]], &rows, rounding);
            }
            rows
        });
        parts.into_iter().reduce(|a, b| join(&a, &b)).unwrap()
    }

    /// Attention to rows `[keys, embeddings of the first as many]`, whose values are widened by
    /// `fc_before`; without keys to the anchors themselves, whose values are not.
    fn attend(
        &self,
        name: &str,
        [features, embeddings]: [&Rows; 2],
        keys: Option<&Rows>,
        rounding: &mut Rounding,
    ) -> Rows {
        let columns = 2 * self.facts.num_channels;
        let input = join(features, embeddings);
        let (key_input, value_input) = match keys {
            Some(keys) => (join(keys, embeddings), self.linear("fc_before", keys)),
            None => (input.clone(), input.clone()),
        };
        let weights = self.tensor(&format!("{name}.attn.in_proj_weight"));
        let bias = self.tensor(&format!("{name}.attn.in_proj_bias"));
        let mut project = |index: usize, input: &Rows| {
            let range = index * columns..(index + 1) * columns;
            let weights = &weights[range.start * columns..range.end * columns];
            stored(self.product(weights, Some(&bias[range]), input), rounding)
        };
        let [queries, keys, values] =
            [(0, &input), (1, &key_input), (2, &value_input)].map(|(i, rows)| project(i, rows));
        let head_len = columns / self.facts.num_heads;
        let mut attended = vec![vec![0.0; columns]; input.len()];
        for (query, out) in queries.iter().zip(&mut attended) {
            for head in (0..columns).step_by(head_len) {
                let range = head..head + head_len;
                let score = |key: &Vec<f64>| {
                    dot(&query[range.clone()], &key[range.clone()]) / (head_len as f64).sqrt()
                };
                let mut chances: Vec<f64> = keys.iter().map(score).collect();
                softmax(&mut chances);
                for (chance, value) in chances.into_iter().zip(&values) {
                    let chance = rounding.of(chance);
                    for (out, value) in out[range.clone()].iter_mut().zip(&value[range.clone()]) {
                        *out += chance * value;
                    }
                }
            }
        }
        let attended = stored(attended, rounding);
        let output = self.linear(&format!("{name}.attn.out_proj"), &attended);
        stored(self.linear("fc_after", &add(&input, &output)), rounding)
    }

    /// The samples of the views at the key points, weighted and summed.
    fn sample(
        &self,
        name: &str,
        [features, embeddings]: [&Rows; 2],
        anchors: &Rows,
        rounding: &mut Rounding,
    ) -> Rows {
        let &Sparse4d { num_channels, num_groups, num_levels, .. } = self.facts;
        let fixed = self.tensor(&format!("{name}.kps_generator.fix_scale"));
        let learned = self.linear(&format!("{name}.kps_generator.learnable_fc"), features);
        let matrices = self.views.iter().map(|view| view.pixels_from_base.as_flattened().to_vec());
        let mut cameras: Rows = matrices.collect();
        for layer in [0, 3] {
            // Computed on the host.
            let names = [layer, layer + 2].map(|i| format!("{name}.camera_encoder.{i}"));
            cameras = self.layer([&names[0], &names[1]], &cameras, &mut Rounding::None);
        }
        let sums = stored(add(features, embeddings), rounding);
        let weights = self.tensor(&format!("{name}.weights_fc.weight"));
        let of_cameras = self.product(weights, None, &cameras);
        let logits = stored(self.linear(&format!("{name}.weights_fc"), &sums), rounding);
        let num_points = fixed.len() / 3 + learned[0].len() / 3;
        let num_logits = num_levels * num_points;
        let mut gathered = vec![vec![0.0; num_channels]; anchors.len()];
        for (query, anchor) in anchors.iter().enumerate() {
            let shares = learned[query].iter().map(|&logit| sigmoid(logit) - 0.5);
            let shares: Vec<f64> = fixed.iter().copied().chain(shares).collect();
            let points: Vec<[f64; 3]> =
                shares.as_chunks().0.iter().map(|&shares| key_point(anchor, shares)).collect();
            for group in 0..num_groups {
                let channels = num_channels / num_groups;
                let channels = group * channels..(group + 1) * channels;
                let logit = |view: usize, at: usize| {
                    let at = at * num_groups + group;
                    logits[query][at] + of_cameras[view][at]
                };
                let views = 0..self.views.len();
                let mut weights: Vec<f64> = views
                    .flat_map(|view| (0..num_logits).map(move |at| (view, at)))
                    .map(|(view, at)| logit(view, at))
                    .collect();
                softmax(&mut weights);
                for (at, weight) in weights.into_iter().enumerate() {
                    let (view, level) = (at / num_logits, at % num_logits / num_points);
                    let point = points[at % num_points];
                    let out = &mut gathered[query][channels.clone()];
                    self.add_sample([view, level], point, weight, channels.start, out);
                }
            }
        }
        stored(gathered, rounding)
    }

    /// Adds a bilinear sample of some channels, where the view sees the point.
    fn add_sample(
        &self,
        [view, level]: [usize; 2],
        [x, y, z]: [f64; 3],
        weight: f64,
        first: usize,
        out: &mut [f64],
    ) {
        let View { pixels_from_base, size, is_present } = &self.views[view];
        let [u, v, depth] = pixels_from_base.map(|[a, b, c, d]| a * x + b * y + c * z + d);
        let [u, v] = [u / depth / f64::from(size[0]), v / depth / f64::from(size[1])];
        let is_inside = |x: f64| x > 0.0 && x < 1.0;
        if !is_present || depth <= f64::from(self.facts.min_depth_m) {
            return;
        }
        if !is_inside(u) || !is_inside(v) {
            return;
        }
        let level = &self.maps.levels()[level];
        let [width, height] = level.size();
        let [x, y] = [u * width as f64 - 0.5, v * height as f64 - 0.5];
        for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (row, column) = (y.floor() + f64::from(row), x.floor() + f64::from(column));
            let factor = (1.0 - (x - column).abs()) * (1.0 - (y - row).abs());
            if row < 0.0 || column < 0.0 || row >= height as f64 || column >= width as f64 {
                continue;
            }
            let texel = (view * height + row as usize) * width + column as usize;
            let at = texel * self.facts.num_channels + first;
            for (channel, out) in out.iter_mut().enumerate() {
                let value = match level.texels() {
                    Texels::F32(values) => f64::from(values[at + channel]),
                    Texels::F16(values) => values[at + channel].to_f64(),
                    Texels::I8 { values, scale } => {
                        f64::from(values[at + channel]) * f64::from(*scale)
                    }
                };
                *out += weight * factor * value;
            }
        }
    }

    fn head(&self, name: &str, input: &Rows, rounding: &mut Rounding) -> Rows {
        let mut rows = input.clone();
        for layer in [0, 3] {
            let names = [layer, layer + 2].map(|i| format!("{name}.{i}"));
            rows = self.layer([&names[0], &names[1]], &rows, rounding);
        }
        self.linear(&format!("{name}.6"), &rows)
    }

    fn deltas(&self, name: &str, input: &Rows, rounding: &mut Rounding) -> Rows {
        let mut rows = input.clone();
        for layer in [0, 5] {
            let first = relu(self.linear(&format!("{name}.layers.{layer}"), &rows));
            let names = [layer + 2, layer + 4].map(|i| format!("{name}.layers.{i}"));
            rows = self.layer([&names[0], &names[1]], &stored(first, rounding), rounding);
        }
        let scale = self.tensor(&format!("{name}.layers.11.scale"));
        let mut deltas = self.linear(&format!("{name}.layers.10"), &rows);
        for row in &mut deltas {
            row.iter_mut().zip(scale).for_each(|(x, scale)| *x *= scale);
        }
        deltas
    }
}

/// The point at shares of an anchor's extents.
fn key_point(anchor: &[f64], shares: [f64; 3]) -> [f64; 3] {
    let [x, y, z] = std::array::from_fn(|axis| shares[axis] * anchor[3 + axis].exp());
    let (sin, cos) = (anchor[6], anchor[7]);
    [cos * x - sin * y + anchor[0], sin * x + cos * y + anchor[1], z + anchor[2]]
}

/// An anchor of the frame before in the current one.
fn moved(anchor: &QueryBox, motion: &Motion, cached_yaw: CachedYaw) -> Vec<f64> {
    let a = anchor.map(f64::from);
    let rows = motion.current_from_past.map(|row| row.map(f64::from));
    let center: [f64; 3] = std::array::from_fn(|i| a[i] + a[8 + i] * f64::from(motion.interval_s));
    let turned = |v: [f64; 3]| rows.map(|row| dot(&row[..3], &v));
    let center = turned(center);
    let [cos, sin, _] = turned([a[7], a[6], 0.0]);
    let yaw = if cached_yaw == CachedYaw::SinCos { [sin, cos] } else { [cos, sin] };
    let velocity = turned([a[8], a[9], a[10]]);
    let center: Vec<f64> = center.iter().zip(&rows).map(|(x, row)| x + row[3]).collect();
    [&center[..], &a[3..6], &yaw, &velocity].concat()
}

/// The rows with the largest logits, best first; of equal ones the first.
fn best_rows(logits: &Rows, num: usize) -> Vec<usize> {
    let largest: Vec<f64> =
        logits.iter().map(|row| row.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| largest[b].total_cmp(&largest[a]));
    order.truncate(num);
    order
}
