//! A product of f32 matrices with the same bits on every CPU: the hidden layers of policies and their training.
//!
//!   for l = 0, 1, …:  out[i, j] ← fma(a[i, l], b[l, j], out[i, j])
//!
//! Each number is accumulated in the order of l, one fused step at a time. Blocks, tiles and threads change
//! when a step is computed and never its place in this order, so they change no bit. General libraries pick
//! their kernel, and with it the rounding, by CPU.

use std::borrow::Cow;

use ndarray::{Array2, ArrayView2};

use super::dispatch;

/// Rows and columns of a tile. The accumulators of a tile fit into sixteen vector registers, and its rows are long
/// enough that the compiler vectorizes them at each level of optimization.
const TILE_ROWS: usize = 3;
const TILE_COLUMNS: usize = 32;
/// Steps of one pass: a packed strip of columns and one of rows fit into the fastest cache.
const STEPS: usize = 256;

/// A matrix, stored by rows or by columns.
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
    assert!(b.nrows() == a.ncols() && b.ncols() <= stride, "the shapes of a product must fit");
    assert!(out.len() == a.nrows() * stride, "the result of a product must have as many rows");
    let (rows, columns) = (a.nrows(), b.ncols());
    if rows == 0 || columns == 0 {
        return;
    }
    // The transposed product has the same steps. It is cheaper if it leaves much less of the tiles empty.
    let covered = |rows: usize, columns: usize| {
        rows.next_multiple_of(TILE_ROWS) * columns.next_multiple_of(TILE_COLUMNS)
    };
    if 3 * covered(columns, rows) < 2 * covered(rows, columns) {
        accumulate(b.reversed_axes(), a.reversed_axes(), out, [1, stride]);
    } else {
        accumulate(a, b, out, [stride, 1]);
    }
}

/// out += a · b, where `strides` are the distances between two rows and between two columns of the result.
fn accumulate(a: ArrayView2<f32>, b: ArrayView2<f32>, out: &mut [f32], strides: [usize; 2]) {
    let ((rows, all), columns) = (a.dim(), b.ncols());
    let (a, b) = (Stored::new(a), Stored::new(b));
    let strips = columns.div_ceil(TILE_COLUMNS);
    let mut packed = vec![0.0f32; all.min(STEPS) * (TILE_ROWS + strips * TILE_COLUMNS)];
    for first in (0..all).step_by(STEPS) {
        let steps = STEPS.min(all - first);
        let (packed_a, packed_b) = packed.split_at_mut(steps * TILE_ROWS);
        let packed_b = &mut packed_b[..strips * steps * TILE_COLUMNS];
        for (strip, packed_b) in packed_b.chunks_exact_mut(steps * TILE_COLUMNS).enumerate() {
            let from = strip * TILE_COLUMNS;
            b.pack_columns(first, from, TILE_COLUMNS.min(columns - from), packed_b);
        }
        for from in (0..rows).step_by(TILE_ROWS) {
            let place = Place { rows: TILE_ROWS.min(rows - from), columns, strides };
            a.pack_rows(first, from, place.rows, packed_a);
            add_rows(packed_a, packed_b, &place, &mut out[from * strides[0]..]);
        }
    }
}

/// a · b.
pub fn product(a: ArrayView2<f32>, b: ArrayView2<f32>) -> Array2<f32> {
    let (rows, columns) = (a.nrows(), b.ncols());
    let mut out = vec![0.0; rows * columns];
    add_product(a, b, &mut out, columns);
    Array2::from_shape_vec((rows, columns), out).expect("rows × columns")
}

/// Where the results of a strip of rows are.
struct Place {
    rows: usize,
    columns: usize,
    /// The distances between two rows and between two columns.
    strides: [usize; 2],
}

type Tile = [[f32; TILE_COLUMNS]; TILE_ROWS];

impl Place {
    #[inline(always)]
    fn load(&self, from: usize, out: &[f32], tile: &mut Tile) {
        let [row, column] = self.strides;
        let count = TILE_COLUMNS.min(self.columns - from);
        for (r, tile) in tile.iter_mut().enumerate().take(self.rows) {
            let out = &out[r * row + from * column..];
            if column == 1 && count == TILE_COLUMNS {
                tile.copy_from_slice(&out[..TILE_COLUMNS]);
            } else {
                tile[..count].iter_mut().zip(out.iter().step_by(column)).for_each(|(tile, out)| *tile = *out);
            }
        }
    }

    #[inline(always)]
    fn store(&self, from: usize, tile: &Tile, out: &mut [f32]) {
        let [row, column] = self.strides;
        let count = TILE_COLUMNS.min(self.columns - from);
        for (r, tile) in tile.iter().enumerate().take(self.rows) {
            let out = &mut out[r * row + from * column..];
            if column == 1 && count == TILE_COLUMNS {
                out[..TILE_COLUMNS].copy_from_slice(tile);
            } else {
                tile[..count].iter().zip(out.iter_mut().step_by(column)).for_each(|(tile, out)| *out = *tile);
            }
        }
    }
}

dispatch! {
    /// Adds the steps of one strip of rows and all strips of columns to the result. Packing is not a part of it:
    /// with packing, the compiler made many copies of the loops, some of them slow.
    fn add_rows(a: &[f32], b: &[f32], place: &Place, out: &mut [f32]) = add_rows_body
}

#[inline(always)]
fn add_rows_body(a: &[f32], b: &[f32], place: &Place, out: &mut [f32]) {
    let size = a.len() / TILE_ROWS * TILE_COLUMNS;
    for (strip, b) in b.chunks_exact(size).enumerate() {
        let mut tile = [[0.0f32; TILE_COLUMNS]; TILE_ROWS];
        place.load(strip * TILE_COLUMNS, out, &mut tile);
        add_tile(a, b, &mut tile);
        place.store(strip * TILE_COLUMNS, &tile, out);
    }
}

/// The steps of one tile. Each row has a variable of its own, so that all stay in registers.
#[inline(always)]
fn add_tile(a: &[f32], b: &[f32], tile: &mut Tile) {
    let [mut r0, mut r1, mut r2] = *tile;
    for (a, b) in a.chunks_exact(TILE_ROWS).zip(b.chunks_exact(TILE_COLUMNS)) {
        let a: &[f32; TILE_ROWS] = a.try_into().expect("a step of rows");
        let b: &[f32; TILE_COLUMNS] = b.try_into().expect("a step of columns");
        for c in 0..TILE_COLUMNS {
            r0[c] = a[0].mul_add(b[c], r0[c]);
            r1[c] = a[1].mul_add(b[c], r1[c]);
            r2[c] = a[2].mul_add(b[c], r2[c]);
        }
    }
    *tile = [r0, r1, r2];
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
        let numbers =
            |n: usize, salt: u64| noise(n, salt).into_iter().map(|v| v as f32).collect::<Vec<f32>>();
        for (rows, steps, columns) in [(3, 1, 1), (1, 3, 32), (2, 256, 33), (3, 100, 129), (3, 7, 31)] {
            let a = numbers(steps * TILE_ROWS, 1);
            let b = numbers(steps * usize::next_multiple_of(columns, TILE_COLUMNS), 2);
            for strides in [[columns + 1, 1], [1, rows + 1]] {
                let place = Place { rows, columns, strides };
                let start = numbers((rows + 1) * (columns + 1), 3);
                let mut out = [start.clone(), start];
                add_rows(&a, &b, &place, &mut out[0]);
                add_rows_body(&a, &b, &place, &mut out[1]);
                assert_eq!(out[0], out[1], "{rows} × {steps} · {steps} × {columns}");
            }
        }
    }
}
