//! The output of a YOLOv8 network with the classes of COCO, as a message has it.

use det_post_ros::messages::TensorList;
use det_post_types::{Header, TensorType};

/// Channels of a candidate: centre and size of its box, a score per class.
const NUM_CHANNELS: usize = 4 + 80;

/// Class, score, and centre and size of the box in pixels.
pub type Candidate = (usize, f32, [f32; 4]);

/// Two cars, one of which suppresses a third, and a person.
pub const CANDIDATES: [Candidate; 4] = [
    (2, 0.5, [100.0, 50.0, 40.0, 20.0]),
    (2, 0.875, [101.0, 50.0, 40.0, 20.0]),
    (0, 0.75, [300.0, 200.0, 10.0, 30.0]),
    (2, 0.1, [500.0, 500.0, 10.0, 10.0]),
];

/// What is left of them by default: class, score, centre and size.
pub const FOUND: [Candidate; 2] =
    [(2, 0.875, [101.0, 50.0, 40.0, 20.0]), (0, 0.75, [300.0, 200.0, 10.0, 30.0])];

/// The shape and the bytes of the tensor of candidates, channel by channel.
pub fn tensor(candidates: &[Candidate]) -> ([u32; 3], Vec<u8>) {
    let num = candidates.len();
    let mut values = vec![0.0_f32; NUM_CHANNELS * num];
    for (index, (class, score, bbox)) in candidates.iter().enumerate() {
        for (channel, value) in bbox.iter().enumerate() {
            values[channel * num + index] = *value;
        }
        values[(4 + class) * num + index] = *score;
    }
    let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    ([1, NUM_CHANNELS as u32, num as u32], bytes)
}

/// A message with the tensor under a name, beside another.
pub fn message(header: &Header<'_>, name: &str, candidates: &[Candidate]) -> Vec<u8> {
    let (shape, data) = tensor(candidates);
    let tensors = [
        ("other", TensorType::U8, &[3][..], &[1, 2, 3][..]),
        (name, TensorType::F32, &shape[..], &data[..]),
    ];
    let mut cdr = Vec::new();
    TensorList::encode(header, &tensors, &mut cdr).unwrap();
    cdr
}
