//! A product of f32 matrices with the same bits on every CPU: the hidden layers of policies and their training.
//!
//!   out[i, j] ← fma(a[i, l−1], b[l−1, j], … fma(a[i, 0], b[0, j], out[i, j]))
//!
//! Each number is accumulated in the order of l, one fused step at a time. Blocks, tiles and threads change
//! when a step is computed and never its place in this order, so they change no bit. General libraries pick
//! their kernel, and with it the rounding, by CPU.

use std::borrow::Cow;

use ndarray::{Array2, ArrayView2};

use super::dispatch;

/// Rows and columns of a tile: the accumulators of a tile fit into sixteen vector registers.
const TILE_ROWS: usize = 6;
const TILE_COLUMNS: usize = 16;
/// Steps of one pass: a packed strip of columns and one of rows fit into the fastest cache.
const STEPS: usize = 256;

/// A matrix, stored by rows or by columns.
#[derive(Clone)]
struct Stored<'a> {
    data: Cow<'a, [f32]>,
    /// The distance between two rows, or between two columns if stored by columns.
    stride: usize,
    by_columns: bool,
}

impl<'a> Stored<'a> {
    fn new(matrix: ArrayView2<'a, f32>) -> Self {
        let (rows, columns) = matrix.dim();
        if let Some(data) = matrix.to_slice() {
            return Stored { data: Cow::Borrowed(data), stride: columns, by_columns: false };
        }
        if let Some(data) = matrix.reversed_axes().to_slice() {
            return Stored { data: Cow::Borrowed(data), stride: rows, by_columns: true };
        }
        Stored { data: Cow::Owned(matrix.iter().copied().collect()), stride: columns, by_columns: false }
    }

    /// Copies `count` columns after `from`, in the rows after `first`, into a strip.
    #[inline(always)]
    fn pack_columns(&self, first: usize, from: usize, count: usize, strip: &mut [f32]) {
        pack::<TILE_COLUMNS>(&self.data, self.stride, self.by_columns, first, from, count, strip);
    }

    /// Copies `count` rows after `from`, in the columns after `first`, into a strip.
    #[inline(always)]
    fn pack_rows(&self, first: usize, from: usize, count: usize, strip: &mut [f32]) {
        pack::<TILE_ROWS>(&self.data, self.stride, !self.by_columns, first, from, count, strip);
    }
}

/// strip[l·WIDTH + r] = number r of `count` after `from`, at step l after `first`. `across`: the steps of one
/// number are adjacent in memory; otherwise the numbers of one step are. What is beyond `count` is left as it
/// is: no result depends on it.
#[inline(always)]
fn pack<const WIDTH: usize>(
    data: &[f32],
    stride: usize,
    across: bool,
    first: usize,
    from: usize,
    count: usize,
    strip: &mut [f32],
) {
    let steps = strip.len() / WIDTH;
    if across {
        for r in 0..count {
            let line = &data[(from + r) * stride + first..][..steps];
            for (strip, &v) in strip.chunks_exact_mut(WIDTH).zip(line) {
                strip[r] = v;
            }
        }
    } else if count == WIDTH {
        for (l, strip) in strip.chunks_exact_mut(WIDTH).enumerate() {
            strip.copy_from_slice(&data[(first + l) * stride + from..][..WIDTH]);
        }
    } else {
        for (l, strip) in strip.chunks_exact_mut(WIDTH).enumerate() {
            strip[..count].copy_from_slice(&data[(first + l) * stride + from..][..count]);
        }
    }
}

/// out += a · b. The rows of `out` are `stride` numbers apart; what is between them is left as it is.
///
/// # Panics
/// If the shapes do not fit.
pub fn add_product(a: ArrayView2<f32>, b: ArrayView2<f32>, out: &mut [f32], stride: usize) {
    let shape = Shape { rows: a.nrows(), steps: a.ncols(), columns: b.ncols(), stride };
    assert!(b.nrows() == shape.steps && shape.columns <= stride, "the shapes of a product must fit");
    assert!(out.len() == shape.rows * stride, "the result of a product must have as many rows");
    if shape.rows > 0 && shape.columns > 0 {
        accumulate(&Stored::new(a), &Stored::new(b), &shape, out);
    }
}

/// a · b.
pub fn product(a: ArrayView2<f32>, b: ArrayView2<f32>) -> Array2<f32> {
    let (rows, columns) = (a.nrows(), b.ncols());
    let mut out = vec![0.0; rows * columns];
    add_product(a, b, &mut out, columns);
    Array2::from_shape_vec((rows, columns), out).expect("rows × columns")
}

/// The sizes of a product.
struct Shape {
    rows: usize,
    steps: usize,
    columns: usize,
    /// The distance between two rows of the result.
    stride: usize,
}

dispatch! {
    fn accumulate(a: &Stored, b: &Stored, shape: &Shape, out: &mut [f32]) = accumulate_body
}

