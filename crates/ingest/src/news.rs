//! A simulated news site for `guarantor simulate --dataset news`: every request has its own list of articles, and the
//! logging policy may learn from its own log. The probability of a click on every article is known.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use guarantor_engine::log::{ActionSets, FeatureSpace, Sets};
use guarantor_engine::policy::{PolicyParams, pick};

use crate::hashing::hash_of;
use crate::write::{FeatureValue, Namespace, SetLayout};

const TOPICS: [&str; 8] = ["sport", "politics", "culture", "science", "local", "business", "travel", "food"];
const DEVICES: [&str; 3] = ["phone", "tablet", "desktop"];
const TIMES: [&str; 4] = ["morning", "noon", "evening", "night"];
const SEGMENTS: usize = 6;
const AUTHORS: usize = 40;
const FEWEST_ARTICLES: usize = 3;
const MOST_ARTICLES: usize = 15;
/// The log-odds of a click where nothing else is known.
const OFFSET: f64 = -2.2;
/// The share of the logging policy that explores.
const EXPLORED: f64 = 0.1;

/// The features of a request and of an article.
pub const LAYOUT: SetLayout = SetLayout {
    request: Namespace {
        name: "User",
        features: &[("segment", true), ("device", true), ("time", true), ("age", false)],
    },
    action: Namespace {
        name: "Article",
        features: &[("topic", true), ("fresh", false), ("pop", false), ("author", true)],
    },
};

type Table = Vec<[f64; TOPICS.len()]>;

/// The world, its requests and its logging policy.
pub struct News {
    rng: ChaCha8Rng,
    segment: Table,
    device: Table,
    time: Table,
    author: Vec<f64>,
    /// How often each topic was shown to each segment, and how often it was clicked.
    shown: Table,
    clicked: Table,
    /// What the logging policy learned when it was last retrained.
    learned: Option<Table>,
    /// The policy that logs, if it is not the built-in one.
    given: Option<PolicyParams>,
}

/// An article of a request.
struct Article {
    topic: usize,
    fresh: f64,
    pop: f64,
    author: usize,
}

/// A request, what the logging policy did with it, and the truth.
pub struct Request {
    /// The features of the request, in the order of [`LAYOUT`].
    pub request: Vec<FeatureValue>,
    /// The features of each article.
    pub actions: Vec<Vec<FeatureValue>>,
    /// π0(·|x) of each article.
    pub propensities: Vec<f64>,
    /// The article that was shown.
    pub action: u32,
    /// 1 if it was clicked, and 0 otherwise.
    pub reward: f64,
    /// The probability of a click on each article.
    pub clicks: Vec<f64>,
    segment: usize,
    topic: usize,
}

impl Request {
    /// Adds the request to action sets with these features, as the readers of formats do.
    pub fn push_into(&self, sets: &mut Sets, spaces: ActionSets) {
        push(&self.request, &self.actions, sets, spaces);
    }
}

fn push(request: &[FeatureValue], actions: &[Vec<FeatureValue>], sets: &mut Sets, spaces: ActionSets) {
    sets.x.push(hashed(&LAYOUT.request, request, spaces.x));
    actions.iter().for_each(|action| sets.actions.push(hashed(&LAYOUT.action, action, spaces.actions)));
    sets.end_row();
}

impl News {
    /// A world, and the stream of its requests. The same numbers give the same log.
    pub fn new(world: u64, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(world);
        let mut table = |rows: usize, scale: f64| -> Table {
            (0..rows).map(|_| std::array::from_fn(|_| scale * standard_normal(&mut rng))).collect()
        };
        let (segment, device, time) =
            (table(SEGMENTS, 1.2), table(DEVICES.len(), 0.5), table(TIMES.len(), 0.5));
        let author = (0..AUTHORS).map(|_| 0.5 * standard_normal(&mut rng)).collect();
        let mut requests = ChaCha8Rng::seed_from_u64(seed);
        requests.set_stream(1);
        News {
            rng: requests,
            segment,
            device,
            time,
            author,
            shown: vec![[1.0; TOPICS.len()]; SEGMENTS],
            clicked: vec![[0.15; TOPICS.len()]; SEGMENTS],
            learned: None,
            given: None,
        }
    }

