//! Shared memory for the payloads of a channel and its process.
//!
//! It is an anonymous file (`memfd_create`) whose descriptor is sent through the socket: it
//! has no name that another program could use, does not depend on the size of `/dev/shm`,
//! and is freed with the last process that maps it. All pages are reserved and the size
//! is sealed before it is mapped, so that a shortage of memory is an error of
//! [`PayloadBuffer::reserve`] and never a SIGBUS at a later access.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use memmap2::{Mmap, MmapMut};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, memfd_create};
use rustix::fs::{fcntl_add_seals, fcntl_get_seals};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use super::message::STAGE;
use det_post_types::{Error, ErrorKind, Result};

/// The writing end, which the channel owns.
#[derive(Debug)]
pub(super) struct PayloadBuffer {
    file: OwnedFd,
    map: MmapMut,
}

impl PayloadBuffer {
    /// Reserves `len` bytes, all zero. `len` must be of the order of a payload in memory:
    /// Linux may kill processes before it refuses.
    ///
    /// # Errors
    /// `Memory` when the system does not provide them.
    #[expect(unsafe_code, reason = "mapping is the only way to share a payload in one copy")]
    pub(super) fn reserve(len: usize) -> Result<Self> {
        let refused = |cause: io::Error| {
            let message = format!("cannot reserve {len} bytes to share with the channel's process");
            Error::new(ErrorKind::Memory, STAGE, message).with_source(cause)
        };
        let file = anonymous_file().map_err(|errno| refused(errno.into()))?;
        let reserve = || fallocate(&file, FallocateFlags::empty(), 0, len as u64);
        retry_on_intr(reserve).map_err(|errno| refused(errno.into()))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        fcntl_add_seals(&file, seals).map_err(|errno| refused(errno.into()))?;
        // SAFETY: the file is new and its size is sealed, with all pages in
        // place, so every access within the mapping succeeds. The one other
        // process that receives it maps it to read, and does so only between a
        // request and its response, while this side waits and does not write.
        let map = unsafe { MmapMut::map_mut(&file) }.map_err(refused)?;
        Ok(Self { file, map })
    }

    pub(super) fn len(&self) -> usize {
        self.map.len()
    }

    /// The bytes, to be written between a response and the next request.
    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.map
    }

    /// Sends the memory to the process at the other end of the socket, for
    /// [`PayloadView::receive`].
    pub(super) fn send(&self, socket: &UnixStream) -> io::Result<()> {
        let files = [self.file.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&files));
        // A descriptor is sent with at least one byte.
        let carrier = [IoSlice::new(&[0])];
        retry_on_intr(|| sendmsg(socket, &carrier, &mut control, SendFlags::NOSIGNAL))?;
        Ok(())
    }
}

/// An empty file in memory, whose size can be sealed.
fn anonymous_file() -> rustix::io::Result<OwnedFd> {
    let create = |more| {
        memfd_create(c"det_post-payload", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | more)
    };
    // Some systems require memory that cannot be executed; Linux before 6.3 refuses the
    // flag.
    create(MemfdFlags::NOEXEC_SEAL).or_else(|errno| match errno {
        Errno::INVAL => create(MemfdFlags::empty()),
        other => Err(other),
    })
}

/// The reading end, in the channel's process.
#[derive(Debug)]
pub(super) struct PayloadView {
    map: Mmap,
}

impl PayloadView {
    /// Receives the memory that [`PayloadBuffer::send`] sends.
    ///
    /// # Errors
    /// `Io` when none is received or its size is not sealed; `Memory` when it cannot be
    /// mapped.
    #[expect(unsafe_code, reason = "mapping is the only way to share a payload in one copy")]
    pub(super) fn receive(socket: &UnixStream) -> Result<Self> {
        let failed = |kind, cause: io::Error| {
            let message = "cannot map the memory for payloads";
            Error::new(kind, STAGE, message).with_source(cause)
        };
        let file = receive_file(socket).map_err(|cause| failed(ErrorKind::Io, cause))?;
        let seals = fcntl_get_seals(&file).map_err(|errno| failed(ErrorKind::Io, errno.into()))?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(failed(ErrorKind::Io, io::Error::other("its size is not sealed")));
        }
        // SAFETY: the size is sealed against shrinking, so every access within
        // the mapping succeeds. The writing side writes only while this side,
        // which waits for its request, does not read.
        let map = unsafe { Mmap::map(&file) }.map_err(|cause| failed(ErrorKind::Memory, cause))?;
        Ok(Self { map })
    }

    /// The bytes, valid until the response is sent.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.map
    }
}

/// Receives a file with the next byte of the socket.
fn receive_file(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut carrier = [IoSliceMut::new(&mut byte)];
    retry_on_intr(|| recvmsg(socket, &mut carrier, &mut control, RecvFlags::CMSG_CLOEXEC))?;
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    file.ok_or_else(|| io::Error::other("no memory was received"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn written_bytes_are_read_through_the_socket() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut written = PayloadBuffer::reserve(8).unwrap();
        assert_eq!(written.len(), 8);
        written.send(&ours).unwrap();
        let read = PayloadView::receive(&theirs).unwrap();
        written.bytes()[..3].copy_from_slice(b"abc");
        assert_eq!((&read.bytes()[..3], read.bytes().len()), (&b"abc"[..], 8));
        drop(written);
        assert_eq!(&read.bytes()[..3], b"abc");
    }

    #[test]
    fn the_size_of_shared_memory_is_final() {
        let written = PayloadBuffer::reserve(4096).unwrap();
        let file = std::fs::File::from(written.file.try_clone().unwrap());
        for len in [0, 4095, 4097] {
            let error = file.set_len(len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{len} bytes");
        }
        assert_eq!(file.metadata().unwrap().len(), 4096);
    }

    #[test]
    fn memory_that_could_shrink_is_not_mapped() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let file = anonymous_file().unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, 4096).unwrap();
        let map = PayloadBuffer::reserve(1).unwrap().map;
        PayloadBuffer { file, map }.send(&ours).unwrap();
        let error = PayloadView::receive(&theirs).unwrap_err();
        assert!(error.to_string().contains("not sealed"), "{error}");
    }

    #[test]
    fn a_byte_without_memory_is_an_error() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(&[0]).unwrap();
        assert_eq!(PayloadView::receive(&theirs).unwrap_err().kind(), ErrorKind::Io);
        drop(ours);
        assert_eq!(PayloadView::receive(&theirs).unwrap_err().kind(), ErrorKind::Io);
    }
}
