//! Decodes the maps of a CenterPoint head into candidates.
//!
//! The class of a cell of a task is the one with the greatest value, the lowest on
//! ties; its score is the sigmoid of that value (or the value itself, see
//! [`CenterDecode::heatmap_logits`]). A cell becomes a candidate if
//! - its score is at least the threshold of the class at its distance, which is
//!   `sqrt(x² + y²)` of the decoded centre;
//! - the norm of (sine, cosine) is at least the yaw-norm threshold of the class;
//! - its centre is in the centre range;
//! - it is valid: all its numbers are finite, and no extent is negative.
//!
//! A cell that passes all but the last is counted ([`Candidates::num_invalid_boxes`]). If its
//! centre is not finite, the lowest threshold of the class applies and no range; a norm that is
//! NaN passes. NaN in the heat never passes, and cells with a NaN in the heat of a task are
//! counted ([`Candidates::num_nan_scores`]).
//!
//! Cells are numbered task by task and row by row; [`Candidate::source`] is that
//! number. Logits below the lowest threshold of a task are rejected before any
//! exponential is computed, with the same result.
//!
//! Arithmetic is f32 in the order written here: x = `(column + offset_x) *
//! cell_size + origin`, y likewise by the row, z unchanged; sizes unchanged or
//! their `exp`; yaw by `atan2`. `exp` and `atan2` of CPU and CUDA may differ in the
//! last place, and with them scores, sizes and yaws; centres and sources are equal.
//!
//! Variances are stored as logarithms. First-order propagation gives those of
//! [`Variance3d`], with `v = exp(channel)`: centre `v * cell_size²`, z
//! and velocity `v`, sizes `v` or, where sizes are logarithms, `v * size²`, yaw
//! `(cos² * v_sin + sin² * v_cos) / (sin² + cos²)²`. Autoware's node agrees in
//! z, yaw and velocity; it multiplies the centre by the cell size once and
//! leaves the variances of sizes in logarithms.

mod cpu;
#[cfg(feature = "cuda")]
pub mod cuda;
#[cfg(feature = "cuda")]
#[expect(unsafe_code, reason = "each block argues that the kernel fits its parameters")]
pub(crate) mod kernels;

#[cfg(doc)]
use det_post_types::{Candidate, Variance3d};
use det_post_types::{Candidates, CenterDecode, ElementType, Object3d, TensorView};
use det_post_types::{Error, ErrorKind, Result};

/// The maps of one task: `[1, channels, H, W]` of f32 or f16, all of one H and
/// W. With variances, regression maps have twice the channels: the values, then
/// the logarithms of their variances. `T` is a tensor in host memory
/// ([`TensorView`]) or in device memory, or where to find one.
#[derive(Clone, Copy, Debug, Default)]
pub struct CenterTask<T> {
    /// One channel per class.
    pub heatmap: T,
    /// Offset of the centre in its cell, x and y, in cells.
    pub offset: T,
    /// Height of the centre in metres.
    pub height: T,
    /// Three extents.
    pub size: T,
    /// Sine and cosine.
    pub rotation: T,
    /// Velocity along x and y in metres per second; not read unless
    /// [`CenterDecode::has_velocity`].
    pub velocity: Option<T>,
}

impl<T: Copy> CenterTask<T> {
    /// The task with each map replaced by `map` of it.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map<U>(&self, mut map: impl FnMut(T) -> Result<U>) -> Result<CenterTask<U>> {
        Ok(CenterTask {
            heatmap: map(self.heatmap)?,
            offset: map(self.offset)?,
            height: map(self.height)?,
            size: map(self.size)?,
            rotation: map(self.rotation)?,
            velocity: self.velocity.map(map).transpose()?,
        })
    }
}

impl<T> CenterTask<T> {
    /// The task with each map replaced by the result of `map` for its name and the map.
    ///
    /// # Errors
    /// The first error of `map`.
    pub fn try_map_named<'a, U, E>(
        &'a self,
        mut map: impl FnMut(&'static str, &'a T) -> std::result::Result<U, E>,
    ) -> std::result::Result<CenterTask<U>, E> {
        Ok(CenterTask {
            heatmap: map("heatmap", &self.heatmap)?,
            offset: map("offset", &self.offset)?,
            height: map("height", &self.height)?,
            size: map("size", &self.size)?,
            rotation: map("rotation", &self.rotation)?,
            velocity: self.velocity.as_ref().map(|of| map("velocity", of)).transpose()?,
        })
    }

    /// The task with references to its maps.
    pub fn as_ref(&self) -> CenterTask<&T> {
        CenterTask {
            heatmap: &self.heatmap,
            offset: &self.offset,
            height: &self.height,
            size: &self.size,
            rotation: &self.rotation,
            velocity: self.velocity.as_ref(),
        }
    }
}

/// Replaces the contents of `candidates` by those of all tasks, unsorted: see
/// [`Candidates::finish`]. If there are more than their capacity, those with the
/// lowest scores are dropped and counted there.
///
/// # Errors
/// `Argument` when the tasks are not those of the parameters, a tensor is
/// missing, has other dimensions or does not hold floats, or a class has no
/// yaw-norm threshold while others have.
pub fn decode_center(
    tasks: &[CenterTask<TensorView<'_>>],
    params: &CenterDecode,
    candidates: &mut Candidates<Object3d>,
) -> Result<()> {
    candidates.clear();
    check_num_tasks(tasks.len(), params)?;
    for (index, task) in tasks.iter().enumerate() {
        let forms = task.try_map(|map| Ok((map.values().element(), map.shape())))?;
        check(index, &forms, params)?;
        check_yaw_norms(index, &params.tasks[index], params)?;
    }
    cpu::decode_center(tasks, params, candidates);
    Ok(())
}

fn check_num_tasks(found: usize, params: &CenterDecode) -> Result<()> {
    match params.tasks.len() {
        expected if expected == found => Ok(()),
        expected => argument(format!("{found} tasks; {expected} expected")),
    }
}

/// Checks element types and shapes of the maps of a task. Returns rows and columns.
fn check(
    index: usize,
    task: &CenterTask<(ElementType, &[usize])>,
    params: &CenterDecode,
) -> Result<[usize; 2]> {
    let (element, shape) = task.heatmap;
    let &[_, _, height, width] = shape else {
        return argument(format!(
            "heatmap of task {index} is {element} {shape:?}; 4 dimensions expected"
        ));
    };
    let copies = if params.has_variance { 2 } else { 1 };
    let maps = [
        ("heatmap", Some(task.heatmap), params.tasks[index].len()),
        ("offset", Some(task.offset), 2 * copies),
        ("height", Some(task.height), copies),
        ("size", Some(task.size), 3 * copies),
        ("rotation", Some(task.rotation), 2 * copies),
        ("velocity", task.velocity, if params.has_velocity { 2 * copies } else { 0 }),
    ];
    for (name, map, channels) in maps {
        if channels == 0 {
            continue;
        }
        let Some((element, shape)) = map else {
            return argument(format!("task {index} has no {name}"));
        };
        let expected = [1, channels, height, width];
        if shape != expected || !matches!(element, ElementType::F32 | ElementType::F16) {
            return argument(format!(
                "{name} of task {index} is {element} {shape:?}; floats {expected:?} expected"
            ));
        }
    }
    Ok([height, width])
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
mod dropped;
#[cfg(test)]
mod tests;
