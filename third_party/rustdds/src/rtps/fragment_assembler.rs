use std::{
  cell::Cell,
  collections::{btree_map::Entry, BTreeMap},
  fmt, iter,
};

use enumflags2::BitFlags;
use bytes::Bytes;
#[allow(unused_imports)]
use log::{debug, error, info, trace, warn};

use crate::{
  dds::ddsdata::DDSData,
  messages::submessages::{
    elements::serialized_payload::SerializedPayload,
    submessages::{DATAFRAG_Flags, DataFrag},
  },
  rtps::constant::*,
  structure::{
    cache_change::ChangeKind,
    sequence_number::{FragmentNumber, SequenceNumber},
    time::Timestamp,
  },
};

// What an unfinished message is counted for beside its bytes.
const BUFFER_OVERHEAD: usize = 256;
// What a run of fragments that arrived early is counted for beside its bytes.
const RUN_OVERHEAD: usize = 128;

/// Bytes that the unfinished messages of all Readers of a participant hold.
#[derive(Debug, Default)]
pub(crate) struct AssemblyBudget {
  held: Cell<usize>,
}

impl AssemblyBudget {
  pub fn held(&self) -> usize {
    self.held.get()
  }

  pub fn replace(&self, before: usize, after: usize) {
    self.held.set((self.held.get() + after).saturating_sub(before));
  }
}

// A run of fragments that arrived before an earlier one.
struct EarlyRun {
  end: usize, // index of the first fragment after the run
  bytes: Bytes,
}

// This is for the assembly of a single object.
//
// Memory follows what was received, not what a fragment claims: fragments in
// order are appended, early ones are kept aside until their turn.
struct AssemblyBuffer {
  data_size: usize,
  fragment_size: usize,
  fragment_count: usize,

  assembled: Vec<u8>,    // all fragments before `next_fragment`
  next_fragment: usize,  // index from 0 of the first fragment not in `assembled`
  early: BTreeMap<usize, EarlyRun>, // by index of the first fragment
  early_bytes: usize,    // held by `early`

  modified_time: Timestamp,
}

impl AssemblyBuffer {
  /// `reserve` is how many bytes may be allocated at once.
  pub fn new(datafrag: &DataFrag, max_bytes: usize, reserve: usize) -> Option<Self> {
    let data_size: usize = datafrag.data_size.try_into().ok()?;
    let fragment_size: u16 = datafrag.fragment_size;
    debug!("new AssemblyBuffer data_size={data_size} frag_size={fragment_size}");

    if fragment_size == 0 || fragment_size as usize > data_size {
      error!("Cannot create AssemblyBuffer: fragment_size={fragment_size} data_size={data_size}");
      return None;
    }
    if data_size > max_bytes {
      warn!("Refusing a fragmented message of {data_size} bytes: {max_bytes} is the most.");
      return None;
    }

    let fragment_count = usize::from(datafrag.total_number_of_fragments());
    if fragment_count == 0 {
      error!("Cannot create AssemblyBuffer: zero fragment count");
      return None;
    }

    let mut assembled = Vec::new();
    if data_size <= reserve {
      assembled.reserve_exact(data_size);
    }

    Some(Self {
      data_size,
      fragment_size: fragment_size.into(),
      fragment_count,
      assembled,
      next_fragment: 0,
      early: BTreeMap::new(),
      early_bytes: 0,
      modified_time: Timestamp::now(),
    })
  }

  /// Bytes of memory.
  pub fn held(&self) -> usize {
    self.assembled.capacity() + self.early_bytes + BUFFER_OVERHEAD
  }

  // Bytes of the fragments in a run, of which only the last of the message may
  // be shorter than the others.
  fn run_length(&self, start: usize, end: usize) -> usize {
    let from = start.saturating_mul(self.fragment_size);
    let to = end.saturating_mul(self.fragment_size).min(self.data_size);
    to.saturating_sub(from)
  }

