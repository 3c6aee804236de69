//! Features (f32) times parameters (f64), accumulated in f64 in the order of the features: the
//! scores that certificates are made of. Learning uses the f32 matrix product instead.

use ndarray::{Array2, ArrayView2};

use super::dispatch;

/// x (rows × p) · mean (p × K).
pub fn scores(x: ArrayView2<f32>, mean: ArrayView2<f64>) -> Array2<f64> {
    let k = mean.ncols();
    let mut out = vec![0.0; x.nrows() * k];
    let mean = mean.as_standard_layout();
    let mean = mean.as_slice().expect("standard layout");
    let x = x.as_standard_layout();
    let x = x.as_slice().expect("standard layout");
    if k > 0 && !out.is_empty() {
        accumulate(x, mean, k, &mut out);
    }
    Array2::from_shape_vec((out.len() / k.max(1), k), out).expect("rows × K")
}

dispatch! {
    fn accumulate(x: &[f32], mean: &[f64], k: usize, out: &mut [f64]) = accumulate_body
}

#[inline(always)]
fn accumulate_body(x: &[f32], mean: &[f64], k: usize, out: &mut [f64]) {
    let p = mean.len() / k;
    if p == 0 {
        return;
    }
    // Eight actions at a time stay in registers over the whole row.
    for (row, out) in x.chunks_exact(p).zip(out.chunks_exact_mut(k)) {
        let mut first = 0;
        while first < k {
            let width = (k - first).min(8);
            let mut acc = [0.0f64; 8];
            if width == 8 {
                for (j, &v) in row.iter().enumerate() {
                    let m: &[f64; 8] = mean[j * k + first..][..8].try_into().expect("eight");
                    for a in 0..8 {
                        acc[a] = (v as f64).mul_add(m[a], acc[a]);
                    }
                }
            } else {
                for (j, &v) in row.iter().enumerate() {
                    for (acc, m) in acc.iter_mut().zip(&mean[j * k + first..][..width]) {
                        *acc = (v as f64).mul_add(*m, *acc);
                    }
                }
            }
            out[first..first + width].copy_from_slice(&acc[..width]);
            first += width;
        }
    }
}

/// ‖x‖ of each row.
pub fn norms(x: ArrayView2<f32>) -> Vec<f64> {
    let square = |row: ndarray::ArrayView1<f32>| row.iter().map(|&v| (v as f64) * (v as f64)).sum::<f64>();
    x.rows().into_iter().map(|row| square(row).sqrt()).collect()
}
