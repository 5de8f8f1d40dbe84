//! Durations and counters of a frame, as arrays.

use std::ffi::CString;
use std::sync::LazyLock;

use super::call::{Const, ConstText};
use det_post::runtime::channel::Channel;
use det_post_types::{Count, FrameReport, Stage, Transfer};

/// The duration of a stage.
#[repr(C)]
pub struct StageTime {
    /// Name of the stage, such as `letterbox`. Valid for ever.
    pub name: ConstText,
    /// Its duration in nanoseconds.
    pub duration_ns: u64,
}

/// A counter of what a frame lost, or of unexpected data.
#[repr(C)]
pub struct Counter {
    /// Its name, such as `candidates_over_capacity`. Valid for ever.
    pub name: ConstText,
    /// Its value.
    pub value: u64,
}

/// Bytes that a stage copied.
#[repr(C)]
pub struct CopiedBytes {
    /// Name of the stage. Valid for ever.
    pub stage: ConstText,
    /// `host_copy`, `upload` or `download`. Valid for ever.
    pub transfer: ConstText,
    /// Their number.
    pub num_bytes: u64,
}

/// What a detector has measured and counted in its last frame, and its state.
#[repr(C)]
pub struct Report {
    /// The stages that ran, in their order, and the whole frame as `total`.
    pub stages: Const<StageTime>,
    /// Number of `stages`.
    pub num_stages: usize,
    /// All counters; `docs/limits.md` explains them.
    pub counters: Const<Counter>,
    /// Number of `counters`.
    pub num_counters: usize,
    /// Copies of more than 0 bytes.
    pub copies: Const<CopiedBytes>,
    /// Number of `copies`.
    pub num_copies: usize,
    /// State of the device: `good`, `rebuilding`, `backing_off`, `lost` or `on_fallback`. Valid for
    /// ever.
    pub health: ConstText,
    /// Failures of the device since the detector was opened.
    pub num_failures: u64,
    /// Message of the last failure of the device, or `NULL`.
    pub last_failure: ConstText,
}

/// The memory of [`Report`].
pub(super) struct Reported {
    public: Report,
    stages: Vec<StageTime>,
    counters: Vec<Counter>,
    copies: Vec<CopiedBytes>,
    health: Vec<u8>,
    last_failure: Vec<u8>,
}

/// Texts for C, by the position of what they name.
fn texts<const N: usize>(names: [&str; N]) -> [CString; N] {
    names.map(|name| CString::new(name).unwrap_or_default())
}

static STAGES: LazyLock<[CString; Stage::ALL.len()]> =
    LazyLock::new(|| texts(Stage::ALL.map(Stage::name)));
static COUNTS: LazyLock<[CString; Count::ALL.len()]> =
    LazyLock::new(|| texts(Count::ALL.map(Count::name)));
static TRANSFERS: LazyLock<[CString; Transfer::ALL.len()]> =
    LazyLock::new(|| texts(Transfer::ALL.map(Transfer::name)));

impl Reported {
    pub(super) fn new() -> Self {
        let public = Report {
            stages: Const::NULL,
            num_stages: 0,
            counters: Const::NULL,
            num_counters: 0,
            copies: Const::NULL,
            num_copies: 0,
            health: ConstText::NULL,
            num_failures: 0,
            last_failure: ConstText::NULL,
        };
        let (stages, counters, copies) = (Vec::new(), Vec::new(), Vec::new());
        let (health, last_failure) = (Vec::new(), Vec::new());
        Self { public, stages, counters, copies, health, last_failure }
    }

    /// Copies the report of the last frame and the state of the channel.
    pub(super) fn fill(&mut self, report: &FrameReport, channel: &Channel) -> Const<Report> {
        let Self { stages, counters, copies, .. } = self;
        let name = |stage: Stage| ConstText::of(&STAGES[stage as usize]);
        stages.clear();
        stages.extend(Stage::ALL.iter().filter_map(|&stage| {
            let duration_ns = report.duration(stage)?.as_nanos() as u64;
            Some(StageTime { name: name(stage), duration_ns })
        }));
        counters.clear();
        counters.extend(Count::ALL.iter().map(|&count| {
            let name = ConstText::of(&COUNTS[count as usize]);
            Counter { name, value: report.count(count) }
        }));
        copies.clear();
        for (&stage, &way) in
            Stage::ALL.iter().flat_map(|stage| Transfer::ALL.iter().map(move |way| (stage, way)))
        {
            let transfer = ConstText::of(&TRANSFERS[way as usize]);
            match report.bytes(stage, way) {
                0 => {}
                num_bytes => copies.push(CopiedBytes { stage: name(stage), transfer, num_bytes }),
            }
        }
        let (health, num_failures) = channel.health();
        self.public = Report {
            stages: Const::of(stages),
            num_stages: stages.len(),
            counters: Const::of(counters),
            num_counters: counters.len(),
            copies: Const::of(copies),
            num_copies: copies.len(),
            health: ConstText::copy_to(&mut self.health, health.name()),
            num_failures,
            last_failure: channel
                .last_failure()
                .map_or(ConstText::NULL, |text| ConstText::copy_to(&mut self.last_failure, text)),
        };
        Const::of(std::slice::from_ref(&self.public))
    }
}
