//! Memory between steps: a buffer is used again once its last reader is done.

use super::{Buffer, Role, Step};

/// Gives work buffers that are needed at different times the same memory. Buffers that no step uses go.
pub(super) fn share(mut steps: Vec<Step>, buffers: &mut Vec<Buffer>) -> Vec<Step> {
    let mut last_use = vec![None; buffers.len()];
    for (at, step) in steps.iter().enumerate() {
        step.kind.regions(|region| last_use[region.buffer] = Some(at));
    }
    // The shared buffer of each buffer, and until when it is in use.
    let mut number: Vec<Option<usize>> = vec![None; buffers.len()];
    let mut shared: Vec<Buffer> = Vec::new();
    let mut busy_until: Vec<usize> = Vec::new();
    let is_kept = |buffer: &Buffer| matches!(buffer.role, Role::Input(_) | Role::Output(_));
    for (at, buffer) in buffers.iter().enumerate() {
        if buffer.role != Role::Work && (is_kept(buffer) || last_use[at].is_some()) {
            number[at] = Some(shared.len());
            shared.push(buffer.clone());
            busy_until.push(usize::MAX);
        }
    }
    for (at, step) in steps.iter_mut().enumerate() {
        step.kind.regions(|region| {
            let old = region.buffer;
            if number[old].is_some() {
                return;
            }
            let buffer = &buffers[old];
            // Of those that are free, the smallest that is large enough, else the largest.
            let free = (0..shared.len()).filter(|&place| {
                shared[place].role == Role::Work
                    && shared[place].element == buffer.element
                    && busy_until[place] < at
            });
            let best = free.min_by_key(|&place| {
                let len = shared[place].len;
                (len < buffer.len, if len < buffer.len { usize::MAX - len } else { len })
            });
            let place = best.unwrap_or_else(|| {
                shared.push(Buffer { len: 0, ..buffer.clone() });
                busy_until.push(0);
                shared.len() - 1
            });
            shared[place].len = shared[place].len.max(buffer.len);
            busy_until[place] = last_use[old].unwrap_or(at);
            number[old] = Some(place);
        });
        step.kind.regions_mut(|region| {
            region.buffer = number[region.buffer].unwrap_or_default();
        });
    }
    *buffers = shared;
    steps
}
