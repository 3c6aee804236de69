// What a health report says in one word.

/** The verdict on a log: `{ tone, icon, text, order }`. Failed checks weigh most, then warnings. */
export function verdict(health) {
  const failed = (health.checks || []).filter((check) => check.ok === false).length;
  const warnings = health.warnings.length;
  if (failed > 0) return { tone: 'bad', icon: 'cross', text: failed === 1 ? '1 check failed' : `${failed} checks failed`, order: 0 };
  if (warnings > 0) return { tone: 'warn', icon: 'warn', text: warnings === 1 ? '1 warning' : `${warnings} warnings`, order: 1 };
  return { tone: 'good', icon: 'check', text: 'Good', order: 2 };
}

/** Whether a dataset stands for rows that are elsewhere: it was merged from partials, so its report has sums but no counts of weights. */
export const isMerged = (dataset) => dataset.health.weights?.length === 0 && dataset.rows > 0;

/** The names of checks in words. */
export const CHECKS = {
  propensities: ['Propensities', 'The mean of one over the propensity must be the number of actions.'],
  action_counts: ['Action counts', 'Each action must have been taken as often as its propensities say.'],
  candidate_weights: ['Candidate weights', 'A candidate\'s probabilities, weighted, must average to one.'],
  known_baseline: ['Known baseline', 'The outcome that you stated for the deployed policy must fit the log.'],
  drift: ['Drift', 'The log must not change over time, if one policy logged all of it.'],
  repetitions: ['Repetitions', 'How often a context was logged must not depend on what came of it.'],
};
