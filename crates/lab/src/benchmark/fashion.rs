//! Learning on FashionMNIST, on the exact logs of crates/lab/tests/fashion_mnist.

use std::path::Path;

use guarantor_engine::control::unattended;
use guarantor_engine::error::EngineError;
use guarantor_engine::spec::{ExploreRequest, SpecRequest};
use ndarray::Array2;

use super::{DELTA, Failure, Headline, Outcome, Section, Settings};
use crate::table::{markdown, number};
use crate::trial::Trial;
use crate::{Bandit, LoadError, Logger, PaperDataset, load, true_risk};

/// α, the guarantees of the paper's best bound and of logarithmic smoothing, and what the best linear policy with all
/// labels gains.
const ROWS: [(&str, f64, f64, f64); 3] =
    [("0.1", 0.290, 0.312, 0.614), ("0.5", 0.056, 0.073, 0.186), ("1.0", 0.003, 0.016, 0.082)];
const SET_ASIDE: usize = 3000;

/// The numbers of a file in NumPy's format, as bytes.
fn npy(directory: &Path, name: &str) -> Result<Vec<u8>, Failure> {
    let path = directory.join(name);
    let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let damaged = || format!("{}: not a file of NumPy, version 1", path.display());
    let header = match bytes.get(..10) {
        Some([0x93, b'N', b'U', b'M', b'P', b'Y', 1, _, low, high]) => {
            u16::from_le_bytes([*low, *high]) as usize
        }
        _ => return Err(damaged().into()),
    };
    Ok(bytes.get(10 + header..).ok_or_else(damaged)?.to_vec())
}

fn logger(data: &crate::Supervised, directory: &Path) -> Result<Logger, Failure> {
    let order = npy(directory, "order.npy")?;
    let order: Vec<usize> =
        order.chunks_exact(2).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]]))).collect();
    let float = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mu0: Vec<f64> = npy(directory, "mu0.npy")?.chunks_exact(4).map(float).collect();
    let mu0 = Array2::from_shape_vec((data.train.x.ncols(), data.n_actions), mu0)?;
    let logged = order.get(SET_ASIDE..).filter(|rows| rows.iter().all(|&row| row < data.train.len()));
    let logged = logged.ok_or("order.npy does not fit the training set")?;
    Ok(Logger::given(data, logged, mu0.view(), 0))
}

/// Runs the part.
pub fn run(settings: &Settings, progress: &(dyn Fn(&str) + Sync)) -> Result<Outcome, Failure> {
    let data = match load(PaperDataset::FashionMnist, settings.fashion.as_deref()) {
        Ok(data) => data,
        Err(error @ LoadError::Missing { .. }) => {
            return Ok(Outcome::Missing(format!("{error}. Give another folder with `--fashion DIR`.")));
        }
        Err(error) => return Err(error.into()),
    };
    let directory = &settings.fashion_logs;
    if !directory.join("order.npy").is_file() {
        let message = format!(
            "The exact logs are not in {}: give the folder crates/lab/tests/fashion_mnist of the repository as \
             `--fashion-logs DIR`.",
            directory.display()
        );
        return Ok(Outcome::Missing(message));
    }
    let logger = logger(&data, directory)?;
    let head = [
        "α",
        "paper's best bound",
        "log smoothing",
        "guaranteed, `auto`",
        "true, test set",
        "best linear policy, all labels",
        "guaranteed share of it",
    ];
    let mut cells = vec![head.map(String::from).to_vec()];
    let (mut values, chosen) = (Vec::new(), if settings.quick { &ROWS[..1] } else { &ROWS[..] });
    for (alpha, paper, smoothing, ceiling) in chosen {
        let actions = npy(directory, &format!("actions_alpha_{alpha}.npy"))?;
        let temperature: f64 = alpha.parse()?;
        let Bandit { log, logging_policy } =
            logger.replay(temperature, 1, actions.iter().map(|&a| u32::from(a)).collect())?;
        let request = SpecRequest {
            delta: Some(DELTA),
            explore: Some(ExploreRequest::Share(0.0)),
            ..SpecRequest::default()
        };
        let trial = Trial {
            logging_policy: Some(&logging_policy),
            ..Trial::simulated(&log, &format!("FashionMNIST, {alpha}"), 0)?
        };
        let finished = trial.run(&request, &unattended())?;
        let missing = || EngineError::Log("the evidence has no policy".into());
        let policy = finished.evidence.policy().ok_or_else(missing)?;
        let truth = true_risk(&logging_policy, &data.test)? - true_risk(policy, &data.test)?;
        let guaranteed = finished.certificate.guaranteed_improvement;
        let show = |value: f64| number(&format!("{value:.3}"));
        cells.push(vec![
            (*alpha).into(),
            show(*paper),
            show(*smoothing),
            show(guaranteed),
            show(truth),
            show(*ceiling),
            format!("{:.0} %", 100.0 * guaranteed / ceiling),
        ]);
        values.push(show(guaranteed));
        progress(&format!("FashionMNIST: α = {alpha}"));
    }
    let text = format!(
        "57 000 logged decisions on FashionMNIST, K = 10, 784 features, on the exact logs of `crates/lab/tests/fashion_mnist`: \
         guaranteed improvement at δ = {DELTA} with a certified baseline, `logging=fixed`, `explore: 0`. The first two columns \
         are the published bounds at their best; [reproduction.md](reproduction.md) has them all, and other seeds. A network may \
         exceed the best linear policy.\n\n{}",
        markdown(&cells)
    );
    let headline = Headline {
        what: "FashionMNIST, guaranteed improvement at α = 0.1 / 0.5 / 1".into(),
        value: values.join(" / "),
        compared: "0.312 / 0.073 / 0.016 (log smoothing)".into(),
    };
    Ok(Outcome::Done(Section {
        heading: "Learning on FashionMNIST".into(),
        text,
        headlines: vec![headline],
        figures: Vec::new(),
    }))
}