  /// Returns `false` if the fragment run is invalid or out of bounds.
  pub fn insert_frags(&mut self, datafrag: &DataFrag) -> bool {
    // The fragment size is fixed for a Writer (RTPS v2.5 Section 8.4.14.1.1),
    // and the size of the data is fixed for a sequence number.
    if usize::from(datafrag.fragment_size) != self.fragment_size
      || datafrag.data_size as usize != self.data_size
    {
      error!(
        "insert_frags: fragments of one message differ: fragment_size={} data_size={}, expected \
         {} and {}",
        datafrag.fragment_size, datafrag.data_size, self.fragment_size, self.data_size
      );
      return false;
    }
    let frags_in_submessage = usize::from(datafrag.fragments_in_submessage);
    if frags_in_submessage == 0 {
      error!("insert_frags: fragments_in_submessage is zero");
      return false;
    }
    let start: usize = match u32::from(datafrag.fragment_starting_num).try_into() {
      Ok(n) if n >= 1 => n,
      _ => {
        error!(
          "insert_frags: invalid fragment_starting_num {:?}",
          datafrag.fragment_starting_num
        );
        return false;
      }
    };
    let start = start - 1; // from 0
    let end = start + frags_in_submessage;
    if end > self.fragment_count {
      error!(
        "insert_frags: fragment span out of bounds: start={start} count={frags_in_submessage} \
         total={}",
        self.fragment_count
      );
      return false;
    }
    // The payload may be padded at its end, but not be too short.
    let length = self.run_length(start, end);
    if datafrag.serialized_payload.len() < length {
      error!(
        "Received DATAFRAG too small. fragment_starting_num={:?} out of fragment_count={}, \
         frags_in_submessage={frags_in_submessage}, frag_size={} but payload length = {}. \
         Original data_size={}",
        datafrag.fragment_starting_num,
        self.fragment_count,
        self.fragment_size,
        datafrag.serialized_payload.len(),
        datafrag.data_size,
      );
      return false;
    }

    if start <= self.next_fragment {
      self.append(start, end, &datafrag.serialized_payload[..length]);
      self.append_early();
    } else if !self.is_early(start, end) {
      // A copy, because a slice would keep the whole receive buffer alive.
      let bytes = Bytes::copy_from_slice(&datafrag.serialized_payload[..length]);
      self.early_bytes += bytes.len() + RUN_OVERHEAD;
      if let Some(shorter) = self.early.insert(start, EarlyRun { end, bytes }) {
        self.early_bytes -= shorter.bytes.len() + RUN_OVERHEAD;
      }
    }
    self.modified_time = Timestamp::now();
    true
  }

  // Whether a run lies within one that arrived early.
  fn is_early(&self, start: usize, end: usize) -> bool {
    self
      .early
      .range(..=start)
      .next_back()
      .is_some_and(|(_, run)| end <= run.end)
  }

  // Appends what is new of a run that starts at or before the next fragment.
  fn append(&mut self, start: usize, end: usize, bytes: &[u8]) {
    if end <= self.next_fragment {
      return; // a duplicate
    }
    let new = &bytes[self.run_length(start, self.next_fragment)..];
    let needed = self.assembled.len() + new.len();
    if needed > self.assembled.capacity() {
      // Twofold, but never more than there will be.
      let target = needed.max(2 * self.assembled.capacity()).min(self.data_size);
      self.assembled.reserve_exact(target - self.assembled.len());
    }
    self.assembled.extend_from_slice(new);
    self.next_fragment = end;
  }

  fn append_early(&mut self) {
    while let Some(entry) = self.early.first_entry() {
      if *entry.key() > self.next_fragment {
        break;
      }
      let (start, run) = entry.remove_entry();
      self.early_bytes -= run.bytes.len() + RUN_OVERHEAD;
      self.append(start, run.end, &run.bytes);
    }
  }

  pub fn is_complete(&self) -> bool {
    self.next_fragment == self.fragment_count
  }

  // Indices from 0 of the fragments that have not arrived.
  fn missing(&self) -> impl Iterator<Item = usize> + '_ {
    let mut runs = self.early.iter().peekable();
    let mut index = self.next_fragment;
    iter::from_fn(move || {
      while let Some((&start, run)) = runs.peek() {
        if index < start {
          break;
        }
        index = index.max(run.end);
        runs.next();
      }
      (index < self.fragment_count).then(|| {
        index += 1;
        index - 1
      })
    })
  }
}

