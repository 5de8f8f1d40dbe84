//! Sites, counts and tables: equal.

use det_post_ops::sparse::rulebook::cuda::{DeviceTable, Workspace};
use det_post_ops::sparse::rulebook::{Mode, Table, fill_table};

use det_post_testing::sparse_scenes::{Made, cases};

#[test]
fn sites_counts_and_tables_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for case in cases() {
        let made = Made::new(&stream, &case);
        assert_eq!(made.rows().0.is_empty(), case.coordinates.is_empty(), "{}", case.name);
    }
}

#[test]
fn the_pairs_of_an_inverse_agree() {
    let Some(device) = det_post_testing::gpu() else { return };
    let stream = device.stream().unwrap();
    for case in cases().iter().filter(|case| case.mode == Mode::Strided) {
        let made = Made::new(&stream, case);
        let (output, device_output) = made.rows();
        let capacities = [output.capacity(), made.input.capacity()];
        let mut table = Table::new(&case.geometry, Mode::Inverse, made.input.capacity());
        fill_table(output, &made.input, &mut table).unwrap();
        let mut found =
            DeviceTable::new(&stream, &case.geometry, Mode::Inverse, capacities).unwrap();
        let workspace = Workspace::new(&stream).unwrap();
        workspace.enqueue_table(device_output, &made.device_input, &mut found).unwrap();
        assert_eq!(found.read(made.input.len()).unwrap(), table.words(), "{}", case.name);
    }
}
