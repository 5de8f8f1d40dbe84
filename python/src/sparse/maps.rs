//! Pooling, and dense maps of features.

use det_post_ops::arrays::sparse::rows_of_sites;
use det_post_ops::sparse::max_pool::sparse_max_pool as pool;
use det_post_ops::sparse::rulebook::SiteGrid;
use det_post_ops::sparse::to_map::{map_shape, to_map as write_map};
use det_post_types::{ElementType, Tensor};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::axes::Axes;
use super::convolution::check_shape;
use super::rulebook::{Pairs, Rulebook};
use super::sites::{Level, Sites};
use crate::array::{Input, Output};
use crate::error::raised;
use crate::gpu::{self, RowOrder};

type Array<'py> = Bound<'py, PyAny>;

/// Sparse max pooling: the largest features of the sites under a kernel.
///
/// features: [N, C], float32, float16 or bfloat16, rows in the order of the sites of the input. A
/// cell without a site counts as 0, as in spconv, so that an output whose inputs are all negative
/// is 0; a NaN stays.
///
/// Returns [M, C] of the type of the features, rows in the order of rulebook.sites.
#[pyfunction]
pub fn sparse_max_pool<'py>(features: &Array<'py>, rulebook: &Rulebook) -> PyResult<Array<'py>> {
    let level = rulebook.output_level();
    let table = match (&rulebook.pairs, level) {
        (Pairs::Host(table), _) => table,
        (Pairs::Gpu(pairs), Level::Gpu(level)) => return gpu::pooled(features, pairs, level),
        (Pairs::Gpu(_), Level::Host(_)) => {
            return Err(PyValueError::new_err("sites and pairs are on different devices"));
        }
    };
    let input = Input::new("features", features)?;
    let num_channels = channels(input.shape(), rulebook.num_input_rows, |why| input.refuse(why))?;
    let (element, values) = input.floats()?;
    let out = features.py().detach(|| {
        let mut out = vec![0.0; table.len() * num_channels];
        pool(&values, table, num_channels, &mut out).map(|()| out)
    });
    let out = out.map_err(|error| raised(&error))?;
    Output::of_floats(out, element, &[table.len(), num_channels], features)
}

/// The features of a level as a dense map, 0 at cells without a site.
///
/// features: [N, C], float32, float16 or bfloat16, rows in the order of the sites. axes: the axes of
/// the sites that become depth, row and column.
///
/// Returns [B, C * D, H, W] of the type of the features: feature c at depth d is in channel
/// c * D + d, so that [B, C, D, H, W] is a view of it, what spconv calls dense().
#[pyfunction]
#[pyo3(signature = (features, sites, *, axes=[0, 1, 2]))]
pub fn to_map<'py>(features: &Array<'py>, sites: &Sites, axes: [usize; 3]) -> PyResult<Array<'py>> {
    mapped(features, sites, axes, RowOrder::Sites)
}

/// Writes rows of features to their cells of a dense map, 0 at cells without a row.
///
/// features: [N, C], float32, float16 or bfloat16; coordinates: int32 [N, 1 + axes], rows of scene
/// and cell; shape: cells along one, two or three axes. Of rows of one cell the first is taken;
/// rows outside the map are left out.
///
/// Returns [B, C, *shape] of the type of the features.
#[pyfunction]
#[pyo3(signature = (features, coordinates, shape, *, batch_size=1))]
pub fn scatter<'py>(
    features: &Array<'py>,
    coordinates: &Array<'py>,
    shape: Vec<u32>,
    batch_size: u32,
) -> PyResult<Array<'py>> {
    let (axes, lifted) = Axes::of_shape(&shape)?;
    let grid = SiteGrid::new(batch_size, lifted).map_err(|error| raised(&error))?;
    let sites = Sites::of(coordinates, axes, grid, None)?;
    let num_rows = coordinates.len()?;
    let map = mapped(features, &sites, [0, 1, 2], RowOrder::Coordinates { num_rows })?;
    let mut sizes = vec![i64::from(batch_size), -1];
    sizes.extend(shape.into_iter().map(i64::from));
    map.call_method1("reshape", (sizes,))
}

fn mapped<'py>(
    features: &Array<'py>,
    sites: &Sites,
    axes: [usize; 3],
    order: RowOrder,
) -> PyResult<Array<'py>> {
    let level = match &sites.level {
        Level::Host(level) => level,
        Level::Gpu(level) => return gpu::dense_map(features, level, axes, order),
    };
    let input = Input::new("features", features)?;
    let num_rows = order.num_rows(level.sites.len());
    let num_channels = channels(input.shape(), num_rows, |why| input.refuse(why))?;
    let (element, values) = input.floats()?;
    let (shape, values) = features
        .py()
        .detach(|| {
            let mut sorted = Vec::new();
            let values = match order {
                RowOrder::Sites => &values[..],
                RowOrder::Coordinates { .. } => {
                    rows_of_sites(&values, num_channels, &level.input_rows, &mut sorted);
                    &sorted[..]
                }
            };
            let shape = map_shape(level.sites.grid(), axes, num_channels)?;
            let mut map = Tensor::zeros(ElementType::F32, &shape)?;
            write_map(values, &level.sites, axes, num_channels, &mut map)?;
            Ok((shape, map))
        })
        .map_err(|error: det_post::Error| raised(&error))?;
    match values {
        Tensor::F32 { values, .. } => Output::of_floats(values, element, &shape, features),
        Tensor::F16 { values, .. } => Output::of(values, &shape, features),
    }
}

/// The channels of features of so many rows.
pub fn channels(
    shape: &[usize],
    num_rows: usize,
    refuse: impl Fn(&dyn std::fmt::Display) -> PyErr,
) -> PyResult<usize> {
    match *shape {
        [_, num_channels] if num_channels > 0 => {
            check_shape(shape, [num_rows, num_channels], refuse)?;
            Ok(num_channels)
        }
        _ => Err(refuse(&format!("[{num_rows}, C] is required"))),
    }
}