#[inline(always)]
fn accumulate_body(a: &Stored, b: &Stored, shape: &Shape, out: &mut [f32]) {
    let strips = shape.columns.div_ceil(TILE_COLUMNS);
    let most = shape.steps.min(STEPS);
    let mut packed = vec![0.0f32; most * (TILE_ROWS + strips * TILE_COLUMNS)];
    for first in (0..shape.steps).step_by(STEPS) {
        let steps = STEPS.min(shape.steps - first);
        let (packed_a, packed_b) = packed.split_at_mut(steps * TILE_ROWS);
        let size = steps * TILE_COLUMNS;
        for (strip, packed_b) in packed_b.chunks_exact_mut(size).take(strips).enumerate() {
            let from = strip * TILE_COLUMNS;
            b.pack_columns(first, from, TILE_COLUMNS.min(shape.columns - from), packed_b);
        }
        for (tile, out) in out.chunks_mut(TILE_ROWS * shape.stride).enumerate() {
            a.pack_rows(first, tile * TILE_ROWS, out.len() / shape.stride, packed_a);
            for (strip, packed_b) in packed_b.chunks_exact(size).take(strips).enumerate() {
                let from = strip * TILE_COLUMNS;
                let part = from..shape.columns.min(from + TILE_COLUMNS);
                let mut sums = [[0.0f32; TILE_COLUMNS]; TILE_ROWS];
                for (sums, out) in sums.iter_mut().zip(out.chunks_exact(shape.stride)) {
                    load(&out[part.clone()], sums);
                }
                add_tile(packed_a, packed_b, &mut sums);
                for (sums, out) in sums.iter().zip(out.chunks_exact_mut(shape.stride)) {
                    store(sums, &mut out[part.clone()]);
                }
            }
        }
    }
}

#[inline(always)]
fn load(from: &[f32], to: &mut [f32; TILE_COLUMNS]) {
    match <&[f32; TILE_COLUMNS]>::try_from(from) {
        Ok(from) => *to = *from,
        Err(_) => to[..from.len()].copy_from_slice(from),
    }
}

#[inline(always)]
fn store(from: &[f32; TILE_COLUMNS], to: &mut [f32]) {
    let count = to.len();
    match <&mut [f32; TILE_COLUMNS]>::try_from(&mut *to) {
        Ok(to) => *to = *from,
        Err(_) => to.copy_from_slice(&from[..count]),
    }
}

/// The steps of one tile, in registers.
#[inline(always)]
fn add_tile(a: &[f32], b: &[f32], out: &mut [[f32; TILE_COLUMNS]; TILE_ROWS]) {
    let mut sums = *out;
    for (a, b) in a.chunks_exact(TILE_ROWS).zip(b.chunks_exact(TILE_COLUMNS)) {
        let a: &[f32; TILE_ROWS] = a.try_into().expect("a step of rows");
        let b: &[f32; TILE_COLUMNS] = b.try_into().expect("a step of columns");
        for r in 0..TILE_ROWS {
            for c in 0..TILE_COLUMNS {
                sums[r][c] = a[r].mul_add(b[c], sums[r][c]);
            }
        }
    }
    *out = sums;
}

#[cfg(test)]
mod tests {
    use super::super::kernels::noise;
    use super::*;
    use ndarray::s;

    fn matrix(rows: usize, columns: usize, salt: u64) -> Array2<f32> {
        let values = noise(rows * columns, salt).into_iter().map(|v| v as f32).collect();
        Array2::from_shape_vec((rows, columns), values).unwrap()
    }

    const SHAPES: [(usize, usize, usize); 10] = [
        (1, 1, 1),
        (6, 256, 16),
        (7, 257, 17),
        (5, 3, 32),
        (13, 600, 10),
        (12, 0, 4),
        (0, 3, 4),
        (25, 10, 129),
        (129, 64, 10),
        (128, 784, 31),
    ];

    /// Compares with the definition, bit for bit, on shapes that fill tiles and on shapes that do not, and with
    /// either matrix transposed.
    #[test]
    fn is_the_definition_to_the_bit() {
        for (rows, steps, columns) in SHAPES {
            let (a, b, start) = (matrix(rows, steps, 1), matrix(steps, columns, 2), matrix(rows, columns, 3));
            let mut want = start.clone();
            for ((i, j), want) in want.indexed_iter_mut() {
                for l in 0..steps {
                    *want = a[(i, l)].mul_add(b[(l, j)], *want);
                }
            }
            let by_columns = |m: &Array2<f32>| m.t().as_standard_layout().into_owned();
            let (a_columns, b_columns) = (by_columns(&a), by_columns(&b));
            // A part of a wider matrix, and a result between other numbers.
            let mut wide = matrix(rows, steps + 3, 5);
            wide.slice_mut(s![.., 1..=steps]).assign(&a);
            let mut around = matrix(rows, columns + 1, 4);
            around.slice_mut(s![.., ..columns]).assign(&start);
            for a in [a.view(), a_columns.t(), wide.slice(s![.., 1..=steps])] {
                for b in [b.view(), b_columns.t()] {
                    let mut out = around.clone();
                    add_product(a, b, out.as_slice_mut().unwrap(), columns + 1);
                    assert_eq!(out.slice(s![.., ..columns]), want, "{rows} × {steps} · {steps} × {columns}");
                    assert_eq!(out.column(columns), around.column(columns));
                }
            }
        }
    }

    /// The copy that runs on this CPU and the one for any CPU.
    #[test]
    fn both_copies_have_the_same_bits() {
        for (rows, steps, columns) in SHAPES {
            let (a, b) = (matrix(rows, steps, 6), matrix(steps, columns, 7));
            let shape = Shape { rows, steps, columns, stride: columns };
            let mut out = [vec![0.25; rows * columns], vec![0.25; rows * columns]];
            accumulate(&Stored::new(a.view()), &Stored::new(b.view()), &shape, &mut out[0]);
            accumulate_body(&Stored::new(a.view()), &Stored::new(b.view()), &shape, &mut out[1]);
            assert_eq!(out[0], out[1], "{rows} × {steps} · {steps} × {columns}");
        }
    }
}
