//! Groups messages of several inputs into frames.
//!
//! A state machine without a clock: its inputs are messages with their times of arrival,
//! its outputs frames and refusals, so that the same order of messages gives the same
//! frames. Times of arrival are the log times of the recording in a replay. They never
//! decrease; frames close in the order of their stamps.
//!
//! - **One input**: every message is a frame, with any stamp.
//! - [`SyncPolicy::Nearest`]: a message of the reference opens a frame at its stamp t. Each
//!   input contributes the message nearest to t within `max_skew`, on ties the earlier one.
//!   A choice is final when the newest stamp of its input is t or later, or when
//!   `min_period` is at least 2 (t - s) for a chosen stamp s: no later message can be
//!   nearer. The frame closes when all choices are final, at the latest `deadline` after
//!   the arrival of its reference. Chosen messages and older ones are removed.
//! - [`SyncPolicy::Latest`]: a message of the reference closes a frame of the newest message
//!   of every input, which later frames may contain again. A frame whose stamps are
//!   further apart than `max_skew` is refused.
//!
//! With several inputs a message is refused if its stamp is not newer than the last of its
//! input. After a jump back by a second or more that is so until enough inputs agree, as many
//! as a frame needs and the reference among them: those that have jumped, too, and those whose
//! stamps are not ahead by a second. If the reference has jumped, the stamps start over: all
//! messages are removed, and the message is the first of the new sequence. Otherwise the input
//! was ahead of the others, and only its messages are removed.
//!
//! Each input keeps `depth` messages. One more message of the reference closes the oldest
//! open frame as its deadline would; one more of another input removes the oldest. Every
//! message ends up in a frame, refused or unused, exactly once.

use std::collections::VecDeque;

use super::stamps::RESTART_NS;
use crate::config::{SyncConfig, SyncPolicy};
use det_post_types::{Error, ErrorKind, Result, Stamp};

/// Groups messages into frames. `T` is the representation of a message.
#[derive(Debug)]
pub struct Synchronizer<T> {
    rule: Rule,
    reference: usize,
    max_skew_ns: i64,
    deadline_ns: i64,
    min_period_ns: i64,
    depth: usize,
    min_inputs: usize,
    inputs: Vec<Input<T>>,
    open: VecDeque<Open>,
}

/// The rule by which frames are formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    EveryMessage,
    Nearest,
    Latest,
}

#[derive(Debug)]
struct Input<T> {
    /// Messages that later frames may contain, oldest first.
    kept: VecDeque<Kept<T>>,
    /// The newest stamp that arrived.
    newest: Option<Stamp>,
    has_jumped: bool,
    num_unused: u64,
}

impl<T> Input<T> {
    /// Whether `stamp` is a jump back from its newest one.
    fn is_ahead_of(&self, stamp: Stamp) -> bool {
        let ahead_ns = |newest: Stamp| newest.nanos().saturating_sub(stamp.nanos());
        self.newest.is_some_and(|newest| ahead_ns(newest) >= RESTART_NS)
    }

    /// Removes its messages, after which any stamp may follow.
    fn clear(&mut self) {
        self.num_unused += self.kept.drain(..).filter(|kept| !kept.is_used).count() as u64;
        (self.newest, self.has_jumped) = (None, false);
    }
}

#[derive(Debug)]
struct Kept<T> {
    stamp: Stamp,
    item: T,
    is_used: bool,
    is_announced: bool,
}

/// A frame that waits for messages.
#[derive(Clone, Copy, Debug)]
struct Open {
    stamp: Stamp,
    deadline: Stamp,
}

/// The position of a message in the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// It follows the previous messages.
    Follows,
    /// The stamps start over with it; all previous messages were removed.
    StartsOver,
}

/// A frame that closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// Its stamp: that of its reference.
    pub stamp: Stamp,
    /// When it closed.
    pub at: Stamp,
    /// Why it closed.
    pub cause: Cause,
    /// Whether it may be processed.
    pub outcome: Outcome,
}

/// Why a frame closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Every choice is final.
    Complete,
    /// Its deadline passed.
    Deadline,
    /// Its reference arrived, and the policy does not wait.
    Reference,
    /// More messages of its reference arrived than are kept.
    Displaced,
}

/// Whether a frame may be processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Enough inputs belong to it.
    Usable,
    /// Too few inputs belong to it.
    Incomplete,
    /// The stamps of its inputs are further apart than allowed.
    TooFarApart,
}

