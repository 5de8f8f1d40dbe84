//! DETR3D and Sparse4D on a GPU: maps, decoder and the choice of the best pairs are one graph; a
//! network with a memory has another one for frames without it.

use super::device_maps::DeviceViewMaps;
use super::family::{ViewFamily, check_outputs, input_size, motion_of, unseen_views, write_views};
use crate::config::SurroundConfig;
use crate::detectors::surround::Step;
use crate::detectors::surround::decoder::{Decoder, DecoderFrame};
use det_post_infer::device::DeviceEngine;
use det_post_infer::view_decoder::{CudaViewDecoder, View, ViewNetwork};
use det_post_ops::decode::query::cuda::Workspace as DecodeQuery;
use det_post_ops::device::cuda::{Graph, Stream};
use det_post_ops::view::sample::cuda::DeviceMapSource;
use det_post_types::{Candidates, Count, FrameReport, Object3d, Result, Stage, Transfer};

/// A decoder of feature maps with what it reads and writes.
pub(super) struct DeviceViewHead {
    stream: Stream,
    // Dropped first: work in the memory of the others.
    graphs: Graphs,
    decoder: CudaViewDecoder,
    maps: DeviceViewMaps,
    selection: DecodeQuery,
    query_sizes: [usize; 2],
    has_quality: bool,
    views: Vec<View>,
}

/// The recorded frames.
struct Graphs {
    without_memory: Graph,
    with_memory: Option<Graph>,
}

impl DeviceViewHead {
    /// A head for the outputs of a backbone, whose file states the scales of int8 ones, on the backbone's
    /// stream.
    ///
    /// # Errors
    /// `Model` when the outputs of the backbone are not those that the head states, the network is
    /// larger than the kernels, or for int8 maps in f32; `Argument` for more candidates than a GPU can choose; `Device` when there is not enough memory.
    pub(super) fn new(
        family: &ViewFamily<'_>,
        stream: &Stream,
        backbone: &DeviceEngine,
        network: &ViewNetwork,
        stated: &[Option<f32>],
    ) -> Result<Self> {
        let ViewFamily { config, facts, precision, .. } = *family;
        check_outputs(backbone.outputs().len(), facts)?;
        let [num_views, ..] = network.map_sizes();
        let input_size = input_size(&config.facts)?;
        let scales = family.level_scales(backbone.outputs(), stated)?;
        let mut maps = DeviceViewMaps::new(family, stream, network, scales)?;
        let query_sizes = network.query_sizes();
        let mut decoder = CudaViewDecoder::new(stream, network, precision)?;
        let of_selection = stream.with_own_memory();
        let mut selection = DecodeQuery::new(
            &of_selection,
            query_sizes,
            &config.query_decode(),
            config.pre_nms_top_k,
        )?;
        let sources = maps.sources(|index| backbone.output(index))?;
        let recorded =
            Recorded { maps: &mut maps, decoder: &mut decoder, selection: &mut selection };
        let graphs = record(stream, &of_selection, &sources, recorded)?;
        Ok(Self {
            stream: stream.clone(),
            graphs,
            decoder,
            maps,
            selection,
            query_sizes,
            has_quality: network.has_quality(),
            views: unseen_views(num_views, input_size),
        })
    }

    /// Queues what is recorded: from the outputs of the backbone to the pairs that are kept.
    fn enqueue_graph(&mut self, step: &Step) -> Result<()> {
        let Self { decoder, graphs, views, .. } = self;
        let motion = motion_of(step);
        let queued = decoder.set_views(views).and_then(|()| decoder.begin(motion.as_ref()));
        let queued = queued.and_then(|uses_memory| match (&graphs.with_memory, uses_memory) {
            (Some(graph), true) => graph.enqueue(),
            _ => graphs.without_memory.enqueue(),
        });
        if queued.is_err() {
            decoder.forget();
        }
        queued
    }

    /// Waits for the queued frame and replaces the candidates with its. Returns the pairs of a
    /// query and a class above their thresholds and beyond the limit.
    fn read_selection(&mut self, candidates: &mut Candidates<Object3d>) -> Result<usize> {
        let num_dropped = self.selection.read(self.has_quality, candidates);
        if num_dropped.is_err() {
            self.decoder.forget();
        }
        num_dropped
    }
}

impl Decoder<DeviceEngine> for DeviceViewHead {
    fn enqueue(&mut self, frame: &DecoderFrame<'_, DeviceEngine>) -> Result<()> {
        write_views(&mut self.views, frame.matrices.image_from_target());
        self.enqueue_graph(&frame.step)
    }

    fn read(
        &mut self,
        candidates: &mut Candidates<Object3d>,
        report: &mut FrameReport,
    ) -> Result<()> {
        let num_dropped = self.read_selection(candidates)?;
        report.add_bytes(Stage::Infer, Transfer::Download, self.selection.num_bytes());
        report.add_count(Count::CandidatesOverTopK, num_dropped);
        Ok(())
    }

    /// More candidates than there is memory for are recorded anew.
    fn reconfigure(&mut self, config: &SurroundConfig, backbone: &DeviceEngine) -> Result<()> {
        let (params, max_pairs) = (config.query_decode(), config.pre_nms_top_k);
        if self.selection.holds(max_pairs) {
            return self.selection.set(&params, max_pairs);
        }
        // The one before is freed.
        let of_selection = self.stream.with_own_memory();
        let mut selection = DecodeQuery::new(&of_selection, self.query_sizes, &params, max_pairs)?;
        let sources = self.maps.sources(|index| backbone.output(index))?;
        let Self { stream, maps, decoder, .. } = self;
        let recorded = Recorded { maps, decoder, selection: &mut selection };
        let graphs = record(stream, &of_selection, &sources, recorded)?;
        self.graphs = graphs;
        self.selection = selection;
        Ok(())
    }

    fn reset(&mut self) {
        self.decoder.forget();
    }

    fn kernels(&self) -> Vec<&'static str> {
        self.graphs.without_memory.kernels().to_vec()
    }

    fn warm_up(
        &mut self,
        _backbone: &DeviceEngine,
        candidates: &mut Candidates<Object3d>,
    ) -> Result<()> {
        self.enqueue_graph(&Step::First)?;
        self.read_selection(candidates)?;
        self.decoder.forget();
        Ok(())
    }
}

/// What the graphs of a frame write.
struct Recorded<'a> {
    maps: &'a mut DeviceViewMaps,
    decoder: &'a mut CudaViewDecoder,
    selection: &'a mut DecodeQuery,
}

/// Records the frames. `of_selection` is the handle of the stream that the selection has.
fn record(
    stream: &Stream,
    of_selection: &Stream,
    sources: &[DeviceMapSource<'_>],
    Recorded { maps, decoder, selection }: Recorded<'_>,
) -> Result<Graphs> {
    let has_memory = decoder.has_memory();
    maps.prepare(sources)?;
    let mut graph = |uses_memory| {
        Graph::capture(of_selection, || {
            decoder.enqueue(maps.enqueue(sources)?, uses_memory)?;
            selection.enqueue(&decoder.queries(stream)?)
        })
    };
    let without_memory = graph(false)?;
    Ok(Graphs { without_memory, with_memory: has_memory.then(|| graph(true)).transpose()? })
}
