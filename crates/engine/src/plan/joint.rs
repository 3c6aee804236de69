//! A plan for several claims that must all hold: the improvement in the objective, and every guardrail.

use super::{Plan, PlannedRows, Route, words};

/// The probability that each of `claims` forecasts needs, so that all of them together have this one.
pub fn power_of_each(power: f64, claims: usize) -> f64 {
    1.0 - (1.0 - power) / claims.max(1) as f64
}

impl Plan {
    /// This plan, if the rows must also do for these, each with its name. What more exploration would save is not known
    /// for all of them together.
    pub fn together_with(mut self, others: &[(String, Plan)], power: f64) -> Plan {
        self.power = power;
        self.exploration.clear();
        for (_, other) in others {
            self.fresh = more(self.fresh, other.fresh);
            self.pooled = more(self.pooled, other.pooled);
        }
        let way = match (self.fresh, self.pooled) {
            (Some(fresh), Some(pooled)) if pooled.rows < fresh.rows => Some((Route::Pooled, pooled)),
            (Some(fresh), _) => Some((Route::Fresh, fresh)),
            (None, Some(pooled)) => Some((Route::Pooled, pooled)),
            (None, None) => None,
        };
        (self.rows, self.sooner) = (way.map(|(_, way)| way.rows), way.map(|(route, _)| route));
        self.days = way.and_then(|(_, way)| way.days);
        if way.is_some() {
            self.message = words::together(&self);
        } else if self.possible
            && let Some((name, _)) = others.iter().find(|(_, other)| !other.possible)
        {
            self.message = words::guarded(name);
        }
        self.possible = way.is_some();
        self
    }
}

fn more(one: Option<PlannedRows>, other: Option<PlannedRows>) -> Option<PlannedRows> {
    let (one, other) = (one?, other?);
    Some(if other.rows > one.rows { other } else { one })
}

#[cfg(test)]
mod tests {
    use super::super::{Game, Seen, Settings, Sight};
    use super::*;

    fn settings(estimate: f64, power: f64) -> Settings {
        let sight = Sight { game: Game::Aimed, spread: 1.0 };
        Settings {
            min_improvement: 0.0,
            estimate,
            delta: 0.05,
            power,
            seen: Some(Seen {
                contexts: 1000.0,
                effective: 800.0,
                width: 0.06,
                game: Game::Aimed,
                spread: 1.0,
            }),
            fresh: sight,
            pooled: None,
            rows_per_context: 1.0,
            rows_per_day: Some(100.0),
            exploration: vec![(0.5, 0.1)],
        }
    }

    #[test]
    fn the_claim_that_needs_most_rows_decides() {
        let each = power_of_each(0.8, 2);
        assert!((each - 0.9).abs() < 1e-12);
        let (easy, hard) = (settings(0.2, each).plan(None), settings(0.1, each).plan(None));
        assert!(!easy.exploration.is_empty());
        let both = easy.clone().together_with(&[("complaint".into(), hard.clone())], 0.8);
        assert_eq!((both.rows, both.days, both.possible), (hard.rows, hard.days, true));
        assert_eq!((both.power, both.exploration.len()), (0.8, 0));
        assert_eq!(hard.clone().together_with(&[("complaint".into(), easy)], 0.8).rows, hard.rows);
        assert!(both.message.contains("guardrail"), "{}", both.message);
    }

    #[test]
    fn a_guardrail_that_no_rows_can_meet_is_named() {
        let (easy, never) = (settings(0.2, 0.9).plan(None), settings(-0.1, 0.9).plan(None));
        let both = easy.together_with(&[("complaint".into(), never)], 0.8);
        assert_eq!((both.rows, both.sooner, both.possible), (None, None, false));
        assert!(both.message.contains("complaint"), "{}", both.message);
    }
}
