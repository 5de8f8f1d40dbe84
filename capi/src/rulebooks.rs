//! Which sites a sparse convolution joins.

use std::sync::Arc;

use det_post_ops::sparse::rulebook::{Geometry, Mode, Table, fill_table};

use super::call::{In, Out, run};
use super::handles::Handles;
use super::sites::{Cells, Level, Sites, elsewhere};
use super::sparse_gpu::GpuTable;
use super::sparse_memory::Place;
use super::status::{Failure, Status};
use super::workspace::{Opened, WORKSPACES};

/// `sparse_geometry.mode`: the output has the sites of the input; the kernel is odd, the stride 1 and the
/// padding not read.
pub const SPARSE_SUBMANIFOLD: u32 = 0;
/// `sparse_geometry.mode`: the output has every cell with a site under its kernel.
pub const SPARSE_STRIDED: u32 = 1;
/// `sparse_geometry.mode`: the output has every cell that a site reaches.
pub const SPARSE_TRANSPOSED: u32 = 2;

/// An open rulebook: which sites a convolution or pooling joins, for any number of layers. It never changes
/// and keeps its sites, which may be closed.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Rulebook {
    /// Its number; 0 is never a rulebook.
    pub id: u64,
}

/// The geometry of a rulebook. Axes are in the order of the coordinates. Convolutions are
/// cross-correlations: kernels are not flipped.
#[repr(C)]
pub struct SparseGeometry {
    /// One of `DET_POST_SPARSE_…`.
    pub mode: u32,
    /// Taps per axis, 1 to 15.
    pub kernel: [u32; 3],
    /// Cells of the input from one output cell to the next.
    pub stride: [u32; 3],
    /// Cells added in front of and behind the input.
    pub padding: [u32; 3],
    /// Cells of the input from one tap to the next.
    pub dilation: [u32; 3],
    /// Of `…_TRANSPOSED`: cells added behind the output.
    pub output_padding: [u32; 3],
    /// The maximum number of sites of the output, of which the ones in the lowest cells stay; 0 is no limit.
    /// Not read of `…_SUBMANIFOLD`.
    pub max_sites: usize,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// The object of a [`Rulebook`].
pub(super) struct Joined {
    /// The number of the workspace.
    pub(super) workspace: u64,
    pub(super) table: Pairs,
    geometry: Geometry,
    mode: Mode,
    pub(super) input: Arc<Level>,
    pub(super) output: Arc<Level>,
}

/// Where pairs are.
pub(super) enum Pairs {
    Host(Table),
    Gpu(GpuTable),
}

static RULEBOOKS: Handles<Arc<Joined>> = Handles::new("rulebook", 7);

impl SparseGeometry {
    fn read(&self) -> Result<(Geometry, Mode), Failure> {
        if self.reserved != [0; 4] {
            return Err(Failure::argument("geometry.reserved is not 0"));
        }
        let mode = match self.mode {
            SPARSE_SUBMANIFOLD => Mode::Submanifold,
            SPARSE_STRIDED => Mode::Strided,
            SPARSE_TRANSPOSED => Mode::Transposed,
            other => {
                return Err(Failure::argument(format!("geometry.mode {other} is not known")));
            }
        };
        let Self { kernel, stride, padding, dilation, .. } = *self;
        let geometry = Geometry { kernel, stride, padding, dilation };
        geometry.check(mode)?;
        Ok((geometry, mode))
    }
}

impl Joined {
    fn open(
        opened: &mut Opened,
        input: Arc<Level>,
        geometry: &SparseGeometry,
    ) -> Result<Self, Failure> {
        let (of, mode) = geometry.read()?;
        let output = match mode {
            Mode::Submanifold | Mode::Inverse => Arc::clone(&input),
            Mode::Strided | Mode::Transposed => {
                let SparseGeometry { output_padding, max_sites, .. } = *geometry;
                Arc::new(input.reached(opened, (&of, mode), output_padding, max_sites)?)
            }
        };
        Self::between(opened, (of, mode), input, output)
    }