    /// The same world, logged by another policy: the next round.
    ///
    /// # Errors
    /// If the policy does not play over action sets with named features.
    pub fn with_policy(self, policy: PolicyParams) -> Result<Self, String> {
        let named = |space: FeatureSpace| matches!(space, FeatureSpace::Named { .. } | FeatureSpace::None);
        let fits = policy.set_features().is_none_or(|spaces| named(spaces.x) && named(spaces.actions));
        if !policy.plays_sets() || !fits {
            return Err("the policy must play over action sets with named features".into());
        }
        Ok(News { given: Some(policy), ..self })
    }

    /// Shows a request's outcome to the logging policy. It counts when the policy is retrained.
    pub fn learn(&mut self, request: &Request) {
        self.shown[request.segment][request.topic] += 1.0;
        self.clicked[request.segment][request.topic] += request.reward;
    }

    /// Refits the logging policy on what it was shown.
    pub fn retrain(&mut self) {
        let rates = self.shown.iter().zip(&self.clicked);
        let mut rates: Table = rates.map(|(n, c)| std::array::from_fn(|t| c[t] / n[t])).collect();
        let mean = rates.iter().flatten().sum::<f64>() / (SEGMENTS * TOPICS.len()) as f64;
        rates.iter_mut().flatten().for_each(|rate| *rate -= mean);
        self.learned = Some(rates);
    }

    /// The next request.
    pub fn request(&mut self) -> Request {
        let rng = &mut self.rng;
        let k = rng.random_range(FEWEST_ARTICLES..=MOST_ARTICLES);
        let (segment, device) = (rng.random_range(0..SEGMENTS), rng.random_range(0..DEVICES.len()));
        let (time, age) = (rng.random_range(0..TIMES.len()), thousandths(rng.random()));
        let articles: Vec<Article> = (0..k)
            .map(|_| Article {
                topic: rng.random_range(0..TOPICS.len()),
                fresh: thousandths(-0.5 * (1.0 - rng.random::<f64>()).ln()),
                pop: thousandths(second_of_six(rng)),
                author: rng.random_range(0..AUTHORS),
            })
            .collect();
        let clicks = articles.iter().map(|article| {
            let t = article.topic;
            let older = 1.2 * (age - 0.5) * if t < 4 { 1.0 } else { -1.0 };
            let score = self.segment[segment][t] + self.device[device][t] + self.time[time][t]
                - 0.8 * article.fresh
                + 1.5 * article.pop
                + self.author[article.author]
                + older;
            1.0 / (1.0 + (-(score + OFFSET)).exp())
        });
        let clicks: Vec<f64> = clicks.collect();
        let request = vec![
            FeatureValue::Text(format!("s{segment}").into()),
            FeatureValue::Text(DEVICES[device].into()),
            FeatureValue::Text(TIMES[time].into()),
            FeatureValue::Number(age),
        ];
        let actions: Vec<Vec<FeatureValue>> = articles
            .iter()
            .map(|article| {
                vec![
                    FeatureValue::Text(TOPICS[article.topic].into()),
                    FeatureValue::Number(article.fresh),
                    FeatureValue::Number(article.pop),
                    FeatureValue::Text(format!("a{}", article.author).into()),
                ]
            })
            .collect();
        let propensities = match &self.given {
            Some(policy) => propensities_of(policy, &request, &actions),
            None => self.built_in(segment, &articles),
        };
        let action = pick(propensities.iter().copied(), self.rng.random());
        let clicked = self.rng.random::<f64>() < clicks[action];
        Request {
            request,
            actions,
            action: action as u32,
            reward: f64::from(u8::from(clicked)),
            clicks,
            segment,
            topic: articles[action].topic,
            propensities,
        }
    }

