//! Memory of a stream that is freed before the stream ([`Stream::with_own_memory`]).

use det_post::ErrorKind;
use det_post_ops::device::cuda::{DeviceBuffer, Graph, Stream};

const NUM_BYTES: usize = 64 << 20;

fn buffer(stream: &Stream) -> DeviceBuffer<u8> {
    DeviceBuffer::zeros(stream, NUM_BYTES).unwrap()
}

#[test]
fn it_is_freed_with_the_last_that_uses_it() {
    let Some((_alone, device)) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    let is_free = |before: usize| device.free_memory().unwrap() + NUM_BYTES / 2 > before;
    let before = device.free_memory().unwrap();
    let own = stream.with_own_memory();
    let mut values = buffer(&own);
    let graph = Graph::capture(&own, || values.enqueue_clear()).unwrap();
    drop(own);
    assert!(!is_free(before), "the buffer is there");
    values.write(&[1; 100]).unwrap();
    graph.enqueue().unwrap();
    assert_eq!(values.read().unwrap()[..100], [0; 100]);
    drop(values);
    assert!(!is_free(before), "the graph holds it");
    graph.enqueue().unwrap();
    drop(graph);
    assert!(is_free(before), "nothing uses it");
    stream.synchronize().unwrap();
}

#[test]
fn work_of_other_handles_cannot_use_it() {
    let Some((_alone, device)) = super::gpu() else { return };
    let stream = device.stream().unwrap();
    let (own, other) = (stream.with_own_memory(), stream.with_own_memory());
    let mut shared = buffer(&stream);
    let [mut of_own, mut of_other] = [&own, &other].map(buffer);
    of_own.enqueue_copy(&shared).unwrap();
    for refused in [shared.enqueue_copy(&of_own), of_other.enqueue_copy(&of_own)] {
        let error = refused.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.message().contains("another"), "{error}");
    }
    for recorder in [&stream, &other] {
        let error = Graph::capture(recorder, || of_own.enqueue_clear()).err().unwrap();
        assert!(error.message().contains("memory of another handle"), "{error}");
    }
    let both = || of_own.enqueue_clear().and_then(|()| shared.enqueue_clear());
    Graph::capture(&own, both).unwrap().enqueue().unwrap();
    stream.synchronize().unwrap();
}
