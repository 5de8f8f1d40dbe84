//! The walk through an MCAP file by position: its data section piece by
//! piece, a chunk record by record, and the census of a file that says nothing
//! reliable about itself.

use std::collections::BTreeMap;

use super::budget::Reservation;
use super::chunk::{Compression, decompress};
use super::damage::Damage;
use super::options::ReadOptions;
use super::record::{Chunk, MAGIC, MessageHead, RECORD_HEAD, Step, opcode, record_at};
use super::summary::Declared;

/// The content at a position of the data section.
pub(super) enum Piece<'a> {
    /// A chunk, `cut` when the file ends inside it.
    Chunk { body: &'a [u8], cut: bool, next: usize },
    /// A message outside chunks.
    Message { body: &'a [u8], next: usize },
    /// Any other record.
    Other { opcode: u8, body: &'a [u8], next: usize },
    /// The data section ends here, or breaks off.
    End(Option<Damage>),
}

/// The piece at byte `at`; chunks and records are not looked into.
pub(super) fn piece_at(file: &[u8], at: usize) -> Piece<'_> {
    match record_at(file, at) {
        Step::Record { opcode: opcode::CHUNK, body, next } => {
            Piece::Chunk { body, cut: false, next }
        }
        Step::Cut { opcode: opcode::CHUNK, body, .. } => {
            Piece::Chunk { body, cut: true, next: file.len() }
        }
        Step::Record { opcode: opcode::MESSAGE, body, next } => Piece::Message { body, next },
        Step::Record { opcode: opcode::DATA_END | opcode::FOOTER, .. } => {
            Piece::End(surplus(file, at))
        }
        Step::Record { opcode: 0, .. } => {
            Piece::End(Some(Damage::at(at, "found no record, its opcode is 0")))
        }
        Step::Record { opcode, body, next } => Piece::Other { opcode, body, next },
        Step::End => Piece::End(Some(Damage::at(at, "the file ends without a DataEnd record"))),
        Step::Cut { opcode, claimed, body } => Piece::End(Some(Damage::at(
            at,
            format!(
                "the file ends inside a record (opcode {opcode:#04x}) with {} of {claimed} bytes",
                body.len()
            ),
        ))),
    }
}

/// What follows the end of a recording whose data section ends at byte `at`, such as another recording
/// that was joined to it. Zeros of a preallocated file are none.
fn surplus(file: &[u8], mut at: usize) -> Option<Damage> {
    loop {
        match record_at(file, at) {
            Step::Record { opcode: opcode::FOOTER, next, .. } => {
                let end = next + MAGIC.len();
                let rest = file.get(end..)?;
                let is_end = file[next..end] == *MAGIC;
                return (is_end && rest.iter().any(|&byte| byte != 0)).then(|| {
                    let num = rest.len();
                    Damage::at(
                        end,
                        format!("the recording ends, {num} bytes after it are not read"),
                    )
                });
            }
            Step::Record { next, .. } => at = next,
            Step::End | Step::Cut { .. } => return None,
        }
    }
}

/// Declarations, counts and times collected by reading a file through.
#[derive(Default)]
pub(super) struct Census {
    pub(super) declared: Declared,
    pub(super) num_messages: BTreeMap<u16, u64>,
    /// Earliest and latest log time.
    pub(super) span: Option<(u64, u64)>,
}

impl Census {
    /// Reads the file through for its declarations, as far as it is readable
    /// and its chunks fit into the memory budget, or until it is stopped.
    pub(super) fn of(file: &[u8], options: &ReadOptions) -> Self {
        let mut census = Self::default();
        let mut buffer = Vec::new();
        let mut memory = Reservation::new(options.memory);
        let mut at = MAGIC.len();
        while !options.is_stopped() {
            match piece_at(file, at) {
                Piece::Chunk { body, cut, next } => {
                    at = next;
                    let Some(chunk) = Chunk::parse(body) else { break };
                    let num_bytes = usize::try_from(chunk.uncompressed_size).unwrap_or(usize::MAX);
                    if !chunk.compression.is_empty()
                        && !memory.resize(num_bytes.max(buffer.capacity()))
                    {
                        break;
                    }
                    let (contents, problem) = contents(&chunk, cut, &mut buffer);
                    let walked = walk(contents, |opcode, body, _| {
                        census.note(opcode, body);
                        Ok(())
                    });
                    if problem.is_some() || walked.is_err() {
                        break;
                    }
                }
                Piece::Message { body, next } => {
                    at = next;
                    census.note(opcode::MESSAGE, body);
                }
                Piece::Other { opcode, body, next } => {
                    at = next;
                    census.note(opcode, body);
                }
                Piece::End(_) => break,
            }
        }
        census
    }

    /// Takes in one record; malformed ones are left to the reader.
    fn note(&mut self, opcode: u8, body: &[u8]) {
        if opcode != opcode::MESSAGE {
            self.declared.note(opcode, body);
            return;
        }
        if let Some(MessageHead { channel, log_time }) = MessageHead::parse(body) {
            *self.num_messages.entry(channel).or_default() += 1;
            let (first, last) = self.span.unwrap_or((log_time, log_time));
            self.span = Some((first.min(log_time), last.max(log_time)));
        }
    }
}

/// The readable contents of a chunk, and what is wrong with them.
pub(super) fn contents<'a>(
    chunk: &Chunk<'a>,
    cut: bool,
    buffer: &'a mut Vec<u8>,
) -> (&'a [u8], Option<String>) {
    let unpacked = match Compression::of(chunk) {
        Ok(Compression::None) if cut || chunk.uncompressed_size == chunk.claimed => {
            buffer.clear();
            Ok(chunk.contents)
        }
        Ok(Compression::None) => Err(format!(
            "the chunk holds {} bytes, its head declares {}",
            chunk.claimed, chunk.uncompressed_size
        )),
        Ok(compression) => match decompress(chunk, compression, buffer) {
            Err(_) if cut => Ok(buffer.as_slice()),
            done => done.map(|()| buffer.as_slice()),
        },
        Err(what) => Err(what),
    };
    match unpacked {
        Ok(contents) if cut => {
            let left = chunk.contents.len();
            (
                contents,
                Some(format!(
                    "the file ends inside a chunk with {left} of {} bytes",
                    chunk.claimed
                )),
            )
        }
        Ok(contents) => (contents, None),
        Err(what) => (&[], Some(what)),
    }
}

/// Visits the records of a chunk: opcode, body, where the body starts.
pub(super) fn walk(
    contents: &[u8],
    mut visit: impl FnMut(u8, &[u8], usize) -> Result<(), String>,
) -> Result<(), String> {
    let mut at = 0;
    loop {
        match record_at(contents, at) {
            Step::Record { opcode, body, next } => {
                visit(opcode, body, at + RECORD_HEAD)?;
                at = next;
            }
            Step::End => return Ok(()),
            Step::Cut { opcode, claimed, body } => {
                return Err(format!(
                    "the chunk ends inside a record (opcode {opcode:#04x}) with {} of {claimed} bytes",
                    body.len()
                ));
            }
        }
    }
}
