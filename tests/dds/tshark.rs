//! Every datagram that the middleware sends to a peer, decoded by tshark.

use super::peer::{PATIENCE, turn};
use super::require::{Need, skip};
use super::rtps::{Entity, Fragment, HEARTBEAT, Parameters, Rogue, UNKNOWN, first_ports};
use det_post_ros::LifecycleState;
use det_post_ros::messages::Image;
use det_post_ros::middleware::{InputKind, Middleware, Qos, Reliability, Response};
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const WRITER: Entity = [0, 0, 1, 3];
const READER: Entity = [0, 0, 2, 4];
const REQUESTS: Entity = [0, 0, 3, 3];
const RESPONSES: Entity = [0, 0, 4, 4];
const IMAGE: &str = "sensor_msgs::msg::dds_::Image_";
const STATE: &str = "lifecycle_msgs::srv::dds_::GetState_";

/// Kinds of submessages that must be among the datagrams: ACKNACK, HEARTBEAT, GAP, INFO_TS,
/// INFO_DST, NACK_FRAG, DATA, DATA_FRAG.
const KINDS: [u8; 8] = [0x06, 0x07, 0x08, 0x09, 0x0e, 0x12, 0x15, 0x16];

/// The datagrams that come within `patience`.
fn receive(socket: &UdpSocket, patience: Duration, datagrams: &mut Vec<Vec<u8>>) {
    let deadline = Instant::now() + patience;
    let mut buffer = vec![0; 1 << 16];
    while Instant::now() < deadline {
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        if let Ok(len) = socket.recv(&mut buffer) {
            datagrams.push(buffer[..len].to_owned());
        }
    }
}

/// Kind and body of each submessage.
fn submessages(datagram: &[u8]) -> Vec<(u8, &[u8])> {
    let mut rest = &datagram[20..];
    let mut found = Vec::new();
    while let [kind, _, low, high, ..] = *rest {
        let len = usize::from(u16::from_le_bytes([low, high]));
        // The last one may be as long as the datagram.
        let end = if len == 0 { rest.len() } else { 4 + len };
        found.push((kind, &rest[4..end]));
        rest = &rest[end..];
    }
    found
}

/// Writers of topics that have sent a heartbeat.
fn writers(datagrams: &[Vec<u8>]) -> BTreeSet<Entity> {
    let all = datagrams.iter().flat_map(|datagram| submessages(datagram));
    let heartbeats = all.filter(|(kind, _)| *kind == HEARTBEAT);
    let writers = heartbeats.map(|(_, body)| <Entity>::try_from(&body[4..8]).unwrap());
    writers.filter(|writer| writer[3] == 3).collect()
}

/// Writes datagrams as packets of IPv4 between ports of the loopback interface.
fn write_capture(path: &Path, datagrams: &[Vec<u8>]) {
    const RAW_IP: u32 = 101;
    let mut file = Vec::new();
    for field in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 1 << 17, RAW_IP] {
        file.extend(u32::to_le_bytes(field));
    }
    for (number, datagram) in datagrams.iter().enumerate() {
        let (udp_len, ip_len) = (datagram.len() + 8, datagram.len() + 28);
        for field in [number, 0, ip_len, ip_len] {
            file.extend(u32::try_from(field).unwrap().to_le_bytes());
        }
        let [udp_len, ip_len] = [udp_len, ip_len].map(|len| u16::try_from(len).unwrap());
        file.extend([0x45, 0]);
        file.extend(ip_len.to_be_bytes());
        file.extend([0, 0, 0, 0, 64, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1]);
        file.extend([7411, 7413, udp_len, 0].map(u16::to_be_bytes).concat());
        file.extend(datagram);
    }
    std::fs::write(path, file).unwrap();
}

