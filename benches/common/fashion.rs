//! The exact FashionMNIST logs of tests/fashion_mnist (see its README), rebuilt from Debian's
//! `dataset-fashion-mnist`. Shared by the benchmarks and the acceptance test.

use std::io::Read;
use std::path::Path;

use guarantor::engine::log::{Columns, MemoryLog};
use guarantor::engine::policy::PolicyParams;

const IMAGES: &str = "/usr/share/datasets/fashion-mnist";
pub const K: usize = 10;
pub const P: usize = 784;

pub struct Fashion {
    /// Logged contexts, l2-normalised, in the log's order.
    pub x: Vec<f32>,
    pub labels: Vec<u8>,
    pub test_x: Vec<f32>,
    pub test_labels: Vec<u8>,
    pub mu0: Vec<f32>,
}

fn gunzip(name: &str) -> Vec<u8> {
    let path = Path::new(IMAGES).join(name);
    let file = std::fs::File::open(&path)
        .unwrap_or_else(|e| panic!("{}: {e}; apt-get install dataset-fashion-mnist", path.display()));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(file).read_to_end(&mut bytes).unwrap();
    bytes
}

fn npy(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fashion_mnist/{name}", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..6], b"\x93NUMPY");
    let header = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    bytes[10 + header..].to_vec()
}

/// Pixels as f32 over their l2 norm.
fn normalised(pixels: &[u8]) -> Vec<f32> {
    let mut out = Vec::with_capacity(pixels.len());
    for image in pixels.chunks_exact(P) {
        let norm = image.iter().map(|&v| (v as f64) * (v as f64)).sum::<f64>().sqrt() as f32;
        out.extend(image.iter().map(|&v| v as f32 / norm));
    }
    out
}

impl Fashion {
    pub fn load() -> Self {
        let order: Vec<usize> =
            npy("order.npy").chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]) as usize).collect();
        let images = gunzip("train-images-idx3-ubyte.gz");
        let labels = gunzip("train-labels-idx1-ubyte.gz");
        let logged = &order[3000..];
        let mut pixels = Vec::with_capacity(logged.len() * P);
        for &i in logged {
            pixels.extend_from_slice(&images[16 + i * P..16 + (i + 1) * P]);
        }
        let test = gunzip("t10k-images-idx3-ubyte.gz");
        let test_labels = gunzip("t10k-labels-idx1-ubyte.gz");
        let float = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        Fashion {
            x: normalised(&pixels),
            labels: logged.iter().map(|&i| labels[8 + i]).collect(),
            test_x: normalised(&test[16..]),
            test_labels: test_labels[8..].to_vec(),
            mu0: npy("mu0.npy").chunks_exact(4).map(float).collect(),
        }
    }

    pub fn logging_policy(&self, alpha: f64) -> PolicyParams {
        PolicyParams::Softmax {
            mean: self.mu0.chunks_exact(K).map(|r| r.iter().map(|&v| v as f64).collect()).collect(),
            inverse_temperature: alpha,
            features: Default::default(),
        }
    }

    /// The first `n` rows of the log at α (`all` of them: 57 000).
    pub fn log(&self, alpha: &str, n: usize) -> MemoryLog {
        let actions: Vec<u32> =
            npy(&format!("actions_alpha_{alpha}.npy"))[..n].iter().map(|&a| a as u32).collect();
        let policy = self.logging_policy(alpha.parse().unwrap());
        let x = self.x[..n * P].to_vec();
        let view = ndarray::ArrayView2::from_shape((n, P), &x).unwrap();
        let full = policy.propensities(view).unwrap();
        let cost = |i: usize| if actions[i] == self.labels[i] as u32 { -1.0 } else { 0.0 };
        MemoryLog::new(Columns {
            n_actions: K,
            dim: P,
            costs: (0..n).map(cost).collect(),
            propensities: (0..n).map(|i| full[(i, actions[i] as usize)]).collect(),
            full: Some(full.into_raw_vec_and_offset().0),
            x,
            actions,
            ..Columns::default()
        })
        .unwrap()
    }

    /// R(π) on the test set.
    pub fn test_risk(&self, policy: &PolicyParams) -> f64 {
        let n = self.test_labels.len();
        let view = ndarray::ArrayView2::from_shape((n, P), &self.test_x).unwrap();
        let pi = policy.propensities(view).unwrap();
        -(0..n).map(|i| pi[(i, self.test_labels[i] as usize)]).sum::<f64>() / n as f64
    }
}
