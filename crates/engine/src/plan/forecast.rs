//! The forecast (docs/math.md#planner). With n contexts seen, a mean that is g above what is required, and a spread s,
//! N contexts in all, of which `old` are seen already, certify with the wanted probability if
//!
//!   g − c·s/√n·(N − old)/N ≥ W(N) + q·s·√(N − old)/N,
//!
//! where W is the width of the bound, q the normal quantile of the power, and c says how far below its estimate the
//! improvement is assumed to be: a keep with a good estimate was lucky more often than not.

use super::width::Game;
use super::{Plan, PlannedExploration, PlannedRows, Route, words};
use crate::numerics::special::upper_quantile;

/// By how many standard errors the improvement is assumed to be below its estimate, if the bound is as narrow as can be,
const CAUTION: f64 = 0.3;
/// and what is added for each standard error that it is wider, between these widths.
const CAUTION_OF_WIDTH: f64 = 0.1;
const NARROWEST: f64 = 1.75;
const WIDEST: f64 = 6.0;
/// Below this many effective contexts, the spread is not known well enough to promise anything.
const LEAST_EFFECTIVE: f64 = 5.0;
/// Never fewer contexts than are worth this many effective ones: what is rare may be missing so far.
const ENOUGH_EFFECTIVE: f64 = 40.0;
/// A spread from few effective contexts is too small more often than not: it grows by this over their number.
const UNSEEN: f64 = 1.5;
/// More than this many times the contexts so far is not in sight.
const FARTHEST: f64 = 1000.0;
/// Numbers of rows beyond this are not promised, and are not exact in JSON.
const MOST_ROWS: f64 = 9e15;

/// What the certified rows show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Seen {
    /// The number of contexts.
    pub contexts: f64,
    /// How many contexts of equal say they are worth.
    pub effective: f64,
    /// The width that the bound had on them.
    pub width: f64,
    /// The game of that bound.
    pub game: Game,
    /// The standard deviation of z in it.
    pub spread: f64,
}

impl Seen {
    /// The width in standard deviations of z over √contexts: an estimate below it is a keep.
    fn widths(&self) -> f64 {
        let widths = self.width * self.contexts.sqrt() / self.spread;
        if widths.is_finite() { widths } else { WIDEST }
    }

    /// By how many standard errors the improvement is assumed to be below its estimate. A wider bound keeps more of the
    /// estimates that are too good.
    fn caution(&self) -> f64 {
        CAUTION + CAUTION_OF_WIDTH * (self.widths().clamp(NARROWEST, WIDEST) - NARROWEST)
    }

    /// By how much the bound was wider than the table says, on that many contexts. It is narrower if z has a long tail of
    /// gains, which bets gain from, and wider if a control variate's factor had to be learned first. Either is paid
    /// once, so that it matters less on more contexts.
    fn excess(&self, delta: f64, contexts: f64) -> f64 {
        let table = self.game.width(delta, self.spread, self.contexts);
        (self.width - table) * self.contexts / contexts
    }
}

/// How one way of looking sees the improvement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sight {
    /// The game of that look.
    pub game: Game,
    /// The standard deviation of z in it.
    pub spread: f64,
}

/// What a forecast is made from.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// The improvement to exceed.
    pub min_improvement: f64,
    /// The improvement that is expected.
    pub estimate: f64,
    /// δ of the claim about the improvement.
    pub delta: f64,
    /// The wanted probability.
    pub power: f64,
    /// What the estimate comes from; None if the caller states it.
    pub seen: Option<Seen>,
    /// A look at new rows only.
    pub fresh: Sight,
    /// A look at all rows, if the job allows one.
    pub pooled: Option<Sight>,
    /// How many rows must be logged for one certified context.
    pub rows_per_context: f64,
    /// The traffic.
    pub rows_per_day: Option<f64>,
    /// Shares of exploration, each with the factor by which the variance changes.
    pub exploration: Vec<(f64, f64)>,
}

/// Why nothing can be promised, or what can.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outlook {
    /// The forecast stands.
    Promised,
    /// The log always plays one action, so other actions cannot be compared.
    Deterministic,
    /// A check failed, so no number of rows can be relied on.
    CheckFailed,
    /// The policy plays what the logging policy plays.
    SamePolicy,
    /// The estimate is not above what is required.
    NoBetter,
    /// So few contexts have a say that the forecast would be a guess.
    TooFewEffective(f64),
    /// The estimate is too uncertain, or too close to what is required.
    NotInSight,
    /// The improvement is guaranteed already; something else decided.
    Guaranteed,
}

impl Settings {
    fn gap(&self) -> f64 {
        self.estimate - self.min_improvement
    }

