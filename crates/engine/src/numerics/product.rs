//! Products of features and parameters. Certificates use f32 features times f64 parameters, accumulated in
//! f64 in the order of the features. Learning uses f32 products of a tall and a narrow matrix.

use ndarray::{Array2, ArrayView2};

use super::dispatch;

/// x (rows × p) · mean (p × K).
pub fn scores(x: ArrayView2<f32>, mean: ArrayView2<f64>) -> Array2<f64> {
    let (k, width) = (mean.ncols(), mean.ncols().next_multiple_of(4));
    let mut wide = vec![0.0; mean.nrows() * width];
    for (row, wide) in mean.rows().into_iter().zip(wide.chunks_exact_mut(width.max(1))) {
        row.iter().zip(wide).for_each(|(&v, wide)| *wide = v);
    }
    let x = x.as_standard_layout();
    let mut out = vec![0.0; x.nrows() * width];
    if !wide.is_empty() {
        accumulate(x.as_slice().unwrap_or(&[]), &wide, width, &mut out);
    }
    let rows = out.chunks_exact(width.max(1)).flat_map(|row| row[..k].iter().copied());
    Array2::from_shape_vec((x.nrows(), k), rows.collect()).expect("rows × K")
}

dispatch! {
    fn accumulate(x: &[f32], mean: &[f64], width: usize, out: &mut [f64]) = accumulate_body
}

#[inline(always)]
fn accumulate_body(x: &[f32], mean: &[f64], width: usize, out: &mut [f64]) {
    let p = mean.len() / width;
    // Two rows at a time. The sum of a row has the same order whether the row is alone or in a pair.
    for (x, out) in x.chunks(2 * p).zip(out.chunks_mut(2 * width)) {
        let mut first = 0;
        while first + 12 <= width {
            pair::<12>(x, mean, p, width, first, out);
            first += 12;
        }
        while first < width {
            pair::<4>(x, mean, p, width, first, out);
            first += 4;
        }
    }
}

#[inline(always)]
fn pair<const W: usize>(x: &[f32], mean: &[f64], p: usize, width: usize, first: usize, out: &mut [f64]) {
    let (a, b) = x.split_at(p);
    // A single last row is paired with itself.
    let b = if b.is_empty() { a } else { b };
    let mut acc = [[0.0f64; W]; 2];
    for ((m, a), b) in mean.chunks_exact(width).zip(a).zip(b) {
        let m: &[f64; W] = m[first..first + W].try_into().expect("W columns");
        let (a, b) = (*a as f64, *b as f64);
        for l in 0..W {
            acc[0][l] = a.mul_add(m[l], acc[0][l]);
            acc[1][l] = b.mul_add(m[l], acc[1][l]);
        }
    }
    for (acc, out) in acc.iter().zip(out.chunks_exact_mut(width)) {
        out[first..first + W].copy_from_slice(acc);
    }
}

/// ‖x‖ of each row.
pub fn norms(x: ArrayView2<f32>) -> Vec<f64> {
    let square = |row: ndarray::ArrayView1<f32>| row.iter().map(|&v| (v as f64) * (v as f64)).sum::<f64>();
    x.rows().into_iter().map(|row| square(row).sqrt()).collect()
}

/// Columns of f32 parameters are padded to a multiple of this.
const LANES: usize = 8;

/// The number of columns after padding.
pub fn padded(k: usize) -> usize {
    k.next_multiple_of(LANES)
}

/// A p × K matrix with its rows padded by zeros.
pub fn pad(mean: ArrayView2<f32>) -> Vec<f32> {
    let width = padded(mean.ncols());
    let mut out = vec![0.0; mean.nrows() * width];
    for (row, out) in mean.rows().into_iter().zip(out.chunks_exact_mut(width)) {
        row.iter().zip(out).for_each(|(&v, out)| *out = v);
    }
    out
}

dispatch! {
    /// out = x · mean: rows × width from rows × p and a padded p × width. The first product of learning. A
    /// general matrix product would spend time on packing the tall matrix.
    pub fn narrow_scores(x: &[f32], mean: &[f32], width: usize, out: &mut [f32]) = narrow_scores_body
}

#[inline(always)]
fn narrow_scores_body(x: &[f32], mean: &[f32], width: usize, out: &mut [f32]) {
    let p = mean.len() / width;
    if p == 0 {
        return out.fill(0.0);
    }
    for (x, out) in x.chunks(4 * p).zip(out.chunks_mut(4 * width)) {
        let mut first = 0;
        while first + 16 <= width {
            tile::<16>(x, mean, p, width, first, out);
            first += 16;
        }
        if first < width {
            tile::<8>(x, mean, p, width, first, out);
        }
    }
}

/// Up to four rows times W columns, accumulated in registers.
#[inline(always)]
fn tile<const W: usize>(x: &[f32], mean: &[f32], p: usize, width: usize, first: usize, out: &mut [f32]) {
    if x.len() == 4 * p {
        let (a, rest) = x.split_at(p);
        let (b, rest) = rest.split_at(p);
        let (c, d) = rest.split_at(p);
        let mut acc = [[0.0f32; W]; 4];
        for ((((m, a), b), c), d) in mean.chunks_exact(width).zip(a).zip(b).zip(c).zip(d) {
            let m: &[f32; W] = m[first..first + W].try_into().expect("W columns");
            for l in 0..W {
                acc[0][l] = a.mul_add(m[l], acc[0][l]);
                acc[1][l] = b.mul_add(m[l], acc[1][l]);
                acc[2][l] = c.mul_add(m[l], acc[2][l]);
                acc[3][l] = d.mul_add(m[l], acc[3][l]);
            }
        }
        for (acc, out) in acc.iter().zip(out.chunks_exact_mut(width)) {
            out[first..first + W].copy_from_slice(acc);
        }
    } else {
        for (x, out) in x.chunks_exact(p).zip(out.chunks_exact_mut(width)) {
            let mut acc = [0.0f32; W];
            for (m, v) in mean.chunks_exact(width).zip(x) {
                let m: &[f32; W] = m[first..first + W].try_into().expect("W columns");
                for l in 0..W {
                    acc[l] = v.mul_add(m[l], acc[l]);
                }
            }
            out[first..first + W].copy_from_slice(&acc);
        }
    }
}

