//! Faults of a GPU, and several channels and GPUs at once. A fault ends the GPU
//! for a whole process, so every such test runs in a process of its own. The
//! networks run in ONNX Runtime when its library is named and has a CUDA
//! provider, else in rten.

use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use det_post::config::ChannelConfig;
use det_post::detectors::{Detector, DetectorInfo, FrameSet};
use det_post::runtime::supervisor::{Health, Supervisor};
use det_post::{ErrorKind, Result};
use det_post_infer::device::{DeviceEngine, fixed_shape};
use det_post_infer::{Engine, RtenEngine};
use det_post_ops::device::Device;
use det_post_ops::device::cuda::diagnostic::{FaultKind, fail};
use det_post_ops::device::cuda::{CudaDevice, DeviceBuffer, DeviceValues};
use det_post_types::{
    Detections, DeviceChoice, EngineOptions, FailurePolicy, Fallback, FrameReport, Stamp, Tensor,
    TensorValues, TensorView,
};

use super::network::{INPUT, network, noise};
use super::{gpu, saved};

const GPU: DeviceChoice = DeviceChoice::Cuda(0);

/// Names the test that a process is for.
const VARIABLE: &str = "DET_POST_FAULT_TEST";

/// Runs a test of this file in a process of its own, which must end well.
fn by_itself(name: &str, test: impl FnOnce()) {
    if std::env::var(VARIABLE).is_ok_and(|value| value == name) {
        return test();
    }
    let Some(_device) = gpu() else { return };
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", &format!("gpu::faults::{name}"), "--nocapture"];
    let output = Command::new(program).args(arguments).env(VARIABLE, name).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    println!("{out}");
    assert!(output.status.success() && out.contains("1 passed"), "{}\n{out}\n{err}", output.status);
}

fn open(ordinal: u32) -> Result<CudaDevice> {
    match Device::open(DeviceChoice::Cuda(ordinal))? {
        Device::Cuda(device) => Ok(device),
        Device::Cpu => panic!("a GPU was asked for by number"),
    }
}

fn num_gpus() -> u32 {
    (0..64).take_while(|&ordinal| open(ordinal).is_ok()).count() as u32
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

/// A detector that only runs its network, on the same values in every frame.
struct NetworkOnly {
    channel: Channel,
    info: DetectorInfo,
    answer: Arc<Mutex<Vec<f32>>>,
    /// Fails GPU 0 before the next frame.
    fault: Arc<Mutex<Option<FaultKind>>>,
    is_in_flight: bool,
}

impl Detector for NetworkOnly {
    fn info(&self) -> &DetectorInfo {
        &self.info
    }

    fn num_in_flight(&self) -> usize {
        usize::from(self.is_in_flight)
    }

    fn submit(&mut self, _: &FrameSet<'_>, _: &mut FrameReport) -> Result<()> {
        if let Some(kind) = self.fault.lock().unwrap().take() {
            assert!(fail(&open(0)?, kind).is_err());
        }
        *self.answer.lock().unwrap() = self.channel.run(&values())?;
        self.is_in_flight = true;
        Ok(())
    }

    fn collect<'a>(&'a mut self, _: &mut FrameReport) -> Result<Detections<'a>> {
        self.is_in_flight = false;
        Ok(Detections::Boxes2d(&[]))
    }

    fn reconfigure(&mut self, _: &ChannelConfig) -> Result<()> {
        Ok(())
    }

    fn warm_up(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A supervised network and its last answer.
struct Supervised {
    supervisor: Supervisor,
    answer: Arc<Mutex<Vec<f32>>>,
    fault: Arc<Mutex<Option<FaultKind>>>,
}

impl Supervised {
    fn health(&self) -> Health {
        self.supervisor.health()
    }

    fn device(&self) -> Option<DeviceChoice> {
        self.supervisor.detector().map(|detector| detector.info().device)
    }
}

fn supervisor(model: &Path, device: DeviceChoice, fallback: Fallback) -> Supervised {
    let (model, policy) =
        (model.to_owned(), FailurePolicy { fallback, ..FailurePolicy::default() });
    let (answer, fault) = (Arc::default(), Arc::default());
    let shared = (Arc::clone(&answer), Arc::clone(&fault));
    let make = move |device| {
        let device = Device::open(device)?;
        let (answer, fault) = shared.clone();
        let info = DetectorInfo::new([], &device, "test", &[]);
        let channel = Channel::new(&model, &device)?;
        let is_in_flight = false;
        Ok(Box::new(NetworkOnly { channel, info, answer, fault, is_in_flight })
            as Box<dyn Detector>)
    };
    let supervisor = Supervisor::new("test", device, policy, make).unwrap();
    Supervised { supervisor, answer, fault }
}

fn values() -> Vec<f32> {
    noise(INPUT.iter().product(), 5)
}

fn serve(channel: &mut Supervised) -> Result<Vec<f32>> {
    let (detector, failures) = channel.supervisor.ready()?;
    let frame = FrameSet { stamp: Stamp::default(), inputs: &[], target_pose: None };
    failures.note(detector.detect(&frame, &mut FrameReport::new()))?;
    Ok(channel.answer.lock().unwrap().clone())
}

/// Serves a frame during which GPU 0 fails.
fn serve_with_a_fault(channel: &mut Supervised, kind: FaultKind) {
    *channel.fault.lock().unwrap() = Some(kind);
    let error = serve(channel).unwrap_err();
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::DeviceLost);
}

