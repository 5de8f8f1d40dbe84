//! H.264 on the engines of a GPU: the pictures of the CPU's decoder, byte for byte.

use super::gpu;
use crate::common::video::{Decode, OnGpu, Picture, encode};
use det_post_ros::video::VideoDecoder;

fn stream(width: usize, height: usize, num: usize, key_period: u32) -> Vec<Vec<u8>> {
    let pictures: Vec<Picture> =
        (0..num).map(|number| Picture::moving(width, height, number)).collect();
    encode(&pictures, key_period)
}

#[test]
fn pictures_are_those_of_the_cpu() {
    let Some((_alone, _gpu)) = gpu() else { return };
    let Some(mut on_gpu) = OnGpu::open() else { return };
    // Whole macroblocks, cropped, large, wide; one decoder for all: the size changes at a key frame.
    let sizes = [(64, 48), (64, 40), (208, 120), (640, 360), (1920, 1080), (66, 50), (1280, 64)];
    let mut on_cpu = VideoDecoder::default();
    for (width, height) in sizes {
        for (index, packet) in stream(width, height, 12, 5).iter().enumerate() {
            let expected = on_cpu.picture(packet).unwrap();
            let found = on_gpu.picture(packet).unwrap();
            assert_eq!(found.size, expected.size, "{width}x{height} {index}");
            let num_differ =
                found.samples.iter().zip(&expected.samples).filter(|(a, b)| a != b).count();
            assert_eq!(num_differ, 0, "{width}x{height} {index}: samples that differ");
        }
        assert_eq!(on_gpu.num_on_cpu, 0, "{width}x{height}");
    }
    // What is below the least size of the engines is decoded on the CPU.
    for packet in stream(16, 16, 6, 3) {
        assert!(on_gpu.picture(&packet).unwrap() == on_cpu.picture(&packet).unwrap());
    }
}

#[test]
fn several_decoders_work_at_once() {
    let Some((_alone, _gpu)) = gpu() else { return };
    if OnGpu::open().is_none() {
        return;
    }
    std::thread::scope(|scope| {
        for number in 0..6 {
            scope.spawn(move || {
                let (mut on_cpu, mut on_gpu) = (VideoDecoder::default(), OnGpu::new());
                for packet in stream(320 + 16 * number, 240, 30, 10) {
                    let expected = on_cpu.picture(&packet).unwrap();
                    assert!(on_gpu.picture(&packet).unwrap() == expected, "{number}");
                }
                assert_eq!(on_gpu.num_on_cpu, 0, "{number}");
            });
        }
    });
}

#[test]
fn damage_costs_no_more_than_up_to_the_next_key_frame() {
    let Some((_alone, _gpu)) = gpu() else { return };
    if OnGpu::open().is_none() {
        return;
    }
    const KEY_PERIOD: usize = 3;
    let all = [stream(64, 48, 6, KEY_PERIOD as u32), stream(80, 64, 6, KEY_PERIOD as u32)].concat();
    let mut on_cpu = VideoDecoder::default();
    let whole: Vec<_> = all.iter().map(|packet| on_cpu.picture(packet).unwrap()).collect();
    for damaged in 0..all.len() {
        let next_key = (damaged / KEY_PERIOD + 1) * KEY_PERIOD;
        // Half of a packet, and a packet that is missing.
        for is_missing in [false, true] {
            let mut on_gpu = OnGpu::new();
            for (index, packet) in all.iter().enumerate() {
                let packet = match index == damaged {
                    true if is_missing => continue,
                    true => &packet[..packet.len() / 2],
                    false => packet,
                };
                let found = on_gpu.picture(packet);
                let is_hit = (damaged..next_key).contains(&index);
                match found {
                    Ok(found) if !is_hit => assert!(found == whole[index], "{damaged} {index}"),
                    Ok(_) => assert!(index == damaged && !is_missing, "{damaged} {index}"),
                    Err(error) => assert!(is_hit, "{damaged} {index}: {error}"),
                }
            }
            assert_eq!(on_gpu.num_on_cpu, 0, "{damaged}");
        }
    }
}
