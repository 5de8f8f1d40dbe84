//! Readers whose log times are limited.

use std::path::Path;

use det_post_ros::bag::{BagReader, LogSpan};
use det_post_types::Stamp;

use super::recordings::{Message, mcap_file, messages, write_db3};
use super::{drain, jumbled, layouts};

/// Every pair of limits gives the messages of the whole recording with those log times, in
/// its order.
fn check_limits(path: &Path, limits: &[Option<u64>]) {
    let (whole, errors) = drain(&mut BagReader::open(path).unwrap());
    assert!(errors.is_empty(), "{errors:?}");
    for &from in limits {
        for &to in limits {
            let mut reader = BagReader::open(path).unwrap();
            let [from_stamp, to_stamp] =
                [from, to].map(|time| time.map(|time| Stamp::from_nanos(time as i64)));
            reader.limit(LogSpan { from: from_stamp, to: to_stamp });
            let is_whole = from.is_none() && to.is_none();
            assert_eq!(reader.num_messages().is_some(), is_whole);
            let is_inside = |message: &&Message| {
                from.is_none_or(|from| message.1 >= from) && to.is_none_or(|to| message.1 < to)
            };
            let expected: Vec<Message> = whole.iter().filter(is_inside).cloned().collect();
            let (found, errors) = drain(&mut reader);
            assert!(errors.is_empty(), "{errors:?}");
            assert_eq!(found, expected, "{} from {from:?} to {to:?}", path.display());
        }
    }
}

/// Messages of which the last of a part, or of the file, is lent when the reader is told
/// otherwise: none of what is still wanted is lost.
#[test]
fn what_is_wanted_may_change_between_messages() {
    let folder = tempfile::tempdir().unwrap();
    let all = messages(20);
    let check = |path: &Path| {
        for num_before in 0..=20 {
            let told: [fn(&mut BagReader); 2] = [
                |reader| reader.select(&["/lidar"]),
                |reader| {
                    let from = Some(Stamp::from_nanos(1100));
                    reader.limit(LogSpan { from, to: None });
                },
            ];
            let is_wanted: [fn(&Message) -> bool; 2] =
                [|message| message.0 == 1, |message| message.1 >= 1100];
            for (tell, is_wanted) in told.into_iter().zip(is_wanted) {
                let mut reader = BagReader::open(path).unwrap();
                for message in &all[..num_before] {
                    let found = reader.next_message().unwrap().unwrap();
                    assert_eq!((found.topic, found.data), (message.0, &message.2[..]));
                }
                tell(&mut reader);
                let (found, errors) = drain(&mut reader);
                assert!(errors.is_empty(), "{errors:?}");
                // The others of a part that is open come as well.
                let found: Vec<Message> = found.into_iter().filter(is_wanted).collect();
                let expected: Vec<Message> =
                    all[num_before..].iter().filter(|one| is_wanted(one)).cloned().collect();
                assert_eq!(found, expected, "{} after {num_before}", path.display());
            }
        }
    };
    for (index, layout) in layouts().into_iter().enumerate() {
        let path = folder.path().join(format!("{index}.mcap"));
        std::fs::write(&path, mcap_file(layout, &all)).unwrap();
        check(&path);
    }
    let path = folder.path().join("drive.db3");
    write_db3(&path, &all);
    check(&path);
}

#[test]
fn limits_select_by_log_time_in_every_storage() {
    let folder = tempfile::tempdir().unwrap();
    // Messages are logged at 1000, 1010, ... 1190.
    let limits = [None, Some(0), Some(1000), Some(1001), Some(1035), Some(1190), Some(9999)];
    for messages in [messages(20), jumbled()] {
        for (index, layout) in layouts().into_iter().enumerate() {
            let path = folder.path().join(format!("{index}.mcap"));
            std::fs::write(&path, mcap_file(layout, &messages)).unwrap();
            check_limits(&path, &limits);
        }
        let path = folder.path().join("drive.db3");
        let _ = std::fs::remove_file(&path);
        write_db3(&path, &messages);
        check_limits(&path, &limits);
    }
}
