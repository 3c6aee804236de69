//! What a policy plays on the contexts of one chunk.

use ndarray::{Array2, ArrayView2};

use super::Player;
use crate::bound::Played;
use crate::error::{EngineError, Result};
use crate::log::{Capabilities, Chunk, LoggedRows};
use crate::policy::{Policy, Scored, Scratch, mixed};

/// The rows of a chunk with the π(a|x) that it carries of a candidate.
///
/// # Errors
/// If it carries none.
pub(super) fn logged_rows<'a>(chunk: &'a Chunk, candidate: usize) -> Result<LoggedRows<'a>> {
    let missing = || EngineError::Log("the candidate is missing from the log".into());
    Ok(LoggedRows {
        actions: &chunk.actions,
        costs: &chunk.costs,
        propensities: &chunk.propensities,
        played: chunk.candidates.get(candidate).ok_or_else(missing)?,
    })
}

/// The subject on one chunk.
enum Plays<'a> {
    /// Scores and norms of each context, the map from scores to propensities, and the share and propensities
    /// of exploration.
    Scores {
        scores: Array2<f64>,
        norms: Vec<f64>,
        rounding: Vec<f64>,
        link: &'a dyn Policy,
        explored: Option<(f64, Array2<f64>)>,
    },
    /// π(a|x) of the logged action of each row.
    Logged(&'a [f64]),
    /// π(·|x) of each row.
    All(ArrayView2<'a, f64>),
}

/// A chunk with the subject on it, and the working memory to evaluate it.
pub(super) struct Walk<'a> {
    chunk: &'a Chunk<'a>,
    plays: Plays<'a>,
    pi: [Vec<f64>; 2],
    scratch: Scratch,
}

impl<'a> Walk<'a> {
    pub(super) fn new(chunk: &'a Chunk<'a>, player: Player<'a>, capabilities: &Capabilities) -> Result<Self> {
        let (plays, k) = match player {
            Player::Policy { policy, link, explored } => {
                let Scored { scores, norms, mut rounding } = policy.scores(chunk.situations())?;
                let with = explored.map(|(_, with)| with);
                let explored = match explored {
                    Some((share, with)) => Some((share, with.propensities(chunk.situations())?)),
                    None => None,
                };
                if let Some(with) = with.filter(|with| with.set_features().is_some()) {
                    let other = with.scores(chunk.situations())?.rounding;
                    rounding.resize(chunk.contexts(), 0.0);
                    rounding.iter_mut().zip(other).for_each(|(own, other)| *own = own.max(other));
                }
                let k = scores.ncols();
                (Plays::Scores { scores, norms, rounding, link, explored }, k)
            }
            Player::Logged(candidate) => {
                let logged = logged_rows(chunk, candidate)?.played;
                match chunk.candidate_full.get(candidate) {
                    // Rounded probabilities are used at the lower ends of their intervals.
                    Some(Some(full)) if !capabilities.precision_of(candidate).is_coarse() => {
                        (Plays::All(full.view()), 0)
                    }
                    _ => (Plays::Logged(logged), 0),
                }
            }
        };
        Ok(Walk { chunk, plays, pi: [vec![0.0; k], vec![0.0; k]], scratch: Scratch::default() })
    }

    /// What the subject plays on one context, and how far its propensities can be off: |Σ_a π(a|x) − 1|, and what the
    /// rounding of scores explains.
    pub(super) fn context(&mut self, c: usize) -> ([Played<'_>; 2], f64) {
        match &self.plays {
            Plays::Logged(candidate) => {
                let pi = &candidate[self.chunk.rows_of(c)];
                ([Played::Logged(pi), Played::Logged(pi)], 0.0)
            }
            Plays::All(full) => {
                // Rows of one context have the same features, and so the same π(·|x).
                let row = full.row(self.chunk.rows_of(c).start);
                let pi = row.to_slice().expect("row-major");
                let total: f64 = pi.iter().sum();
                ([Played::All(pi), Played::All(pi)], (total - 1.0).abs())
            }
            Plays::Scores { scores, norms, rounding, link, explored } => {
                let scores = scores.row(c);
                let scores = scores.as_slice().expect("row-major");
                let [fine, coarse] = &mut self.pi;
                link.propensities(scores, norms[c], &mut self.scratch, fine);
                link.coarse(norms[c], &self.scratch, fine, coarse);
                if let Some((share, explored)) = explored {
                    for (a, &q) in explored.row(c).iter().enumerate() {
                        fine[a] = mixed(*share, fine[a], q);
                        coarse[a] = mixed(*share, coarse[a], q);
                    }
                }
                let total: f64 = self.pi[0].iter().sum();
                let off = (total - 1.0).abs() + rounding.get(c).copied().unwrap_or(0.0);
                ([Played::All(&self.pi[0]), Played::All(&self.pi[1])], off)
            }
        }
    }
}
