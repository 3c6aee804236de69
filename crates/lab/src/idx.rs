//! IDX, the format of MNIST and its relatives: a magic number with the type and the number of dimensions,
//! the dimensions as big-endian u32, then the data.

use std::path::Path;

use ndarray::Array2;

use super::dataset::{Examples, Labels, normalize};
use super::files::{self, LoadError};

const UNSIGNED_BYTES: u8 = 0x08;

/// Images and their labels; both files must have the same number.
pub fn examples(images: &Path, labels: &Path, p: usize, n_actions: usize) -> Result<Examples, LoadError> {
    let (bytes, shape, start) = read::<3>(images)?;
    let [n, height, width] = shape;
    if height * width != p {
        return Err(LoadError::malformed(
            images,
            format!("has {height} × {width} pixels per image, not {p}"),
        ));
    }
    let mut x = Array2::from_shape_fn((n, p), |(i, j)| f32::from(bytes[start + i * p + j]));
    drop(bytes);
    normalize(&mut x);
    let (bytes, [m], start) = read::<1>(labels)?;
    if m != n {
        let message = format!("has {m} labels for the {n} images of {}", images.display());
        return Err(LoadError::malformed(labels, message));
    }
    let values = &bytes[start..];
    if let Some(i) = values.iter().position(|&label| usize::from(label) >= n_actions) {
        let message = format!("label {} is {}; labels must be below {n_actions}", i + 1, values[i]);
        return Err(LoadError::malformed(labels, message));
    }
    Ok(Examples { x, labels: values.iter().map(|&label| [u32::from(label)]).collect::<Labels>() })
}

/// The file's bytes, its D dimensions, and where its data begins. Checks that the data fills the dimensions.
fn read<const D: usize>(path: &Path) -> Result<(Vec<u8>, [usize; D], usize), LoadError> {
    let bytes = files::read(path)?;
    let start = 4 + 4 * D;
    let magic = [0, 0, UNSIGNED_BYTES, D as u8];
    if bytes.len() < start || bytes[..4] != magic {
        let begins = &bytes[..bytes.len().min(4)];
        let message =
            format!("begins with {begins:02x?}, not {magic:02x?}: not an IDX file with {D} dimensions");
        return Err(LoadError::malformed(path, message));
    }
    let dimension = |d: usize| {
        let at = 4 + 4 * d;
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
    };
    let shape: [usize; D] = std::array::from_fn(dimension);
    let wanted = shape.iter().try_fold(1usize, |product, &d| product.checked_mul(d));
    if wanted != Some(bytes.len() - start) {
        let message = format!(
            "has {} bytes of data for the dimensions {shape:?}: the file is damaged",
            bytes.len() - start
        );
        return Err(LoadError::malformed(path, message));
    }
    if shape.contains(&0) {
        return Err(LoadError::malformed(path, "is empty"));
    }
    Ok((bytes, shape, start))
}