impl<T: Clone> Synchronizer<T> {
    /// A synchronizer for a channel of `num_inputs`.
    pub fn new(config: &SyncConfig, num_inputs: usize) -> Self {
        let nanos =
            |duration: std::time::Duration| i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        let depth = config.depth.max(1);
        let (rule, capacity) = match config.policy {
            _ if num_inputs == 1 => (Rule::EveryMessage, 1),
            SyncPolicy::Nearest => (Rule::Nearest, depth + 1),
            SyncPolicy::Latest => (Rule::Latest, 1),
        };
        let input = |_| Input {
            kept: VecDeque::with_capacity(capacity),
            newest: None,
            has_jumped: false,
            num_unused: 0,
        };
        Self {
            rule,
            reference: config.reference,
            max_skew_ns: nanos(config.max_skew),
            deadline_ns: nanos(config.deadline),
            min_period_ns: nanos(config.min_period),
            depth,
            min_inputs: config.min_inputs.unwrap_or(num_inputs).clamp(1, num_inputs),
            inputs: (0..num_inputs).map(input).collect(),
            open: VecDeque::with_capacity(depth + 1),
        }
    }

    /// Adds a message that arrived at `now`. The caller closes frames by
    /// [`Synchronizer::close`] before, those that are due, and after, those that the
    /// message completes.
    ///
    /// # Errors
    /// `StampNotNewer`; then the message is not added.
    pub fn arrive(&mut self, now: Stamp, input: usize, stamp: Stamp, item: T) -> Result<Arrival> {
        let arrival = match self.rule {
            Rule::EveryMessage => Arrival::Follows,
            Rule::Nearest | Rule::Latest => self.check(input, stamp)?,
        };
        let (rule, depth, is_reference) = (self.rule, self.depth, input == self.reference);
        let of = &mut self.inputs[input];
        of.newest = Some(stamp);
        let is_full = match rule {
            Rule::EveryMessage | Rule::Latest => !of.kept.is_empty(),
            // The oldest reference is removed when its frame is closed.
            Rule::Nearest => !is_reference && of.kept.len() == depth,
        };
        if is_full && let Some(oldest) = of.kept.pop_front() {
            of.num_unused += u64::from(!oldest.is_used);
        }
        of.kept.push_back(Kept { stamp, item, is_used: false, is_announced: false });
        if is_reference {
            let deadline = now.nanos().saturating_add(self.deadline_ns);
            self.open.push_back(Open { stamp, deadline: Stamp::from_nanos(deadline) });
        }
        Ok(arrival)
    }

    /// Closes the oldest open frame if it is due at `now`: its messages replace the contents
    /// of `chosen`, `None` for an input without one.
    pub fn close(&mut self, now: Stamp, chosen: &mut Vec<Option<T>>) -> Option<Closed> {
        let Open { stamp, deadline } = *self.open.front()?;
        let closed = |at, cause, outcome| Some(Closed { stamp, at, cause, outcome });
        match self.rule {
            Rule::EveryMessage | Rule::Latest => {
                self.open.pop_front();
                let outcome = self.take_newest(chosen);
                closed(now, Cause::Reference, outcome)
            }
            Rule::Nearest => {
                let (at, cause) = if self.inputs.iter().all(|input| self.is_final(input, stamp)) {
                    (now.min(deadline), Cause::Complete)
                } else if deadline <= now {
                    (deadline, Cause::Deadline)
                } else if self.inputs[self.reference].kept.len() > self.depth {
                    (now, Cause::Displaced)
                } else {
                    return None;
                };
                self.open.pop_front();
                let outcome = self.take_nearest(stamp, chosen);
                closed(at, cause, outcome)
            }
        }
    }

    /// The oldest message, with its input, that a later frame may contain and that was not
    /// returned before.
    pub fn announce(&mut self) -> Option<(usize, T)> {
        let inputs = self.inputs.iter_mut().enumerate();
        let new = inputs.filter_map(|(index, input)| {
            input.kept.iter_mut().find(|kept| !kept.is_announced).map(|kept| (index, kept))
        });
        let (index, oldest) = new.min_by_key(|(_, kept)| kept.stamp)?;
        oldest.is_announced = true;
        Some((index, oldest.item.clone()))
    }

    /// The deadline of the oldest open frame.
    pub fn next_deadline(&self) -> Option<Stamp> {
        self.open.front().map(|open| open.deadline)
    }