// Upper bound on the number of concurrent (incomplete) reassembly buffers kept
// per writer. Fragments belonging to one sample normally arrive back-to-back,
// so only a handful of samples are ever mid-reassembly at once; this cap is far
// above that. Its purpose is to bound memory when samples never complete, e.g.
// under best-effort overload where fragments are dropped: without it, one
// incomplete `AssemblyBuffer` accrues per lost sample and is only reclaimed by an
// idle timeout, growing to gigabytes. When exceeded, one is evicted.
const MAX_ASSEMBLY_BUFFERS: usize = 128;

// Assembles fragments from a single (remote) Writer
// So there is only one sequence of SNs
pub(crate) struct FragmentAssembler {
  assembly_buffers: BTreeMap<SequenceNumber, AssemblyBuffer>,
  // Whether the owning reader is Reliable. This decides which buffer is evicted.
  reliable: bool,
  max_message_bytes: usize,
  // Size of the largest message that this writer has completed. What it has sent
  // once, it may be given at once.
  largest_completed: usize,
  held: usize,
}

impl fmt::Debug for FragmentAssembler {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct("FragmentAssembler - fields omitted")
      // insert field printing here, if you really need it.
      .finish()
  }
}

impl FragmentAssembler {
  pub fn new(max_message_bytes: usize, reliable: bool) -> Self {
    debug!("new FragmentAssembler. reliable = {reliable}");
    Self {
      assembly_buffers: BTreeMap::new(),
      reliable,
      max_message_bytes,
      largest_completed: 0,
      held: 0,
    }
  }

  /// Bytes that the unfinished messages of this writer hold.
  pub fn held(&self) -> usize {
    self.held
  }

  /// When a fragment last arrived for any of them.
  pub fn last_modified(&self) -> Option<Timestamp> {
    self.assembly_buffers.values().map(|ab| ab.modified_time).max()
  }

  // Returns completed DDSData, when complete, and disposes the assembly buffer.
  pub fn new_datafrag(
    &mut self,
    datafrag: &DataFrag,
    flags: BitFlags<DATAFRAG_Flags>,
  ) -> Option<DDSData> {
    let sn = datafrag.writer_sn;
    let assembly_buffer = match self.assembly_buffers.entry(sn) {
      Entry::Vacant(v) => {
        let Some(buf) = AssemblyBuffer::new(datafrag, self.max_message_bytes, self.largest_completed)
        else {
          error!("new_datafrag: failed to create AssemblyBuffer for {sn:?}");
          return None;
        };
        self.held += buf.held();
        v.insert(buf)
      }
      Entry::Occupied(o) => o.into_mut(),
    };

    let held_before = assembly_buffer.held();
    let is_valid = assembly_buffer.insert_frags(datafrag);
    self.held = self.held + assembly_buffer.held() - held_before;
    let is_complete = assembly_buffer.is_complete();
    if !is_valid {
      error!("new_datafrag: rejected invalid DATAFRAG for {sn:?}");
      return None;
    }

    if is_complete {
      debug!("new_datafrag: COMPLETED FRAGMENT");
      let assembled = self.remove(sn)?.assembled;
      self.largest_completed = self.largest_completed.max(assembled.len());
      // Return what we have assembled.
      let serialized_data_or_key =
        SerializedPayload::from_bytes(&Bytes::from(assembled)).map_or_else(
          |e| {
            error!("Deserializing SerializedPayload from DATAFRAG: {:?}", e);
            None
          },
          Some,
        )?;
      let dds_data = if flags.contains(DATAFRAG_Flags::Key) {
        DDSData::new_disposed_by_key(ChangeKind::NotAliveDisposed, serialized_data_or_key)
      } else {
        // it is data
        DDSData::new(serialized_data_or_key)
      };
      Some(dds_data) // completed data from fragments
    } else {
      debug!("new_dataFrag: FRAGMENT NOT COMPLETED YET");
      while self.assembly_buffers.len() > MAX_ASSEMBLY_BUFFERS && self.evict_except(None) {}
      None
    }
  }

  fn remove(&mut self, sn: SequenceNumber) -> Option<AssemblyBuffer> {
    let removed = self.assembly_buffers.remove(&sn)?;
    self.held = self.held.saturating_sub(removed.held());
    Some(removed)
  }

