//! Sparse convolution, pooling and maps over rulebooks that layers share.

use det_post_ops::arrays::sparse::input_rows;
use det_post_ops::sparse::conv::{Epilogue, Precision, sparse_conv};
use det_post_ops::sparse::max_pool::sparse_max_pool;
use det_post_ops::sparse::to_map::{map_shape, to_map};
use det_post_types::{ElementType, Tensor};

use super::call::{Call, Const, In, Out, run};
use super::rulebooks::{Joined, Pairs, Rulebook};
use super::sites::{Cells, Level, Sites, elsewhere};
use super::sparse_arrays::{SparseFeatures, SparseMap, SparsePairs, SparseResult, on_host};
use super::sparse_gpu::Layer;
use super::sparse_memory::{Made, Place};
use super::sparse_weights::{Packed, SparseWeights, Weights};
use super::status::{Failure, Status};
use super::workspace::{Opened, WORKSPACES, Workspace};

/// A sparse convolution of a layer.
#[repr(C)]
pub struct SparseConvolution {
    /// Which sites it joins.
    pub rulebook: Rulebook,
    /// Its weights, of as many taps.
    pub weights: SparseWeights,
    /// `[sites of the output, output channels]` that are added before the ReLU, or `NULL`.
    pub residual: In<f32>,
    /// 1 if negative results become 0, else 0.
    pub has_relu: u32,
    /// For later versions; 0.
    pub reserved: u32,
}

/// How features become a dense map.
#[repr(C)]
pub struct SparseMapping {
    /// The sites of the features.
    pub sites: Sites,
    /// The axes of the grid that become depth, row and column: 0, 1, 2 in some order.
    pub axes: [u32; 3],
    /// For later versions; 0.
    pub reserved: u32,
}

impl SparseConvolution {
    fn run(
        &self,
        call: &Call,
        opened: &mut Opened,
        (joined, weights): (&Joined, &mut Weights),
        input: &SparseFeatures,
    ) -> Result<Const<SparseResult>, Failure> {
        if self.reserved != 0 || self.has_relu > 1 {
            return Err(Failure::argument("convolution.has_relu is 0 or 1, reserved 0"));
        }
        let (num_taps, needed) = (weights.num_taps, joined.num_taps());
        if num_taps != needed {
            let message = format!("weights: {num_taps} taps; the rulebook has {needed}");
            return Err(Failure::argument(message));
        }
        let made = self.made(call, opened, (joined, weights), input)?;
        let Weights { outcome, public, num_outputs, .. } = weights;
        Ok(Const::one(public.insert(SparseResult {
            features: outcome.keep(made),
            num_sites: joined.output.len(),
            num_channels: *num_outputs,
        })))
    }

    fn made(
        &self,
        call: &Call,
        opened: &mut Opened,
        (joined, weights): (&Joined, &mut Weights),
        input: &SparseFeatures,
    ) -> Result<Made, Failure> {
        let Weights { packed, precision, num_inputs, num_outputs, outcome, .. } = weights;
        let (precision, num_outputs, relu) = (*precision, *num_outputs, self.has_relu == 1);
        let rows = input.rows(&joined.input, Some(*num_inputs))?;
        let Joined { table, input: from, output: to, .. } = joined;
        match (packed, table, (&from.cells, &to.cells), Place::of(opened)?) {
            (
                Packed::Host(packed),
                Pairs::Host(table),
                (Cells::Host { rows: order, .. }, _),
                Place::Host(memory),
            ) => {
                let values = on_host(call, rows, order, &mut memory.sorted)?;
                let len = table.len() * num_outputs;
                let residual = call.slice_or_null(self.residual, len, "convolution.residual")?;
                // As a GPU stores it.
                let stored: Option<Vec<f32>> = residual
                    .filter(|_| matches!(precision, Precision::F16 | Precision::Bf16))
                    .map(|values| values.iter().map(|&v| precision.round_stored(v)).collect());
                let residual = stored.as_deref().or(residual);
                let epilogue = Epilogue { residual, relu, stored: precision };
                let mut out = outcome.next(len);
                sparse_conv(values, table, packed, epilogue, &mut memory.threads, &mut out)?;
                Ok(Made::Host(out))
            }
            (
                Packed::Gpu(packed),
                Pairs::Gpu(table),
                (Cells::Gpu(from), Cells::Gpu(to)),
                Place::Gpu(gpu, caller),
            ) => {
                let residual = (!self.residual.is_null()).then_some(self.residual);
                let layer = Layer { weights: packed, precision, num_outputs, relu, residual };
                Ok(Made::Gpu(gpu.convolve(call, caller, (from, rows), (table, to), layer)?))
            }
            _ => Err(elsewhere("rulebook")),
        }
    }
}

fn pooled(
    call: &Call,
    opened: &mut Opened,
    joined: &Joined,
    features: &SparseFeatures,
) -> Result<Const<SparseResult>, Failure> {
    let rows = features.rows(&joined.input, None)?;
    let (num_sites, num_channels) = (joined.output.len(), rows.num_channels);
    let Joined { table, input: from, output: to, .. } = joined;
    let len = if opened.gpu.is_none() { num_sites.saturating_mul(num_channels) } else { 0 };
    let mut out = opened.sparse.pooled.next(len);
    let made = match (table, (&from.cells, &to.cells), Place::of(opened)?) {
        (Pairs::Host(table), (Cells::Host { rows: order, .. }, _), Place::Host(memory)) => {
            let values = on_host(call, rows, order, &mut memory.sorted)?;
            sparse_max_pool(values, table, num_channels, &mut out)?;
            Made::Host(out)
        }
        (Pairs::Gpu(table), (Cells::Gpu(from), Cells::Gpu(to)), Place::Gpu(gpu, caller)) => {
            Made::Gpu(gpu.pooled(call, caller, (from, rows), (table, to))?)
        }
        _ => return Err(elsewhere("rulebook")),
    };
    let features = opened.sparse.pooled.keep(made);
    let result = SparseResult { features, num_sites, num_channels };
    Ok(Const::one(opened.sparse.public.pooled.insert(result)))
}

