//! What time brings: announcements (8.5.3.3), leases, heartbeats, requests.

use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use super::{ANNOUNCE, Core};
use crate::discovery::{SPDP_READER, SPDP_WRITER};
use crate::types::{EntityId, GuidPrefix, RemovalReason};
use crate::wire::{DataParts, Message, ParameterWriter, Payload, disposal, pid};

/// Between two passes over all timers.
const PASS: Duration = Duration::from_millis(5);

/// Without a call for so long, this process was stopped.
const STOPPED: Duration = Duration::from_secs(5);

/// Between two announcements to a participant that was lost and still sends.
const TELL: Duration = Duration::from_secs(1);

impl Core {
    /// Does what is due at `now`; returns when to call again at the latest.
    pub fn tick(&mut self, now: Instant) -> Instant {
        self.observe(now);
        if let Some(passed) = self.passed
            && now < passed + PASS
        {
            return passed + PASS;
        }
        self.passed = Some(now);
        if self.announce_at <= now {
            self.announce(now);
        }
        let expired = self.peers.map.iter().filter(|(_, peer)| peer.expires() <= now);
        let expired: Vec<GuidPrefix> = expired.map(|(prefix, _)| *prefix).collect();
        for prefix in expired {
            self.remove_peer(prefix, RemovalReason::Lost);
        }
        let readers: Vec<EntityId> = self.readers.keys().copied().collect();
        for entity in readers {
            let due = self.readers.get_mut(&entity).map(|reader| reader.on_tick(now));
            for (writer, effects) in due.unwrap_or_default() {
                self.follow(entity, writer, effects, now);
            }
        }
        let mut out = Vec::new();
        for writer in self.writers.values_mut() {
            let num_stalled = writer.num_stalled;
            out.extend(writer.on_tick(now));
            self.has_changed |= writer.num_stalled > num_stalled;
        }
        self.post(out);
        self.deadline().max(now + PASS)
    }

    fn deadline(&self) -> Instant {
        let leases = self.peers.map.iter().map(|(_, peer)| peer.expires());
        let readers = self.readers.values().filter_map(|reader| reader.deadline());
        let writers = self.writers.values().filter_map(|writer| writer.deadline());
        leases.chain(readers).chain(writers).fold(self.announce_at, Instant::min)
    }

    /// Notes the time. Peers are not silent while this process is stopped: what they sent
    /// waits in the sockets.
    pub(super) fn observe(&mut self, now: Instant) {
        let step = now.saturating_duration_since(self.seen);
        if step >= STOPPED {
            self.peers.map.iter_mut().for_each(|(_, peer)| peer.heard += step);
            self.readers.values_mut().for_each(|reader| reader.stood_still(step));
            self.writers.values_mut().for_each(|writer| writer.stood_still(step));
            self.announce_at = now;
        }
        self.seen = self.seen.max(now);
    }

    fn announce(&mut self, now: Instant) {
        self.announce_at = now + ANNOUNCE;
        let mut to = self.config.announce_to.clone();
        to.extend(self.peers.map.iter().map(|(_, peer)| peer.meta));
        self.announce_to(to);
    }

    /// Announces this participant.
    pub(super) fn announce_to(&mut self, to: Vec<SocketAddrV4>) {
        let payload = self.own_data().write();
        let bytes = self.announcement(&[], Payload::Data(&payload), 1);
        self.send(to, bytes);
    }

    fn announcement(&self, inline: &[u8], payload: Payload<'_>, number: i64) -> Vec<u8> {
        let (reader, writer) = (SPDP_READER, SPDP_WRITER);
        let mut message = Message::from(self.config.prefix);
        message.data(&DataParts { reader, writer, number, inline, payload });
        message.finish()
    }

    /// Announces this participant to one that was lost and sends again: it may still think
    /// that it is known.
    pub(super) fn tell_former(&mut self, prefix: GuidPrefix, from: SocketAddrV4, now: Instant) {
        let Some(former) = self.former.get_mut(&prefix) else { return };
        let is_due = former.told.is_none_or(|told| now.saturating_duration_since(told) >= TELL);
        if is_due && former.meta.ip() == from.ip() {
            former.told = Some(now);
            let meta = former.meta;
            self.announce_to(vec![meta]);
        }
    }

    /// Says that this participant leaves.
    pub fn leave(&mut self) {
        let guid = self.guid();
        let mut list = ParameterWriter::sample();
        list.put(pid::PARTICIPANT_GUID, &guid.to_bytes());
        let bytes = self.announcement(&disposal(guid), Payload::Key(&list.end()), 2);
        let mut to = self.config.announce_to.clone();
        to.extend(self.peers.map.iter().map(|(_, peer)| peer.meta));
        self.send(to, bytes);
    }
}
