//! The sockets of a participant.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use super::interfaces::Interface;
use super::{MAX_PARTICIPANTS, multicast_port, unicast_ports};
use crate::error::Error;
use crate::participant::Datagram;
use crate::settings::Interfaces;

/// The multicast group of discovery (9.6.1.4.1).
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 0, 1);

/// Participants of this machine that a participant of only this machine announces itself to
/// one by one: some listen to no multicast.
const LOCAL_PEERS: u16 = 20;

/// The wanted size of a socket's send buffer.
const SEND_BUFFER: usize = 4 << 20;

/// How long a full send buffer is waited for.
const SEND_WAIT_MS: i64 = 10;

/// Sockets to receive from and to send with.
pub(super) struct Sockets {
    pub receivers: Vec<UdpSocket>,
    /// One bound to each used address, for multicast.
    multicasters: Vec<UdpSocket>,
    /// Of `receivers`: for samples, each with its address and network.
    senders: Vec<(usize, Ipv4Addr, u8)>,
}

/// Sockets, and the addresses that are announced for them.
pub(super) struct Opened {
    pub sockets: Sockets,
    pub meta: Vec<SocketAddrV4>,
    pub default: Vec<SocketAddrV4>,
    pub announce_to: Vec<SocketAddrV4>,
}

fn failed(action: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    let action = action.into();
    move |source| Error::Io { action, source }
}

/// A socket bound to `address`.
fn bound(address: SocketAddrV4, is_shared: bool, receive_buffer: usize) -> io::Result<UdpSocket> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    if is_shared {
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    // The system may give less; what it does not give at all is its default.
    let _ = sockopt::set_socket_recv_buffer_size(&socket, receive_buffer);
    let _ = sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER);
    rustix::net::bind(&socket, &address)?;
    Ok(UdpSocket::from(socket))
}

/// Opens the sockets of a participant of a domain on `used` interfaces.
pub(super) fn open(
    domain: u16,
    wanted: &Interfaces,
    used: &[Interface],
    receive_buffer: usize,
) -> Result<Opened, Error> {
    let mut sockets =
        Sockets { receivers: Vec::new(), multicasters: Vec::new(), senders: Vec::new() };
    if used.is_empty() {
        let (meta, default, announce_to) = (Vec::new(), Vec::new(), Vec::new());
        return Ok(Opened { sockets, meta, default, announce_to });
    }
    let group = SocketAddrV4::new(GROUP, multicast_port(domain));
    let multicast = bound(group, true, receive_buffer).map_err(failed(format!("bind {group}")))?;
    for interface in used {
        let address = interface.address;
        // An interface without multicast still has unicast.
        let _ = multicast.join_multicast_v4(&GROUP, &address);
        if let Ok(socket) = bound(SocketAddrV4::new(address, 0), false, 0)
            && sockopt::set_ip_multicast_if(&socket, &address).is_ok()
        {
            sockets.multicasters.push(socket);
        }
    }
    sockets.receivers.push(multicast);
    let hosts: Vec<(Ipv4Addr, Ipv4Addr, u8)> = match wanted {
        Interfaces::All => vec![(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED, 0)],
        _ => used.iter().map(|i| (i.address, i.address, i.prefix_len)).collect(),
    };
    let addresses: Vec<Ipv4Addr> = hosts.iter().map(|(host, ..)| *host).collect();
    let (ports, unicast) = bind_unicast(domain, &addresses, receive_buffer)?;
    for ([meta, default], (_, address, len)) in unicast.into_iter().zip(hosts) {
        sockets.receivers.push(meta);
        sockets.senders.push((sockets.receivers.len(), address, len));
        sockets.receivers.push(default);
    }
    let outer: Vec<Ipv4Addr> =
        used.iter().map(|i| i.address).filter(|address| !address.is_loopback()).collect();
    let announced = if outer.is_empty() { used.iter().map(|i| i.address).collect() } else { outer };
    let [meta, default] = ports;
    let at = |port| announced.iter().map(|ip| SocketAddrV4::new(*ip, port)).collect();
    let mut announce_to = vec![group];
    if *wanted == Interfaces::Localhost {
        let others = (0..LOCAL_PEERS).map(|index| unicast_ports(domain, index)[0]);
        let others = others.filter(|port| *port != meta);
        announce_to.extend(others.map(|port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)));
    }
    Ok(Opened { sockets, meta: at(meta), default: at(default), announce_to })
}

/// Binds the ports of the first participant of this machine that is free on all addresses:
/// the ports, and the sockets for discovery and for samples of each address.
fn bind_unicast(
    domain: u16,
    addresses: &[Ipv4Addr],
    receive_buffer: usize,
) -> Result<([u16; 2], Vec<[UdpSocket; 2]>), Error> {
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for participant in 0..=MAX_PARTICIPANTS {
        let ports = unicast_ports(domain, participant);
        let bind = |address: &Ipv4Addr| -> io::Result<[UdpSocket; 2]> {
            let [meta, default] = ports.map(|port| SocketAddrV4::new(*address, port));
            Ok([bound(meta, false, receive_buffer)?, bound(default, false, receive_buffer)?])
        };
        match addresses.iter().map(bind).collect::<io::Result<Vec<_>>>() {
            Ok(sockets) => return Ok((ports, sockets)),
            Err(cause) => last = cause,
        }
    }
    let [first, _] = unicast_ports(domain, 0);
    let [_, end] = unicast_ports(domain, MAX_PARTICIPANTS);
    Err(failed(format!("bind two of the ports {first} to {end} of domain {domain}"))(last))
}

impl Sockets {
    /// Sends a datagram; returns how many of its copies were not sent.
    pub fn send(&self, datagram: &Datagram) -> u64 {
        let mut unsent = 0;
        for to in &datagram.to {
            if to.ip().is_multicast() {
                // An interface that is down now takes none.
                let sent = self.multicasters.iter().map(|s| send(s, &datagram.bytes, *to));
                unsent += u64::from(sent.filter(|is_sent| *is_sent).count() == 0);
            } else if let Some(socket) = self.sender(*to.ip()) {
                unsent += u64::from(!send(socket, &datagram.bytes, *to));
            }
        }
        unsent
    }

    /// The socket of the network of `to`, else the first.
    fn sender(&self, to: Ipv4Addr) -> Option<&UdpSocket> {
        let mask = |len: u8| u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0);
        let is_near = |(_, address, len): &&(usize, Ipv4Addr, u8)| {
            (address.to_bits() ^ to.to_bits()) & mask(*len) == 0
        };
        let chosen = self.senders.iter().find(is_near).or(self.senders.first())?;
        self.receivers.get(chosen.0)
    }
}

fn send(socket: &UdpSocket, bytes: &[u8], to: SocketAddrV4) -> bool {
    for _ in 0..2 {
        match socket.send_to(bytes, SocketAddr::V4(to)) {
            Ok(_) => return true,
            Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(socket, PollFlags::OUT)];
                let wait = Timespec { tv_sec: 0, tv_nsec: SEND_WAIT_MS * 1_000_000 };
                let _ = poll(&mut fds, Some(&wait));
            }
            // What an earlier datagram caused is reported by the next call.
            Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(_) => return false,
        }
    }
    false
}