impl SparseMapping {
    fn run(
        &self,
        call: &Call,
        opened: &mut Opened,
        level: &Level,
        features: &SparseFeatures,
    ) -> Result<Const<SparseMap>, Failure> {
        if self.reserved != 0 {
            return Err(Failure::argument("mapping.reserved is not 0"));
        }
        let rows = features.rows(level, None)?;
        let axes = self.axes.map(|axis| axis as usize);
        let shape = map_shape(level.grid(), axes, rows.num_channels)?;
        let made = match (&level.cells, Place::of(opened)?) {
            (Cells::Host { sites, rows: order }, Place::Host(memory)) => {
                let values = on_host(call, rows, order, &mut memory.sorted)?;
                let mut map = Tensor::zeros(ElementType::F32, &shape)?;
                to_map(values, sites, axes, rows.num_channels, &mut map)?;
                match map {
                    Tensor::F32 { values, .. } => Made::Host(values),
                    Tensor::F16 { .. } => return Err(elsewhere("map")),
                }
            }
            (Cells::Gpu(sites), Place::Gpu(gpu, caller)) => {
                Made::Gpu(gpu.map(call, caller, (sites, rows), axes, shape)?)
            }
            _ => return Err(elsewhere("sites")),
        };
        let values = opened.sparse.map.keep(made);
        Ok(Const::one(opened.sparse.public.map.insert(SparseMap { values, shape })))
    }
}

fn pairs_of(opened: &mut Opened, joined: &Joined) -> Result<Const<SparsePairs>, Failure> {
    let (num_taps, num_sites) = (joined.num_taps(), joined.output.len());
    // Rows are below 2^29.
    let (table, block) = match (&joined.table, Place::of(opened)?) {
        (Pairs::Host(table), Place::Host(_)) => {
            (input_rows(table).map(|row| row.map_or(-1, |row| row as i32)).collect(), None)
        }
        (Pairs::Gpu(table), Place::Gpu(gpu, caller)) => {
            let (block, rows) = gpu.pairs(caller, table, num_sites)?;
            (rows.into_iter().map(|row| row as i32).collect(), Some(block))
        }
        _ => return Err(elsewhere("rulebook")),
    };
    let public = &mut opened.sparse.public;
    public.table = table;
    public.table_on_gpu = block;
    let num = |tap: &[i32]| tap.iter().filter(|&&row| row >= 0).count();
    public.num_pairs.clear();
    public.num_pairs.extend(public.table.chunks_exact(num_sites.max(1)).map(num));
    public.num_pairs.resize(num_taps, 0);
    let table = match &public.table_on_gpu {
        Some(block) => Const::on_device(block.address()),
        None => Const::of(&public.table),
    };
    Ok(Const::one(public.pairs.insert(SparsePairs {
        table,
        num_pairs: Const::of(&public.num_pairs),
        num_taps,
        num_sites,
        num_input_sites: joined.input.len(),
    })))
}

/// Convolves features of the sites of a rulebook's input. Never waits on a GPU. The result is memory of the
/// weights, valid until the next call with them.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_sparse_convolve(
    workspace: Workspace,
    convolution: In<SparseConvolution>,
    features: In<SparseFeatures>,
    result: Out<Const<SparseResult>>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(result, "result")?;
        let convolution = call.one(convolution, "convolution")?;
        let features = call.one(features, "features")?;
        let found = WORKSPACES.with(workspace.id, |opened| {
            let joined = Joined::shared(convolution.rulebook, workspace.id)?;
            Weights::with(convolution.weights, workspace.id, |weights| {
                convolution.run(call, opened, (&joined, weights), features)
            })
        })?;
        call.write(result, found, "result")
    })
}

/// The largest features of the sites that a rulebook joins to each site of its output. A cell without a site
/// counts as 0, as in spconv; a NaN stays. Never waits on a GPU.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_sparse_max_pool(
    workspace: Workspace,
    rulebook: Rulebook,
    features: In<SparseFeatures>,
    result: Out<Const<SparseResult>>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(result, "result")?;
        let features = call.one(features, "features")?;
        let found = WORKSPACES.with(workspace.id, |opened| {
            let joined = Joined::shared(rulebook, workspace.id)?;
            pooled(call, opened, &joined, features)
        })?;
        call.write(result, found, "result")
    })
}

/// Writes features to the cells of their sites in a dense map. Never waits on a GPU.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_sparse_to_map(
    workspace: Workspace,
    mapping: In<SparseMapping>,
    features: In<SparseFeatures>,
    map: Out<Const<SparseMap>>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(map, "map")?;
        let (mapping, features) = (call.one(mapping, "mapping")?, call.one(features, "features")?);
        let found = WORKSPACES.with(workspace.id, |opened| {
            let level = Level::shared(mapping.sites, workspace.id)?;
            mapping.run(call, opened, &level, features)
        })?;
        call.write(map, found, "map")
    })
}

/// The pairs of a rulebook, to be looked at. Waits on a GPU.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_workspace_sparse_pairs(
    workspace: Workspace,
    rulebook: Rulebook,
    pairs: Out<Const<SparsePairs>>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(pairs, "pairs")?;
        let found = WORKSPACES.with(workspace.id, |opened| {
            let joined = Joined::shared(rulebook, workspace.id)?;
            pairs_of(opened, &joined)
        })?;
        call.write(pairs, found, "pairs")
    })
}