    fn open_inverse(opened: &mut Opened, of: &Self) -> Result<Self, Failure> {
        if of.mode != Mode::Strided {
            let message = format!("a rulebook of mode {:?} has no inverse; strided has", of.mode);
            return Err(Failure::argument(message));
        }
        let (input, output) = (Arc::clone(&of.output), Arc::clone(&of.input));
        Self::between(opened, (of.geometry, Mode::Inverse), input, output)
    }

    fn between(
        opened: &mut Opened,
        (geometry, mode): (Geometry, Mode),
        input: Arc<Level>,
        output: Arc<Level>,
    ) -> Result<Self, Failure> {
        let table = match (&input.cells, &output.cells, Place::of(opened)?) {
            (Cells::Host { sites: from, .. }, Cells::Host { sites: to, .. }, Place::Host(_)) => {
                let mut table = Table::new(&geometry, mode, to.len());
                fill_table(from, to, &mut table)?;
                Pairs::Host(table)
            }
            (Cells::Gpu(from), Cells::Gpu(to), Place::Gpu(gpu, caller)) => {
                Pairs::Gpu(gpu.table(caller, [from, to], &geometry, mode)?)
            }
            _ => return Err(elsewhere("sites")),
        };
        Ok(Self { workspace: input.workspace, table, geometry, mode, input, output })
    }

    /// The rulebook of a number, in calls on a workspace.
    pub(super) fn shared(rulebook: Rulebook, workspace: u64) -> Result<Arc<Self>, Failure> {
        let joined = RULEBOOKS.shared(rulebook.id)?;
        if joined.workspace == workspace { Ok(joined) } else { Err(elsewhere("rulebook")) }
    }

    /// Taps of the kernel.
    pub(super) fn num_taps(&self) -> usize {
        self.geometry.num_taps()
    }
}

/// Opens the rulebook of a geometry from sites, in their workspace. Without `max_sites` there is memory for as
/// many sites as the taps of all sites of the input can reach. Close it with `det_post_rulebook_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_rulebook_open(
    sites: Sites,
    geometry: In<SparseGeometry>,
    rulebook: Out<Rulebook>,
) -> Status {
    run(sites.id, |call| {
        call.check_out(rulebook, "rulebook")?;
        let geometry = call.one(geometry, "geometry")?;
        let level = Level::of_number(sites)?;
        let joined = WORKSPACES
            .with(level.workspace, |opened| Joined::open(opened, Arc::clone(&level), geometry))?;
        call.write(rulebook, Rulebook { id: RULEBOOKS.open(Arc::new(joined)) }, "rulebook")
    })
}

/// Opens the inverse of a strided rulebook: from the sites of its output back to the sites of its input, with the
/// same pairs at the same taps. Close it with `det_post_rulebook_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_rulebook_open_inverse(of: Rulebook, rulebook: Out<Rulebook>) -> Status {
    run(of.id, |call| {
        call.check_out(rulebook, "rulebook")?;
        let of = RULEBOOKS.shared(of.id)?;
        let joined = WORKSPACES.with(of.workspace, |opened| Joined::open_inverse(opened, &of))?;
        call.write(rulebook, Rulebook { id: RULEBOOKS.open(Arc::new(joined)) }, "rulebook")
    })
}

/// Closes a rulebook. Its memory is freed as with `det_post_sites_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_rulebook_close(rulebook: Rulebook) -> Status {
    run(rulebook.id, |_| RULEBOOKS.close(rulebook.id))
}

/// Opens the sites of a rulebook's output, for the rulebooks of the next layers: a further number of the
/// same sites. Close them with `det_post_sites_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_rulebook_get_sites(rulebook: Rulebook, sites: Out<Sites>) -> Status {
    run(rulebook.id, |call| {
        call.check_out(sites, "sites")?;
        let joined = RULEBOOKS.shared(rulebook.id)?;
        call.write(sites, joined.output.open(), "sites")
    })
}
