//! Faults of a GPU: a frame is lost, the channel is not. The networks run in
//! ONNX Runtime when its library is named and has a CUDA provider, else in
//! rten.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use det_post::device::Device;
use det_post::device::cuda::abi::fault::{FaultKind, fail};
use det_post::device::cuda::{CudaDevice, DeviceBuffer, DeviceValues};
use det_post::infer::device::{DeviceEngine, fixed_shape};
use det_post::infer::{Engine, RtenEngine};
use det_post::pipeline::{Health, Supervisor};
use det_post::types::{
    DeviceChoice, EngineOptions, FailurePolicy, Fallback, Tensor, TensorValues, TensorView,
};
use det_post::{ErrorKind, Result};

use super::network::{INPUT, network, noise};
use super::{alone, saved};

const GPU: DeviceChoice = DeviceChoice::Cuda(0);

fn open(ordinal: u32) -> Result<CudaDevice> {
    match Device::open(DeviceChoice::Cuda(ordinal))? {
        Device::Cuda(device) => Ok(device),
        Device::Cpu => panic!("a GPU was asked for by number"),
    }
}

/// A network on a GPU or on the CPU, as a channel has it.
enum Channel {
    OnGpu(Box<DeviceEngine>),
    OnCpu(Box<RtenEngine>),
}

impl Channel {
    fn new(model: &Path, device: &Device) -> Result<Self> {
        Ok(match device {
            Device::Cpu => Self::OnCpu(Box::new(RtenEngine::load(model, Some(1))?)),
            Device::Cuda(device) => {
                let options = EngineOptions { threads: Some(1), ..EngineOptions::default() };
                let engine = DeviceEngine::load(model, &options, &device.stream()?, fixed_shape)?;
                Self::OnGpu(Box::new(engine))
            }
        })
    }

    fn run(&mut self, values: &[f32]) -> Result<Vec<f32>> {
        match self {
            Self::OnGpu(engine) => {
                if let DeviceValues::F32(to) = engine.input(0)?.values_mut() {
                    to.write(values)?;
                }
                engine.enqueue()?;
                match engine.output(0)?.read()? {
                    Tensor::F32 { values, .. } => Ok(values),
                    Tensor::F16 { .. } => panic!("an output of 16-bit floats"),
                }
            }
            Self::OnCpu(engine) => {
                engine.run(&[TensorView::new(&INPUT, TensorValues::F32(values))?])?;
                match engine.output(0)?.values() {
                    TensorValues::F32(values) => Ok(values.to_vec()),
                    other => panic!("an output of {}", other.element()),
                }
            }
        }
    }
}

fn supervisor(model: &Path, device: DeviceChoice, policy: FailurePolicy) -> Supervisor<Channel> {
    let model = model.to_owned();
    Supervisor::new("test", device, policy, move |device| Channel::new(&model, device)).unwrap()
}

fn frame() -> Vec<f32> {
    noise(INPUT.iter().product(), 5)
}

