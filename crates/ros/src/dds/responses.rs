//! Responses on their way to their clients.
//!
//! A client may send a request as soon as its request writer has discovered our
//! reader, which may be before its response reader has discovered our writer. A
//! response that is written then never reaches it: responses are volatile. A
//! response therefore waits until all response readers of its client's participant
//! are known to have discovered the writer.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use det_post_rtps::{Guid, Reader, SampleIdentity, Writer};

use super::write;
use det_post_types::Result;

/// The longest wait of a response; after it the response is written to the
/// readers that are known.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// The most waiting responses of a service; another one ends the wait of the
/// oldest.
const MAX_WAITING: usize = 64;

/// The responses of a service.
pub(super) struct Responses {
    service: String,
    writer: Writer,
    /// Waiting responses, oldest first, with their deadlines.
    waiting: VecDeque<(Response, Instant)>,
}

/// An encoded response.
pub(super) struct Response {
    /// The writer of the request.
    pub client: Guid,
    /// The request, where the message itself does not name it.
    pub related: Option<SampleIdentity>,
    /// The whole message.
    pub cdr: Vec<u8>,
}

impl Responses {
    pub fn new(service: String, writer: Writer) -> Self {
        Self { service, writer, waiting: VecDeque::new() }
    }

    /// Lets no response wait longer than until `deadline`.
    pub fn wait_until(&mut self, deadline: Instant) {
        for (_, until) in &mut self.waiting {
            *until = deadline.min(*until);
        }
    }

    /// The writer. Waiting responses are lost.
    pub fn into_writer(self) -> Writer {
        self.writer
    }

    /// Whether responses wait.
    pub fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a response, which the next [`Responses::flush`] writes if its client is ready.
    pub fn push(&mut self, response: Response) {
        if self.waiting.len() == MAX_WAITING
            && let Some((_, until)) = self.waiting.front_mut()
        {
            *until = Instant::now();
        }
        self.waiting.push_back((response, Instant::now() + MAX_WAIT));
    }

    /// Writes the responses whose clients are ready or whose deadlines have
    /// passed. `requests` is our reader of the service's requests.
    ///
    /// # Errors
    /// `Middleware` when one of them could not be written; the others are.
    pub fn flush(&mut self, requests: &Reader) -> Result<()> {
        let mut result = Ok(());
        for _ in 0..self.waiting.len() {
            let Some((response, until)) = self.waiting.pop_front() else { break };
            if self.is_ready(response.client, requests) || Instant::now() >= until {
                let Response { cdr, related, .. } = response;
                result = result.and(write::write(&self.writer, &cdr, related, &self.service));
            } else {
                self.waiting.push_back((response, until));
            }
        }
        result
    }

    /// Whether the client's participant has a response reader for each of its
    /// request writers, and all of them have discovered our writer.
    fn is_ready(&self, client: Guid, requests: &Reader) -> bool {
        let writers = requests.matched();
        if !writers.contains(&client) {
            return false;
        }
        let of_client = |theirs: &&Guid| theirs.prefix == client.prefix;
        let num_writers = writers.iter().filter(of_client).count();
        let readers = self.writer.matched();
        let readers: Vec<&Guid> = readers.iter().filter(of_client).collect();
        readers.len() >= num_writers
            && readers.iter().all(|reader| self.writer.is_known_to(**reader))
    }
}