/// Whether two answers are those of one network on two engines.
fn assert_close(found: &[f32], expected: &[f32]) {
    let largest = expected.iter().fold(0.0_f32, |largest, value| largest.max(value.abs()));
    let difference = |(a, b): (&f32, &f32)| (a - b).abs() / largest;
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).map(difference).all(|found| found < 5e-3));
}

fn ends_the_gpu(kind: FaultKind) {
    let device = open(0).unwrap();
    let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
    let mut buffer = DeviceBuffer::<u32>::zeros(&other, 4).unwrap();
    buffer.write(&[1, 2, 3, 4]).unwrap();
    let fault = fail(&device, kind).unwrap_err();
    println!("{kind:?}: {fault}");
    let lost = |result: Result<()>| assert_eq!(result.unwrap_err().kind(), ErrorKind::DeviceLost);
    lost(Err(fault));
    lost(device.check());
    lost(stream.synchronize());
    lost(buffer.read().map(drop));
    lost(open(0).map(drop));
    drop((device, stream, other, buffer));
    lost(open(0).map(drop));
    // A GPU that failed is not taken for none.
    lost(Device::open(DeviceChoice::Auto).map(drop));
    Device::open(DeviceChoice::Cpu).unwrap();
    match open(1) {
        Ok(other) => println!("GPU 1 after a fault of GPU 0: {:?}", other.check()),
        Err(error) => println!("GPU 1 after a fault of GPU 0: {error}"),
    }
}

#[test]
fn a_trap_ends_the_gpu_for_the_process() {
    by_itself("a_trap_ends_the_gpu_for_the_process", || ends_the_gpu(FaultKind::Trap));
}

#[test]
fn a_bad_address_ends_the_gpu_for_the_process() {
    by_itself("a_bad_address_ends_the_gpu_for_the_process", || ends_the_gpu(FaultKind::BadAddress));
}

#[test]
fn a_channel_goes_on_with_the_cpu() {
    by_itself("a_channel_goes_on_with_the_cpu", || {
        let model = saved(&network(false));
        let mut channel = supervisor(model.path(), GPU, Fallback::Cpu);
        let before = serve(&mut channel).unwrap();
        serve_with_a_fault(&mut channel, FaultKind::BadAddress);
        for _ in 0..2 {
            assert_close(&serve(&mut channel).unwrap(), &before);
            assert_eq!(channel.device(), Some(DeviceChoice::Cpu));
            assert_eq!(channel.health(), Health::OnFallback);
        }
    });
}

#[test]
fn a_channel_without_a_fallback_says_that_its_gpu_is_lost() {
    by_itself("a_channel_without_a_fallback_says_that_its_gpu_is_lost", || {
        let model = saved(&network(false));
        let mut channel = supervisor(model.path(), GPU, Fallback::None);
        serve(&mut channel).unwrap();
        serve_with_a_fault(&mut channel, FaultKind::Trap);
        for _ in 0..2 {
            let error = serve(&mut channel).unwrap_err();
            assert_eq!((error.kind(), channel.health()), (ErrorKind::DeviceLost, Health::Lost));
            assert_eq!(channel.device(), None);
        }
    });
}

#[test]
fn all_channels_of_a_gpu_feel_a_fault_and_all_go_on() {
    by_itself("all_channels_of_a_gpu_feel_a_fault_and_all_go_on", || {
        let model = saved(&network(false));
        let mut channels: [_; 3] =
            std::array::from_fn(|_| supervisor(model.path(), GPU, Fallback::Cpu));
        let before = channels.each_mut().map(|channel| serve(channel).unwrap());
        assert!(before.iter().all(|answer| *answer == before[0]));
        serve_with_a_fault(&mut channels[1], FaultKind::BadAddress);
        for (number, channel) in channels.iter_mut().enumerate() {
            if number != 1 {
                let error = serve(channel).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::DeviceLost, "{error}");
            }
            assert_close(&serve(channel).unwrap(), &before[0]);
            assert_eq!(channel.health(), Health::OnFallback);
        }
    });
}

/// Channels in threads of their own, two on every GPU, loaded and served at the
/// same time.
#[test]
fn channels_of_all_gpus_run_side_by_side() {
    const NUM_FRAMES: usize = 40;
    let Some((_single, device)) = gpu() else { return };
    drop(device);
    let (model, num_gpus) = (saved(&network(false)), num_gpus());
    let start = Instant::now();
    let answers: Vec<_> = std::thread::scope(|scope| {
        let serve_all = |gpu| {
            let path = model.path();
            move || {
                let mut channel = supervisor(path, DeviceChoice::Cuda(gpu), Fallback::None);
                (0..NUM_FRAMES).map(|_| serve(&mut channel).unwrap()).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> =
            (0..2 * num_gpus).map(|number| scope.spawn(serve_all(number / 2))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(answers.len(), NUM_FRAMES * 2 * num_gpus as usize);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "other bytes somewhere");
    println!("{num_gpus} GPUs, {} channels, {:?}", 2 * num_gpus, start.elapsed());
}

/// A channel that is loaded on one thread and served on another.
#[test]
fn a_channel_may_move_to_another_thread() {
    let Some((_single, device)) = gpu() else { return };
    drop(device);
    let model = saved(&network(false));
    let mut channel = supervisor(model.path(), GPU, Fallback::None);
    let here = serve(&mut channel).unwrap();
    let there = std::thread::spawn(move || [0, 1, 2].map(|_| serve(&mut channel).unwrap()));
    assert!(there.join().unwrap().iter().all(|answer| *answer == here));
}
