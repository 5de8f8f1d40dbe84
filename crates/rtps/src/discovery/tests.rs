use super::*;
use crate::qos::{Durability, History, Qos, Reliability};
use crate::types::{EndpointInfo, EndpointKind, Guid, GuidPrefix, Mismatch};
use crate::wire::{ParameterWriter, pid};
use std::time::Duration;

const QOS: Qos = Qos {
    reliability: Reliability::Reliable,
    durability: Durability::TransientLocal,
    history: History::KeepLast(7),
};

#[test]
fn announcements_are_read_as_written() {
    let participant = ParticipantData {
        prefix: GuidPrefix([4; 12]),
        vendor: VENDOR,
        name: "camera node".to_owned(),
        user_data: b"enclave=/;".to_vec(),
        lease: Duration::from_secs(10),
        builtin: BUILTIN_ENDPOINTS,
        domain: Some(42),
        meta: vec!["10.0.0.1:7410".parse().unwrap(), "10.0.1.1:7410".parse().unwrap()],
        default: vec!["10.0.0.1:7411".parse().unwrap()],
        meta_multicast: Vec::new(),
    };
    assert_eq!(ParticipantData::read(&participant.write(), 16).unwrap(), participant);
    let info = EndpointInfo {
        guid: Guid { prefix: GuidPrefix([4; 12]), entity: crate::types::EntityId([0, 0, 1, 3]) },
        kind: EndpointKind::Writer,
        topic: "rt/image".to_owned(),
        type_name: "sensor_msgs::msg::dds_::Image_".to_owned(),
        qos: QOS,
        user_data: b"typehash=RIHS01_00;".to_vec(),
    };
    let endpoint = EndpointData { info, qos: EndpointQos::new(QOS), unicast: Vec::new() };
    assert_eq!(EndpointData::read(EndpointKind::Writer, &endpoint.write(), 16).unwrap(), endpoint);
    for len in 0..endpoint.write().len() - 4 {
        assert!(EndpointData::read(EndpointKind::Writer, &endpoint.write()[..len], 16).is_none());
    }
}

/// The policies of an endpoint that announces one parameter.
fn with(kind: EndpointKind, id: u16, value: &[u8]) -> EndpointQos {
    let mut list = ParameterWriter::sample();
    list.put(pid::ENDPOINT_GUID, &[1; 16]);
    list.put_text(pid::TOPIC_NAME, "rt/t");
    list.put_text(pid::TYPE_NAME, "T");
    list.put(pid::RELIABILITY, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    list.put(id, value);
    EndpointData::read(kind, &list.end(), 16).unwrap().qos
}

#[test]
fn every_policy_that_keeps_endpoints_apart_is_named() {
    let ours = EndpointQos::new(Qos { durability: Durability::Volatile, ..QOS });
    let one = [1_u32.to_le_bytes(), [0; 4]].concat();
    let second_of = |kind: u32| [&kind.to_le_bytes()[..], &one].concat();
    let partition = [&1_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"ab\0\0"].concat();
    let cases: [(u16, Vec<u8>, Mismatch); 7] = [
        (pid::DURABILITY, vec![1, 0, 0, 0], Mismatch::Durability),
        (pid::DEADLINE, one.clone(), Mismatch::Deadline),
        (pid::LIVELINESS, second_of(0), Mismatch::Liveliness),
        (pid::OWNERSHIP, vec![1, 0, 0, 0], Mismatch::Ownership),
        (pid::PARTITION, partition.clone(), Mismatch::Partition),
        (pid::DESTINATION_ORDER, vec![1, 0, 0, 0], Mismatch::DestinationOrder),
        (pid::PRESENTATION, vec![1, 0, 0, 0, 1, 0, 0, 0], Mismatch::Presentation),
    ];
    for (id, value, expected) in cases {
        let theirs = with(EndpointKind::Reader, id, &value);
        assert_eq!(mismatch(&ours, &theirs), Some(expected), "{id:#x}");
    }
    for (id, value, expected) in [
        (pid::OWNERSHIP, vec![1, 0, 0, 0], Some(Mismatch::Ownership)),
        (pid::PARTITION, partition, Some(Mismatch::Partition)),
        (pid::DEADLINE, one, None),
        (pid::PARTITION, vec![0; 4], None),
        (pid::PARTITION, vec![1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0], None),
    ] {
        let theirs = with(EndpointKind::Writer, id, &value);
        assert_eq!(mismatch(&theirs, &ours), expected, "{id:#x}");
    }
    let best_effort = EndpointQos::new(Qos { reliability: Reliability::BestEffort, ..ours.qos });
    assert_eq!(mismatch(&best_effort, &ours), Some(Mismatch::Reliability));
}