    /// The contexts in all that certify, if so many of them are seen already; None if that is not in sight.
    fn contexts(&self, sight: Sight, old: f64) -> Option<f64> {
        let spread = sight.spread * self.seen.map_or(1.0, |seen| 1.0 + UNSEEN / seen.effective);
        let margin = upper_quantile(1.0 - self.power);
        let doubt = self.seen.map_or(0.0, |seen| seen.caution() * spread / seen.contexts.sqrt());
        let enough = |all: f64| {
            let new = all - old;
            let width = sight.game.width(self.delta, spread, all);
            let excess = self.seen.map_or(0.0, |seen| seen.excess(self.delta, all));
            let noise = (width + excess).max(0.5 * width) + margin * spread * new.sqrt() / all;
            self.gap() - doubt * new / all >= noise
        };
        let farthest = self.seen.map_or(MOST_ROWS, |seen| old + FARTHEST * seen.contexts);
        let (mut low, mut high) = (old, old + 1.0);
        // NaN compares false, so it is never enough.
        while !enough(high) {
            if high > farthest {
                return None;
            }
            (low, high) = (high, 1.5 * high);
        }
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if enough(middle) { high = middle } else { low = middle }
        }
        let least = self.seen.map_or(0.0, |seen| ENOUGH_EFFECTIVE * seen.contexts / seen.effective);
        Some(high.max(least)).filter(|&contexts| contexts <= farthest)
    }

    fn rows(&self, contexts: f64) -> Option<u64> {
        let rows = (contexts * self.rows_per_context).ceil().max(1.0);
        (rows <= MOST_ROWS).then_some(rows as u64)
    }

    fn days(&self, rows: u64) -> Option<f64> {
        let days = rows as f64 / self.rows_per_day?;
        // Tenths are as precise as a forecast ever is.
        let tenths = if days < 1e12 { (days * 10.0).ceil() / 10.0 } else { days };
        Some(tenths).filter(|days| days.is_finite())
    }

    fn planned(&self, contexts: Option<f64>) -> Option<PlannedRows> {
        let rows = self.rows(contexts?)?;
        Some(PlannedRows { rows, days: self.days(rows) })
    }

    /// What fresh rows would need if the logging policy explored more, as far as that is less.
    fn explored(&self, fresh: Option<PlannedRows>) -> Vec<PlannedExploration> {
        let Some(now) = fresh else { return Vec::new() };
        // The doubt about the estimate stays: it comes from the rows that there are.
        let doubt = |seen: Seen| seen.caution() * self.fresh.spread / seen.contexts.sqrt();
        let estimate = self.estimate - self.seen.map_or(0.0, doubt);
        let settled = Settings { seen: None, estimate, ..self.clone() };
        let at = |&(share, factor): &(f64, f64)| {
            let spread = self.fresh.spread * factor.sqrt();
            let rows = self.rows(settled.contexts(Sight { spread, ..self.fresh }, 0.0)?)?;
            (rows < now.rows).then_some(PlannedExploration { share, rows })
        };
        self.exploration.iter().filter_map(at).collect()
    }

    /// The plan. `known` is what already rules a promise out.
    pub fn plan(&self, known: Option<Outlook>) -> Plan {
        let found = known.unwrap_or_else(|| outlook(self));
        let promised = found == Outlook::Promised;
        let fresh = if promised { self.planned(self.contexts(self.fresh, 0.0)) } else { None };
        let pooled = match (promised, self.pooled) {
            (true, Some(sight)) => {
                let before = self.seen.map_or(0.0, |seen| seen.contexts);
                self.planned(self.contexts(sight, before).map(|all| (all - before).max(1.0)))
            }
            _ => None,
        };
        let sooner = match (fresh, pooled) {
            (Some(fresh), Some(pooled)) if pooled.rows < fresh.rows => Some((Route::Pooled, pooled)),
            (Some(fresh), _) => Some((Route::Fresh, fresh)),
            (None, Some(pooled)) => Some((Route::Pooled, pooled)),
            (None, None) => None,
        };
        let mut plan = Plan {
            min_improvement: self.min_improvement,
            power: self.power,
            possible: sooner.is_some(),
            rows: sooner.map(|(_, way)| way.rows),
            sooner: sooner.map(|(route, _)| route),
            fresh,
            pooled,
            rows_per_day: self.rows_per_day,
            days: sooner.and_then(|(_, way)| way.days),
            exploration: self.explored(fresh),
            message: String::new(),
        };
        let outlook = if promised && sooner.is_none() { Outlook::NotInSight } else { found };
        plan.message = words::message(&plan, outlook, self.seen.is_some());
        plan
    }
}

/// Whether anything can be promised.
pub fn outlook(settings: &Settings) -> Outlook {
    if settings.gap().is_nan() || settings.gap() <= 0.0 {
        return Outlook::NoBetter;
    }
    match settings.seen {
        Some(seen) if seen.effective < LEAST_EFFECTIVE => Outlook::TooFewEffective(seen.effective),
        _ => Outlook::Promised,
    }
}
