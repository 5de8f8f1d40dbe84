//! Which windows of the files are registered, as a function of the position of the reader.

use std::collections::VecDeque;

/// Windows are a multiple of this, the largest size of a page of any supported platform.
const ALIGNMENT: usize = 64 << 10;

/// The smallest limit in windows: one that is read, one behind it, one ahead.
const MIN_WINDOWS: usize = 3;

/// The number of windows that share a limit.
const WINDOWS_OF_LIMIT: usize = 8;

/// Registration ends when this many windows in a row were hardly used.
const MAX_UNUSED: usize = 2;

/// A window is hardly used if less than one in so many of its bytes was uploaded.
const MIN_USED_SHARE: u64 = 8;

/// The windows of one or more files, numbered through all of them.
pub(super) struct Plan {
    window_len: usize,
    max_registered: usize,
    num_windows: usize,
    /// Registered windows, which follow each other.
    registered: VecDeque<usize>,
    /// The next window that was never registered.
    next: usize,
    /// Windows in a row that were released and hardly used.
    num_unused: usize,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Register this window.
    Register(usize),
    /// Release this window, which is behind the reader.
    Release(usize),
    /// Wait until the reader has moved.
    Wait,
    /// The last window is released, or windows are not worth it.
    End,
}

impl Plan {
    /// Windows that together have at most `limit` bytes.
    pub(super) fn window_len(limit: usize) -> usize {
        let len = limit / WINDOWS_OF_LIMIT;
        (len - len % ALIGNMENT).max(ALIGNMENT)
    }

    /// A plan for `num_windows` windows within a limit in bytes.
    pub(super) fn new(limit: usize, num_windows: usize) -> Self {
        let window_len = Self::window_len(limit);
        let max_registered = (limit / window_len).max(MIN_WINDOWS);
        Self {
            window_len,
            max_registered,
            num_windows,
            registered: VecDeque::with_capacity(max_registered),
            next: 0,
            num_unused: 0,
        }
    }

    /// The next step while the reader is in window `position`. The window before it stays, for
    /// a payload that begins there.
    pub(super) fn step(&self, position: usize) -> Step {
        if self.is_wasteful() {
            return self.registered.front().map_or(Step::End, |first| Step::Release(*first));
        }
        // The release of a window waits for the GPU: without need there is none.
        let is_needed = self.num_windows > self.max_registered;
        match self.registered.front() {
            Some(&first) if is_needed && first + 1 < position => return Step::Release(first),
            None if self.next >= self.num_windows => return Step::End,
            _ => {}
        }
        let next = self.next.max(position.saturating_sub(1));
        let end = position.saturating_sub(1) + self.max_registered;
        if next < end.min(self.num_windows) { Step::Register(next) } else { Step::Wait }
    }

    /// Notes that a window was registered.
    pub(super) fn registered(&mut self, window: usize) {
        self.registered.push_back(window);
        self.next = window + 1;
    }

    /// Notes that a window was released, of which `num_used` bytes were uploaded.
    pub(super) fn released(&mut self, window: usize, num_used: u64) {
        self.registered.retain(|registered| *registered != window);
        let is_used = num_used >= self.window_len as u64 / MIN_USED_SHARE;
        self.num_unused = if is_used { 0 } else { self.num_unused + 1 };
    }

    /// Whether the recording has too few bytes for the GPU to be worth registering.
    pub(super) fn is_wasteful(&self) -> bool {
        self.num_unused >= MAX_UNUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Follows the plan until it waits or ends; every window is used fully.
    fn follow(plan: &mut Plan, position: usize, steps: &mut Vec<Step>) -> Step {
        loop {
            let step = plan.step(position);
            match step {
                Step::Register(window) => plan.registered(window),
                Step::Release(window) => plan.released(window, plan.window_len as u64),
                Step::Wait | Step::End => return step,
            }
            steps.push(step);
            assert!(plan.registered.len() <= plan.max_registered);
        }
    }

    #[test]
    fn windows_stay_within_the_limit() {
        for limit in [1 << 20, 16 << 20, 256 << 20, (256 << 20) + 12_345] {
            let plan = Plan::new(limit, 1000);
            assert!(plan.window_len.is_multiple_of(ALIGNMENT), "{limit}");
            assert!(plan.window_len * plan.max_registered <= limit, "{limit}");
            assert!(plan.max_registered >= WINDOWS_OF_LIMIT);
        }
    }

    #[test]
    fn files_within_the_limit_stay_registered() {
        let mut plan = Plan::new(8 << 20, 8);
        let mut steps = Vec::new();
        assert_eq!(follow(&mut plan, 0, &mut steps), Step::Wait);
        assert_eq!(follow(&mut plan, 7, &mut steps), Step::Wait);
        assert_eq!(steps, (0..8).map(Step::Register).collect::<Vec<_>>());
    }

    #[test]
    fn windows_are_registered_ahead_and_released_behind() {
        let mut plan = Plan::new(8 << 20, 12);
        let mut steps = Vec::new();
        assert_eq!(follow(&mut plan, 0, &mut steps), Step::Wait);
        assert_eq!(steps, (0..8).map(Step::Register).collect::<Vec<_>>());
        steps.clear();
        // The reader has moved on by three windows: one of them stays.
        assert_eq!(follow(&mut plan, 3, &mut steps), Step::Wait);
        let released = [0, 1].map(Step::Release);
        assert_eq!(steps, [&released[..], &[8, 9].map(Step::Register)].concat());
        steps.clear();
        // A jump: what lies between is never registered.
        assert_eq!(follow(&mut plan, 11, &mut steps), Step::Wait);
        assert_eq!(steps.last(), Some(&Step::Register(11)));
        assert_eq!(plan.registered, [10, 11]);
        assert_eq!(follow(&mut plan, 100, &mut steps), Step::End);
        assert!(plan.registered.is_empty());
    }

    #[test]
    fn a_recording_with_few_bytes_for_the_gpu_is_not_registered_for_long() {
        let mut plan = Plan::new(8 << 20, 100);
        for window in 0..8 {
            plan.registered(window);
        }
        plan.released(0, 0);
        plan.released(1, u64::MAX);
        plan.released(2, 100);
        assert!(!plan.is_wasteful());
        plan.released(3, 100);
        assert_eq!(plan.step(6), Step::Release(4));
        (4..8).for_each(|window| plan.released(window, 0));
        assert_eq!(plan.step(6), Step::End);
    }

    #[test]
    fn small_files_have_one_window() {
        let mut plan = Plan::new(256 << 20, 1);
        let mut steps = Vec::new();
        assert_eq!(follow(&mut plan, 0, &mut steps), Step::Wait);
        assert_eq!(steps, [Step::Register(0)]);
        assert_eq!(Plan::new(1 << 20, 0).step(0), Step::End);
    }
}