  /// Drops one unfinished message, but not `kept`. Returns `false` if there is no
  /// other.
  ///
  /// Which one depends on reliability:
  ///  * Reliable: the reader delivers strictly in order, so it must complete the
  ///    LOWEST sequence number first; that buffer is exactly the one blocking
  ///    progress. Dropping it would livelock, because a writer that bursts many
  ///    large samples ahead (e.g. Connext) would make the reader perpetually
  ///    evict the very sample it is waiting for. So evict the HIGHEST (newest)
  ///    sequence number instead; the writer keeps unacked samples in its history
  ///    and re-sends them once we catch up.
  ///  * Best effort: there is no retransmission, so a low incomplete buffer is
  ///    lost anyway. Evict the OLDEST (lowest SN) to free room for newer samples
  ///    that may still complete.
  pub fn evict_except(&mut self, kept: Option<SequenceNumber>) -> bool {
    let mut candidates = self.assembly_buffers.keys().copied().filter(|sn| Some(*sn) != kept);
    let victim = if self.reliable {
      candidates.next_back()
    } else {
      candidates.next()
    };
    victim.is_some_and(|sn| self.remove(sn).is_some())
  }

  pub fn garbage_collect_before(&mut self, expire_before: Timestamp) {
    let mut freed = 0;
    self.assembly_buffers.retain(|sn, ab| {
      let retain = ab.modified_time >= expire_before;
      if !retain {
        info!("AssemblyBuffer dropping {sn:?}");
        freed += ab.held();
      }
      retain
    });
    self.held = self.held.saturating_sub(freed);
  }

  // pub fn partially_received_sequence_numbers_iterator(&self) -> Box<dyn
  // Iterator<Item=SequenceNumber>> {   // Since we should only know about SNs
  // via DATAFRAG messages   // and AssemblyBuffers are removed immediately on
  // completion,   // the list should be just the list of current
  // AssemblyBuffers   self.assembly_buffers.keys()
  // }

  pub fn is_partially_received(&self, sn: SequenceNumber) -> bool {
    self.assembly_buffers.contains_key(&sn)
    // assembly buffers map contains a key (SN) if and only if we have some
    // frags but not all
  }

  pub fn missing_frags_for(
    &self,
    seq: SequenceNumber,
  ) -> Box<dyn '_ + Iterator<Item = FragmentNumber>> {
    match self.assembly_buffers.get(&seq) {
      None => Box::new(iter::empty()),
      Some(ab) => Box::new(
        ab.missing()
          .filter_map(|f| u32::try_from(f + 1).ok().map(FragmentNumber::new)),
      ),
    }
  }
}

#[cfg(test)]
mod tests {
  use bytes::Bytes;

  use super::AssemblyBuffer;
  use crate::{
    messages::submessages::submessages::DataFrag, structure::sequence_number::FragmentNumber,
  };

  // Build a DATAFRAG submessage carrying the contiguous run of `k` fragments
  // starting at 1-based `start`, with the given payload bytes.
  fn datafrag(start: u32, k: u16, frag_size: u16, data_size: u32, payload: Vec<u8>) -> DataFrag {
    DataFrag {
      fragment_starting_num: FragmentNumber::new(start),
      fragments_in_submessage: k,
      fragment_size: frag_size,
      data_size,
      serialized_payload: Bytes::from(payload),
      ..Default::default()
    }
  }

  // A DATAFRAG that packs K > 1 fragments in one submessage must reassemble the
  // same bytes as one-fragment-per-submessage would. This exercises the
  // adaptive-packing writer path against the (unchanged) receiver.
  #[test]
  fn reassemble_multi_fragment_datafrag() {
    let frag_size = 1024u16;
    let data_size = 2600u32; // 3 fragments: 1024, 1024, 552
    let whole: Vec<u8> = (0..data_size as usize).map(|i| (i % 251) as u8).collect();

    // First submessage packs fragments 1 and 2 (K = 2, 2048 payload bytes).
    let first = datafrag(1, 2, frag_size, data_size, whole[0..2048].to_vec());
    let mut ab = AssemblyBuffer::new(&first, 1 << 20, 0).expect("valid first fragment");
    assert!(!ab.is_complete());
    ab.insert_frags(&first);
    assert!(!ab.is_complete(), "still missing the tail fragment");

    // Trailing submessage carries the shorter final fragment 3 (552 bytes).
    let tail = datafrag(3, 1, frag_size, data_size, whole[2048..2600].to_vec());
    ab.insert_frags(&tail);
    assert!(ab.is_complete(), "all fragments received");
    assert_eq!(
      &ab.assembled[..],
      &whole[..],
      "reassembled bytes must match the original sample"
    );
  }

