//! What readers get over a network that loses, doubles and delays.

use super::net::{Faults, Net, best_effort, qos, reliable, sample};
use crate::qos::{Durability, History, Qos, Reliability};
use crate::types::Event;
use proptest::prelude::*;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn faults() -> impl Strategy<Value = Faults> {
    (0..300_u64, 0..200_u64, 1..60_u64).prop_map(|(lost, doubled, delay_ms)| Faults {
        lost,
        doubled,
        delay_ms,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_reliable_reader_gets_every_sample_once_and_in_order(
        faults in faults(),
        seed in any::<u64>(),
        lens in prop::collection::vec(prop_oneof![3 => 0..2000_usize, 1 => 20_000..90_000_usize], 1..40),
        gap_ms in 0..40_u64,
        is_late in any::<bool>(),
    ) {
        let mut net = Net::new(2, faults, seed);
        let durability = if is_late { Durability::TransientLocal } else { Durability::Volatile };
        let policies = qos(Reliability::Reliable, durability, 100);
        let writer = net.writer(0, "rt/t", policies, 100);
        let reader = if is_late { None } else { Some(net.reader(1, "rt/t", policies)) };
        if !is_late {
            let is_matched = net.run_until(60 * SECOND, |net| {
                net.is_matched(0, writer) && reader.is_some_and(|r| net.is_matched(1, r))
            });
            prop_assert!(is_matched, "not matched");
        }
        let limits = crate::settings::Limits::default();
        for (number, len) in lens.iter().enumerate() {
            net.write(0, writer, &sample(number as u64, *len));
            net.run(Duration::from_millis(gap_ms));
            prop_assert!(net.nodes[1].statistics().held_bytes <= limits.participant_bytes);
        }
        let reader = reader.unwrap_or_else(|| net.reader(1, "rt/t", policies));
        let mut got: Vec<Vec<u8>> = Vec::new();
        for _ in 0..1200 {
            net.run(Duration::from_millis(100));
            while let Some(sample) = net.nodes[1].take(reader.entity) {
                got.push(sample.data.bytes().to_vec());
            }
            if got.len() == lens.len() && net.nodes[0].is_confirmed(writer.entity) {
                break;
            }
        }
        let sent: Vec<Vec<u8>> =
            lens.iter().enumerate().map(|(number, len)| sample(number as u64, *len)).collect();
        prop_assert_eq!(got.len(), sent.len());
        prop_assert!(got == sent, "out of order or damaged");
        prop_assert!(net.nodes[0].is_confirmed(writer.entity));
        let lost = net.events[1].iter().any(|event| matches!(event, Event::Lost { .. }));
        prop_assert!(!lost);
    }

    #[test]
    fn a_best_effort_reader_gets_whole_samples_once_and_counts_the_others(
        faults in faults(),
        seed in any::<u64>(),
        lens in prop::collection::vec(0..60_000_usize, 5..40),
    ) {
        let mut net = Net::new(2, faults, seed);
        let writer = net.writer(0, "rt/t", best_effort(100), 0);
        let reader = net.reader(1, "rt/t", best_effort(100));
        let is_matched =
            net.run_until(60 * SECOND, |net| net.is_matched(0, writer) && net.is_matched(1, reader));
        prop_assert!(is_matched);
        for (number, len) in lens.iter().enumerate() {
            net.write(0, writer, &sample(number as u64, *len));
            net.run(Duration::from_millis(20));
        }
        // Unfinished samples are given up after 4 s.
        net.run(10 * SECOND);
        let mut numbers = Vec::new();
        while let Some(found) = net.nodes[1].take(reader.entity) {
            let index = found.number as usize - 1;
            prop_assert!(found.data.bytes() == sample(index as u64, lens[index]));
            numbers.push(found.number);
        }
        prop_assert!(numbers.is_sorted_by(|a, b| a < b));
        let lost: u64 = net.events[1].iter().map(|event| match event {
            Event::Lost { count, .. } => *count,
            _ => 0,
        }).sum();
        // Before the first and after the last, those of which nothing arrived are unknown.
        let num_known = numbers.len() + lost as usize;
        prop_assert!(num_known <= lens.len());
        if let (Some(first), Some(last)) = (numbers.first(), numbers.last()) {
            prop_assert!((last - first + 1) as usize <= num_known);
        }
    }
}

#[test]
fn a_reader_that_keeps_all_lets_its_writer_wait() {
    let mut net = Net::new(2, super::net::NO_FAULTS, 1);
    let all = Qos { history: History::KeepAll, ..reliable(1) };
    let writer = net.writer(0, "rt/t", all, 0);
    let reader = net.reader(1, "rt/t", all);
    assert!(
        net.run_until(10 * SECOND, |net| net.is_matched(0, writer) && net.is_matched(1, reader))
    );
    let mut num_written = 0;
    for number in 0..4000_u64 {
        let data = sample(number, 10);
        if net.nodes[0].write(writer.entity, &data, &Default::default(), 1, net.now).is_err() {
            break;
        }
        num_written += 1;
        net.flush(0);
        net.run(Duration::from_millis(1));
    }
    // 1024 at the reader, some on their way, 1024 at the writer.
    assert!((2000..3000).contains(&num_written), "{num_written}");
    let mut num_taken = 0;
    for _ in 0..2000 {
        while let Some(found) = net.nodes[1].take(reader.entity) {
            assert_eq!(found.data.bytes(), sample(num_taken, 10));
            num_taken += 1;
        }
        if num_taken == num_written {
            break;
        }
        net.run(Duration::from_millis(20));
    }
    assert_eq!(num_taken, num_written);
    assert!(!net.events[1].iter().any(|event| matches!(event, Event::Lost { .. })));
}

#[test]
fn what_is_late_is_asked_for_and_what_is_on_its_way_is_not() {
    let faults = Faults { lost: 0, doubled: 0, delay_ms: 5 };
    let mut net = Net::new(2, faults, 3);
    let writer = net.writer(0, "rt/t", reliable(10), 10);
    let reader = net.reader(1, "rt/t", reliable(10));
    assert!(
        net.run_until(10 * SECOND, |net| net.is_matched(0, writer) && net.is_matched(1, reader))
    );
    net.run(SECOND);
    let before = net.nodes[1].statistics().datagrams;
    for number in 0..10 {
        // The fragments of 1 MB may come in any order; of more, those far ahead are refused.
        net.write(0, writer, &sample(number, 1_000_000));
        net.run(Duration::from_millis(33));
    }
    net.run(SECOND);
    let arrived = net.nodes[1].statistics().datagrams - before;
    // 63 fragments each, and heartbeats: nothing is sent twice.
    assert!((630..660).contains(&arrived), "{arrived}");
    assert!(net.nodes[0].is_confirmed(writer.entity));
}
