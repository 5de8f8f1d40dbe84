//! A case: its name, the bar that it must reach, and its figures.

use serde::Serialize;

/// The name of a case and its bar.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) bar: Option<Bar>,
    pub(super) num_bytes: Option<usize>,
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "only graphs repeat a case"))]
    pub(super) num_times: u32,
}

/// The time to reach on the machine that docs/benchmarks.md names.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Bar {
    pub(super) clock: Clock,
    /// The time of the classic algorithms, in microseconds.
    pub(super) classic_us: Option<f64>,
    pub(super) must_reach_us: f64,
}

/// Which time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Clock {
    /// Between two events on the GPU.
    Gpu,
    /// From the first launch until the host can read the results: one wait.
    Wall,
}

impl Case {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), bar: None, num_bytes: None, num_times: 1 }
    }

    pub(super) fn with_bar(self, bar: Option<Bar>) -> Self {
        Self { bar, ..self }
    }

    /// A case whose work is done `num_times`, one after the other; the times are those of one.
    #[cfg(feature = "cuda")]
    pub(super) fn each_of(self, num_times: u32) -> Self {
        Self { num_times, ..self }
    }

    /// How many times the work is done.
    #[cfg(feature = "cuda")]
    pub(super) fn num_times(&self) -> u32 {
        self.num_times
    }

    /// A case that moves `num_bytes`: its row has the rate.
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
    pub(super) fn of(samples: &mut [f64]) -> Self {
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
    /// From the call until the host can read the results.
    pub(super) wall_us: Times,
    /// Bytes moved, where the case is about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) num_bytes: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bar: Option<Bar>,
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
}
