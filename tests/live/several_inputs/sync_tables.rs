//! The synchronizer on every sequence of the shared tables.

use std::time::Duration;

use det_post::config::{SyncConfig, SyncPolicy};
use det_post::runtime::synchronizer::{Cause, Outcome, Synchronizer};
use det_post_types::Stamp;
use serde_json::{Value, json};

use super::shared_data::shared_data;

fn stamp(ms: &Value) -> Stamp {
    Stamp::from_nanos(ms.as_i64().unwrap() * 1_000_000)
}

fn ms(stamp: Stamp) -> i64 {
    assert_eq!(stamp.nanos() % 1_000_000, 0);
    stamp.nanos() / 1_000_000
}

fn duration(ms: &Value) -> Duration {
    Duration::from_millis(ms.as_u64().unwrap())
}

/// What comes of a table, in its own words.
fn run(table: &Value) -> Vec<Value> {
    let count = |key: &str| table[key].as_u64().unwrap() as usize;
    let config = SyncConfig {
        policy: match table["policy"].as_str().unwrap() {
            "nearest" => SyncPolicy::Nearest,
            "latest" => SyncPolicy::Latest,
            other => panic!("policy {other}"),
        },
        reference: count("reference"),
        max_skew: duration(&table["max_skew_ms"]),
        deadline: duration(&table["deadline_ms"]),
        min_period: duration(&table["min_period_ms"]),
        depth: count("depth"),
        min_inputs: Some(count("min_cameras")),
    };
    let mut sync = Synchronizer::new(&config, count("cameras"));
    let (mut events, mut chosen) = (Vec::new(), Vec::<Option<i64>>::new());
    let mut close = |sync: &mut Synchronizer<i64>, now: Stamp, events: &mut Vec<Value>| {
        while let Some(closed) = sync.close(now, &mut chosen) {
            let missing: Vec<usize> =
                (0..chosen.len()).filter(|&input| chosen[input].is_none()).collect();
            let outcome = match closed.outcome {
                Outcome::Usable if missing.is_empty() => "served",
                Outcome::Usable => "served_partial",
                Outcome::Incomplete => "dropped_incomplete",
                Outcome::TooFarApart => "dropped_skew",
            };
            let why = match closed.cause {
                Cause::Complete => "complete",
                Cause::Deadline => "deadline",
                Cause::Reference => "reference",
                Cause::Displaced => "displaced",
            };
            events.push(json!({
                "trigger_ms": ms(closed.stamp), "closed_at_ms": ms(closed.at), "why": why,
                "stamps_ms": chosen, "missing": missing, "outcome": outcome,
            }));
        }
    };
    for arrival in table["arrivals"].as_array().unwrap() {
        let now = stamp(&arrival["log_ms"]);
        close(&mut sync, now, &mut events);
        let (camera, of) = (arrival["camera"].as_u64().unwrap(), stamp(&arrival["stamp_ms"]));
        if let Err(error) = sync.arrive(now, camera as usize, of, ms(of)) {
            events.push(json!({
                "refused": error.kind().reason(), "camera": camera, "stamp_ms": ms(of),
                "at_ms": ms(now),
            }));
        }
        close(&mut sync, now, &mut events);
    }
    close(&mut sync, Stamp::from_nanos(i64::MAX), &mut events);
    events
}

#[test]
fn every_shared_table_holds() {
    let Some(folder) = shared_data() else { return };
    let text = std::fs::read_to_string(folder.join("surround/sync/tables.json")).unwrap();
    let tables: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert!(tables.len() >= 13, "{} tables", tables.len());
    for table in &tables {
        let expected = table["frames"].as_array().unwrap();
        assert!(!expected.is_empty());
        assert_eq!(&run(table), expected, "{}", table["name"]);
        println!("{}: {} frames", table["name"], expected.len());
    }
}
