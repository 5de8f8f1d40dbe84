//! What the parameters of a launch must be.

use super::super::cuda::MAX_WIDTH;
use super::args::{
    BOX_LEN, CONSTANT_BYTES, FoldedArgs, FoldedLayerArgs, FoldedStackArgs, MAX_COLUMNS,
    MAX_CONSTANTS, MAX_JOBS, MAX_LAYERS, MAX_ROW_STACKS, STEP_BYTES, STEP_INPUTS, WARPS, WIDTH,
};
use crate::device::cuda::{VECTOR_BYTES, check_lens, refused};
use crate::sparse::conv::Precision;
use crate::view::linear::cuda::Element;
use det_post_types::Result;

/// Values that a lane moves at a time.
const VECTOR: u32 = 8;

/// Refuses what the kernel cannot run.
pub(super) fn check<T: Element>(kernel: &str, args: &FoldedArgs<'_, T>) -> Result<()> {
    let (num_jobs, num_row_jobs) = (args.num_jobs as usize, args.num_row_jobs as usize);
    let most = match num_row_jobs {
        0 => MAX_JOBS - 1,
        1 => MAX_JOBS,
        _ => num_row_jobs,
    };
    let is_possible = T::PRECISION == Precision::F16
        && size_of::<T>() == size_of::<half::f16>()
        && num_row_jobs <= MAX_ROW_STACKS
        && (num_row_jobs.max(1)..=most).contains(&num_jobs)
        && args.num_rows > 0;
    if !is_possible {
        let message = format!(
            "{} rows of {:?}, {num_jobs} stacks, of which {num_row_jobs} over rows; at most \
             {MAX_ROW_STACKS} are allowed, or {} over columns after at most one, of f16",
            args.num_rows,
            T::PRECISION,
            MAX_JOBS - 1
        );
        return Err(refused(kernel, &message));
    }
    let (of_rows, of_columns) = args.jobs[..num_jobs].split_at(num_row_jobs);
    for job in of_rows {
        check_layers(kernel, job, true)?;
        check_stack_of_rows(kernel, job, args.num_rows)?;
    }
    let num_boxes = of_rows.first().map_or(BOX_LEN, |job| job.num_values as usize);
    let mut first_warp = 0;
    for job in of_columns {
        check_layers(kernel, job, false)?;
        let column_end = job.first_column.saturating_add(job.num_columns) as usize;
        if job.first_warp != first_warp || column_end > num_boxes {
            let message = format!(
                "warps begin at {} instead of {first_warp}, columns below {column_end} of \
                 {num_boxes}",
                job.first_warp
            );
            return Err(refused(kernel, &message));
        }
        first_warp += job.num_warps;
        check_stack_of_columns(kernel, job, args.num_rows, !of_rows.is_empty())?;
    }
    let sets = (0..num_row_jobs.max(1)).flat_map(|set| (0..WARPS).map(move |warp| (set, warp)));
    sets.into_iter().try_for_each(|of| check_stream(kernel, args, of))
}

/// Layers fit each other and their warps.
fn check_layers<T>(kernel: &str, job: &FoldedStackArgs<'_, T>, is_of_rows: bool) -> Result<()> {
    let num_layers = job.num_layers as usize;
    let num_warps = job.num_warps as usize;
    let last_warp = (job.first_warp as usize).saturating_add(num_warps);
    let mut fits = (1..=MAX_LAYERS).contains(&num_layers)
        && num_warps > 0
        && last_warp <= WARPS
        && (!is_of_rows || num_warps == WARPS);
    let layers = &job.layers[..num_layers.min(MAX_LAYERS)];
    let mut inputs = None;
    for (index, layer) in layers.iter().enumerate() {
        let (num_steps, layer_warps) = (layer.num_steps, usize::from(layer.num_warps));
        let are_values = is_of_rows && index + 1 == num_layers;
        fits = fits
            && num_steps > 0
            && num_steps.is_multiple_of(2)
            && usize::from(num_steps) * STEP_INPUTS <= num_warps * WIDTH
            && inputs.is_none_or(|inputs| inputs == num_steps)
            && (1..=num_warps).contains(&layer_warps)
            && (!are_values || layer.num_warps == num_steps / 2);
        inputs = Some(layer.num_warps.saturating_mul(2));
    }
    let last_steps = job.last.num_steps;
    fits = fits && (last_steps == 0 || (!is_of_rows && Some(last_steps) == inputs));
    if fits {
        return Ok(());
    }
    let message = format!("{num_warps} warps do not fit layers {layers:?}, last {:?}", job.last);
    Err(refused(kernel, &message))
}