/// Serves frames until one succeeds; how many were lost, and the answer.
fn serve_until_good(channel: &mut Supervisor<Channel>, values: &[f32]) -> (usize, Vec<f32>) {
    let start = Instant::now();
    for num_lost in 0.. {
        match channel.serve(|channel| channel.run(values)) {
            Ok(answer) => return (num_lost, answer),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Device, "{error}");
                assert!(start.elapsed() < Duration::from_secs(20), "{error}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
    unreachable!()
}

#[test]
fn a_fault_ends_the_gpu_for_all_until_all_have_let_go() {
    let Some(_alone) = alone() else { return };
    for kind in [FaultKind::Trap, FaultKind::BadAddress] {
        let device = open(0).unwrap();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let mut buffer = DeviceBuffer::<u32>::zeros(&other, 4).unwrap();
        buffer.write(&[1, 2, 3, 4]).unwrap();
        let fault = fail(&device, kind).unwrap_err();
        println!("{kind:?}: {fault}");
        assert!(device.check().is_err());
        assert!(stream.synchronize().is_err());
        assert_eq!(buffer.read().unwrap_err().kind(), ErrorKind::Device);
        assert!(CudaDevice::is_held_after_fault(0));
        let refused = open(0).unwrap_err();
        assert!(refused.message().contains("not all channels"), "{refused}");
        drop((device, stream, other, buffer));
        assert!(!CudaDevice::is_held_after_fault(0));

        let device = open(0).unwrap();
        let stream = device.stream().unwrap();
        let mut buffer = DeviceBuffer::<u32>::zeros(&stream, 4).unwrap();
        buffer.write(&[5, 6, 7, 8]).unwrap();
        assert_eq!(buffer.read().unwrap(), [5, 6, 7, 8]);
        device.check().unwrap();
    }
}

#[test]
fn a_channel_loses_the_frame_of_a_fault_and_no_more() {
    let Some(_alone) = alone() else { return };
    let model = saved(&network(false));
    for fault_at_frame in [0, 3] {
        let fault_at_frame = Some(fault_at_frame);
        let policy = FailurePolicy { fault_at_frame, ..FailurePolicy::default() };
        let mut channel = supervisor(model.path(), GPU, policy);
        let mut answers = Vec::new();
        for number in 0..8 {
            let served = channel.serve(|channel| channel.run(&frame()));
            assert_eq!(served.is_err(), Some(number) == fault_at_frame, "frame {number}");
            match served {
                Ok(answer) => answers.push(answer),
                Err(error) => {
                    println!("frame {number}: {error}");
                    assert_eq!(error.kind(), ErrorKind::Device);
                    assert_eq!(channel.health(), Health::Rebuilding);
                }
            }
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "other bytes after the fault");
        assert_eq!((channel.health(), channel.num_failures()), (Health::Good, 1));
    }
}

#[test]
fn a_channel_that_fails_too_often_rests() {
    let Some(_alone) = alone() else { return };
    let model = saved(&network(false));
    let policy = FailurePolicy {
        max_failures: 2,
        window: Duration::from_millis(1500),
        ..FailurePolicy::default()
    };
    let mut channel = supervisor(model.path(), GPU, policy);
    for _ in 0..2 {
        let failed = channel.serve(|channel| {
            fail(&open(0)?, FaultKind::Trap)?;
            channel.run(&frame())
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Device);
    }
    assert_eq!(channel.health(), Health::Resting);
    let error = channel.serve(|channel| channel.run(&frame())).unwrap_err();
    println!("{error}");
    assert!(error.message().contains("rests"), "{error}");
    let (num_lost, _) = serve_until_good(&mut channel, &frame());
    println!("{num_lost} frames were lost at rest");
    assert!(num_lost > 0);
    assert_eq!((channel.health(), channel.num_failures()), (Health::Good, 2));
}

#[test]
fn a_channel_that_fails_too_often_goes_on_with_the_cpu() {
    let Some(_alone) = alone() else { return };
    let model = saved(&network(false));
    let policy =
        FailurePolicy { max_failures: 2, fallback: Fallback::Cpu, ..FailurePolicy::default() };
    let mut channel = supervisor(model.path(), GPU, policy);
    let before = channel.serve(|channel| channel.run(&frame())).unwrap();
    for _ in 0..2 {
        let failed = channel.serve(|channel| {
            fail(&open(0)?, FaultKind::BadAddress)?;
            channel.run(&frame())
        });
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::Device);
    }
    let after = channel.serve(|channel| channel.run(&frame())).unwrap();
    assert!(matches!(channel.pipeline(), Some(Channel::OnCpu(_))));
    assert_eq!(channel.health(), Health::OnFallback);
    let largest = before.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let difference = |(a, b): (&f32, &f32)| (a - b).abs() / largest;
    assert!(before.iter().zip(&after).map(difference).all(|found| found < 5e-3));
    // The GPU is free for others.
    drop(channel);
    open(0).unwrap().check().unwrap();
}

#[test]
fn an_idle_channel_lets_go_for_the_others() {
    let Some(_alone) = alone() else { return };
    let model = saved(&network(false));
    let mut idle = supervisor(model.path(), GPU, FailurePolicy::default());
    let policy = FailurePolicy { fault_at_frame: Some(1), ..FailurePolicy::default() };
    let mut busy = supervisor(model.path(), GPU, policy);
    let expected = idle.serve(|channel| channel.run(&frame())).unwrap();
    assert!(busy.serve(|channel| channel.run(&frame())).unwrap() == expected);
    assert!(busy.serve(|channel| channel.run(&frame())).is_err(), "the fault");
    let waiting = busy.serve(|channel| channel.run(&frame())).unwrap_err();
    println!("{waiting}");
    assert!(waiting.message().contains("other channels hold it"), "{waiting}");
    idle.idle();
    assert!(idle.pipeline().is_none());
    assert!(busy.serve(|channel| channel.run(&frame())).unwrap() == expected);
    assert!(idle.serve(|channel| channel.run(&frame())).unwrap() == expected);
    assert_eq!((busy.num_failures(), idle.num_failures()), (1, 0));
}

/// Channels in threads of their own, two on every GPU: all serve at the same
/// time, and all go on after the first has made GPU 0 fail.
#[test]
fn channels_of_all_gpus_run_side_by_side_and_survive() {
    let Some(_alone) = alone() else { return };
    let is_there = |&ordinal: &u32| open(ordinal).is_ok();
    let num_gpus = (0..64).take_while(is_there).count() as u32;
    let model = saved(&network(false));
    let path = model.path();
    let start = Instant::now();
    let (sender, answers) = mpsc::channel();
    std::thread::scope(|scope| {
        for number in 0..2 * num_gpus {
            let sender = sender.clone();
            scope.spawn(move || {
                let gpu = number / 2;
                let fault_at_frame = (number == 0).then_some(20);
                let policy = FailurePolicy { fault_at_frame, ..FailurePolicy::default() };
                let mut channel = supervisor(path, DeviceChoice::Cuda(gpu), policy);
                let mut num_lost = 0;
                for _ in 0..60 {
                    let (lost, answer) = serve_until_good(&mut channel, &frame());
                    num_lost += lost;
                    sender.send((gpu, answer)).unwrap();
                }
                println!("channel {number} on GPU {gpu}: {num_lost} frames lost");
                assert!(number != 0 || num_lost > 0, "no fault was felt");
                assert!(gpu == 0 || num_lost == 0, "a fault of GPU 0 was felt on GPU {gpu}");
            });
        }
    });
    drop(sender);
    let answers: Vec<_> = answers.iter().collect();
    assert_eq!(answers.len(), 120 * num_gpus as usize);
    assert!(answers.iter().all(|(_, answer)| *answer == answers[0].1), "other bytes somewhere");
    println!("{num_gpus} GPUs, {} frames, {:?}", answers.len(), start.elapsed());
}
