//! Decode centre: the maps of a CenterPoint head become candidates.
//!
//! Per task and cell the best class counts, ties to the lower class; its score
//! is the sigmoid of its logit (or the value itself, see
//! [`CenterDecode::heatmap_logits`]). A cell becomes a candidate when
//! - its score reaches the threshold of the class at its distance, the
//!   distance being `sqrt(x² + y²)` of the decoded centre;
//! - the norm of (sine, cosine) reaches the class's yaw-norm threshold;
//! - its centre lies in the centre range;
//! - all its numbers are finite. NaN never passes.
//!
//! Cells are visited task by task and row by row; [`Candidate::source`] is that
//! running number. Logits below the lowest threshold of a task are turned away
//! before any exponential, with the same decision.
//!
//! Arithmetic is f32 in the order written here: x = `(column + offset_x) *
//! cell_size + origin`, y likewise by the row, z as it is; sizes as they are or
//! their `exp`; yaw by `atan2`. `exp` and `atan2` differ between CPU and CUDA in
//! the last places, so scores, sizes and yaws do; centres and sources are equal.
//!
//! Variances are stored as logarithms. First-order propagation turns them into
//! those of [`Variance3d`], with `v = exp(channel)`: centre `v * cell_size²`, z
//! and velocity `v`, sizes `v` or, where sizes are logarithms, `v * size²`, yaw
//! `(cos² * v_sin + sin² * v_cos) / (sin² + cos²)²`. Autoware's node agrees in
//! z, yaw and velocity; it multiplies the centre by the cell size once and
//! leaves the variances of sizes in logarithms.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(
    unsafe_code,
    reason = "kernels are promised to fit their parameters; each block states why"
)]
pub(in crate::ops) mod kernels;

use crate::error::{Error, ErrorKind, Result};
#[cfg(doc)]
use crate::types::{Candidate, Variance3d};
use crate::types::{Candidates, CenterDecode, ElementType, Object3d, TensorView};

/// The maps of one task: `[1, channels, H, W]` of f32 or f16, all of one H and
/// W. With variances, regression maps have twice the channels: the values, then
/// the logarithms of their variances.
#[derive(Clone, Copy, Debug, Default)]
pub struct CenterTask<'a> {
    /// One channel a class.
    pub heatmap: TensorView<'a>,
    /// Offset of the centre in its cell, x and y, in cells.
    pub offset: TensorView<'a>,
    /// Height of the centre in metres.
    pub height: TensorView<'a>,
    /// Three extents.
    pub size: TensorView<'a>,
    /// Sine and cosine.
    pub rotation: TensorView<'a>,
    /// Velocity along x and y in metres per second; not read unless
    /// [`CenterDecode::has_velocity`].
    pub velocity: Option<TensorView<'a>>,
}

/// Replaces the contents of `candidates` by those of all tasks. They are not
/// sorted yet ([`Candidates::finish`]); what is over their capacity is lost,
/// lowest score first, and counted there.
///
/// # Errors
/// `Argument` when the tasks are not those of the parameters, a tensor is
/// missing, has other dimensions or is not of floats, or a class has no
/// yaw-norm threshold while others have.
pub fn decode_center(
    tasks: &[CenterTask<'_>],
    params: &CenterDecode,
    candidates: &mut Candidates<Object3d>,
) -> Result<()> {
    candidates.clear();
    if tasks.len() != params.tasks.len() {
        return argument(format!("{} tasks, {} are expected", tasks.len(), params.tasks.len()));
    }
    for (index, task) in tasks.iter().enumerate() {
        check(index, task, params)?;
    }
    cpu::decode_center(tasks, params, candidates);
    Ok(())
}

fn check(index: usize, task: &CenterTask<'_>, params: &CenterDecode) -> Result<()> {
    let [_, _, height, width] = task.heatmap.dims()?;
    let maps = [
        Some(task.heatmap),
        Some(task.offset),
        Some(task.height),
        Some(task.size),
        Some(task.rotation),
        task.velocity,
    ];
    for ((name, channels), map) in channels(index, params).into_iter().zip(maps) {
        if channels == 0 {
            continue;
        }
        let Some(map) = map else { return argument(format!("task {index} has no {name}")) };
        let element = map.values().element();
        check_map(index, name, (element, map.shape()), [1, channels, height, width])?;
    }
    check_yaw_norms(index, &params.tasks[index], params)
}

/// The maps of a task in order, and their channels; none for velocities that
/// are not read.
fn channels(index: usize, params: &CenterDecode) -> [(&'static str, usize); 6] {
    let copies = if params.has_variance { 2 } else { 1 };
    [
        ("heatmap", params.tasks[index].len()),
        ("offset", 2 * copies),
        ("height", copies),
        ("size", 3 * copies),
        ("rotation", 2 * copies),
        ("velocity", if params.has_velocity { 2 * copies } else { 0 }),
    ]
}

fn check_map(
    index: usize,
    name: &str,
    (element, shape): (ElementType, &[usize]),
    expected: [usize; 4],
) -> Result<()> {
    if shape == expected && matches!(element, ElementType::F32 | ElementType::F16) {
        return Ok(());
    }
    argument(format!(
        "{name} of task {index} is {element} {shape:?}, expected are floats {expected:?}"
    ))
}

fn check_yaw_norms(index: usize, classes: &[u32], params: &CenterDecode) -> Result<()> {
    let thresholds = &params.yaw_norm_thresholds;
    match classes.iter().find(|&&class| class as usize >= thresholds.len()) {
        Some(class) if !thresholds.is_empty() => argument(format!(
            "class {class} of task {index} has none of the {} yaw-norm thresholds",
            thresholds.len()
        )),
        _ => Ok(()),
    }
}

fn argument<T>(message: String) -> Result<T> {
    Err(Error::new(ErrorKind::Argument, "decode_center", message))
}

#[cfg(test)]
mod tests;