    /// π0(·|x) of the built-in policy: popular and fresh articles, some of what is known about segments, and what was
    /// learned.
    fn built_in(&self, segment: usize, articles: &[Article]) -> Vec<f64> {
        let score = |article: &Article| {
            let learned = self.learned.as_ref().map_or(0.0, |learned| learned[segment][article.topic]);
            1.5 * article.pop - 0.5 * article.fresh
                + 0.5 * self.segment[segment][article.topic]
                + 4.0 * learned
        };
        let scores: Vec<f64> = articles.iter().map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let powers: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
        let total: f64 = powers.iter().sum();
        let k = articles.len() as f64;
        powers.into_iter().map(|power| (1.0 - EXPLORED) * power / total + EXPLORED / k).collect()
    }
}

/// π(·|x) of a policy over action sets.
fn propensities_of(
    policy: &PolicyParams,
    request: &[FeatureValue],
    actions: &[Vec<FeatureValue>],
) -> Vec<f64> {
    let spaces = policy.set_features().unwrap_or_default();
    let mut sets = Sets::default();
    push(request, actions, &mut sets, spaces);
    // `with_policy` has checked what can be wrong.
    let uniform = || vec![1.0 / actions.len() as f64; actions.len()];
    policy.propensities(sets.view()).map_or_else(|_| uniform(), |pi| pi.row(0).to_vec())
}

fn hashed(namespace: &Namespace, values: &[FeatureValue], space: FeatureSpace) -> Vec<(u32, f32)> {
    let dims = space.dim() as u64;
    let features = namespace.features.iter().zip(values).filter_map(|((name, _), value)| {
        let (name, value) = match value {
            FeatureValue::Text(text) => (format!("{}.{name}={text}", namespace.name), 1.0),
            FeatureValue::Number(number) => (format!("{}.{name}", namespace.name), *number),
        };
        let (hash, sign) = hash_of(&name);
        (dims > 0).then(|| ((hash % dims) as u32, (sign * value) as f32))
    });
    features.collect()
}

fn standard_normal(rng: &mut ChaCha8Rng) -> f64 {
    let u: f64 = 1.0 - rng.random::<f64>();
    let v: f64 = rng.random();
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The second smallest of six uniform numbers, which has the distribution Beta(2, 5).
fn second_of_six(rng: &mut ChaCha8Rng) -> f64 {
    let mut numbers: [f64; 6] = std::array::from_fn(|_| rng.random());
    numbers.sort_by(f64::total_cmp);
    numbers[1]
}

fn thousandths(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The click rates of the logging policy and of the best one.
    fn rates(world: &mut News, requests: usize) -> (f64, f64) {
        let (mut logging, mut best) = (0.0, 0.0);
        for _ in 0..requests {
            let request = world.request();
            assert!((3..=15).contains(&request.actions.len()));
            assert!((request.propensities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            logging += request.propensities.iter().zip(&request.clicks).map(|(p, c)| p * c).sum::<f64>();
            best += request.clicks.iter().copied().fold(0.0, f64::max);
            world.learn(&request);
        }
        (logging / requests as f64, best / requests as f64)
    }

    #[test]
    fn the_logging_policy_can_be_improved_and_learns() {
        let mut world = News::new(30, 1);
        let (before, best) = rates(&mut world, 20_000);
        assert!(best > before + 0.1, "{best} {before}");
        world.retrain();
        let (after, _) = rates(&mut world, 20_000);
        assert!(after > before + 0.01, "{after} {before}");
    }

    #[test]
    fn another_policy_can_log() {
        let mut world = News::new(30, 1).with_policy(PolicyParams::UniformOverSets {}).unwrap();
        let request = world.request();
        let k = request.actions.len() as f64;
        assert!(request.propensities.iter().all(|&p| (p - 1.0 / k).abs() < 1e-15));
        let fixed = PolicyParams::Uniform { n_actions: 3, dim: 0 };
        assert!(News::new(30, 1).with_policy(fixed).is_err());
    }
}
