//! The sites of a sparse level.

use std::sync::Arc;

use det_post_ops::arrays::sparse::cells as cells_of;
use det_post_ops::sparse::rulebook::{
    EntranceCounts, Geometry, Mode, SiteGrid, Sites as SiteSet, output_sites, sites_of_coordinates,
};

use super::call::{Call, Const, In, Out, run};
use super::handles::Handles;
use super::sparse_gpu::GpuSites;
use super::sparse_memory::Place;
use super::status::{Failure, Status};
use super::workspace::{Opened, WORKSPACES, Workspace};

/// Open sites: the active cells of a level of a sparse network, in the memory of the device of the workspace
/// that opened them, in which they are used. They never change, so that any number of rulebooks and calls use
/// them.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Sites {
    /// Their number; 0 is never a number of sites.
    pub id: u64,
}

/// Rows that sites are made of. Of rows of one cell the first is taken.
#[repr(C)]
pub struct SiteRows {
    /// Per row: scene, then the cell along the three axes, in any order of the rows.
    pub coordinates: In<i32>,
    /// Number of rows, below 2^32.
    pub num_rows: usize,
    /// Number of scenes.
    pub batch_size: u32,
    /// Cells along the three axes; 1 along those that a level of fewer does not have.
    pub grid_size: [u32; 3],
    /// The maximum number of sites, of which the ones in the lowest cells stay; 0 is no limit.
    pub max_sites: usize,
    /// For later versions; 0.
    pub reserved: [u64; 4],
}

/// What sites are. Valid until they are closed.
#[repr(C)]
pub struct SitesInfo {
    /// Per site: scene, then the cell along the three axes, ascending: the order of the rows of features.
    pub coordinates: Const<i32>,
    /// Per site the row of the coordinates that it comes from; `NULL` for the output of a rulebook.
    pub rows: Const<i64>,
    /// Number of sites.
    pub num_sites: usize,
    /// Number of rows that they were made of; 0 for the output of a rulebook.
    pub num_rows: usize,
    /// Number of scenes.
    pub batch_size: u32,
    /// Cells along the three axes.
    pub grid_size: [u32; 3],
    /// Rows outside the grid or the batch, which are left out.
    pub num_outside: usize,
    /// Rows at a cell that an earlier one has, which are left out.
    pub num_duplicates: usize,
    /// Sites over `max_sites`, which are left out.
    pub num_over_capacity: usize,
}

/// The object of [`Sites`].
pub(super) struct Level {
    /// The number of the workspace.
    pub(super) workspace: u64,
    pub(super) cells: Cells,
    /// Rows of the coordinates; none for the output of a rulebook.
    pub(super) num_rows: Option<usize>,
    info: SitesInfo,
    /// What `info` points to on the host.
    _arrays: (Vec<i32>, Vec<i64>),
}

/// Where sites are.
#[expect(clippy::large_enum_variant, reason = "one per level, in an Arc")]
pub(super) enum Cells {
    Host {
        sites: SiteSet,
        /// By site the row of the coordinates.
        rows: Vec<u32>,
    },
    Gpu(GpuSites),
}

static SITES: Handles<Arc<Level>> = Handles::new("sites", 6);

impl SiteRows {
    fn grid(&self) -> Result<SiteGrid, Failure> {
        if self.reserved != [0; 4] {
            return Err(Failure::argument("rows.reserved is not 0"));
        }
        if u32::try_from(self.num_rows).is_err() {
            let message = format!("rows.num_rows {}; below 2^32 are allowed", self.num_rows);
            return Err(Failure::argument(message));
        }
        Ok(SiteGrid::new(self.batch_size, self.grid_size)?)
    }
}

/// A limit of which 0 is none.
pub(super) fn or_unlimited(limit: usize) -> usize {
    if limit == 0 { usize::MAX } else { limit }
}

impl Level {
    /// The sites of rows of coordinates.
    fn of_rows(
        call: &Call,
        opened: &mut Opened,
        workspace: u64,
        rows: &SiteRows,
    ) -> Result<Self, Failure> {
        let grid = rows.grid()?;
        let capacity = or_unlimited(rows.max_sites).min(rows.num_rows);
        let (cells, counts) = match Place::of(opened)? {
            Place::Host(_) => {
                let len = rows.num_rows.saturating_mul(4);
                let coordinates = call.slice(rows.coordinates, len, "rows.coordinates")?;
                let (mut sites, mut input_rows) = (SiteSet::new(grid, capacity), Vec::new());
                let coordinates = coordinates.as_chunks().0;
                let counts = sites_of_coordinates(coordinates, &mut sites, &mut input_rows);
                (Cells::Host { sites, rows: input_rows }, counts)
            }
            Place::Gpu(gpu, caller) => {
                let (sites, counts) = gpu.sites(call, caller, rows, (grid, capacity))?;
                (Cells::Gpu(sites), counts)
            }
        };
        Ok(Self::new(workspace, cells, Some(rows.num_rows), counts))
    }

