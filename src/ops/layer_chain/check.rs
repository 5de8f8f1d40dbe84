//! What a chain's parameters must be.

use std::ops::Range;

use super::args::{
    AfterArgs, BOX_LEN, CHANNELS, COLUMNS, ChainArgs, ENCODER_PARTS, LoadArgs, MAX_LOADS,
    MAX_STEPS, STAGE_INPUTS, StepArgs, target,
};
use crate::device::cuda::{check_lens, refused};
use crate::error::Result;

/// Values of a row per lane that the kernels read and write together.
const GROUP: u32 = 8;

/// Refuses what the kernels cannot run.
pub(super) fn check(kernel: &str, args: &ChainArgs<'_>) -> Result<()> {
    let [num_steps, num_loads] = [args.num_steps, args.num_loads].map(|num| num as usize);
    if args.num_rows == 0 || num_steps > MAX_STEPS || num_loads > MAX_LOADS {
        let message = format!("{} rows, {num_steps} steps, {num_loads} loads", args.num_rows);
        return Err(refused(kernel, &message));
    }
    let num_anchors = args.num_rows as usize * BOX_LEN as usize;
    if !args.anchors.is_empty() {
        check_lens(kernel, [("anchors", args.anchors.len(), num_anchors)])?;
    }
    let steps = &args.steps[..num_steps];
    let first = args.loads.iter().take(num_loads).map(Ok);
    let later = steps.iter().filter(|step| step.load != 0).map(|step| {
        let missing = || refused(kernel, &format!("no rows {} to read", step.load));
        args.loads.get(step.load as usize - 1).ok_or_else(missing)
    });
    first.chain(later).try_for_each(|load| check_load(kernel, load?))?;
    for step in steps {
        match step.target {
            target::ENCODE => check_encoder(kernel, args)?,
            _ => check_layer(kernel, args, step)?,
        }
        if matches!(step.target, target::ENCODE | target::ALL) {
            check_after(kernel, &step.after)?;
        }
    }
    check_order(kernel, args, steps)
}

fn check_load(kernel: &str, load: &LoadArgs<'_>) -> Result<()> {
    let len = 1 << load.log_len.min(31);
    let fits = matches!(load.log_len, 8 | 9)
        && load.column.is_multiple_of(GROUP)
        && load.column.saturating_add(len) <= COLUMNS
        && load.stride.is_multiple_of(GROUP)
        && load.num_rows > 0;
    if !fits {
        return Err(refused(kernel, &format!("{load:?}")));
    }
    check_lens(
        kernel,
        [("loaded rows", load.rows.len(), rows_len(load.num_rows, load.stride, len))],
    )
}

fn check_encoder(kernel: &str, args: &ChainArgs<'_>) -> Result<()> {
    let ends = args.encoder_ends;
    let starts = [0, ends[0], ends[1], ends[2]];
    let is_part = |(start, end): (&u32, &u32)| {
        let len = end.saturating_sub(*start);
        len.is_power_of_two() && start.is_multiple_of(len)
    };
    let fits = starts.iter().zip(&ends).all(is_part)
        && ends[ENCODER_PARTS - 1] * GROUP == CHANNELS
        && !args.anchors.is_empty();
    if !fits {
        return Err(refused(kernel, &format!("an encoder whose parts end at {ends:?}")));
    }
    check_lens(kernel, [("encoder", args.encoder.len(), 4 * CHANNELS as usize)])
}

fn check_layer(kernel: &str, args: &ChainArgs<'_>, step: &StepArgs<'_>) -> Result<()> {
    let num_outputs = step.num_outputs();
    let fits = step.num_tiles > 0
        && num_outputs <= COLUMNS
        && step.num_inputs > 0
        && step.num_inputs.is_multiple_of(STAGE_INPUTS)
        && step.input.is_multiple_of(GROUP)
        && step.input.saturating_add(step.num_inputs) <= COLUMNS
        && match step.target {
            target::ALL => {
                step.output.is_multiple_of(GROUP)
                    && step.output.saturating_add(num_outputs) <= COLUMNS
            }
            target::ROWS => {
                step.num_values <= num_outputs
                    && step.num_values.is_multiple_of(GROUP)
                    && step.stride.is_multiple_of(GROUP)
            }
            target::COLUMNS => step.stride.is_multiple_of(GROUP) && step.stride >= step.num_rows,
            target::VALUES => step.num_values <= num_outputs,
            target::ANCHORS => step.num_values == BOX_LEN && !args.anchors.is_empty(),
            _ => false,
        }
        && (step.target == target::ALL || (1..=args.num_rows).contains(&step.num_rows));
    if !fits {
        return Err(refused(kernel, &format!("{step:?}")));
    }
    let num_weights = step.num_inputs as usize * num_outputs as usize;
    let of_rows = rows_len(step.num_rows, step.stride, step.num_values);
    let [rows, values] = match step.target {
        target::ROWS => [of_rows, 0],
        target::COLUMNS => [num_outputs as usize * step.stride as usize, 0],
        target::VALUES | target::ANCHORS => [0, of_rows],
        _ => [0, 0],
    };
    check_lens(
        kernel,
        [
            ("weights", step.weights.len(), num_weights * size_of::<half::f16>()),
            ("bias", step.bias.len(), num_outputs as usize),
            ("rows", step.rows.len(), rows),
            ("values", step.values.len(), values),
            ("interval", args.interval.len(), usize::from(step.target == target::ANCHORS)),
        ],
    )
}

