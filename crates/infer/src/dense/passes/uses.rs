//! Who writes and who reads each value, and the order of nodes.

use std::collections::BTreeSet;

use super::super::graph::{Graph, Id, Node};

/// Writers and readers of values.
pub(in super::super) struct Uses {
    /// The node that writes each value.
    pub(in super::super) producer: Vec<Option<usize>>,
    /// The nodes that read each value, each as often as it does.
    pub(in super::super) readers: Vec<Vec<usize>>,
    /// Whether each value is an output of the network.
    pub(in super::super) is_output: Vec<bool>,
}

impl Uses {
    /// Of all values of a graph.
    pub(in super::super) fn of(graph: &Graph) -> Self {
        let num = graph.values.len();
        let mut uses = Self {
            producer: vec![None; num],
            readers: vec![vec![]; num],
            is_output: vec![false; num],
        };
        for (at, node) in graph.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|&id| uses.producer[id] = Some(at));
            node.inputs.iter().for_each(|&id| uses.readers[id].push(at));
        }
        graph.outputs.iter().for_each(|&id| uses.is_output[id] = true);
        uses
    }

    /// The node that writes a value; `None` for inputs, constants and values added since.
    pub(in super::super) fn producer<'g>(
        &self,
        graph: &'g Graph,
        id: Id,
    ) -> Option<(usize, &'g Node)> {
        let at = self.producer.get(id).copied().flatten()?;
        let node = &graph.nodes[at];
        node.outputs.contains(&id).then_some((at, node))
    }

    /// Whether exactly one node reads a value, once, and it is no output of the network.
    pub(in super::super) fn is_read_once(&self, id: Id) -> bool {
        self.readers.get(id).is_some_and(|readers| readers.len() == 1) && !self.is_output[id]
    }
}

/// Replaces values that others stand for; `alias[id]` is `id` for all others.
pub(super) fn apply(graph: &mut Graph, alias: &[Id]) {
    let resolve = |mut id: Id| {
        while let Some(&next) = alias.get(id)
            && next != id
        {
            id = next;
        }
        id
    };
    for node in &mut graph.nodes {
        node.inputs.iter_mut().for_each(|id| *id = resolve(*id));
    }
    graph.outputs.iter_mut().for_each(|id| *id = resolve(*id));
}

/// Leaves nodes out whose results are not read, and brings the others into an order in which they
/// can be computed: each as early as its place in the list allows.
pub(super) fn tidy(graph: &mut Graph) {
    let uses = Uses::of(graph);
    let mut is_needed = vec![false; graph.nodes.len()];
    let mut open: Vec<Id> = graph.outputs.clone();
    while let Some(id) = open.pop() {
        if let Some(at) = uses.producer[id]
            && !std::mem::replace(&mut is_needed[at], true)
        {
            open.extend(&graph.nodes[at].inputs);
        }
    }
    let mut num_open: Vec<usize> = graph
        .nodes
        .iter()
        .map(|node| node.inputs.iter().filter(|&&id| uses.producer[id].is_some()).count())
        .collect();
    let ready = (0..graph.nodes.len()).filter(|&at| is_needed[at] && num_open[at] == 0);
    let mut ready: BTreeSet<usize> = ready.collect();
    let mut order = Vec::with_capacity(graph.nodes.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for &reader in graph.nodes[at].outputs.iter().flat_map(|&id| &uses.readers[id]) {
            num_open[reader] -= 1;
            if num_open[reader] == 0 && is_needed[reader] {
                ready.insert(reader);
            }
        }
    }
    let mut nodes: Vec<Option<Node>> =
        std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
    graph.nodes = order.into_iter().filter_map(|at| nodes[at].take()).collect();
}