fn check_stack_of_rows<T>(kernel: &str, job: &FoldedStackArgs<'_, T>, num_rows: u32) -> Result<()> {
    let first = job.layers[0];
    let strides = [job.row_stride, job.normalized_stride, job.addend_stride];
    let width = job.row_len as usize;
    let fits = width <= MAX_WIDTH
        && width == usize::from(first.num_steps) * STEP_INPUTS
        && strides.iter().all(|stride| stride.is_multiple_of(VECTOR))
        && job.rows.is_aligned_to(VECTOR_BYTES)
        && job.norm.is_aligned_to(VECTOR_BYTES)
        && (job.norm.is_empty() || job.norm.len() == 2 * width)
        && job.normalized.is_aligned_to(VECTOR_BYTES)
        && job.addend.is_aligned_to(VECTOR_BYTES)
        && (1..=BOX_LEN).contains(&(job.num_values as usize))
        && job.output.is_empty();
    if !fits {
        let message = format!(
            "{width} channels, a norm of {} values, strides {strides:?}, {} values; rows are a \
             multiple of {WIDTH} channels, begin at multiples of {VECTOR_BYTES} bytes and have at \
             most {BOX_LEN} values",
            job.norm.len(),
            job.num_values
        );
        return Err(refused(kernel, &message));
    }
    let rows = |stride, len| rows_len(num_rows, stride, len);
    // What is empty is not used.
    let used = |len: usize, needed: usize| if len == 0 { 0 } else { needed };
    let values = rows(job.output_stride, job.num_values);
    check_lens(
        kernel,
        [
            ("rows", job.rows.len(), rows(job.row_stride, job.row_len)),
            (
                "normalized rows",
                job.normalized.len(),
                used(job.normalized.len(), rows(job.normalized_stride, job.row_len)),
            ),
            (
                "addend",
                job.addend.len(),
                used(job.addend.len(), rows(job.addend_stride, job.row_len)),
            ),
            ("values", job.values.len(), values),
            ("summand", job.summand.len(), used(job.summand.len(), values)),
        ],
    )
}

fn check_stack_of_columns<T>(
    kernel: &str,
    job: &FoldedStackArgs<'_, T>,
    num_rows: u32,
    has_rows: bool,
) -> Result<()> {
    let last = job.layers[job.num_layers as usize - 1];
    let fits = (2..=MAX_COLUMNS).contains(&(job.num_columns as usize))
        && has_rows == job.columns.is_empty()
        && job.num_values > 0
        && job.num_values.is_multiple_of(VECTOR)
        && job.num_values as usize <= usize::from(last.num_warps) * WIDTH
        && job.output_stride.is_multiple_of(VECTOR)
        && job.output.is_aligned_to(VECTOR_BYTES);
    if !fits {
        let message = format!(
            "{} columns, {} outputs in rows of {}; columns are 2 or 3, outputs a multiple of \
             {VECTOR} and at multiples of {VECTOR_BYTES} bytes",
            job.num_columns, job.num_values, job.output_stride
        );
        return Err(refused(kernel, &message));
    }
    let columns = rows_len(num_rows, job.column_stride, job.num_columns);
    let output = rows_len(num_rows, job.output_stride, job.num_values);
    check_lens(
        kernel,
        [
            ("columns", job.columns.len(), if has_rows { 0 } else { columns }),
            ("output", job.output.len(), output),
        ],
    )
}

/// The plan of a warp is that of its layers, and its stream is there.
fn check_stream<T>(
    kernel: &str,
    args: &FoldedArgs<'_, T>,
    (set, warp): (usize, usize),
) -> Result<()> {
    let (num_jobs, num_row_jobs) = (args.num_jobs as usize, args.num_row_jobs as usize);
    // A block's stacks: one of those over rows, or all.
    let jobs = if num_row_jobs > 1 { set..set + 1 } else { 0..num_jobs };
    let (mut plan, mut num_planned, mut num_steps, mut num_constants) = (0_u64, 0, 0_usize, 0);
    for (index, job) in args.jobs.iter().enumerate().take(jobs.end).skip(jobs.start) {
        let Some(own) = warp.checked_sub(job.first_warp as usize) else { continue };
        if own >= job.num_warps as usize {
            continue;
        }
        let is_of_rows = index < num_row_jobs;
        let layers = &job.layers[..job.num_layers as usize];
        let has = |layer: &FoldedLayerArgs| own < usize::from(layer.num_warps);
        for (index, layer) in layers.iter().enumerate() {
            let are_values = is_of_rows && index + 1 == layers.len();
            num_constants += usize::from(are_values || has(layer));
            if has(layer) {
                let pairs = if are_values { 1 } else { layer.num_steps / 2 };
                plan |= u64::from(pairs) << (4 * num_planned);
                num_planned += 1;
                num_steps += 2 * usize::from(pairs);
            }
        }
        let is_last = job.last.num_steps != 0 && layers.last().is_some_and(has);
        num_constants += usize::from(is_last);
    }
    let stream = args.warps[set][warp];
    let num_bytes = CONSTANT_BYTES + num_steps * STEP_BYTES;
    let needed = usize::try_from(stream.begin).unwrap_or(usize::MAX).saturating_add(num_bytes);
    let fits = num_constants <= MAX_CONSTANTS
        && stream.plan == plan
        && stream.begin.is_multiple_of(VECTOR_BYTES)
        && args.streams.is_aligned_to(VECTOR_BYTES);
    if !fits {
        let message =
            format!("stack {set}, warp {warp}: {stream:?}, {num_constants} layers, plan {plan:x}");
        return Err(refused(kernel, &message));
    }
    check_lens(kernel, [("streams", args.streams.len(), needed)])
}

fn rows_len(num_rows: u32, stride: u32, len: u32) -> usize {
    (num_rows as usize).saturating_sub(1) * stride as usize + len as usize
}
