//! Tensors of YOLO heads with known shares of rows that pass.

use det_post_ops::decode::yolo::cuda::{Decoded, Workspace};
use det_post_ops::device::cuda::{DeviceTensor, DeviceValues, Stream};
use det_post_types::Result;
use det_post_types::{ElementType, Size, Tensor, YoloLayout, YoloOptions};
use half::f16;

use super::random::Random;

/// A head and the answer of its network.
pub struct Head {
    pub layout: YoloLayout,
    pub network: Size,
    pub num_classes: usize,
    pub tensor: Tensor,
    is_planes: bool,
}

/// How a tensor is filled.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filling {
    /// Share of rows with high scores, between 0.3 and 1.
    pub passing: f32,
    /// Different class scores, 0 for any.
    pub num_scores: usize,
    /// Share of numbers that are none, or zeros, or far too large.
    pub broken: f32,
}

/// Layouts of one tensor with any number of rows, which are not final.
pub fn layouts() -> Vec<YoloLayout> {
    let layouts = YoloLayout::KINDS.iter().map(|(_, kind)| kind.layout(&YoloOptions::default()));
    layouts.filter(|layout| !layout.is_end_to_end() && !layout.needs_input_size()).collect()
}

/// A head of a layout of [`layouts`].
pub fn head(layout: YoloLayout, num_rows: usize, num_classes: usize) -> Head {
    let network = Size::new(640, 640);
    let outputs = layout.outputs(num_classes, network, false).unwrap();
    let shape = &outputs[0].shapes[0];
    let is_planes = shape[2].is_none();
    let shape: Vec<usize> = shape.iter().map(|length| length.unwrap_or(num_rows)).collect();
    let values = vec![0.0; shape.iter().product()];
    Head { layout, network, num_classes, is_planes, tensor: Tensor::F32 { shape, values } }
}

/// A YOLOX head.
pub fn yolox(network: Size, strides: Vec<u32>, num_classes: usize) -> Head {
    let num_rows = strides.iter().map(|s| (network.width / s) * (network.height / s)).sum::<u32>();
    let layout = YoloLayout::Yolox { strides };
    Head { layout, network, ..head(YoloLayout::V5, num_rows as usize, num_classes) }
}

impl Head {
    pub fn num_rows(&self) -> usize {
        let shape = self.tensor.shape();
        if self.is_planes { shape[2] } else { shape[1] }
    }

    pub fn describe(&self) -> String {
        format!("{:?} {} {:?}", self.layout, self.tensor.element(), self.tensor.shape())
    }

    /// Where number `column` of a row lies.
    fn place(&self, row: usize, column: usize) -> usize {
        let shape = self.tensor.shape();
        if self.is_planes { column * shape[2] + row } else { row * shape[2] + column }
    }

    /// Replaces the tensor's values, in f32 or rounded to f16.
    pub fn fill(&mut self, random: &mut Random, filling: Filling, half: bool) {
        let num_columns = self.tensor.shape()[if self.is_planes { 1 } else { 2 }];
        let mut values = vec![0.0; self.num_rows() * num_columns];
        for row in 0..self.num_rows() {
            let passes = random.range(0.0, 1.0) < filling.passing;
            for column in 0..num_columns {
                values[self.place(row, column)] = self.number(random, filling, column, passes);
            }
        }
        let shape = self.tensor.shape().to_vec();
        self.tensor = if half {
            let values = values.into_iter().map(f16::from_f32).collect();
            Tensor::F16 { shape, values }
        } else {
            Tensor::F32 { shape, values }
        };
    }

    fn number(&self, random: &mut Random, filling: Filling, column: usize, passes: bool) -> f32 {
        if filling.broken > 0.0 && random.range(0.0, 1.0) < filling.broken {
            let values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, 3e38, -1.0];
            return values[random.below(values.len())];
        }
        let offsets = matches!(self.layout, YoloLayout::Yolox { .. });
        let is_objectness = !self.is_planes && column == 4;
        match column {
            _ if column == 4 + self.num_classes && self.layout.has_rotated_boxes() => {
                [random.range(-0.8, 2.4), random.range(-20.0, 20.0)][random.below(8) / 7]
            }
            0 | 1 if offsets => random.range(-0.5, 1.5),
            2 | 3 if offsets => random.range(-2.0, 3.0),
            0 | 1 => random.range(0.0, 640.0),
            2 | 3 => random.range(2.0, 120.0),
            _ if !passes => random.range(0.0, 0.2),
            _ if is_objectness => {
                [1.0, random.range(0.8, 1.0)][usize::from(filling.num_scores == 0)]
            }
            _ if filling.num_scores > 0 => {
                0.4 + 0.5 * random.below(filling.num_scores) as f32 / filling.num_scores as f32
            }
            _ => random.range(0.3, 1.0),
        }
    }

    /// Makes the widths of all boxes negative.
    pub fn turn_widths(&mut self) {
        for place in (0..self.num_rows()).map(|row| self.place(row, 2)).collect::<Vec<_>>() {
            match &mut self.tensor {
                Tensor::F32 { values, .. } => values[place] = -values[place],
                Tensor::F16 { values, .. } => values[place] = -values[place],
            }
        }
    }

    /// Gives one row a class of this score.
    pub fn raise_row(&mut self, row: usize, class: usize, score: f32) {
        let (objectness, first_class) = if self.is_planes { (None, 4) } else { (Some(4), 5) };
        for (column, value) in objectness.map(|c| (c, 1.0)).into_iter().chain([
            (first_class + class, score),
            (0, 310.0),
            (1, 290.0),
            (2, 20.0),
            (3, 30.0),
        ]) {
            let place = self.place(row, column);
            if let Tensor::F32 { values, .. } = &mut self.tensor {
                values[place] = value;
            }
        }
    }

    pub fn workspace<B: Decoded>(&self, stream: &Stream) -> Workspace<B> {
        let shapes = [self.tensor.shape()];
        Workspace::new(stream, &self.layout, self.network, self.num_classes, &shapes).unwrap()
    }

    pub fn upload(&self, stream: &Stream) -> DeviceTensor {
        let element = match &self.tensor {
            Tensor::F32 { .. } => ElementType::F32,
            Tensor::F16 { .. } => ElementType::F16,
        };
        let mut tensor = DeviceTensor::zeros(stream, element, self.tensor.shape()).unwrap();
        let written: Result<()> = match (tensor.values_mut(), &self.tensor) {
            (DeviceValues::F32(to), Tensor::F32 { values, .. }) => to.write(values),
            (DeviceValues::F16(to), Tensor::F16 { values, .. }) => to.write(values),
            _ => unreachable!("of the same element"),
        };
        written.unwrap();
        tensor
    }
}