    /// The number of messages of an input that no frame will contain, since the last call.
    pub fn take_unused(&mut self, input: usize) -> u64 {
        std::mem::take(&mut self.inputs[input].num_unused)
    }

    /// Removes the messages of an input. Returns how many of them no frame contained.
    pub fn remove_all(&mut self, input: usize) -> u64 {
        self.inputs[input].clear();
        self.take_unused(input)
    }

    /// Checks that the stamp of a message is newer than those of its input, or of a jump back
    /// with which enough inputs agree.
    fn check(&mut self, input: usize, stamp: Stamp) -> Result<Arrival> {
        let of = &mut self.inputs[input];
        let Some(newest) = of.newest.filter(|newest| stamp <= *newest) else {
            of.has_jumped = false;
            return Ok(Arrival::Follows);
        };
        if of.is_ahead_of(stamp) {
            of.has_jumped = true;
            let agrees = |of: &Input<T>| of.has_jumped || !of.is_ahead_of(stamp);
            let num_agreeing = self.inputs.iter().filter(|of| agrees(of)).count();
            let reference = &self.inputs[self.reference];
            if num_agreeing >= self.min_inputs && agrees(reference) {
                if reference.has_jumped {
                    self.open.clear();
                    self.inputs.iter_mut().for_each(Input::clear);
                    return Ok(Arrival::StartsOver);
                }
                self.inputs[input].clear();
                return Ok(Arrival::Follows);
            }
        }
        let message = format!("stamp {stamp} is not newer than {newest}, the last of its input");
        Err(Error::new(ErrorKind::StampNotNewer, "synchronizer", message))
    }

    /// Whether no later message of an input can be nearer to `stamp`.
    fn is_final(&self, input: &Input<T>, stamp: Stamp) -> bool {
        input.newest.is_some_and(|newest| newest >= stamp)
            || self.nearest(input, stamp).is_some_and(|nearest| {
                let before_ns = stamp.nanos().saturating_sub(input.kept[nearest].stamp.nanos());
                self.min_period_ns >= before_ns.saturating_mul(2)
            })
    }

    /// The message of an input that is nearest to `stamp` within `max_skew`.
    fn nearest(&self, input: &Input<T>, stamp: Stamp) -> Option<usize> {
        let distance = |kept: &Kept<T>| kept.stamp.nanos().abs_diff(stamp.nanos());
        let distances = input.kept.iter().map(distance).enumerate();
        let near = distances.filter(|(_, ns)| *ns <= self.max_skew_ns.unsigned_abs());
        near.min_by_key(|(_, ns)| *ns).map(|(index, _)| index)
    }

    fn take_nearest(&mut self, stamp: Stamp, chosen: &mut Vec<Option<T>>) -> Outcome {
        chosen.clear();
        for index in 0..self.inputs.len() {
            let nearest = self.nearest(&self.inputs[index], stamp);
            let of = &mut self.inputs[index];
            let mut item = None;
            if let Some(nearest) = nearest {
                of.num_unused += nearest as u64;
                item = of.kept.drain(..=nearest).next_back().map(|kept| kept.item);
            }
            chosen.push(item);
        }
        let num_chosen = chosen.iter().flatten().count();
        if num_chosen < self.min_inputs { Outcome::Incomplete } else { Outcome::Usable }
    }