    /// The sites that a strided or transposed convolution reaches.
    pub(super) fn reached(
        &self,
        opened: &mut Opened,
        (geometry, mode): (&Geometry, Mode),
        output_padding: [u32; 3],
        max_sites: usize,
    ) -> Result<Self, Failure> {
        let grid = self.grid();
        let shape = match mode {
            Mode::Transposed => geometry.transposed_shape(grid.shape(), output_padding)?,
            _ => geometry.strided_shape(grid.shape())?,
        };
        let grid = SiteGrid::new(grid.batch_size(), shape)?;
        // A site reaches at most as many cells as the kernel has taps.
        let most = self.len().saturating_mul(geometry.num_taps());
        let most = or_unlimited(max_sites).min(most);
        let (cells, num_over_capacity) = match (&self.cells, Place::of(opened)?) {
            (Cells::Host { sites, .. }, Place::Host(_)) => {
                let mut reached = SiteSet::new(grid, most);
                let counts = output_sites(sites, geometry, mode, &mut reached)?;
                (Cells::Host { sites: reached, rows: Vec::new() }, counts.num_over_capacity)
            }
            (Cells::Gpu(sites), Place::Gpu(gpu, caller)) => {
                let of = (geometry, mode);
                let (reached, num) = gpu.reached(caller, sites, of, (grid, most))?;
                (Cells::Gpu(reached), num)
            }
            _ => return Err(elsewhere("sites")),
        };
        let counts = EntranceCounts { num_over_capacity, ..EntranceCounts::default() };
        Ok(Self::new(self.workspace, cells, None, counts))
    }

    fn new(workspace: u64, cells: Cells, num_rows: Option<usize>, counts: EntranceCounts) -> Self {
        let mut arrays = (Vec::new(), Vec::new());
        let has_rows = num_rows.is_some();
        let (coordinates, rows) = match &cells {
            Cells::Host { sites, rows } => {
                // A grid has at most 2^28 cells.
                arrays.0.extend(cells_of(sites).flatten().map(|number| number as i32));
                arrays.1.extend(rows.iter().map(|&row| i64::from(row)));
                (Const::of(&arrays.0), Const::if_so(has_rows, &arrays.1))
            }
            Cells::Gpu(sites) => {
                let rows = if has_rows { Const::on_device(sites.rows) } else { Const::NULL };
                (Const::on_device(sites.coordinates), rows)
            }
        };
        let (len, grid) = (cells.len(), *cells.grid());
        let info = SitesInfo {
            coordinates,
            rows,
            num_sites: len,
            num_rows: num_rows.unwrap_or(0),
            batch_size: grid.batch_size(),
            grid_size: grid.shape(),
            num_outside: counts.num_outside,
            num_duplicates: counts.num_duplicates,
            num_over_capacity: counts.num_over_capacity,
        };
        Self { workspace, cells, num_rows, info, _arrays: arrays }
    }

    /// Number of sites.
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    /// Their grid.
    pub(super) fn grid(&self) -> &SiteGrid {
        self.cells.grid()
    }

    /// The sites of a number.
    pub(super) fn of_number(sites: Sites) -> Result<Arc<Self>, Failure> {
        SITES.shared(sites.id)
    }

    /// The sites of a number, in calls on a workspace.
    pub(super) fn shared(sites: Sites, workspace: u64) -> Result<Arc<Self>, Failure> {
        let level = Self::of_number(sites)?;
        if level.workspace == workspace { Ok(level) } else { Err(elsewhere("sites")) }
    }

    /// A further number of the sites.
    pub(super) fn open(self: &Arc<Self>) -> Sites {
        Sites { id: SITES.open(Arc::clone(self)) }
    }
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Host { sites, .. } => sites.len(),
            Self::Gpu(sites) => sites.len(),
        }
    }

    fn grid(&self) -> &SiteGrid {
        match self {
            Self::Host { sites, .. } => sites.grid(),
            Self::Gpu(sites) => sites.grid(),
        }
    }
}

/// An object of another workspace.
pub(super) fn elsewhere(what: &str) -> Failure {
    Failure::argument(format!("{what}: of another workspace; use the one that opened them"))
}

/// Opens the sites of rows of coordinates. Close them with `det_post_sites_close`.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_sites_open(
    workspace: Workspace,
    rows: In<SiteRows>,
    sites: Out<Sites>,
) -> Status {
    run(workspace.id, |call| {
        call.check_out(sites, "sites")?;
        let rows = call.one(rows, "rows")?;
        let level = WORKSPACES
            .with(workspace.id, |opened| Level::of_rows(call, opened, workspace.id, rows))?;
        call.write(sites, Arc::new(level).open(), "sites")
    })
}

/// Closes sites. Their memory is freed once no rulebook has them; on a GPU it serves later objects of the
/// workspace, and is freed with the last of them and the workspace.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_sites_close(sites: Sites) -> Status {
    run(sites.id, |_| SITES.close(sites.id))
}

/// What sites are: their cells, and what became of the rows that they were made of.
#[unsafe(no_mangle)]
pub extern "C" fn det_post_sites_get_info(sites: Sites, info: Out<Const<SitesInfo>>) -> Status {
    run(sites.id, |call| {
        let level = Level::of_number(sites)?;
        call.write(info, Const::one(&level.info), "info")
    })
}
