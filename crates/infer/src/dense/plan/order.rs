//! Which steps wait for which: those that read what others write, and those that write what others use.

use det_post_ops::dense::Region;

use super::Step;

/// The order of steps, as far as their windows ask for one.
pub(super) struct Order {
    /// For each step the earlier ones that it waits for, without those that these wait for.
    follows: Vec<Vec<usize>>,
    /// For each step all earlier ones that are complete when it begins.
    before: Vec<Steps>,
}

/// A use of a window.
struct Use {
    step: usize,
    region: Region,
    is_written: bool,
}

/// A set of steps.
#[derive(Clone, Default)]
struct Steps(Vec<u64>);

impl Steps {
    fn contains(&self, step: usize) -> bool {
        self.0.get(step / 64).is_some_and(|word| (word >> (step % 64)) & 1 == 1)
    }

    fn insert(&mut self, step: usize) {
        let len = self.0.len().max(step / 64 + 1);
        self.0.resize(len, 0);
        self.0[step / 64] |= 1 << (step % 64);
    }

    fn insert_all(&mut self, others: &Self) {
        let len = self.0.len().max(others.0.len());
        self.0.resize(len, 0);
        self.0.iter_mut().zip(&others.0).for_each(|(word, other)| *word |= other);
    }
}

impl Order {
    pub(super) fn of(steps: &[Step], num_buffers: usize) -> Self {
        let mut uses: Vec<Vec<Use>> = (0..num_buffers).map(|_| Vec::new()).collect();
        let mut order = Self { follows: Vec::new(), before: Vec::new() };
        for (at, step) in steps.iter().enumerate() {
            let targets = step.kind.targets();
            let mut own = Vec::new();
            step.kind.regions(|region| {
                let is_written = targets.contains(region);
                own.push(Use { step: at, region: *region, is_written });
            });
            let mut earlier: Vec<usize> = own
                .iter()
                .flat_map(|one| uses[one.region.buffer].iter().filter(|other| one.waits_for(other)))
                .map(|other| other.step)
                .collect();
            earlier.sort_unstable();
            earlier.dedup();
            order.push(&earlier);
            for one in own {
                uses[one.region.buffer].push(one);
            }
        }
        order
    }

    /// Adds a step that waits for others, in ascending order.
    fn push(&mut self, earlier: &[usize]) {
        let (mut follows, mut before) = (Vec::new(), Steps::default());
        for &step in earlier.iter().rev() {
            if !before.contains(step) {
                follows.push(step);
                before.insert_all(&self.before[step]);
                before.insert(step);
            }
        }
        self.follows.push(follows);
        self.before.push(before);
    }

    /// Whether a step is complete when another one begins.
    pub(super) fn is_before(&self, step: usize, later: usize) -> bool {
        self.before.get(later).is_some_and(|before| before.contains(step))
    }

    pub(super) fn into_follows(self) -> Vec<Vec<usize>> {
        self.follows
    }
}

impl Use {
    fn waits_for(&self, earlier: &Self) -> bool {
        (self.is_written || earlier.is_written)
            && self.region.window.overlaps(&earlier.region.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_waits_for_the_last_of_a_chain() {
        let mut order = Order { follows: Vec::new(), before: Vec::new() };
        for earlier in [&[][..], &[0], &[0], &[0, 1], &[0, 1, 2, 3], &[]] {
            order.push(earlier);
        }
        assert!(order.is_before(0, 4) && order.is_before(1, 3) && !order.is_before(2, 3));
        assert!(!order.is_before(3, 3) && !order.is_before(4, 3) && !order.is_before(0, 5));
        let follows: Vec<Vec<usize>> = vec![vec![], vec![0], vec![0], vec![1], vec![3, 2], vec![]];
        assert_eq!(order.into_follows(), follows);
    }

    #[test]
    fn sets_grow() {
        let mut steps = Steps::default();
        steps.insert(200);
        let mut others = Steps::default();
        others.insert(3);
        others.insert_all(&steps);
        assert!(others.contains(200) && others.contains(3) && !others.contains(4));
        assert!(!steps.contains(3) && !steps.contains(1000));
    }
}
