//! What the calls of a program reach in its node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use det_post::Result;
use det_post_ros::SetResult;
use det_post_ros::middleware::{
    Handler, InputKind, MiddlewareEvent, Received, Receiver, Request, Response, StampGaps, Watcher,
};

/// The receivers of subscriptions and the switches by number, and the services of the node.
#[derive(Default)]
pub(super) struct Endpoints {
    pub(super) receivers: Mutex<BTreeMap<u64, Arc<Mutex<Input>>>>,
    pub(super) switches: Mutex<BTreeMap<u64, Arc<Handler>>>,
    pub(super) watcher: Mutex<Option<Watcher>>,
    pub(super) handler: OnceLock<Handler>,
}

/// A subscription.
pub(super) struct Input {
    pub(super) kind: InputKind,
    pub(super) topic: String,
    pub(super) receiver: Receiver,
    pub(super) gaps: StampGaps,
}

/// The value of a lock, also where a thread has panicked with it.
pub(super) fn lock<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Endpoints {
    /// Passes a message to the receiver of a subscription; nothing for one that has ended.
    pub(super) fn deliver(
        &self,
        subscription: u64,
        show: impl FnOnce(InputKind, &mut dyn FnMut(Result<Received<'_>>)),
    ) {
        let Some(input) = lock(&self.receivers).get(&subscription).cloned() else { return };
        let input = &mut *lock(&input);
        let mut missing = 0;
        show(input.kind, &mut |received| {
            let stamp = received.as_ref().ok().and_then(Received::stamp);
            missing = stamp.map_or(0, |stamp| input.gaps.note(stamp));
            (input.receiver)(received);
        });
        if missing > 0
            && let Some(watcher) = &*lock(&self.watcher)
        {
            watcher(MiddlewareEvent::Missing { topic: input.topic.clone(), count: missing });
        }
    }

    /// Sets a switch; `None` for the number of none.
    pub(super) fn set_switch(&self, number: u64, is_on: bool) -> Option<SetResult> {
        let switch = lock(&self.switches).get(&number).cloned()?;
        match switch(Request::SetSwitch(is_on)) {
            Response::SetResult(result) => Some(result),
            _ => None,
        }
    }

    /// Answers a request to a service of the node; `None` before it serves any.
    pub(super) fn answer(&self, request: Request) -> Option<Response> {
        self.handler.get().map(|handler| handler(request))
    }
}
