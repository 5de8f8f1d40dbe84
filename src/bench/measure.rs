//! Times of many runs of one thing.

use std::time::{Duration, Instant};

use super::case::{Case, Row, Times};
use super::table;
#[cfg(feature = "cuda")]
use det_post_ops::device::cuda::{Event, Graph, Stream};
use det_post_types::Result;

/// Runs of a case on a GPU, after as many tenths to warm up.
#[cfg(feature = "cuda")]
const NUM_RUNS: usize = 500;
/// On the host: as many runs as fit into this, within the limits below.
const TIME_A_CASE: Duration = Duration::from_millis(400);
const MIN_RUNS: usize = 11;
const MAX_RUNS: usize = 1000;

/// Prints a part of the table; false once the table has no reader any more.
pub(crate) type Print<'a> = dyn FnMut(&str) -> Result<bool> + 'a;

/// The cases that are wanted, and their figures so far.
pub(super) struct Bench<'a> {
    part: Option<String>,
    rows: Vec<Row>,
    print: &'a mut Print<'a>,
    has_ended: bool,
}

impl<'a> Bench<'a> {
    pub(super) fn new(part: Option<String>, print: &'a mut Print<'a>) -> Self {
        Self { part, rows: Vec::new(), print, has_ended: false }
    }

    /// Prints a text; ends the bench when the table has no reader.
    pub(super) fn print(&mut self, text: &str) -> Result<()> {
        self.has_ended |= !(self.print)(text)?;
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
    pub(super) fn host(&mut self, case: Case, run: impl FnMut() -> Result<()>) -> Result<()> {
        // Bars are for GPUs.
        self.calls(case.with_bar(None), run)
    }

    /// Measures calls that wait for a GPU themselves.
    #[cfg(feature = "cuda")]
    pub(super) fn frames(&mut self, case: Case, run: impl FnMut() -> Result<()>) -> Result<()> {
        self.calls(case, run)
    }

    /// Adds a case that was measured elsewhere.
    #[cfg(feature = "cuda")]
    pub(super) fn measured(&mut self, case: Case, wall_us: Times) -> Result<()> {
        self.add(case, None, wall_us)
    }

    /// Adds the difference of cases that were measured.
    #[cfg(feature = "cuda")]
    pub(super) fn difference(&mut self, case: Case, gpu_us: Times, wall_us: Times) -> Result<()> {
        self.add(case, Some(gpu_us), wall_us)
    }

    fn calls(&mut self, case: Case, mut run: impl FnMut() -> Result<()>) -> Result<()> {
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
    /// call until `read`, which waits once, has made the results readable.
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

    /// Measures what `enqueue` queues on a stream, recorded as often as the case has it.
    #[cfg(feature = "cuda")]
    pub(super) fn recorded(
        &mut self,
        case: Case,
        stream: &Stream,
        mut enqueue: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let graph = Graph::capture(stream, || (0..case.num_times).try_for_each(|_| enqueue()))?;
        self.device(case, stream, || graph.enqueue(), || stream.synchronize())
    }

    /// Adds a case and prints its line at once.
    fn add(&mut self, case: Case, gpu_us: Option<Times>, wall_us: Times) -> Result<()> {
        let Case { name, bar, num_bytes, .. } = case;
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
    fn only_what_is_wanted_is_measured() {
        let mut print = |_: &str| Ok(true);
        let mut bench = Bench::new(Some("nms".into()), &mut print);
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
