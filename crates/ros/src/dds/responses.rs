//! Responses on their way to their clients.
//!
//! A client may send a request as soon as its request writer has discovered our
//! reader, which may be before its response reader has discovered our writer. A
//! response that is written then never reaches it: responses are volatile. A
//! reader that confirms messages has discovered the writer. A response
//! therefore waits until all response readers of its client's participant have
//! confirmed what was written before; an empty first message, addressed to no
//! reader, gives them something to confirm.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustdds::bytes::Bytes;
use rustdds::rpc::SampleIdentity;
use rustdds::{GUID, RTPSEntity, WriteOptionsBuilder};

use super::error::error;
use super::graph::Graph;
use super::payload::{self, RawWriter};
use det_post_types::Result;

/// The longest wait of a response; after it the response is written to the
/// readers that are known.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The most waiting responses of a service; another one ends the wait of the
/// oldest.
const MAX_WAITING: usize = 64;

/// The responses of a service.
pub(super) struct Responses {
    graph: Arc<Graph>,
    service: String,
    writer: RawWriter,
    /// Our reader of the service's requests.
    requests: GUID,
    /// Response readers that have discovered the writer.
    ready: BTreeSet<GUID>,
    /// Waiting responses, oldest first, with their deadlines.
    waiting: VecDeque<(Response, Instant)>,
}

/// An encoded response.
pub(super) struct Response {
    /// The writer of the request.
    pub client: GUID,
    /// The request, where the message itself does not name it.
    pub related: Option<SampleIdentity>,
    /// The whole message.
    pub cdr: Bytes,
}

impl Responses {
    /// # Errors
    /// `Middleware` when the first message cannot be written.
    pub fn new(
        graph: &Arc<Graph>,
        service: String,
        writer: RawWriter,
        requests: GUID,
    ) -> Result<Self> {
        let no_reader = WriteOptionsBuilder::new().to_single_reader(GUID::GUID_UNKNOWN).build();
        writer.write_with_options(Bytes::new(), no_reader).map_err(|cause| {
            error(format!("{service}: cannot write responses")).with_source(cause.forget_data())
        })?;
        let (ready, waiting) = (BTreeSet::new(), VecDeque::new());
        Ok(Self { graph: Arc::clone(graph), service, writer, requests, ready, waiting })
    }

    /// Lets no response wait longer than until `deadline`.
    pub fn wait_until(&mut self, deadline: Instant) {
        for (_, until) in &mut self.waiting {
            *until = deadline.min(*until);
        }
    }

    /// The writer. Waiting responses are lost.
    pub fn into_writer(self) -> RawWriter {
        self.writer
    }

    /// Whether responses wait.
    pub fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Writes a response as soon as its client is ready: now, or in a later
    /// [`Responses::flush`].
    ///
    /// # Errors
    /// Returns the errors of `flush`.
    pub fn send(&mut self, response: Response) -> Result<()> {
        if self.waiting.len() == MAX_WAITING
            && let Some((_, until)) = self.waiting.front_mut()
        {
            *until = Instant::now();
        }
        self.waiting.push_back((response, Instant::now() + MAX_WAIT));
        self.flush()
    }

    /// Writes the responses whose clients are ready or whose deadlines have
    /// passed.
    ///
    /// # Errors
    /// `Middleware` when one of them could not be written; the others are.
    pub fn flush(&mut self) -> Result<()> {
        let mut result = Ok(());
        for _ in 0..self.waiting.len() {
            let Some((response, until)) = self.waiting.pop_front() else { break };
            if self.is_ready(response.client) || Instant::now() >= until {
                let Response { cdr, related, .. } = response;
                result = result.and(payload::write(&self.writer, &cdr, related, &self.service));
            } else {
                self.waiting.push_back((response, until));
            }
        }
        result
    }

    /// Whether the client's participant has a response reader for each of its
    /// request writers, and all of them have discovered our writer.
    fn is_ready(&mut self, client: GUID) -> bool {
        let peers = self.graph.peers();
        if !peers.is_matched(self.requests, client) {
            return false;
        }
        let of_client = |theirs: &GUID| theirs.prefix == client.prefix;
        let num_writers = peers.matched_with(self.requests).filter(of_client).count();
        let readers: BTreeSet<GUID> = peers.matched_with(self.writer.guid()).collect();
        drop(peers);
        let of_participant = readers.iter().copied().filter(of_client);
        if of_participant.clone().count() < num_writers {
            return false;
        }
        if of_participant.clone().all(|reader| self.ready.contains(&reader)) {
            return true;
        }
        // Readers that are matched now, and maybe others, have confirmed everything.
        let is_confirmed = self.writer.wait_for_acknowledgments(Duration::ZERO);
        if matches!(is_confirmed, Ok(true)) {
            self.ready = readers;
        }
        matches!(is_confirmed, Ok(true))
    }
}