fn check_after(kernel: &str, after: &AfterArgs<'_>) -> Result<()> {
    let fits = after.norm_parts <= 2
        && [after.column, after.addend, after.sum].iter().all(|column| {
            column.is_multiple_of(GROUP) && column.saturating_add(columns_of(after)) <= COLUMNS
        })
        && (after.norm_parts != 2 || (after.rows.is_empty() && after.sum == 0))
        && after.stride.is_multiple_of(GROUP);
    if !fits {
        return Err(refused(kernel, &format!("{after:?}")));
    }
    let norm_len = if after.norm.is_empty() { 0 } else { 2 * columns_of(after) as usize };
    let is_stored = !after.rows.is_empty();
    let rows = if is_stored { rows_len(after.num_rows, after.stride, CHANNELS) } else { 0 };
    check_lens(
        kernel,
        [("normalization", after.norm.len(), norm_len), ("kept rows", after.rows.len(), rows)],
    )
}

/// A thread block that has received shared results is ahead of others by what follows those
/// results and by the steps after them. The next shared results must not replace what these read.
/// Rows that are read later are there once a step's results have been normalized or added.
fn check_order(kernel: &str, args: &ChainArgs<'_>, steps: &[StepArgs<'_>]) -> Result<()> {
    let mut read: Vec<Range<u32>> = Vec::new();
    let mut awaited: Option<Range<u32>> = None;
    for (index, step) in steps.iter().enumerate() {
        if let Some(load) = step.load.checked_sub(1).and_then(|at| args.loads.get(at as usize)) {
            if step.target != target::ALL {
                let message =
                    format!("rows that are read from step {index} on, which is not shared");
                return Err(refused(kernel, &message));
            }
            let columns = load.column..load.column + (1 << load.log_len);
            check_apart(kernel, index, &columns, &read)?;
            awaited = Some(columns);
        }
        if step.target != target::ENCODE {
            let input = step.input..step.input + step.num_inputs;
            if awaited.as_ref().is_some_and(|awaited| overlap(awaited, &input)) {
                let message = format!("step {index} reads the columns {input:?} too early");
                return Err(refused(kernel, &message));
            }
            read.push(input);
        }
        if step.target == target::ALL {
            let output = step.output..step.output + step.num_outputs();
            check_apart(kernel, index, &output, &read)?;
            read.clear();
        }
        if matches!(step.target, target::ALL | target::ENCODE) {
            let after = &step.after;
            let first = [after.column, if after.sum == 0 { after.column } else { after.addend }];
            read.extend(first.map(|first| first..first + columns_of(after)));
            if after.sum != 0 {
                read.push(after.sum..after.sum + CHANNELS);
            }
            let is_empty = after.norm.is_empty() && after.rows.is_empty() && after.sum == 0;
            if step.target == target::ENCODE || !is_empty {
                awaited = None;
            }
        }
    }
    Ok(())
}

fn check_apart(kernel: &str, index: usize, to: &Range<u32>, read: &[Range<u32>]) -> Result<()> {
    let Some(other) = read.iter().find(|other| overlap(to, other)) else { return Ok(()) };
    let message = format!("step {index} replaces the columns {to:?} while {other:?} are read");
    Err(refused(kernel, &message))
}

fn overlap(a: &Range<u32>, b: &Range<u32>) -> bool {
    a.start < b.end && b.start < a.end
}

fn columns_of(after: &AfterArgs<'_>) -> u32 {
    if after.norm_parts == 2 { 2 * CHANNELS } else { CHANNELS }
}

fn rows_len(num_rows: u32, stride: u32, len: u32) -> usize {
    (num_rows as usize).saturating_sub(1) * stride as usize + len as usize
}
