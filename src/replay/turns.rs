//! The order in which the threads of a replay pass frames on: that of one thread.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The place of a frame in the order: the number of the message at which it is passed on, and
/// the index of its channel.
pub(super) type Place = (u64, usize);

/// Behind all frames.
const END: Place = (u64::MAX, usize::MAX);

/// Lets one thread at a time pass a frame on: the one with the earliest place. A thread that is
/// ahead of the others waits, with the frames that it has in flight, so that nothing is kept
/// beside those.
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Of each thread a place before which it passes nothing on. It never goes back.
    next: Vec<Place>,
    num_waiting: usize,
    is_stopped: bool,
}

/// The part of one thread in the turns of all.
pub(super) struct Turn<'a> {
    turns: &'a Turns,
    thread: usize,
}

impl Turns {
    /// For a number of threads, which are at the start of the recording.
    pub(super) fn new(num_threads: usize) -> Self {
        let state = State { next: vec![(0, 0); num_threads], num_waiting: 0, is_stopped: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The turn of a thread, from 0 on.
    pub(super) fn of(&self, thread: usize) -> Turn<'_> {
        Turn { turns: self, thread }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, state: &State) {
        if state.num_waiting > 0 {
            self.changed.notify_all();
        }
    }
}

impl Turn<'_> {
    /// Notes that this thread passes nothing on before a place.
    pub(super) fn advance(&self, next: Place) {
        let mut state = self.turns.lock();
        if state.next[self.thread] < next {
            state.next[self.thread] = next;
            self.turns.wake(&state);
        }
    }

    /// Waits until no other thread passes anything on before a place of this one. Returns false
    /// when the replay is stopped: then nothing more is passed on.
    pub(super) fn wait(&self, place: Place) -> bool {
        self.advance(place);
        let mut state = self.turns.lock();
        // A place belongs to one thread: its channel's.
        while !state.is_stopped && state.next.iter().any(|next| *next < place) {
            state.num_waiting += 1;
            state = self.turns.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.num_waiting -= 1;
        }
        !state.is_stopped
    }

    /// Stops the replay: no thread passes anything on.
    pub(super) fn stop(&self) {
        let mut state = self.turns.lock();
        state.is_stopped = true;
        self.turns.wake(&state);
    }

    /// The end of the thread's part, when it is dropped.
    pub(super) fn end(&self) -> EndOfTurn<'_> {
        EndOfTurn(self)
    }

    /// Whether the replay is stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.turns.lock().is_stopped
    }
}

/// Behind it a thread passes nothing on; after a panic, none does.
pub(super) struct EndOfTurn<'a>(&'a Turn<'a>);

impl Drop for EndOfTurn<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop();
        }
        self.0.advance(END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    /// Runs a thread for each list of places, which notes what it passes on.
    fn pass_on(places: &[Vec<Place>], stop_at: Option<Place>) -> Vec<Place> {
        let turns = Turns::new(places.len());
        let passed = Mutex::new(vec![]);
        thread::scope(|scope| {
            for (index, places) in places.iter().enumerate() {
                let turn = turns.of(index);
                let passed = &passed;
                scope.spawn(move || {
                    let _end = turn.end();
                    for place in places {
                        turn.advance((place.0, 0));
                        let micros = place.0 % 97 * index as u64;
                        thread::sleep(Duration::from_micros(micros));
                        if !turn.wait(*place) {
                            return;
                        }
                        passed.lock().unwrap().push(*place);
                        if stop_at == Some(*place) {
                            turn.stop();
                            return;
                        }
                    }
                });
            }
        });
        passed.into_inner().unwrap()
    }

    #[test]
    fn frames_are_passed_on_in_the_order_of_their_messages_and_channels() {
        // Of three threads: one often, one rarely and twice at a message of the first, one never.
        let often: Vec<Place> = (1..200).filter(|m| m % 5 != 3).map(|m| (m, 1)).collect();
        let rarely = vec![(2, 0), (44, 2), (44, 2), (153, 0), (u64::MAX, 2)];
        let mut expected = [&often[..], &rarely].concat();
        expected.sort();
        assert_eq!(pass_on(&[often, rarely, vec![]], None), expected);
    }

    #[test]
    fn nothing_is_passed_on_after_the_end() {
        let places = [0, 1].map(|index| (1..100).map(|message| (message, index)).collect());
        let expected: Vec<Place> =
            (1..100).flat_map(|m| [(m, 0), (m, 1)]).take_while(|place| *place <= (50, 0)).collect();
        assert_eq!(pass_on(&places, Some((50, 0))), expected);
    }

    #[test]
    fn a_thread_that_panics_ends_the_others() {
        let turns = Turns::new(2);
        let num_passed = AtomicU64::new(0);
        let panicked = thread::scope(|scope| {
            let (first, second) = (turns.of(0), turns.of(1));
            let panics = scope.spawn(move || {
                let _end = first.end();
                assert!(!first.wait((1, 0)), "on purpose");
            });
            scope.spawn(|| {
                let second = second;
                let _end = second.end();
                while second.wait((2, 1)) {
                    num_passed.fetch_add(1, Ordering::Relaxed);
                    thread::yield_now();
                }
            });
            panics.join()
        });
        assert!(panicked.is_err());
    }
}