dispatch! {
    /// d_mean += xᵀ · d: a padded p × width from rows × p and rows × width. The second product of learning.
    pub fn add_narrow_gradient(x: &[f32], d: &[f32], width: usize, d_mean: &mut [f32]) = add_narrow_gradient_body
}

#[inline(always)]
fn add_narrow_gradient_body(x: &[f32], d: &[f32], width: usize, d_mean: &mut [f32]) {
    let p = d_mean.len() / width;
    if p == 0 {
        return;
    }
    // Four rows at a time: d_mean is read and written once for the four.
    for (x, d) in x.chunks(4 * p).zip(d.chunks(4 * width)) {
        if x.len() == 4 * p {
            for first in (0..width).step_by(LANES) {
                let part = |r: usize| -> [f32; LANES] {
                    d[r * width + first..][..LANES].try_into().expect("eight columns")
                };
                let d = [part(0), part(1), part(2), part(3)];
                let (a, rest) = x.split_at(p);
                let (b, rest) = rest.split_at(p);
                let (c, e) = rest.split_at(p);
                for ((((g, a), b), c), e) in d_mean.chunks_exact_mut(width).zip(a).zip(b).zip(c).zip(e) {
                    let g = &mut g[first..first + LANES];
                    for l in 0..LANES {
                        let two = a.mul_add(d[0][l], b * d[1][l]);
                        let four = c.mul_add(d[2][l], e.mul_add(d[3][l], two));
                        g[l] += four;
                    }
                }
            }
        } else {
            for (x, d) in x.chunks_exact(p).zip(d.chunks_exact(width)) {
                for (g, v) in d_mean.chunks_exact_mut(width).zip(x) {
                    g.iter_mut().zip(d).for_each(|(g, d)| *g = v.mul_add(*d, *g));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernels::noise;
    use super::*;

    /// Compares with ndarray's product, on shapes that fill tiles and on shapes that do not.
    #[test]
    fn narrow_products_agree() {
        for (n, p, k) in [(1, 1, 2), (4, 7, 8), (9, 33, 10), (18, 5, 16), (7, 12, 27)] {
            let value = |i: usize| ((i * 2654435761) % 1000) as f32 / 500.0 - 1.0;
            let x = Array2::from_shape_fn((n, p), |(i, j)| value(i * p + j));
            let mean = Array2::from_shape_fn((p, k), |(i, j)| value(7 + i * k + j));
            let width = padded(k);
            let mut out = vec![f32::NAN; n * width];
            narrow_scores(x.as_slice().unwrap(), &pad(mean.view()), width, &mut out);
            let want = x.dot(&mean);
            for i in 0..n {
                for a in 0..width {
                    let want = if a < k { want[(i, a)] } else { 0.0 };
                    assert!((out[i * width + a] - want).abs() < 1e-4, "{n} {p} {k}");
                }
            }
            let mut gradient = vec![1.0f32; p * width];
            add_narrow_gradient(x.as_slice().unwrap(), &out, width, &mut gradient);
            let want = x.t().dot(&want);
            for j in 0..p {
                for a in 0..k {
                    assert!((gradient[j * width + a] - 1.0 - want[(j, a)]).abs() < 1e-3, "{n} {p} {k}");
                }
            }
        }
    }

    /// The copies that run on this CPU and those for any CPU.
    #[test]
    fn both_copies_have_the_same_bits() {
        for (n, p, k) in [(1, 1, 2), (4, 7, 8), (9, 33, 10), (18, 5, 16), (7, 12, 27), (23, 784, 40)] {
            let x: Vec<f32> = noise(n * p, 1).into_iter().map(|v| v as f32).collect();
            let wide = usize::next_multiple_of(k, 4);
            let mean = noise(p * wide, 2);
            let mut out = [vec![0.0; n * wide], vec![0.0; n * wide]];
            accumulate(&x, &mean, wide, &mut out[0]);
            accumulate_body(&x, &mean, wide, &mut out[1]);
            assert_eq!(out[0], out[1], "{n} {p} {k}");

            let width = padded(k);
            let mean: Vec<f32> = noise(p * width, 3).into_iter().map(|v| v as f32).collect();
            let mut out = [vec![0.0; n * width], vec![0.0; n * width]];
            narrow_scores(&x, &mean, width, &mut out[0]);
            narrow_scores_body(&x, &mean, width, &mut out[1]);
            assert_eq!(out[0], out[1], "{n} {p} {k}");

            let mut gradient = [mean.clone(), mean.clone()];
            add_narrow_gradient(&x, &out[0], width, &mut gradient[0]);
            add_narrow_gradient_body(&x, &out[0], width, &mut gradient[1]);
            assert_eq!(gradient[0], gradient[1], "{n} {p} {k}");
        }
    }
}
