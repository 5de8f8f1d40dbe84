//! The topics of a recording, merged from its files and `metadata.yaml`.

use std::collections::BTreeSet;

use super::metadata::{Metadata, TopicCount, TopicMetadata};
use super::source::Source;
use super::topic::TopicInfo;

/// All topics of the files and of `metadata.yaml`, with the counts of the
/// files; fills in where each file has them.
pub(super) fn merge_topics(sources: &mut [Source], metadata: Option<&Metadata>) -> Vec<TopicInfo> {
    let declared = metadata.map(|metadata| metadata.topics_with_message_count.as_slice());
    let declared = declared.unwrap_or_default().iter().map(|topic| TopicInfo {
        num_messages: Some(0),
        offered_qos: topic.topic_metadata.offered_qos_profiles.clone(),
        ..declared_topic(topic)
    });
    let found = sources.iter().flat_map(|source| source.topics().iter().cloned());
    let mut topics: Vec<TopicInfo> = Vec::new();
    let mut all: Vec<TopicInfo> = found.chain(declared).collect();
    let written: BTreeSet<String> = all.iter().map(|topic| topic.name.clone()).collect();
    let full = |name: &str| full_name(name, |other| written.contains(other));
    all.iter_mut().for_each(|topic| topic.name = full(&topic.name));
    // Stable, so that the first file's QoS holds for equal topics.
    all.sort_by(|a, b| key(a).cmp(&key(b)));
    for topic in all {
        match topics.last_mut() {
            Some(last) if key(last) == key(&topic) => {
                let sum = last.num_messages.zip(topic.num_messages);
                last.num_messages = sum.map(|(a, b)| a.saturating_add(b));
                if last.offered_qos.is_empty() {
                    last.offered_qos = topic.offered_qos;
                }
            }
            _ => topics.push(topic),
        }
    }
    for source in sources {
        let index = |topic: &TopicInfo| {
            let name = full(&topic.name);
            let wanted = (&*name, &*topic.type_name, &*topic.serialization);
            topics.binary_search_by(|other| key(other).cmp(&wanted))
        };
        source.topic_of =
            source.topics().iter().map(|topic| index(topic).unwrap_or(usize::MAX)).collect();
    }
    topics
}

/// The name of a topic that is written as `name`: with its leading slash, unless that is another topic.
fn full_name(name: &str, is_written: impl Fn(&str) -> bool) -> String {
    let full = format!("/{name}");
    match name.is_empty() || name.starts_with('/') || is_written(&full) {
        true => name.to_owned(),
        false => full,
    }
}

fn key(topic: &TopicInfo) -> (&str, &str, &str) {
    (&topic.name, &topic.type_name, &topic.serialization)
}

fn declared_topic(topic: &TopicCount) -> TopicInfo {
    let TopicMetadata { name, type_name, serialization_format, .. } = &topic.topic_metadata;
    TopicInfo::declared(name, type_name, serialization_format)
}

/// Takes the counts of `metadata.yaml`.
pub(super) fn declare(topics: &mut [TopicInfo], metadata: &Metadata) {
    for declared in &metadata.topics_with_message_count {
        let mut wanted = declared_topic(declared);
        if topics.iter().all(|own| own.name != wanted.name) {
            wanted.name = full_name(&wanted.name, |_| false);
        }
        if let Ok(at) = topics.binary_search_by(|topic| key(topic).cmp(&key(&wanted)))
            && let Some(topic) = topics.get_mut(at)
        {
            topic.num_messages = Some(declared.message_count);
        }
    }
}
