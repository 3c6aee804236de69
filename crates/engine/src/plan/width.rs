//! How wide the bounds are: the one table that forecasts read. Its numbers were tuned on the worlds that
//! docs/math.md#planner names, and then frozen.

use crate::numerics::elementary::ln;
use crate::numerics::special::upper_quantile;

/// The game of the next look, by which its width is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Game {
    /// Aimed bets: independent contexts under one policy, one look.
    Aimed,
    /// The mixture of constants, in order of arrival.
    Mixture,
    /// The mixture of constants that holds at every number of rows.
    Anytime {
        /// Whether it also mixes factors of a control variate.
        controlled: bool,
    },
    /// One constant that earlier rows chose.
    One,
    /// Bets with a budget for the variance, which earlier rows chose.
    Budget,
    /// Another bound, whose width was observed: that many standard deviations of z over √contexts.
    Observed(f64),
}

/// The width of a bound on a mean z: the larger it is, the more contexts are needed.
struct Width {
    /// Standard deviations of z over √contexts.
    normal: f64,
    /// 1 over contexts: bets are limited, so a bound is not arbitrarily narrow however little z varies.
    limited: f64,
}

/// Aimed bets are this much wider than the normal interval (docs/benchmarks.md).
const AIMED: f64 = 1.05;
/// What limited bets cost aimed bets, in units of ln(1/δ).
const AIMED_LIMIT: f64 = 2.3;
/// What a mixture of the 32 constants of the grid pays, in nats: less than ln 32, because neighbors win together.
const MIXTURE: f64 = 2.5;
/// The same with three factors of a control variate.
const CONTROLLED: f64 = 3.5;
/// Bets with a budget are this much narrower than the best constant (docs/math.md#budget).
const BUDGET: f64 = 0.89;
/// What one constant pays that was chosen from an estimated variance.
const ONE: f64 = 0.1;

impl Game {
    fn widths(self, delta: f64) -> Width {
        let paying = |more: f64| {
            let nats = ln(1.0 / delta) + more;
            Width { normal: (2.0 * nats).sqrt(), limited: nats }
        };
        match self {
            Game::Aimed => Width {
                normal: (AIMED * upper_quantile(delta)).max(0.0),
                limited: AIMED_LIMIT * ln(1.0 / delta),
            },
            Game::Mixture | Game::Anytime { controlled: false } => paying(MIXTURE),
            Game::Anytime { controlled: true } => paying(CONTROLLED),
            Game::One => paying(ONE),
            Game::Budget => {
                let one = paying(0.0);
                Width { normal: BUDGET * one.normal, ..one }
            }
            Game::Observed(widths) => Width { normal: widths, limited: 0.0 },
        }
    }

    /// The width at confidence 1 − δ on so many contexts whose z has this standard deviation.
    pub fn width(self, delta: f64, spread: f64, contexts: f64) -> f64 {
        let Width { normal, limited } = self.widths(delta);
        let (normal, limited) = (normal * spread / contexts.sqrt(), limited / contexts);
        (normal * normal + limited * limited).sqrt()
    }
}
