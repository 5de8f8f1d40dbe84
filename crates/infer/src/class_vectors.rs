//! The second input of networks that find classes by vectors, as of YOLO-World and YOLOE exported
//! with it: a table with a vector for each class. It becomes a constant, so that an image is the
//! only input.

use std::path::Path;

use half::f16;

use super::STAGE;
use super::onnx::{DataType, Model, ValueInfo, write};
use det_post_types::{ClassVectors, Error, ErrorKind, Result};

/// The largest file that is read.
const MAX_BYTES: u64 = 2 << 30;

/// The network with the vectors as a constant.
///
/// # Errors
/// `Model` when the file cannot be read or is not of the format, or has not an image and one table
/// `[1, C, D]` or `[C, D]` of f32 or f16 as inputs that the vectors fit.
pub(super) fn with_constant(path: &Path, classes: &ClassVectors) -> Result<Vec<u8>> {
    let refused = |message: String| {
        Error::new(ErrorKind::Model, STAGE, format!("{}: {message}", path.display()))
    };
    super::check_file(path)?;
    let unreadable = |cause: std::io::Error| refused("cannot read it".into()).with_source(cause);
    let num_bytes = std::fs::metadata(path).map_err(unreadable)?.len();
    if num_bytes > MAX_BYTES {
        return Err(refused(format!("{num_bytes} bytes; allowed: up to {MAX_BYTES}")));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let model = Model::parse_with_functions(&bytes).map_err(|e| refused(e.message().to_owned()))?;
    let given = |input: &&ValueInfo<'_>| model.graph.initializer(input.name).is_none();
    let inputs: Vec<&ValueInfo<'_>> = model.graph.inputs.iter().filter(given).collect();
    let rank = |input: &ValueInfo<'_>| input.shape.as_ref().map(Vec::len);
    let table = match inputs[..] {
        [image, table] if rank(image) == Some(4) => table,
        [table, image] if rank(image) == Some(4) => table,
        _ => {
            let names: Vec<&str> = inputs.iter().map(|input| input.name).collect();
            return Err(refused(format!(
                "it has the inputs {names:?}; a vocabulary needs an image and a table of vectors"
            )));
        }
    };
    let (num, len) = (classes.num_classes(), classes.len_of_vector());
    let dims = match table.shape.as_deref() {
        Some([batch, classes, values]) => {
            let expected = [(*batch, 1), (*classes, num), (*values, len)];
            fits(&expected).then(|| vec![1, num as i64, len as i64])
        }
        Some([classes, values]) => {
            fits(&[(*classes, num), (*values, len)]).then(|| vec![num as i64, len as i64])
        }
        _ => None,
    };
    let Some(dims) = dims else {
        return Err(refused(format!(
            "its input {} is {:?} (None: any); the vocabulary gives {num} classes of {len} values",
            table.name,
            table.shape.as_deref().unwrap_or_default()
        )));
    };
    let values = match table.data_type {
        Some(DataType::F32) => classes.bytes().to_vec(),
        Some(DataType::F16) => {
            let values = classes.bytes().as_chunks().0.iter().map(|&b| f32::from_le_bytes(b));
            values.flat_map(|value| f16::from_f32(value).to_le_bytes()).collect()
        }
        _ => return Err(refused(format!("its input {} is neither f32 nor f16", table.name))),
    };
    write::with_constant(&bytes, table, &dims, &values)
}

/// Whether lengths are those expected, where they are fixed.
fn fits(dims: &[(Option<i64>, usize)]) -> bool {
    dims.iter().all(|(found, expected)| found.is_none_or(|found| found == *expected as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::write::file_of as file;

    const IMAGE: (&str, i64, &[i64]) = ("images", 1, &[1, 3, 32, 64]);

    #[test]
    fn the_table_becomes_a_constant() {
        let classes = ClassVectors::new(&[vec![1.0, 2.0, 3.0], vec![-4.0, 0.5, 6.0]]).unwrap();
        let halves: Vec<u8> = [1.0_f32, 2.0, 3.0, -4.0, 0.5, 6.0]
            .iter()
            .flat_map(|&value| f16::from_f32(value).to_le_bytes())
            .collect();
        for (data_type, values) in [(1, classes.bytes()), (10, &halves[..])] {
            for dims in [&[1, 2, 3][..], &[2, 3]] {
                let table = ("txt_feats", data_type, dims);
                for inputs in [[IMAGE, table], [table, IMAGE]] {
                    let bytes = with_constant(file(&inputs).path(), &classes).unwrap();
                    let found = Model::parse(&bytes).unwrap();
                    let names: Vec<&str> =
                        found.graph.inputs.iter().map(|input| input.name).collect();
                    assert_eq!(names, ["images"]);
                    let constant = found.graph.initializer("txt_feats").unwrap();
                    assert_eq!(constant.dims[..], *dims);
                    assert!(bytes.windows(values.len()).any(|window| window == values));
                }
            }
        }
    }

    #[test]
    fn inputs_that_are_no_table_of_the_vocabulary_are_refused() {
        let classes = ClassVectors::new(&[vec![1.0; 3], vec![2.0; 3]]).unwrap();
        let table = |dims: &'static [i64]| ("txt_feats", 1, dims);
        for (inputs, part) in [
            (vec![IMAGE], "needs an image and a table"),
            (vec![IMAGE, table(&[1, 2, 3]), ("sizes", 7, &[1, 2])], "needs an image and a table"),
            (vec![IMAGE, table(&[1, 3, 3])], "2 classes of 3 values"),
            (vec![IMAGE, table(&[1, 2, 4])], "2 classes of 3 values"),
            (vec![IMAGE, table(&[2, 2, 3])], "2 classes of 3 values"),
            (vec![IMAGE, table(&[6])], "2 classes of 3 values"),
            (vec![IMAGE, ("txt_feats", 7, &[1, 2, 3])], "neither f32 nor f16"),
        ] {
            let error = with_constant(file(&inputs).path(), &classes).unwrap_err();
            assert!(error.message().contains(part), "{error}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"no network").unwrap();
        assert!(with_constant(file.path(), &classes).is_err());
        assert!(with_constant(Path::new("/no/such.onnx"), &classes).is_err());
    }

    #[test]
    fn a_table_has_vectors_of_one_length() {
        assert!(ClassVectors::new(&[]).is_none());
        assert!(ClassVectors::new(&[Vec::new()]).is_none());
        assert!(ClassVectors::new(&[vec![1.0], vec![1.0, 2.0]]).is_none());
        let one = ClassVectors::new(&[vec![1.0, 2.0]]).unwrap();
        assert_eq!((one.num_classes(), one.len_of_vector()), (1, 2));
    }
}
