//! The bounds for given policies a second time: in plain f64, without the engine, as close to the text of the
//! method as possible. Controls break them on purpose, and the engine can be compared with them.
//!
//! z_1, …, z_n are at most `kappa_cap`, and their mean is to be bounded from above. For a threshold D, bets test
//! H_D: E z ≥ D with the wealth W_t(D) = Π_{i≤t} (1 − λ_i z_i)/(1 − λ_i D). Under H_D it is a supermartingale that
//! starts at 1, so it reaches 1/δ with probability at most δ.

/// No bet is larger than this over the largest z, or over 1.
const LARGEST_BET: f64 = 0.5;

/// How aimed bets are placed.
#[derive(Clone, Copy)]
pub struct Bets<'a> {
    /// The largest value that z can have: κ, without a control variate.
    pub kappa_cap: f64,
    pub delta: f64,
    /// The numbers of rows after which blocks end, ascending; the last one is n. λ changes between blocks only.
    pub blocks: &'a [usize],
    /// The guess of E (z − D)² before the first row.
    pub v0: f64,
    /// How many rows the guess counts for.
    pub n0: f64,
    /// A factor on every λ: 1.
    pub eagerness: f64,
}

impl Bets<'_> {
    /// Whether H_D is rejected: whether the wealth reaches 1/δ after any row.
    pub fn reject(&self, z_in_order: &[f64], d: f64) -> bool {
        let (n, target) = (z_in_order.len(), (1.0 / self.delta).ln());
        let cap = LARGEST_BET / self.kappa_cap.max(1.0);
        let (mut log_wealth, mut squares, mut played) = (0.0, 0.0, 0);
        for &end in self.blocks {
            // The bet for which a normal game with this variance ends at the target when the rows run out.
            let v = (self.n0 * self.v0 + squares) / (self.n0 + played as f64);
            let aim = (2.0 * (target - log_wealth) / ((n - played) as f64 * v)).sqrt();
            let lambda = (self.eagerness * aim).min(cap);
            for z in &z_in_order[played..end] {
                log_wealth += (-lambda * z).ln_1p() - (-lambda * d).ln_1p();
                squares += (z - d).powi(2);
                if log_wealth >= target {
                    return true;
                }
            }
            played = end;
        }
        false
    }

    /// Tests the grid downwards and stops at the first threshold that is not rejected. The bound is the last one
    /// that is, or `kappa_cap` if there is none. If the bound is below E z, the largest threshold of the grid that
    /// is not above E z was rejected: one event, and nothing is paid for the size of the grid.
    pub fn bound(&self, z_in_order: &[f64], grid: &[f64]) -> f64 {
        assert!(grid.is_sorted_by(|a, b| a > b), "thresholds descend");
        let rejected = grid.iter().take_while(|&&d| self.reject(z_in_order, d));
        rejected.last().copied().unwrap_or(self.kappa_cap)
    }
}

/// The upper bound on E z by aimed bets at confidence 1 − δ. `z_in_order` are in the order of the game, `grid` are
/// the thresholds from the largest to the smallest, and `blocks` the numbers of rows after which blocks end.
pub fn aimed(
    z_in_order: &[f64],
    kappa_cap: f64,
    delta: f64,
    grid: &[f64],
    blocks: &[usize],
    v0: f64,
    n0: f64,
) -> f64 {
    Bets { kappa_cap, delta, blocks, v0, n0, eagerness: 1.0 }.bound(z_in_order, grid)
}

/// The ends of `count` blocks of equal size, or of fewer blocks if there are fewer rows.
pub fn equal_blocks(rows: usize, count: usize) -> Vec<usize> {
    let count = count.min(rows);
    (1..=count).map(|i| i * rows / count).collect()
}

/// What a pilot says about rows that are not in it.
pub struct Pilot {
    pub mean: f64,
    /// The variance of z, with one imagined row whose deviation is 1/4, because it must not be 0.
    pub variance: f64,
}

impl Pilot {
    pub fn of(z: &[f64]) -> Pilot {
        let m = z.len() as f64;
        let mean = z.iter().sum::<f64>() / m;
        let squares: f64 = z.iter().map(|z| (z - mean).powi(2)).sum();
        Pilot { mean, variance: (squares + 0.0625) / (m + 1.0) }
    }

    /// The expected distance of the bound from the mean.
    pub fn width(&self, n: usize, delta: f64) -> f64 {
        (2.0 * self.variance * (1.0 / delta).ln() / n as f64).sqrt()
    }

    /// Thresholds every width/16 from six widths above the pilot's mean to six below, and coarser ones up to the
    /// largest z.
    pub fn grid(&self, kappa_cap: f64, n: usize, delta: f64) -> Vec<f64> {
        let width = self.width(n, delta);
        let coarse = (1..40).rev().map(|k| 6.0 * 1.25f64.powi(k));
        let fine = (-96..=96).rev().map(|k| f64::from(k) / 16.0);
        let all = coarse.chain(fine).map(|widths| self.mean + widths * width);
        all.filter(|&d| d < kappa_cap).collect()
    }
}

/// The upper bound on E z by an equal mixture of constant bets, at every n at once. The wealth increases in D, so
/// root finding is exact.
pub fn mixture(z: &[f64], kappa_cap: f64, delta: f64, lambdas: &[f64]) -> f64 {
    let n = z.len() as f64;
    let of = |&lambda: &f64| (lambda, z.iter().map(|z| (-lambda * z).ln_1p()).sum::<f64>());
    let sums: Vec<(f64, f64)> = lambdas.iter().map(of).collect();
    let rejects = |d: f64| {
        let logs = || sums.iter().map(|(lambda, sum)| sum - n * (-lambda * d).ln_1p());
        let top = logs().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = logs().map(|log| (log - top).exp()).sum();
        top + (total / sums.len() as f64).ln() >= (1.0 / delta).ln()
    };
    // One of the constants alone would bound E z here if it had all of δ, and here if it had its share only.
    let alone = |penalty: f64| {
        let bound = |(lambda, sum): &(f64, f64)| -(((sum - penalty) / n).exp_m1()) / lambda;
        sums.iter().map(bound).fold(f64::INFINITY, f64::min)
    };
    let (mut low, mut high) = (alone((1.0 / delta).ln()), alone((sums.len() as f64 / delta).ln()));
    if high >= kappa_cap {
        high = kappa_cap;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if rejects(middle) { high = middle } else { low = middle }
    }
    high
}

/// Constants in equal ratios from the largest bet.
pub fn constants(kappa_cap: f64, count: i32) -> Vec<f64> {
    (0..count).map(|k| LARGEST_BET / kappa_cap.max(1.0) * 2f64.powf(-0.5 * f64::from(k))).collect()
}
