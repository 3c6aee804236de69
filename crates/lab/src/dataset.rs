//! The supervised datasets: their names and sizes, where their files are, and their examples in memory.

use std::path::{Path, PathBuf};

use ndarray::Array2;

use super::files::{LoadError, Shelf};
use super::{arff, idx, multilabel};

/// The paper's four datasets (appendix, "Detailed statistics of the dataset splits used").
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PaperDataset {
    /// FashionMNIST: images of clothing.
    FashionMnist,
    /// EMNIST, the balanced split. Its files have each image transposed. A linear model does not depend on
    /// the order of its features, so images stay as they are.
    EmnistB,
    /// Mediamill: video shots with several labels.
    Mediamill,
    /// NUS-WIDE with 128 VLAD features.
    NusWide,
}

impl PaperDataset {
    /// The name, as the paper spells it.
    pub fn name(self) -> &'static str {
        match self {
            PaperDataset::FashionMnist => "FashionMNIST",
            PaperDataset::EmnistB => "EMNIST-b",
            PaperDataset::Mediamill => "Mediamill",
            PaperDataset::NusWide => "NUS-WIDE-128",
        }
    }

    /// K, the number of actions.
    pub fn n_actions(self) -> usize {
        match self {
            PaperDataset::FashionMnist => 10,
            PaperDataset::EmnistB => 47,
            PaperDataset::Mediamill => 101,
            PaperDataset::NusWide => 81,
        }
    }

    /// p, the number of features.
    pub fn dim(self) -> usize {
        match self {
            PaperDataset::FashionMnist | PaperDataset::EmnistB => 784,
            PaperDataset::Mediamill => 120,
            PaperDataset::NusWide => 128,
        }
    }

    /// Where its files are looked for by default.
    pub fn directory(self) -> PathBuf {
        let folder = match self {
            PaperDataset::FashionMnist => "fashion-mnist",
            PaperDataset::EmnistB => "emnist",
            PaperDataset::Mediamill => "mediamill",
            PaperDataset::NusWide => "nus-wide-128",
        };
        Path::new("/usr/share/datasets").join(folder)
    }

    fn published(self) -> &'static str {
        match self {
            PaperDataset::FashionMnist => {
                "Debian has the files in the package dataset-fashion-mnist, and their owner, Zalando Research, \
                 publishes them in the repository fashion-mnist"
            }
            PaperDataset::EmnistB => {
                "their owner, NIST, publishes them on the page \"The EMNIST Dataset\" (the archive in binary format)"
            }
            PaperDataset::Mediamill => {
                "the Extreme Classification Repository publishes it (Mediamill: the data file and its two split \
                 files), and so does the page LIBSVM Data: Multi-label (mediamill, exp1; unpack the bz2)"
            }
            PaperDataset::NusWide => {
                "the National University of Singapore owns NUS-WIDE; the Mulan library's page of multi-label \
                 datasets publishes it with 128 cVLAD+ features in the archive nuswide-cVLADplus.rar: unpack \
                 the two .arff files. The .txt and .svm names are ours, for the same examples in Mediamill's \
                 format, label,label index:value …"
            }
        }
    }
}

/// The labels of each example: none, one or several, in ascending order.
#[derive(Debug, Clone, PartialEq)]
pub struct Labels {
    offsets: Vec<u32>,
    values: Vec<u32>,
}

impl Default for Labels {
    fn default() -> Self {
        Labels { offsets: vec![0], values: Vec::new() }
    }
}

impl Labels {
    /// The number of examples.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The labels of example `i`.
    pub fn of(&self, i: usize) -> &[u32] {
        &self.values[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }

    /// Whether the action is one of the labels of example `i`.
    pub fn contains(&self, i: usize, action: u32) -> bool {
        self.of(i).contains(&action)
    }

    /// Adds an example with these labels.
    pub fn push(&mut self, labels: &[u32]) {
        self.values.extend_from_slice(labels);
        self.offsets.push(self.values.len() as u32);
    }
}

impl<L: AsRef<[u32]>> FromIterator<L> for Labels {
    fn from_iter<I: IntoIterator<Item = L>>(all: I) -> Self {
        let mut labels = Labels::default();
        all.into_iter().for_each(|one| labels.push(one.as_ref()));
        labels
    }
}

/// Examples with their features and labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Examples {
    /// One row per example, of length 1 unless all its features are 0.
    pub x: Array2<f32>,
    /// The labels of each example.
    pub labels: Labels,
}

impl Examples {
    /// The number of examples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no examples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// These examples in this order.
    pub fn select(&self, order: &[usize]) -> Examples {
        let labels = order.iter().map(|&i| self.labels.of(i)).collect();
        Examples { x: self.x.select(ndarray::Axis(0), order), labels }
    }
}

/// A dataset in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Supervised {
    /// The dataset's name.
    pub name: String,
    /// K, the number of actions.
    pub n_actions: usize,
    /// The training set.
    pub train: Examples,
    /// The test set.
    pub test: Examples,
}

/// The files in Mulan's archive of NUS-WIDE.
const NUS_WIDE: [&str; 2] = ["nus-wide-full-cVLADplus-train.arff", "nus-wide-full-cVLADplus-test.arff"];

/// Reads a dataset's published files from `dir`, or from where Debian's packages put them.
///
/// # Errors
/// If a file is missing, cannot be read, or is malformed.
pub fn load(which: PaperDataset, dir: Option<&Path>) -> Result<Supervised, LoadError> {
    let usual = which.directory();
    let directory = dir.unwrap_or(&usual);
    let shelf = Shelf { dataset: which.name(), directory, published: which.published() };
    let (p, k) = (which.dim(), which.n_actions());
    let images = |prefix: &str| -> Result<Examples, LoadError> {
        let images = shelf.find(&[&format!("{prefix}-images-idx3-ubyte")])?;
        let labels = shelf.find(&[&format!("{prefix}-labels-idx1-ubyte")])?;
        idx::examples(&images, &labels, p, k)
    };
    let (train, test) = match which {
        PaperDataset::FashionMnist => (images("train")?, images("t10k")?),
        PaperDataset::EmnistB => (images("emnist-balanced-train")?, images("emnist-balanced-test")?),
        PaperDataset::Mediamill => multilabel::load(&shelf, which)?,
        PaperDataset::NusWide => match shelf.find(&[NUS_WIDE[0]]) {
            Ok(train) => {
                let test = shelf.find(&[NUS_WIDE[1]])?;
                (arff::examples(&train, p, k)?, arff::examples(&test, p, k)?)
            }
            Err(_) => multilabel::load(&shelf, which).map_err(|error| error.or(&NUS_WIDE[..1]))?,
        },
    };
    Ok(Supervised { name: which.name().into(), n_actions: k, train, test })
}

/// Divides each row by its L2 norm, which is computed in f64.
pub fn normalize(x: &mut Array2<f32>) {
    for mut row in x.rows_mut() {
        let norm = row.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt() as f32;
        if norm > 0.0 {
            row.mapv_inplace(|v| v / norm);
        }
    }
}