  // A single DATAFRAG carrying the whole sample in one multi-fragment run.
  #[test]
  fn reassemble_single_submessage_all_fragments() {
    let frag_size = 512u16;
    let data_size = 1500u32; // 3 fragments: 512, 512, 476
    let whole: Vec<u8> = (0..data_size as usize).map(|i| (i % 97) as u8).collect();

    let all = datafrag(1, 3, frag_size, data_size, whole.clone());
    let mut ab = AssemblyBuffer::new(&all, 1 << 20, 0).expect("valid fragment set");
    ab.insert_frags(&all);
    assert!(ab.is_complete());
    assert_eq!(&ab.assembled[..], &whole[..]);
  }

  // Malformed span (starting at last fragment but claiming multiple fragments)
  // must not panic and must not falsely complete reassembly.
  #[test]
  fn reject_fragment_span_beyond_total() {
    let frag_size = 256u16;
    let data_size = 512u32; // 2 fragments total
    let bad = datafrag(2, 2, frag_size, data_size, vec![0u8; 256]);
    let mut ab = AssemblyBuffer::new(&bad, 1 << 20, 0).expect("buffer for valid data_size");
    assert!(!ab.insert_frags(&bad));
    assert!(!ab.is_complete());
  }

  #[test]
  fn fragment_assembler_rejects_span_beyond_total() {
    use enumflags2::BitFlags;

    use super::FragmentAssembler;
    use crate::messages::submessages::submessages::DATAFRAG_Flags;

    let frag_size = 256u16;
    let data_size = 512u32;
    let bad = datafrag(2, 2, frag_size, data_size, vec![0u8; 256]);
    let mut fa = FragmentAssembler::new(1 << 20, true);
    assert!(fa
      .new_datafrag(&bad, BitFlags::<DATAFRAG_Flags>::empty())
      .is_none());
  }

  // Memory follows what arrives, not what the first fragment claims.
  #[test]
  fn a_claim_alone_takes_no_memory() {
    let claim = datafrag(1, 1, 1024, 128 << 20, vec![0u8; 1024]);
    let mut ab = AssemblyBuffer::new(&claim, 128 << 20, 0).expect("a claim that is allowed");
    assert!(ab.insert_frags(&claim));
    assert!(ab.held() < 4096, "{} bytes for 1024", ab.held());
    assert!(AssemblyBuffer::new(&claim, 64 << 20, 0).is_none(), "more than is allowed");
  }

  // Any order and any overlap give the same bytes, and missing() what is missing.
  #[test]
  fn fragments_in_any_order() {
    let (frag_size, data_size) = (8u16, 61u32);
    let whole: Vec<u8> = (0..data_size as u8).collect();
    let run = |start: usize, count: usize| {
      let (from, to) = ((start - 1) * 8, whole.len().min((start - 1 + count) * 8));
      datafrag(start as u32, count as u16, frag_size, data_size, whole[from..to].to_vec())
    };
    let orders: [&[(usize, usize)]; 4] = [
      &[(8, 1), (7, 1), (6, 1), (5, 1), (4, 1), (3, 1), (2, 1), (1, 1)],
      &[(4, 2), (4, 3), (4, 1), (5, 3), (1, 1), (2, 1), (3, 1), (7, 2)],
      &[(3, 4), (3, 1), (5, 4), (1, 2)],
      &[(2, 1), (1, 8)],
    ];
    for order in orders {
      let mut ab = AssemblyBuffer::new(&run(1, 1), 1 << 20, 0).unwrap();
      let mut expected: std::collections::BTreeSet<usize> = (0..8).collect();
      for (start, count) in order {
        assert!(ab.insert_frags(&run(*start, *count)));
        expected.retain(|f| !(start - 1..start - 1 + count).contains(f));
        assert_eq!(ab.missing().collect::<Vec<_>>(), Vec::from_iter(expected.iter().copied()));
      }
      assert!(ab.is_complete());
      assert_eq!(ab.assembled, whole);
      assert_eq!(ab.early_bytes, 0);
    }
  }
}
