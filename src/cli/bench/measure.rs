//! Times of many runs of one thing.

use std::time::{Duration, Instant};

use serde::Serialize;

use super::table;
use crate::cli::stdout::{self, Stdout};
#[cfg(feature = "cuda")]
use crate::device::cuda::{Event, Stream};
use crate::error::Result;

/// Runs of a case on a GPU, after as many tenths to warm up.
#[cfg(feature = "cuda")]
const NUM_RUNS: usize = 500;
/// On the host: as many runs as fit into this, within the limits below.
const TIME_A_CASE: Duration = Duration::from_millis(400);
const MIN_RUNS: usize = 11;
const MAX_RUNS: usize = 1000;

/// What a case is called and what it must reach.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    bar: Option<Bar>,
    num_bytes: Option<usize>,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only graphs repeat a case"))]
    num_times: u32,
}

/// What a case must reach on the machine that docs/benchmarks.md names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Bar {
    pub(super) clock: Clock,
    /// What the classic algorithms take, in microseconds.
    pub(super) classic_us: Option<f64>,
    pub(super) must_reach_us: f64,
}

/// Which time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Clock {
    /// Between two events on the GPU.
    Gpu,
    /// From the first launch until the host can read the answer: one wait.
    Wall,
}

impl Case {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), bar: None, num_bytes: None, num_times: 1 }
    }

    pub(super) fn with_bar(self, bar: Option<Bar>) -> Self {
        Self { bar, ..self }
    }

    /// Says that the thing is done so many times, one after the other: the
    /// times are those of one of them.
    #[cfg(feature = "cuda")]
    pub(super) fn each_of(self, num_times: u32) -> Self {
        Self { num_times, ..self }
    }

    /// How many times the thing is done.
    #[cfg(feature = "cuda")]
    pub(super) fn num_times(&self) -> u32 {
        self.num_times
    }

    /// Says how fast so many bytes move.
    pub(super) fn moving(self, num_bytes: usize) -> Self {
        Self { num_bytes: Some(num_bytes), ..self }
    }
}

/// A bar in wall time.
pub(super) const fn wall(classic_us: Option<f64>, must_reach_us: f64) -> Option<Bar> {
    Some(Bar { clock: Clock::Wall, classic_us, must_reach_us })
}

/// A bar in GPU time.
pub(super) const fn gpu(classic_us: Option<f64>, must_reach_us: f64) -> Option<Bar> {
    Some(Bar { clock: Clock::Gpu, classic_us, must_reach_us })
}

/// Quantiles in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Times {
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
}

impl Times {
    /// Sorts the samples; of none, everything is zero.
    fn of(samples: &mut [f64]) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let last = samples.len().saturating_sub(1);
            let index = (share * samples.len() as f64) as usize;
            samples.get(index.min(last)).copied().unwrap_or_default()
        };
        Self { p50: at(0.50), p95: at(0.95), p99: at(0.99) }
    }
}

/// A case that was measured.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) case: String,
    /// Between two events round everything that was queued; `None` on the CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) gpu_us: Option<Times>,
    /// From the call until the host can read the answer.
    pub(super) wall_us: Times,
    /// Bytes moved, where the case is about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) num_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bar: Option<Bar>,
}

/// The cases that are wanted, and their figures so far.
pub(super) struct Bench {
    part: Option<String>,
    rows: Vec<Row>,
    /// Whether the figures are wanted without a reader of the table.
    is_recorded: bool,
    has_ended: bool,
}

impl Bench {
    pub(super) fn new(part: Option<String>, is_recorded: bool) -> Self {
        Self { part, rows: Vec::new(), is_recorded, has_ended: false }
    }

    /// Prints a text; ends the bench when standard output is closed and the
    /// figures go nowhere else.
    pub(super) fn print(&mut self, text: &str) -> Result<()> {
        self.has_ended |= stdout::print(text)? == Stdout::Closed && !self.is_recorded;
        Ok(())
    }

    /// Whether the bench ended before all cases were measured.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Whether a case of this name is to be measured: ask before making its
    /// inputs.
    pub(super) fn wants(&self, name: &str) -> bool {
        !self.has_ended && self.part.as_ref().is_none_or(|part| name.contains(part.as_str()))
    }

    /// Measures calls on the host.
    pub(super) fn host(&mut self, case: Case, mut run: impl FnMut() -> Result<()>) -> Result<()> {
        let start = Instant::now();
        run()?;
        let once = start.elapsed().max(Duration::from_nanos(1));
        let num_runs = (TIME_A_CASE.as_nanos() / once.as_nanos()) as usize;
        let num_runs = num_runs.clamp(MIN_RUNS, MAX_RUNS);
        let mut walls = Vec::with_capacity(num_runs);
        for _ in 0..num_runs {
            let start = Instant::now();
            run()?;
            walls.push(micros(start));
        }
        let wall_us = Times::of(&mut walls);
        self.add(case, None, wall_us)
    }

    /// Measures what `enqueue` queues on a stream: between events, and from the
    /// call until `read`, which waits once, has made the answer readable.
    #[cfg(feature = "cuda")]
    pub(super) fn device(
        &mut self,
        case: Case,
        stream: &Stream,
        mut enqueue: impl FnMut() -> Result<()>,
        mut read: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let (start, end) = (Event::new(stream)?, Event::new(stream)?);
        let (mut gpu, mut walls) = (Vec::new(), Vec::new());
        let num_times = f64::from(case.num_times);
        for run in 0..NUM_RUNS + NUM_RUNS / 10 {
            let begin = Instant::now();
            enqueue()?;
            read()?;
            let wall = micros(begin);
            start.record(stream)?;
            enqueue()?;
            end.record(stream)?;
            stream.synchronize()?;
            if run >= NUM_RUNS / 10 {
                walls.push(wall / num_times);
                gpu.push(f64::from(start.micros_until(&end)?) / num_times);
            }
        }
        self.add(case, Some(Times::of(&mut gpu)), Times::of(&mut walls))
    }

    /// Adds a case and prints its line at once.
    fn add(&mut self, case: Case, gpu_us: Option<Times>, wall_us: Times) -> Result<()> {
        let Case { name, bar, num_bytes, .. } = case;
        // Bars are for GPUs.
        let bar = bar.filter(|_| gpu_us.is_some());
        let row = Row { case: name, gpu_us, wall_us, num_bytes, bar };
        let head = if self.rows.is_empty() { table::head() + "\n" } else { String::new() };
        self.print(&format!("{head}{}\n", table::line(&row)))?;
        self.rows.push(row);
        Ok(())
    }
}

fn micros(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_few_and_many() {
        assert_eq!(Times::of(&mut []), Times { p50: 0.0, p95: 0.0, p99: 0.0 });
        assert_eq!(Times::of(&mut [7.0]), Times { p50: 7.0, p95: 7.0, p99: 7.0 });
        let mut samples: Vec<f64> = (0..1000).rev().map(f64::from).collect();
        assert_eq!(Times::of(&mut samples), Times { p50: 500.0, p95: 950.0, p99: 990.0 });
    }

    #[test]
    fn only_what_is_wanted_is_measured() {
        let mut bench = Bench::new(Some("nms".into()), false);
        assert!(bench.wants("nms_iou 1000") && !bench.wants("letterbox"));
        let mut num_runs = 0;
        bench
            .host(Case::new("nms_iou 1000"), || {
                num_runs += 1;
                Ok(())
            })
            .unwrap();
        assert!((MIN_RUNS..=MAX_RUNS + 1).contains(&num_runs), "{num_runs}");
        assert_eq!(bench.rows().len(), 1);
    }
}