    fn take_newest(&mut self, chosen: &mut Vec<Option<T>>) -> Outcome {
        chosen.clear();
        let keeps = self.rule == Rule::Latest;
        let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
        for of in &mut self.inputs {
            if let Some(kept) = of.kept.front_mut() {
                kept.is_used = true;
                oldest = oldest.min(kept.stamp.nanos());
                newest = newest.max(kept.stamp.nanos());
            }
            let kept = of.kept.front().map(|kept| kept.item.clone());
            chosen.push(kept);
            if !keeps {
                of.kept.clear();
            }
        }
        if chosen.iter().flatten().count() < self.min_inputs {
            Outcome::Incomplete
        } else if newest.saturating_sub(oldest) > self.max_skew_ns {
            Outcome::TooFarApart
        } else {
            Outcome::Usable
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn stamp(ms: i64) -> Stamp {
        Stamp::from_nanos(ms * 1_000_000)
    }

    /// A result of a sequence of messages.
    #[derive(Debug, PartialEq)]
    enum Event {
        Frame { ms: i64, at: i64, cause: Cause, outcome: Outcome, stamps: Vec<Option<i64>> },
        Refused { at: i64, input: usize, ms: i64 },
        StartsOver { at: i64 },
    }

    /// Adds messages `(arrival, input, stamp)` in milliseconds and collects the results.
    /// Every message must occur in one of them.
    fn run(config: &SyncConfig, num_inputs: usize, arrivals: &[(i64, usize, i64)]) -> Vec<Event> {
        let mut sync = Synchronizer::new(config, num_inputs);
        let (mut events, mut chosen) = (Vec::new(), Vec::new());
        let mut close = |sync: &mut Synchronizer<i64>, now, events: &mut Vec<Event>| {
            while let Some(closed) = sync.close(now, &mut chosen) {
                let Closed { stamp, at, cause, outcome } = closed;
                let [ms, at] = [stamp, at].map(|stamp| stamp.nanos() / 1_000_000);
                events.push(Event::Frame { ms, at, cause, outcome, stamps: chosen.clone() });
            }
        };
        for &(at, input, ms) in arrivals {
            close(&mut sync, stamp(at), &mut events);
            match sync.arrive(stamp(at), input, stamp(ms), ms) {
                Ok(Arrival::Follows) => {}
                Ok(Arrival::StartsOver) => events.push(Event::StartsOver { at }),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::StampNotNewer);
                    events.push(Event::Refused { at, input, ms });
                }
            }
            close(&mut sync, stamp(at), &mut events);
        }
        close(&mut sync, Stamp::from_nanos(i64::MAX), &mut events);
        if config.policy == SyncPolicy::Nearest {
            let num_unused: u64 = (0..num_inputs).map(|input| sync.take_unused(input)).sum();
            let num_kept: usize = sync.inputs.iter().map(|input| input.kept.len()).sum();
            let of_event = |event: &Event| match event {
                Event::Frame { stamps, .. } => stamps.iter().flatten().count(),
                Event::Refused { .. } => 1,
                Event::StartsOver { .. } => 0,
            };
            let num_counted: usize = events.iter().map(of_event).sum();
            assert_eq!(num_counted + num_kept + num_unused as usize, arrivals.len(), "{events:?}");
        }
        events
    }

    fn nearest(max_skew_ms: u64, deadline_ms: u64) -> SyncConfig {
        SyncConfig {
            max_skew: Duration::from_millis(max_skew_ms),
            deadline: Duration::from_millis(deadline_ms),
            ..SyncConfig::default()
        }
    }

    fn frame(ms: i64, at: i64, cause: Cause, stamps: &[Option<i64>]) -> Event {
        let outcome = if stamps.contains(&None) { Outcome::Incomplete } else { Outcome::Usable };
        Event::Frame { ms, at, cause, outcome, stamps: stamps.to_vec() }
    }

    #[test]
    fn one_input_is_taken_as_it_comes() {
        let events = run(&SyncConfig::default(), 1, &[(1, 0, 5), (2, 0, 5), (3, 0, 4)]);
        let expected =
            [(5, 1), (5, 2), (4, 3)].map(|(ms, at)| frame(ms, at, Cause::Reference, &[Some(ms)]));
        assert_eq!(events, expected);
    }

    #[test]
    fn the_nearest_belongs_to_the_frame_and_the_earlier_of_two() {
        // Input 1 is 10 ms early and 10 ms late of the reference at 500.
        let early_and_late = [(0, 1, 490), (1, 0, 500), (9, 1, 510)];
        let expected = [frame(500, 9, Cause::Complete, &[Some(500), Some(490)])];
        assert_eq!(run(&nearest(20, 100), 2, &early_and_late), expected);
        // The later is nearer by a millisecond.
        let later_is_nearer = [(0, 1, 489), (1, 0, 500), (9, 1, 510)];
        let expected = [frame(500, 9, Cause::Complete, &[Some(500), Some(510)])];
        assert_eq!(run(&nearest(20, 100), 2, &later_is_nearer), expected);
        // Neither is near enough.
        let expected = [frame(500, 9, Cause::Complete, &[Some(500), None])];
        assert_eq!(run(&nearest(9, 100), 2, &early_and_late), expected);
    }

    #[test]
    fn a_frame_waits_for_its_deadline_and_no_longer() {
        let silent = [(0, 0, 100), (250, 1, 105), (300, 0, 400)];
        let expected = [
            frame(100, 200, Cause::Deadline, &[Some(100), None]),
            frame(400, 500, Cause::Deadline, &[Some(400), None]),
        ];
        assert_eq!(run(&nearest(50, 200), 2, &silent), expected);
    }

