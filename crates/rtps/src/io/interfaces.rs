//! The IPv4 addresses of this machine, from the kernel (rtnetlink).

use std::io;
use std::net::Ipv4Addr;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

use crate::error::Error;
use crate::settings::Interfaces;

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Interface {
    pub name: String,
    pub address: Ipv4Addr,
    pub prefix_len: u8,
}

const GET_ADDRESSES: u16 = 22;
const NEW_ADDRESS: u16 = 20;
const DONE: u16 = 3;
const ERROR: u16 = 2;
/// Request, for all.
const DUMP: u16 = 0x301;
const ATTRIBUTE_ADDRESS: u16 = 1;
const ATTRIBUTE_LOCAL: u16 = 2;

/// Every address of every interface.
pub(super) fn all() -> io::Result<Vec<Interface>> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // The routing protocol, which is 0.
        None,
    )?;
    let mut request = Vec::new();
    request.extend(24_u32.to_ne_bytes());
    request.extend(GET_ADDRESSES.to_ne_bytes());
    request.extend(DUMP.to_ne_bytes());
    request.extend([0; 8]);
    // `ifaddrmsg` of any IPv4 address.
    request.extend([2, 0, 0, 0, 0, 0, 0, 0]);
    rustix::net::send(&socket, &request, SendFlags::empty())?;
    let mut found = Vec::new();
    let mut buffer = vec![0_u8; 64 << 10];
    // An answer of the kernel takes a few parts.
    for _ in 0..1024 {
        let (_, len) = rustix::net::recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let part = buffer.get(..len).unwrap_or_default();
        if read_part(part, &mut found).is_none_or(|is_done| is_done) {
            break;
        }
    }
    let mut interfaces = Vec::new();
    for (index, address, prefix_len) in found {
        let name = rustix::net::netdevice::index_to_name(&socket, index)?;
        interfaces.push(Interface { name, address, prefix_len });
    }
    Ok(interfaces)
}

/// Reads the messages of a part; returns whether it is the last, `None` when it is cut off.
fn read_part(mut part: &[u8], found: &mut Vec<(u32, Ipv4Addr, u8)>) -> Option<bool> {
    while !part.is_empty() {
        let len = u32::from_ne_bytes(part.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(part.get(4..6)?.try_into().ok()?);
        if kind == DONE || kind == ERROR || len < 16 {
            return Some(true);
        }
        if kind == NEW_ADDRESS {
            found.extend(read_address(part.get(16..len)?));
        }
        part = part.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(false)
}

/// Index, address and length of the network's prefix.
fn read_address(body: &[u8]) -> Option<(u32, Ipv4Addr, u8)> {
    let (header, mut attributes) = body.split_first_chunk::<8>()?;
    let prefix_len = header[1];
    let index = u32::from_ne_bytes(header[4..8].try_into().ok()?);
    let (mut local, mut remote) = (None, None);
    while let Some((head, rest)) = attributes.split_first_chunk::<4>() {
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let kind = u16::from_ne_bytes([head[2], head[3]]);
        let value = rest.get(..len.checked_sub(4)?)?;
        let address = <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from);
        match kind {
            ATTRIBUTE_LOCAL => local = address,
            ATTRIBUTE_ADDRESS => remote = address,
            _ => {}
        }
        attributes = attributes.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some((index, local.or(remote)?, prefix_len))
}

/// Those of `all` that the settings choose.
///
/// # Errors
/// `Settings` for a name that no interface has.
pub(super) fn chosen(all: &[Interface], wanted: &Interfaces) -> Result<Vec<Interface>, Error> {
    match wanted {
        Interfaces::All => Ok(all.to_vec()),
        Interfaces::Localhost => Ok(vec![Interface {
            name: "lo".to_owned(),
            address: Ipv4Addr::LOCALHOST,
            prefix_len: 8,
        }]),
        Interfaces::None => Ok(Vec::new()),
        Interfaces::Named(names) => {
            let mut found = Vec::new();
            for name in names {
                let named = |i: &&Interface| i.name == *name || i.address.to_string() == *name;
                let before = found.len();
                found.extend(all.iter().filter(named).cloned());
                if found.len() == before {
                    let known: Vec<_> =
                        all.iter().map(|i| format!("{} ({})", i.name, i.address)).collect();
                    return Err(Error::Settings(format!(
                        "interface {name:?} has no IPv4 address; there are {}",
                        known.join(", ")
                    )));
                }
            }
            Ok(found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_found() {
        let all = all().unwrap();
        let lo = all.iter().find(|i| i.address == Ipv4Addr::LOCALHOST).unwrap();
        assert_eq!((&lo.name[..], lo.prefix_len), ("lo", 8));
        let by = |name: &str| chosen(&all, &Interfaces::Named(vec![name.to_owned()]));
        assert_eq!(by("lo").unwrap(), std::slice::from_ref(lo));
        assert_eq!(by("127.0.0.1").unwrap(), std::slice::from_ref(lo));
        let message = by("no0").unwrap_err().to_string();
        assert!(message.contains("\"no0\"") && message.contains("lo (127.0.0.1)"), "{message}");
    }

    #[test]
    fn a_cut_answer_is_no_address() {
        let mut found = Vec::new();
        assert_eq!(read_part(&[40, 0, 0, 0, 20, 0, 0, 0], &mut found), None);
        assert_eq!(read_address(&[2, 8, 0, 0, 1, 0, 0, 0, 3, 0, 1, 0]), None);
        assert!(found.is_empty());
    }
}
