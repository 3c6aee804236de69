//! The union bound over a grid of constant bets for a given policy, as the golden files have it. The engine itself
//! uses mixtures and aimed bets, from the same plays.

use guarantor_engine::bound::{Betting, ControlVariate, Played, Rules, Seen};
use guarantor_engine::error::Result;
use guarantor_engine::measure::Statistics;

pub struct Given {
    pub betting: Betting,
}

impl Statistics for Given {
    fn count(&self) -> usize {
        self.betting.choices.len()
    }

    fn add(&self, seen: &Seen, played: &[Played], _: &mut Vec<f64>, out: &mut [Vec<f64>]) -> Result<()> {
        for (played, out) in played.iter().zip(out) {
            for (choice, out) in self.betting.choices.iter().zip(out) {
                let control = if choice.xi == 0.0 { ControlVariate::None } else { ControlVariate::Constant };
                let rules = Rules { kappa: self.betting.kappa, control, tau: choice.tau };
                let mut plays = Vec::new();
                rules.plays(seen, *played, &mut plays)?;
                for (play, weight) in plays.iter().zip(seen.context.weights) {
                    *out += weight * (-choice.lambda * play.z(-choice.xi)).ln_1p();
                }
            }
        }
        Ok(())
    }
}
