//! Recorded steps that wait for some of the steps before them, so that others run beside them.

use std::collections::HashSet;
use std::ptr;

use cudarc::driver::sys::{
    self, CUgraphNode, CUstreamCaptureStatus, CUstreamUpdateCaptureDependencies_flags,
};

use super::graph::set_next_apart;
use super::{Graph, Stream, error, failed};
use det_post_types::Result;

impl Graph {
    /// As [`Graph::capture`], of steps: each waits for the earlier ones that `follows` has at its position, and for
    /// those that they wait for. `enqueue` queues a step on the stream.
    ///
    /// # Errors
    /// As of [`Graph::capture`]; `Device` also when a step waits for itself or a later one.
    pub fn capture_steps(
        stream: &Stream,
        follows: &[Vec<usize>],
        mut enqueue: impl FnMut(usize) -> Result<()>,
    ) -> Result<Self> {
        Self::capture(stream, || {
            let mut branches = Branches { stream, ends: Vec::new(), continued: HashSet::new() };
            for (step, earlier) in follows.iter().enumerate() {
                branches.begin(earlier)?;
                enqueue(step)?;
                branches.end()?;
            }
            Ok(())
        })
    }
}

/// The steps of a capture so far.
struct Branches<'a> {
    stream: &'a Stream,
    /// The nodes at the end of each step.
    ends: Vec<Vec<CUgraphNode>>,
    /// Nodes behind which a launch may begin while they run. There is one for a node, as in a queue.
    continued: HashSet<CUgraphNode>,
}

impl Branches<'_> {
    /// Lets what is queued next wait for steps.
    fn begin(&mut self, earlier: &[usize]) -> Result<()> {
        let mut nodes: Vec<CUgraphNode> = Vec::new();
        for &step in earlier {
            let ends = self.ends.get(step);
            let late = || error(format!("step {} waits for step {step}", self.ends.len()));
            for &node in ends.ok_or_else(late)? {
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        let is_next = matches!(nodes[..], [node] if self.continued.insert(node));
        set_next_apart(!is_next);
        let flag = CUstreamUpdateCaptureDependencies_flags::CU_STREAM_SET_CAPTURE_DEPENDENCIES;
        // SAFETY: the stream is alive and captures, and the nodes are of its graph; the driver copies them. Without
        // data the edges are complete ones.
        unsafe {
            sys::cuStreamUpdateCaptureDependencies_v2(
                self.stream.raw(),
                nodes.as_mut_ptr(),
                ptr::null(),
                nodes.len(),
                flag as u32,
            )
            .result()
        }
        .map_err(|e| failed("branch in a graph", e))
    }

    /// Notes the nodes at the end of a step.
    fn end(&mut self) -> Result<()> {
        let mut status = CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        let (mut nodes, mut edges, mut num) = (ptr::null(), ptr::null(), 0);
        // SAFETY: the stream is alive; the results are live locals, and those that are not asked for are null.
        unsafe {
            sys::cuStreamGetCaptureInfo_v3(
                self.stream.raw(),
                &raw mut status,
                ptr::null_mut(),
                ptr::null_mut(),
                &raw mut nodes,
                &raw mut edges,
                &raw mut num,
            )
            .result()
        }
        .map_err(|e| failed("read the end of a step in a graph", e))?;
        if status != CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_ACTIVE {
            return Err(error("a capture ended before its steps"));
        }
        let ends = match num {
            0 => Vec::new(),
            // SAFETY: the driver's array has so many nodes until the next call about this stream.
            _ => unsafe { std::slice::from_raw_parts(nodes, num) }.to_vec(),
        };
        self.ends.push(ends);
        Ok(())
    }
}
