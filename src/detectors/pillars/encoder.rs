//! The pillar encoder: from the features of pillars to one row per pillar.

use super::pillar_facts;
use crate::config::LidarConfig;
use crate::detectors::lidar::{floats, refuse};
use det_post_infer::ExpectedDim::{Any, Exactly};
use det_post_infer::{Engine, Side, bind};
use det_post_types::{
    Dim, ElementType, Error, ErrorKind, Result, Tensor, TensorSpec, TensorValues, TensorView,
};

/// Voxels per run of an encoder with a dynamic number of voxels: its activations then fit
/// into the cache and have the same size in every frame.
const BLOCK: usize = 2048;

/// A pillar encoder whose tensors were checked: input `[V, P, F]`, output `[V, C]`,
/// `[V, 1, C]` or `[V, C, 1]`.
#[derive(Clone, Debug)]
pub struct PillarEncoder {
    element: ElementType,
    input_shape: [usize; 3],
    /// Whether the number of voxels is dynamic, so that rows without a voxel are not
    /// encoded.
    is_dynamic: bool,
    output: usize,
    /// The outputs of all runs of a frame, if the number of voxels is dynamic.
    encoded: Tensor,
}

impl PillarEncoder {
    /// Matches the facts of an encoder with its tensors.
    ///
    /// # Errors
    /// `Model` naming expected and found tensors when they do not fit, or when
    /// the encoder takes fewer voxels than `voxel_capacity`; `Config` when the head's
    /// encoder takes voxels.
    pub fn new(
        config: &LidarConfig,
        inputs: &[TensorSpec],
        outputs: &[TensorSpec],
    ) -> Result<Self> {
        let (facts, pillars) = (&config.facts, pillar_facts(config)?);
        let (num_points, num_features) = (facts.max_points_per_voxel, facts.num_features());
        let shape = vec![Any, Exactly(num_points), Exactly(num_features)];
        let input = floats("pillar features", pillars.encoder_input.clone(), vec![shape]);
        let spec = &inputs[bind(Side::Input, &[input], inputs)?[0]];
        let shapes = vec![vec![Any, Any], vec![Any, Any, Any]];
        let output = floats("encoded pillars", pillars.encoder_output.clone(), shapes);
        Ok(Self {
            element: spec.element.unwrap_or(ElementType::F32),
            input_shape: Self::input_shape(config, spec)?,
            is_dynamic: fixed_voxels(spec).is_none(),
            output: bind(Side::Output, &[output], outputs)?[0],
            encoded: Tensor::zeros(ElementType::F32, &[0])?,
        })
    }

    /// The shape of the input of a channel's encoder.
    ///
    /// # Errors
    /// `Model` when it takes fewer voxels than `voxel_capacity`.
    pub fn input_shape(config: &LidarConfig, input: &TensorSpec) -> Result<[usize; 3]> {
        let LidarConfig { voxel_capacity, facts, .. } = config;
        let num_voxels = match fixed_voxels(input) {
            Some(fixed) if fixed < *voxel_capacity => {
                return refuse(format!(
                    "voxel_capacity is {voxel_capacity}, the encoder's input {input} takes {fixed} \
                     voxels; set voxel_capacity to at most that"
                ));
            }
            Some(fixed) => fixed,
            None => *voxel_capacity,
        };
        Ok([num_voxels, facts.max_points_per_voxel, facts.num_features()])
    }

    /// Memory for the encoder's input.
    ///
    /// # Errors
    /// `Argument` when it does not fit into memory.
    pub fn input(&self) -> Result<Tensor> {
        Tensor::zeros(self.element, &self.input_shape)
    }

    /// Encodes the first `num_voxels` rows of the features, at least one, or all of them if
    /// the number of voxels is fixed.
    ///
    /// # Errors
    /// `Inference` when the network fails or its output has another number of rows.
    pub fn run(
        &mut self,
        engine: &mut dyn Engine,
        features: &Tensor,
        num_voxels: usize,
    ) -> Result<()> {
        if !self.is_dynamic {
            return engine.run(&[features.view()]);
        }
        let [_, num_points, num_features] = self.input_shape;
        for start in (0..num_voxels).step_by(BLOCK) {
            let num_rows = BLOCK.min(num_voxels - start);
            let row = num_points * num_features;
            let block = start * row..(start + num_rows) * row;
            let values = match features {
                Tensor::F32 { values, .. } => TensorValues::F32(&values[block]),
                Tensor::F16 { values, .. } => TensorValues::F16(&values[block]),
            };
            let shape = [num_rows, num_points, num_features];
            engine.run(&[TensorView::new(&shape, values)?])?;
            let output = engine.output(self.output)?;
            let found = output.shape();
            if found.first() != Some(&num_rows) {
                return inference(format!("{num_rows} pillars are encoded as {found:?}"));
            }
            if start == 0 {
                empty(&mut self.encoded, &output, self.input_shape[0])?;
            }
            append(&mut self.encoded, &output)?;
        }
        Ok(())
    }

    /// The encoded pillars of the last run.
    ///
    /// # Errors
    /// `Inference` when there was none.
    pub fn output<'a>(&'a self, engine: &'a dyn Engine) -> Result<TensorView<'a>> {
        if self.is_dynamic { Ok(self.encoded.view()) } else { engine.output(self.output) }
    }

    /// The position of the encoded pillars among an engine's outputs.
    pub fn output_index(&self) -> usize {
        self.output
    }
}

