//! A bound that pays only a part of KL, so that learning with it overfits. It is not valid; bounds that
//! pay in full must hold for the policies that it leads to.

use guarantor_engine::Result;
use guarantor_engine::bound::{Bound, BoundValue, Seen};
use guarantor_engine::terms::Terms;

enum Inner<'a> {
    Whole(&'a dyn Bound),
    Held(Box<dyn Bound + 'a>),
}

/// A bound with its KL multiplied by a weight.
pub struct LightKl<'a> {
    inner: Inner<'a>,
    weight: f64,
}

impl<'a> LightKl<'a> {
    pub fn new(bound: &'a dyn Bound, weight: f64) -> Self {
        LightKl { inner: Inner::Whole(bound), weight }
    }

    fn bound(&self) -> &dyn Bound {
        match &self.inner {
            Inner::Whole(bound) => *bound,
            Inner::Held(bound) => &**bound,
        }
    }
}

impl Bound for LightKl<'_> {
    fn name(&self) -> &'static str {
        self.bound().name()
    }

    fn statistics(&self) -> usize {
        self.bound().statistics()
    }

    fn coefficients(&self, seen: &Seen, h: &mut [f64]) -> Result<()> {
        self.bound().coefficients(seen, h)
    }

    fn value_and_gradient(&self, statistics: &[f64], kl: f64) -> BoundValue {
        let value = self.bound().value_and_gradient(statistics, self.weight * kl);
        BoundValue { d_kl: self.weight * value.d_kl, ..value }
    }

    fn held(&self, choice: usize) -> Box<dyn Bound + '_> {
        Box::new(LightKl { inner: Inner::Held(self.bound().held(choice)), weight: self.weight })
    }

    fn terms(&self, statistics: &[f64], kl: f64) -> Terms {
        self.bound().terms(statistics, self.weight * kl)
    }
}
