// What pictures of a certificate need: its estimate, the way from there to the guarantee, and its units.

import * as format from './format.js';

/** Words for the steps of a breakdown. */
const STEPS = {
  confidence: 'Confidence',
  kl: 'Prior',
  bias: 'Clipping',
  rounding: 'Propensities',
  baseline: 'Baseline',
  penalty: 'Confidence',
  numerical_slack: 'Arithmetic',
  range: 'Range',
};

/** Steps smaller than this are left out of the picture: nobody could see them. */
const INVISIBLE = 1e-9;

/**
 * The way from the estimate to the guarantee: `{ estimate, steps, guaranteed }` in the paper's units, or null if the certificate does not
 * say. Certificates of earlier releases have no breakdown; theirs is read off their bounds, with fewer steps.
 */
export function breakdownOf(certificate) {
  const { breakdown } = certificate;
  const found = breakdown && Number.isFinite(breakdown.estimate) ? breakdown : readBounds(certificate);
  if (!found) return null;
  const steps = found.steps.filter((step) => Math.abs(step.change) > INVISIBLE);
  return { ...found, steps: steps.map((step) => ({ ...step, label: STEPS[step.name] || format.words(step.name) })) };
}

function readBounds({ bounds = [], baseline_risk: baseline, guaranteed_improvement: guaranteed, guaranteed_risk: risk, candidate }) {
  const own = (quantity) => bounds.find((each) => each.used && each.quantity === quantity && (!candidate || each.subject === candidate));
  const whole = own('improvement');
  if (whole) {
    const estimate = -whole.terms.estimate;
    const what = 'What the estimate may be too high by, because it is an average over a limited number of rows.';
    return { estimate, guaranteed, steps: [{ name: 'confidence', change: guaranteed - estimate, what }] };
  }
  const part = own('risk');
  if (!part) return null;
  const estimate = baseline.estimate - part.terms.estimate;
  const lower = baseline.lower_bound ?? baseline.estimate;
  const steps = [
    { name: 'confidence', change: part.terms.estimate - risk, what: 'What the estimate of the policy may be too good by.' },
    { name: 'baseline', change: lower - baseline.estimate, what: 'What the deployed policy may be better than its average in the log.' },
  ];
  const rest = guaranteed - estimate - steps[0].change - steps[1].change;
  return { estimate, guaranteed, steps: [...steps, { name: 'numerical_slack', change: rest, what: 'Rounding, always to the safe side.' }] };
}

/**
 * Why a guarantee is not enough although it exceeds what is required, as the end of a sentence; null if nothing else stands in the way.
 * If `reliable` is false, the number itself must not be relied on.
 */
export function standsInTheWay(certificate) {
  const has = (test) => (certificate.reasons || []).some((reason) => test(reason.code));
  if (certificate.decision !== 'keep') return null;
  if (has((code) => code.startsWith('log_check_failed'))) return { reliable: false, why: 'a check of the log failed, so none of these numbers can be relied on' };
  if (has((code) => code === 'guarantee_exceeds_estimate')) return { reliable: false, why: 'the guarantee is above its own estimate, so nobody should act on it' };
  if (has((code) => code === 'guarantee_impossible')) return { reliable: false, why: 'a bound is better than any policy can be, so the logged propensities must be wrong' };
  const broken = (certificate.guardrails || []).filter((guardrail) => !guardrail.ok).map((guardrail) => guardrail.outcome);
  if (broken.length > 0) return { reliable: true, why: `the loss in ${broken.join(' and ')} may be more than is allowed` };
  return null;
}

/** The name of a candidate for people: `logged:b` is b, `policy:ID` is the policy's id, shortened. */
export function candidateName(candidate) {
  if (!candidate || candidate === 'learned') return 'the learned policy';
  const [kind, ...rest] = candidate.split(':');
  return kind === 'policy' ? `policy ${format.short(rest.join(':'))}` : rest.join(':') || candidate;
}

/** The id of the policy that a candidate names, if it names one. */
export const candidatePolicy = (candidate) => (candidate?.startsWith('policy:') ? candidate.slice(7) : null);

/**
 * Improvements as people read them: in units of the outcome, with as many decimals as its range needs. `scale` turns the paper's units,
 * which are shares of the range, into those of the outcome; `text` formats them.
 */
export function unitsOf(outcome) {
  const scale = outcome ? outcome.max - outcome.min : 1;
  const decimals = Math.min(6, Math.max(0, 4 - Math.floor(Math.log10(scale) + 1e-9)));
  return {
    scale,
    plain: scale === 1,
    name: outcome ? outcome.kind : 'risk',
    of: (value) => value * scale,
    text: (value) => format.signed(value, decimals),
  };
}