/// Removes all rows of a tensor and reserves memory for `num_rows` rows like those of
/// `like`.
fn empty(tensor: &mut Tensor, like: &TensorView<'_>, num_rows: usize) -> Result<()> {
    if tensor.element() != like.values().element() {
        *tensor = Tensor::zeros(like.values().element(), &[0])?;
    }
    let num_values = num_rows * like.shape()[1..].iter().product::<usize>();
    let shape = match tensor {
        Tensor::F32 { shape, values } => {
            values.clear();
            values.reserve(num_values);
            shape
        }
        Tensor::F16 { shape, values } => {
            values.clear();
            values.reserve(num_values);
            shape
        }
    };
    shape.clear();
    shape.extend_from_slice(like.shape());
    shape[..1].fill(0);
    Ok(())
}

/// Adds rows to a tensor.
fn append(tensor: &mut Tensor, rows: &TensorView<'_>) -> Result<()> {
    if tensor.shape().get(1..) != rows.shape().get(1..) {
        return inference(format!("rows of {:?} follow {:?}", rows.shape(), tensor.shape()));
    }
    let shape = match (tensor, rows.values()) {
        (Tensor::F32 { shape, values }, TensorValues::F32(more)) => {
            values.extend_from_slice(more);
            shape
        }
        (Tensor::F16 { shape, values }, TensorValues::F16(more)) => {
            values.extend_from_slice(more);
            shape
        }
        (tensor, more) => {
            return inference(format!("rows of {} follow {}", more.element(), tensor.element()));
        }
    };
    shape[0] += rows.shape()[0];
    Ok(())
}

fn inference<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Inference, "encoder", message))
}

/// The number of voxels of an encoder; `None` if it is dynamic.
fn fixed_voxels(input: &TensorSpec) -> Option<usize> {
    match input.shape.as_ref().and_then(|dims| dims.first()) {
        Some(Dim::Fixed(fixed)) => Some(*fixed),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the sum of each voxel's values, and `num_more` further rows.
    struct Sums {
        sums: Vec<f32>,
        shape: [usize; 2],
        num_more: usize,
        num_runs: usize,
    }

    impl Engine for Sums {
        fn inputs(&self) -> &[TensorSpec] {
            &[]
        }

        fn outputs(&self) -> &[TensorSpec] {
            &[]
        }

        fn run(&mut self, inputs: &[TensorView<'_>]) -> Result<()> {
            let [num_rows, num_points, num_features] = inputs[0].dims()?;
            let TensorValues::F32(values) = inputs[0].values() else { panic!() };
            assert!(num_rows <= BLOCK);
            self.sums =
                values.chunks(num_points * num_features).map(|row| row.iter().sum()).collect();
            self.sums.resize(num_rows + self.num_more, 0.0);
            self.shape = [self.sums.len(), 1];
            self.num_runs += 1;
            Ok(())
        }

        fn output(&self, _: usize) -> Result<TensorView<'_>> {
            TensorView::new(&self.shape, TensorValues::F32(&self.sums))
        }

        fn name(&self) -> &str {
            "sums"
        }
    }

    fn encoder(num_voxels: usize) -> PillarEncoder {
        PillarEncoder {
            element: ElementType::F32,
            input_shape: [num_voxels, 2, 3],
            is_dynamic: true,
            output: 0,
            encoded: Tensor::zeros(ElementType::F16, &[0]).unwrap(),
        }
    }

    #[test]
    fn blocks_give_what_the_whole_would() {
        let capacity = 2 * BLOCK + 7;
        let mut pillars = encoder(capacity);
        let values: Vec<f32> = (0..6 * capacity).map(|i| (i % 1013) as f32).collect();
        let expected: Vec<f32> = values.chunks(6).map(|row| row.iter().sum()).collect();
        let features = Tensor::F32 { shape: vec![capacity, 2, 3], values };
        // (voxels, runs): a frame with few leaves nothing of one with many.
        for (num, num_runs) in [(BLOCK, 1), (capacity, 3), (1, 1), (BLOCK + 1, 2), (BLOCK - 1, 1)] {
            let mut engine = Sums { sums: vec![], shape: [0, 1], num_more: 0, num_runs: 0 };
            pillars.run(&mut engine, &features, num).unwrap();
            assert_eq!(engine.num_runs, num_runs, "{num}");
            let output = pillars.output(&engine).unwrap();
            assert_eq!(output.shape(), [num, 1]);
            let TensorValues::F32(found) = output.values() else { panic!() };
            assert_eq!(found, &expected[..num]);
        }
    }

    #[test]
    fn answers_that_do_not_join_are_refused() {
        let features = Tensor::zeros(ElementType::F32, &[4, 2, 3]).unwrap();
        let mut engine = Sums { sums: vec![], shape: [0, 1], num_more: 1, num_runs: 0 };
        let error = encoder(4).run(&mut engine, &features, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Inference);
        assert!(error.message().contains("4 pillars are encoded as [5, 1]"), "{error}");

        let mut joined = Tensor::zeros(ElementType::F32, &[0]).unwrap();
        let (two, three) = ([1.0, 2.0], [1.0, 2.0, 3.0]);
        let rows = TensorView::new(&[1, 2], TensorValues::F32(&two)).unwrap();
        empty(&mut joined, &rows, 1).unwrap();
        append(&mut joined, &rows).unwrap();
        let wider = TensorView::new(&[1, 3], TensorValues::F32(&three)).unwrap();
        let whole = TensorView::new(&[1, 2], TensorValues::I32(&[1, 2])).unwrap();
        for other in [wider, whole] {
            assert_eq!(append(&mut joined, &other).unwrap_err().kind(), ErrorKind::Inference);
        }
        assert_eq!(joined, Tensor::F32 { shape: vec![1, 2], values: two.to_vec() });
    }
}
