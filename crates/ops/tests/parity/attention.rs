//! Attention over keys in tiles, and a linear layer beside it.

use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer};
use det_post_ops::view::attention::cuda::{
    AttentionArgs, AttentionElement, AttentionKernel, score_scale, value_stride,
};
use det_post_ops::view::attention::{Workspace, attention};
use det_post_ops::view::linear::LinearLayer;
use det_post_ops::view::linear::cuda::{DeviceLayer, DeviceRows, JobArgs};
use det_post_ops::view::rows::{Rows, RowsMut};
use half::f16;

use det_post_testing::bounds::bound;
use det_post_testing::random::Random;
use det_post_testing::share;

fn compare<T: AttentionElement>(
    device: &CudaDevice,
    [num_queries, num_keys, num_heads, head_len]: [usize; 4],
    bound: f64,
) {
    let stream = device.stream().unwrap();
    let mut random = Random::new(73);
    let columns = num_heads * head_len;
    let mut values = |len: usize, most: f32| -> Vec<f32> {
        let value = |_| T::from_f32(random.range(-most, most)).to_f32();
        (0..len).map(value).collect()
    };
    let queries = values(num_queries * columns, 2.0);
    let keys = values(num_keys * columns, 2.0);
    let key_values = values(num_keys * columns, 2.0);
    let mut expected = vec![0.0; num_queries * columns];
    attention(
        Rows::new(&queries, columns),
        Rows::new(&keys, columns),
        Rows::new(&key_values, columns),
        num_heads,
        &mut Workspace::default(),
        RowsMut::new(&mut expected, columns),
    )
    .unwrap();

    let device_queries = DeviceRows::<T>::from_host(&stream, &queries, columns).unwrap();
    let device_keys = DeviceRows::<T>::from_host(&stream, &keys, columns).unwrap();
    let stride = value_stride(num_keys);
    let mut transposed = vec![T::default(); columns * stride];
    for (at, &value) in key_values.iter().enumerate() {
        transposed[at % columns * stride + at / columns] = T::from_f32(value);
    }
    let mut device_values = DeviceBuffer::zeros(&stream, transposed.len()).unwrap();
    device_values.write(&transposed).unwrap();
    let mut out = DeviceRows::<T>::zeros(&stream, num_queries, columns).unwrap();
    let mut single = DeviceRows::<T>::zeros(&stream, num_queries, columns).unwrap();
    let kernel = AttentionKernel::<T>::load(device, head_len as u32, columns as u32).unwrap();
    // A layer of its own beside it: the identity.
    let identity: Vec<f32> =
        (0..columns * columns).map(|at| f32::from(at % (columns + 1) == 0)).collect();
    let layer = LinearLayer::new([columns; 2], &identity, None).unwrap();
    let layer = DeviceLayer::new::<T>(&stream, &layer).unwrap();
    let mut copy = DeviceRows::<T>::zeros(&stream, num_queries, columns).unwrap();
    let args = AttentionArgs {
        queries: device_queries.input(&stream).unwrap(),
        keys: device_keys.input(&stream).unwrap(),
        values: device_values.input(&stream).unwrap(),
        query_stride: device_queries.stride(),
        key_stride: device_keys.stride(),
        value_stride: stride as u32,
        output_stride: out.stride(),
        output: out.output(&stream).unwrap(),
        num_queries: num_queries as u32,
        num_keys: num_keys as u32,
        head_len: head_len as u32,
        scale: score_scale(head_len),
    };
    let job = JobArgs {
        output_stride: copy.stride(),
        output: copy.output(&stream).unwrap(),
        ..layer.job(&stream, device_queries.part(&stream).unwrap(), num_queries).unwrap()
    };
    let of_single = AttentionArgs { output: single.output(&stream).unwrap(), ..args };
    kernel.enqueue(&stream, of_single, num_heads as u32, &[]).unwrap();
    kernel.enqueue(&stream, args, num_heads as u32, &[job]).unwrap();
    let refused = AttentionArgs { num_keys: num_keys as u32 + 40, ..args };
    assert!(kernel.enqueue(&stream, refused, num_heads as u32, &[]).is_err());
    let sizes = [num_queries, num_keys, num_heads, head_len];
    for found in [out, single] {
        let share = share(&found.read(columns).unwrap(), &expected);
        assert!(share <= bound, "{sizes:?}: {share:e}");
    }
    assert_eq!(copy.read(columns).unwrap(), queries, "{sizes:?}");
}

#[test]
fn attention_agrees() {
    let Some(device) = det_post_testing::gpu() else { return };
    let bound = |part| bound("view/attention", part, "share of the largest value").in_unit();
    for sizes in [
        [1, 1, 2, 8],
        [17, 33, 2, 8],
        [96, 96, 8, 8],
        [70, 31, 4, 16],
        [50, 200, 4, 24],
        [300, 300, 8, 32],
        [33, 129, 2, 48],
        [130, 600, 8, 64],
        [65, 1000, 2, 40],
    ] {
        compare::<f32>(&device, sizes, bound("f32"));
        compare::<f16>(&device, sizes, bound("f16"));
    }
}

#[test]
fn other_heads_are_refused() {
    let Some(device) = det_post_testing::gpu() else { return };
    for head_len in [0, 4, 12, 72] {
        assert!(AttentionKernel::<f16>::load(&device, head_len, 64).is_err(), "{head_len}");
    }
}