    #[test]
    fn a_least_period_makes_an_earlier_choice_final() {
        let arrivals = [(0, 1, 80), (5, 0, 100)];
        let mut config = nearest(50, 60);
        assert_eq!(
            run(&config, 2, &arrivals)[0],
            frame(100, 65, Cause::Deadline, &[Some(100), Some(80)])
        );
        config.min_period = Duration::from_millis(40);
        assert_eq!(
            run(&config, 2, &arrivals)[0],
            frame(100, 5, Cause::Complete, &[Some(100), Some(80)])
        );
        config.min_period = Duration::from_millis(39);
        assert_eq!(
            run(&config, 2, &arrivals)[0],
            frame(100, 65, Cause::Deadline, &[Some(100), Some(80)])
        );
    }

    #[test]
    fn fewer_inputs_are_enough_where_the_configuration_says_so() {
        let config = SyncConfig { min_inputs: Some(2), ..nearest(10, 20) };
        let events = run(&config, 3, &[(0, 0, 50), (1, 2, 51)]);
        let Event::Frame { outcome, stamps, .. } = &events[0] else { panic!("{events:?}") };
        assert_eq!((*outcome, &stamps[..]), (Outcome::Usable, &[Some(50), None, Some(51)][..]));
    }

    #[test]
    fn frames_close_in_order_and_the_oldest_gives_way() {
        // Input 1 never comes; the reference keeps two messages.
        let config = SyncConfig { depth: 2, ..nearest(10, 1000) };
        let events = run(&config, 2, &[(0, 0, 10), (1, 0, 20), (2, 0, 30)]);
        let expected = [
            frame(10, 2, Cause::Displaced, &[Some(10), None]),
            frame(20, 1001, Cause::Deadline, &[Some(20), None]),
            frame(30, 1002, Cause::Deadline, &[Some(30), None]),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn the_oldest_message_of_an_input_gives_way_and_is_counted() {
        let config = SyncConfig { depth: 2, ..nearest(100, 10) };
        let events = run(&config, 2, &[(0, 1, 1), (1, 1, 2), (2, 1, 3), (3, 0, 1)]);
        assert_eq!(events, [frame(1, 3, Cause::Complete, &[Some(1), Some(2)])]);
    }

    #[test]
    fn a_stamp_that_is_not_newer_is_refused() {
        let events = run(&nearest(10, 10), 2, &[(0, 1, 7), (1, 1, 7), (2, 1, 6), (3, 0, 7)]);
        let expected = [
            Event::Refused { at: 1, input: 1, ms: 7 },
            Event::Refused { at: 2, input: 1, ms: 6 },
            frame(7, 3, Cause::Complete, &[Some(7), Some(7)]),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn a_message_is_announced_once_while_a_frame_may_contain_it() {
        let mut sync = Synchronizer::new(&nearest(20, 100), 2);
        let mut chosen = Vec::new();
        for (input, ms) in [(1, 490), (0, 500), (1, 480)] {
            let _ = sync.arrive(stamp(0), input, stamp(ms), (input, ms));
        }
        let announced = |sync: &mut Synchronizer<(usize, i64)>| {
            std::iter::from_fn(|| sync.announce()).collect::<Vec<_>>()
        };
        assert_eq!(announced(&mut sync), [(1, (1, 490)), (0, (0, 500))]);
        sync.arrive(stamp(1), 1, stamp(510), (1, 510)).unwrap();
        assert!(sync.close(stamp(1), &mut chosen).is_some());
        // The message at 510 is left; those of the frame are not.
        sync.arrive(stamp(2), 0, stamp(600), (0, 600)).unwrap();
        assert_eq!(announced(&mut sync), [(1, (1, 510)), (0, (0, 600))]);
        assert_eq!(announced(&mut sync), []);
    }

    #[test]
    fn stamps_of_all_inputs_that_jump_back_start_over() {
        let arrivals = [
            (0, 0, 5000),
            (1, 1, 5000),
            (10, 0, 5100),
            // Input 0 jumps: refused until input 1 does, too.
            (20, 0, 3000),
            (21, 1, 3000),
            (30, 0, 3100),
            (31, 1, 3101),
        ];
        let expected = [
            frame(5000, 1, Cause::Complete, &[Some(5000), Some(5000)]),
            Event::Refused { at: 20, input: 0, ms: 3000 },
            Event::StartsOver { at: 21 },
            frame(3100, 31, Cause::Complete, &[Some(3100), Some(3101)]),
        ];
        assert_eq!(run(&nearest(50, 60), 2, &arrivals), expected);
    }

    #[test]
    fn one_input_that_jumps_and_comes_back_is_refused_alone() {
        let arrivals =
            [(0, 0, 5000), (1, 1, 5000), (20, 1, 100), (30, 0, 5100), (31, 1, 5100), (40, 0, 200)];
        let events = run(&nearest(50, 60), 2, &arrivals);
        let refused: Vec<_> =
            events.iter().filter(|event| matches!(event, Event::Refused { .. })).collect();
        assert_eq!(refused.len(), 2, "{events:?}");
        assert!(!events.iter().any(|event| matches!(event, Event::StartsOver { .. })));
    }

    #[test]
    fn an_input_that_was_ahead_follows_the_others_again() {
        // The first stamp of input 1 is 37 s ahead, as before its clock is set.
        let arrivals = [
            (0, 0, 5000),
            (1, 1, 42_000),
            (10, 0, 5100),
            (11, 1, 5100),
            (20, 0, 5200),
            (21, 1, 5200),
        ];
        let events = run(&nearest(50, 60), 2, &arrivals);
        let expected = [
            // Until its next message nothing is expected of input 1.
            frame(5000, 1, Cause::Complete, &[Some(5000), None]),
            frame(5100, 10, Cause::Complete, &[Some(5100), None]),
            frame(5200, 21, Cause::Complete, &[Some(5200), Some(5200)]),
        ];
        assert_eq!(events, expected);
        let config = SyncConfig { policy: SyncPolicy::Latest, ..nearest(50, 60) };
        let last = run(&config, 2, &[&arrivals[..], &[(30, 0, 5210)]].concat()).pop().unwrap();
        let Event::Frame { outcome, stamps, .. } = &last else { panic!("{last:?}") };
        assert_eq!((*outcome, &stamps[..]), (Outcome::Usable, &[Some(5210), Some(5200)][..]));
    }

    #[test]
    fn a_reference_that_was_ahead_starts_over() {
        let arrivals = [(0, 1, 5000), (1, 0, 42_000), (10, 1, 5100), (11, 0, 5100), (12, 1, 5101)];
        let events = run(&nearest(50, 60), 2, &arrivals);
        let expected = [
            Event::StartsOver { at: 11 },
            frame(5100, 12, Cause::Complete, &[Some(5100), Some(5101)]),
        ];
        assert_eq!(events, expected);
    }

    #[test]
    fn an_input_that_begins_after_a_jump_does_not_keep_the_others_from_starting_over() {
        let arrivals = [
            (0, 0, 5000),
            (1, 1, 5000),
            (20, 1, 3000),
            // The first message of input 2 belongs to the new sequence.
            (21, 2, 3000),
            (22, 0, 3050),
            (30, 1, 3051),
            (31, 2, 3052),
        ];
        let last = run(&nearest(50, 60), 3, &arrivals).pop().unwrap();
        let stamps = [3050, 3051, 3052].map(Some);
        assert_eq!(last, frame(3050, 31, Cause::Complete, &stamps));
    }

    #[test]
    fn the_latest_of_every_input_belongs_to_the_reference() {
        let config = SyncConfig { policy: SyncPolicy::Latest, ..nearest(30, 10) };
        let arrivals =
            [(0, 0, 10), (1, 1, 12), (2, 0, 20), (3, 0, 30), (4, 0, 43), (5, 1, 44), (6, 0, 45)];
        let outcome = |ms, at, outcome, stamps: [Option<i64>; 2]| Event::Frame {
            ms,
            at,
            cause: Cause::Reference,
            outcome,
            stamps: stamps.to_vec(),
        };
        let expected = [
            outcome(10, 0, Outcome::Incomplete, [Some(10), None]),
            outcome(20, 2, Outcome::Usable, [Some(20), Some(12)]),
            outcome(30, 3, Outcome::Usable, [Some(30), Some(12)]),
            outcome(43, 4, Outcome::TooFarApart, [Some(43), Some(12)]),
            outcome(45, 6, Outcome::Usable, [Some(45), Some(44)]),
        ];
        assert_eq!(run(&config, 2, &arrivals), expected);
    }
}
