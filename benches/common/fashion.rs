//! The exact FashionMNIST logs of crates/lab/tests/fashion_mnist (see its README), rebuilt from Debian's package
//! `dataset-fashion-mnist`. Shared by the benchmarks and the tests.

use guarantor_engine::log::MemoryLog;
use guarantor_engine::policy::PolicyParams;
use guarantor_lab::{Logger, PaperDataset, Supervised, load, true_risk};
use ndarray::Array2;

pub const K: usize = 10;
pub const P: usize = 784;

pub struct Fashion {
    pub data: Supervised,
    pub logger: Logger,
}

fn npy(name: &str) -> Vec<u8> {
    let path = format!("{}/{name}", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fashion_mnist"));
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..6], b"\x93NUMPY");
    let header = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    bytes[10 + header..].to_vec()
}

impl Fashion {
    pub fn load() -> Self {
        let data = load(PaperDataset::FashionMnist, None).unwrap_or_else(|error| panic!("{error}"));
        let order: Vec<usize> =
            npy("order.npy").chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]) as usize).collect();
        let float = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]) as f64;
        let mu0: Vec<f64> = npy("mu0.npy").chunks_exact(4).map(float).collect();
        let mu0 = Array2::from_shape_vec((P, K), mu0).unwrap();
        let logger = Logger::given(&data, &order[3000..], mu0.view(), 0);
        Fashion { data, logger }
    }

    pub fn logging_policy(&self, alpha: f64) -> PolicyParams {
        self.logger.policy(alpha)
    }

    /// The first `n` of the 57 000 rows of the log at α.
    pub fn log(&self, alpha: &str, n: usize) -> MemoryLog {
        let actions = npy(&format!("actions_alpha_{alpha}.npy"))[..n].iter().map(|&a| a as u32).collect();
        self.logger.replay(alpha.parse().unwrap(), 1, actions).unwrap().log
    }

    /// R(π) on the test set.
    pub fn test_risk(&self, policy: &PolicyParams) -> f64 {
        true_risk(policy, &self.data.test).unwrap()
    }
}
