//! Named tensors of a safetensors file, as f32.

use std::collections::BTreeMap;
use std::path::Path;

use half::f16;

/// Shape and values.
pub type Named = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

/// Reads every tensor of a file. Integers become floats.
pub fn read(path: &Path) -> Named {
    let bytes = std::fs::read(path).unwrap();
    let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
    let data = &bytes[8 + len..];
    let tensors = header.as_object().unwrap().iter().filter(|(name, _)| *name != "__metadata__");
    tensors
        .map(|(name, tensor)| {
            let numbers = |key: &str| -> Vec<usize> {
                let list = tensor[key].as_array().unwrap().iter();
                list.map(|n| n.as_u64().unwrap() as usize).collect()
            };
            let offsets = numbers("data_offsets");
            let data = &data[offsets[0]..offsets[1]];
            let fours = || data.chunks_exact(4).map(|four| <[u8; 4]>::try_from(four).unwrap());
            let values = match tensor["dtype"].as_str().unwrap() {
                "F16" => data
                    .chunks_exact(2)
                    .map(|two| f16::from_le_bytes(two.try_into().unwrap()).to_f32())
                    .collect(),
                "F32" => fours().map(f32::from_le_bytes).collect(),
                "I32" => fours().map(|four| i32::from_le_bytes(four) as f32).collect(),
                "U8" => data.iter().map(|&byte| f32::from(byte)).collect(),
                other => panic!("{name} is {other}"),
            };
            (name.clone(), (numbers("shape"), values))
        })
        .collect()
}
