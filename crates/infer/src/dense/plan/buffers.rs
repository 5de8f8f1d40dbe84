//! Memory between steps: a buffer is used again by steps that wait for all of its readers.

use super::order::Order;
use super::{Buffer, Role, Step};

/// Gives work buffers that are needed at different times the same memory, where the order of the steps says so: steps
/// that may run beside each other keep theirs. Buffers that no step uses go.
pub(super) fn share(mut steps: Vec<Step>, buffers: &mut Vec<Buffer>, order: &Order) -> Vec<Step> {
    let mut uses: Vec<Vec<usize>> = vec![Vec::new(); buffers.len()];
    for (at, step) in steps.iter().enumerate() {
        step.kind.regions(|region| uses[region.buffer].push(at));
    }
    uses.iter_mut().for_each(|steps| steps.dedup());
    // The shared buffer of each buffer, and which one it was last.
    let mut number: Vec<Option<usize>> = vec![None; buffers.len()];
    let mut shared: Vec<Buffer> = Vec::new();
    let mut last: Vec<usize> = Vec::new();
    let is_kept = |buffer: &Buffer| matches!(buffer.role, Role::Input(_) | Role::Output(_));
    for (at, buffer) in buffers.iter().enumerate() {
        if buffer.role != Role::Work && (is_kept(buffer) || !uses[at].is_empty()) {
            number[at] = Some(shared.len());
            shared.push(buffer.clone());
            last.push(at);
        }
    }
    for step in &mut steps {
        step.kind.regions(|region| {
            let old = region.buffer;
            if number[old].is_some() {
                return;
            }
            let buffer = &buffers[old];
            // Of those that are free, the smallest that is large enough, else the largest.
            let is_free = |place: usize| {
                let all_before =
                    |&later: &usize| uses[last[place]].iter().all(|&at| order.is_before(at, later));
                uses[old].iter().all(all_before)
            };
            let free = (0..shared.len()).filter(|&place| {
                shared[place].role == Role::Work
                    && shared[place].element == buffer.element
                    && is_free(place)
            });
            let best = free.min_by_key(|&place| {
                let len = shared[place].len;
                (len < buffer.len, if len < buffer.len { usize::MAX - len } else { len })
            });
            let place = best.unwrap_or_else(|| {
                shared.push(Buffer { len: 0, ..buffer.clone() });
                last.push(old);
                shared.len() - 1
            });
            shared[place].len = shared[place].len.max(buffer.len);
            last[place] = old;
            number[old] = Some(place);
        });
        step.kind.regions_mut(|region| {
            region.buffer = number[region.buffer].unwrap_or_default();
        });
    }
    *buffers = shared;
    steps
}