/// The lines that tshark prints of the packets that `filter` selects.
fn tshark(capture: &Path, filter: &str) -> Vec<String> {
    let output = Command::new("tshark")
        .arg("-r")
        .arg(capture)
        .args(["-Y", filter, "-T", "fields", "-e", "frame.number", "-e", "_ws.col.Info"])
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

fn image_message(width: u32) -> Vec<u8> {
    let data = vec![7; width as usize];
    let image =
        Image { height: 1, width, encoding: "mono8", step: width, data: &data, ..Image::default() };
    let mut cdr = Vec::new();
    image.encode(&mut cdr).unwrap();
    cdr.resize(cdr.len().next_multiple_of(4), 0);
    cdr
}

#[test]
fn every_datagram_is_well_formed() {
    if Command::new("tshark").arg("--version").output().is_err() {
        return skip(Need::Tshark, "no tshark");
    }
    let turn = turn();
    let mut middleware = turn.middleware("det_post");
    // The port of a second participant, which announcements are sent to.
    let announcements = UdpSocket::bind(("127.0.0.1", first_ports(turn.domain)[0] + 2)).unwrap();
    let rogue = Rogue::new(turn.domain, 1);
    let mut datagrams = Vec::new();

    let reliable = Qos { reliability: Reliability::Reliable, ..Qos::SENSOR_DATA };
    let input = middleware.subscribe("/image", InputKind::Image, reliable, Box::new(|_| ()));
    let input = input.unwrap();
    let mut output = middleware.advertise("/out", Image::TYPE, Qos::DEFAULT).unwrap();
    middleware.serve(Box::new(|_| Response::State(LifecycleState::Active))).unwrap();
    // Nobody who joins later gets these.
    (0..3).for_each(|_| output.publish(&image_message(9)).unwrap());
    let began = Instant::now();
    while input.num_publishers() == 0 || output.num_subscribers() == 0 {
        assert!(began.elapsed() < PATIENCE, "the peer is not matched");
        rogue.announce();
        rogue.announce_writer(1, WRITER, "rt/image", IMAGE);
        rogue.announce_reader(1, READER, "rt/out", IMAGE);
        let service = "det_post/get_state";
        rogue.announce_writer(
            2,
            REQUESTS,
            &format!("rq/{service}Request"),
            &format!("{STATE}Request_"),
        );
        rogue.announce_reader(
            2,
            RESPONSES,
            &format!("rr/{service}Reply"),
            &format!("{STATE}Response_"),
        );
        receive(&rogue.socket, Duration::from_millis(100), &mut datagrams);
    }

    // Messages of one and of several datagrams, and a response, from us.
    output.publish(&image_message(9)).unwrap();
    output.publish(&image_message(200_000)).unwrap();
    let related =
        Parameters::default().with(0x83, &[&rogue.prefix[..], &RESPONSES, &[0; 8]].concat()).list();
    let request = [0, 1, 0, 0, 0, 0, 0, 0];
    rogue.send(&rogue.datagram().data_with(&related, [UNKNOWN, REQUESTS], 1, &request));
    receive(&rogue.socket, Duration::from_millis(500), &mut datagrams);
    // Questions about the messages that came before the peer, which are gone.
    for writer in writers(&datagrams) {
        rogue.send(&rogue.datagram().ack_nack([READER, writer], 1, u32::MAX, 1));
        rogue.send(&rogue.datagram().ack_nack([RESPONSES, writer], 1, u32::MAX, 1));
    }
    // Messages of the peer that are missing, and one of which a fragment is missing.
    rogue.send(&rogue.datagram().heartbeat(WRITER, 1, 3, 1));
    let fragment = Fragment { start: 1, size: 1000, total: 3000 };
    rogue.send(&rogue.datagram().data_frag([UNKNOWN, WRITER], 1, fragment, &[0; 1000]));
    rogue.send(&rogue.datagram().heartbeat(WRITER, 1, 3, 2));
    receive(&rogue.socket, Duration::from_secs(3), &mut datagrams);
    drop((input, output));
    drop(middleware);
    receive(&rogue.socket, Duration::from_millis(500), &mut datagrams);
    receive(&announcements, Duration::from_millis(200), &mut datagrams);

    let kinds: BTreeSet<u8> =
        datagrams.iter().flat_map(|datagram| submessages(datagram)).map(|(kind, _)| kind).collect();
    println!("{} datagrams with submessages {kinds:02x?}", datagrams.len());
    for kind in KINDS {
        assert!(kinds.contains(&kind), "no submessage {kind:#x} in {kinds:02x?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let capture = folder.path().join("sent.pcap");
    write_capture(&capture, &datagrams);
    assert_eq!(tshark(&capture, "rtps").len(), datagrams.len(), "not all are RTPS");
    // Also where a group of remarks says so (PI_MALFORMED).
    let malformed = tshark(&capture, "_ws.malformed || _ws.expert.group == 0x07000000");
    assert_eq!(malformed, [""; 0]);

    // tshark does see what is wrong.
    let cut: Vec<Vec<u8>> = datagrams
        .iter()
        .filter(|datagram| datagram.len() > 100)
        .map(|datagram| datagram[..datagram.len() - 41].to_owned())
        .collect();
    write_capture(&capture, &cut);
    assert!(!tshark(&capture, "_ws.malformed").is_empty(), "cut datagrams are not noticed");
}
