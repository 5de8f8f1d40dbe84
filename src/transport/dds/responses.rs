//! Responses on their way to whom they answer.
//!
//! A caller may ask as soon as its request finds us, which is before it knows
//! of the writer of our responses: one that is written then is nothing to it,
//! now and later, for responses are volatile. What a reader confirms shows that
//! it knows the writer, so a response waits until every reader of its caller's
//! participant has confirmed what was written before. That there is always
//! something to confirm, a first message is written that goes to nobody.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustdds::bytes::Bytes;
use rustdds::rpc::SampleIdentity;
use rustdds::{GUID, RTPSEntity, WriteOptionsBuilder};

use super::payload::{self, RawWriter};
use super::{Graph, error, held};
use crate::error::Result;

/// How long a response waits at most; then it is written to whoever listens.
const PATIENCE: Duration = Duration::from_secs(2);

/// Responses of a service that may wait; with more, the oldest waits no longer.
const MAX_WAITING: usize = 64;

/// The responses of a service.
pub(super) struct Answers {
    graph: Arc<Graph>,
    service: String,
    writer: RawWriter,
    /// Our reader of the service's requests.
    requests: GUID,
    /// Readers that know the writer.
    listening: BTreeSet<GUID>,
    /// Responses, oldest first, and when they wait no longer.
    waiting: VecDeque<(Answer, Instant)>,
}

/// A response, and whom it is for.
pub(super) struct Answer {
    /// The writer of the request.
    pub caller: GUID,
    /// The request, where the message itself does not name it.
    pub related: Option<SampleIdentity>,
    /// The whole message.
    pub cdr: Bytes,
}

impl Answers {
    /// No response yet.
    ///
    /// # Errors
    /// `Door` when the graph refuses.
    pub fn new(
        graph: &Arc<Graph>,
        service: String,
        writer: RawWriter,
        requests: GUID,
    ) -> Result<Self> {
        let to_nobody = WriteOptionsBuilder::new().to_single_reader(GUID::GUID_UNKNOWN).build();
        writer.write_with_options(Bytes::new(), to_nobody).map_err(|cause| {
            error(format!("{service}: cannot answer")).with_source(cause.forget_data())
        })?;
        let (listening, waiting) = (BTreeSet::new(), VecDeque::new());
        Ok(Self { graph: Arc::clone(graph), service, writer, requests, listening, waiting })
    }

    /// Lets no response wait longer than until `deadline`.
    pub fn hurry(&mut self, deadline: Instant) {
        for (_, until) in &mut self.waiting {
            *until = deadline.min(*until);
        }
    }

    /// The writer; responses that wait are lost.
    pub fn into_writer(self) -> RawWriter {
        self.writer
    }

    /// Whether responses wait.
    pub fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes a response as soon as its caller listens, which [`Answers::flush`]
    /// sees to when that is not now.
    ///
    /// # Errors
    /// Those of `flush`.
    pub fn send(&mut self, answer: Answer) -> Result<()> {
        if self.waiting.len() == MAX_WAITING
            && let Some((_, until)) = self.waiting.front_mut()
        {
            *until = Instant::now();
        }
        self.waiting.push_back((answer, Instant::now() + PATIENCE));
        self.flush()
    }

    /// Writes the responses whose callers listen, and those that have waited
    /// long enough.
    ///
    /// # Errors
    /// `Door` when one of them could not be written; the others are.
    pub fn flush(&mut self) -> Result<()> {
        let mut result = Ok(());
        for _ in 0..self.waiting.len() {
            let Some((answer, until)) = self.waiting.pop_front() else { break };
            if self.is_listening(answer.caller) || Instant::now() >= until {
                result = result.and(self.write(&answer));
            } else {
                self.waiting.push_back((answer, until));
            }
        }
        result
    }

    fn write(&self, answer: &Answer) -> Result<()> {
        payload::write(&self.writer, &answer.cdr, answer.related, &self.service)
    }

    /// Whether the participant that asks has a reader of responses for each of
    /// its writers of requests, and all of them know our writer.
    fn is_listening(&mut self, caller: GUID) -> bool {
        let peers = held(&self.graph.peers);
        if !peers.is_matched(self.requests, caller) {
            return false;
        }
        let of_caller = |theirs: &GUID| theirs.prefix == caller.prefix;
        let num_asking = peers.matched_with(self.requests).filter(of_caller).count();
        let readers: BTreeSet<GUID> = peers.matched_with(self.writer.guid()).collect();
        drop(peers);
        let listening = readers.iter().copied().filter(of_caller);
        if listening.clone().count() < num_asking {
            return false;
        }
        if listening.clone().all(|reader| self.listening.contains(&reader)) {
            return true;
        }
        // Those that are matched now, and maybe others, have confirmed all.
        let is_confirmed = self.writer.wait_for_acknowledgments(Duration::ZERO);
        if matches!(is_confirmed, Ok(true)) {
            self.listening = readers;
        }
        matches!(is_confirmed, Ok(true))
    }
}
