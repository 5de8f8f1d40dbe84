//! Programs that do not depend on each other become one launch.

use det_post_ops::dense::Region;

use super::{Job, Kind, Step};

/// The most programs of a launch.
const MAX_JOBS: usize = 4;
/// The most steps after it over which a program waits for others.
const MAX_DISTANCE: usize = 64;

/// Moves programs to later ones, where nothing in between reads what they write or writes what they read.
pub(super) fn join(mut steps: Vec<Step>) -> Vec<Step> {
    for at in (0..steps.len()).rev() {
        let Kind::Pointwise(jobs) = &steps[at].kind else { continue };
        if let Some(later) = place(&steps, at, jobs)
            && let Kind::Pointwise(moved) =
                std::mem::replace(&mut steps[at].kind, Kind::Pointwise(Vec::new()))
            && let Kind::Pointwise(others) = &mut steps[later].kind
        {
            others.splice(0..0, moved);
        }
    }
    steps.retain(|step| !matches!(&step.kind, Kind::Pointwise(jobs) if jobs.is_empty()));
    steps
}

/// The later step that can take the jobs of a step over.
fn place(steps: &[Step], at: usize, jobs: &[Job]) -> Option<usize> {
    for (later, step) in steps.iter().enumerate().take(at + MAX_DISTANCE).skip(at + 1) {
        let is_in_the_way = depends(step, jobs);
        if let Kind::Pointwise(others) = &step.kind {
            let fits = !others.is_empty() && others.len() + jobs.len() <= MAX_JOBS;
            if fits && !is_in_the_way {
                return Some(later);
            }
        }
        if is_in_the_way {
            return None;
        }
    }
    None
}

/// Whether a step reads or writes what jobs write, or writes what they read.
fn depends(step: &Step, jobs: &[Job]) -> bool {
    let overlaps = |a: &Region, b: &Region| a.buffer == b.buffer && a.window.overlaps(&b.window);
    let mut found = false;
    step.kind.regions(|region| {
        found |= jobs.iter().any(|job| {
            job.targets.iter().any(|target| overlaps(target, region))
                || job
                    .sources
                    .iter()
                    .any(|source| overlaps(source, region) && is_written(step, region))
        });
    });
    found
}

fn is_written(step: &Step, region: &Region) -> bool {
    step.kind.targets().contains(region)
}
