// The demo: a small world with known propensities, drawn in the browser from a fixed seed and uploaded like any other log.

import { onceKey, post, upload } from './api.js';
import { href } from './router.js';

const [ROWS, FEATURES, ACTIONS, SEED] = [20_000, 6, 4, 7];

/** Numbers in [0, 1), the same in every browser (mulberry32). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 4294967296;
  };
}

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

/** Visitors, what the deployed policy showed them and whether they clicked, one JSON object per line. */
export function demoLog(rows = ROWS, seed = SEED) {
  const draw = random(seed);
  // The sum of uniform numbers is near enough to a normal one, and the same on every machine.
  const normal = () => Array.from({ length: 12 }, draw).reduce((sum, value) => sum + value, -6);
  const table = (size) => Array.from({ length: ACTIONS }, () => Array.from({ length: FEATURES }, () => size * normal()));
  const [truth, noise] = [table(0.8), table(0.5)];
  const lines = [];
  for (let row = 0; row < rows; row += 1) {
    const x = Array.from({ length: FEATURES }, () => Math.round(normal() * 1000) / 1000);
    const scores = truth.map((weights, a) => 0.4 * dot(weights, x) + dot(noise[a], x));
    const powers = scores.map((score) => Math.exp(Math.max(-8, Math.min(8, score))));
    const total = powers.reduce((sum, value) => sum + value, 0);
    const propensities = powers.map((value) => value / total);
    const action = pick(propensities, draw());
    const reward = draw() < 1 / (1 + Math.exp(1 - dot(truth[action], x))) ? 1 : 0;
    lines.push(JSON.stringify({ x, action, propensities, reward }));
  }
  return `${lines.join('\n')}\n`;
}

function pick(propensities, at) {
  let sum = 0;
  for (let a = 0; a < propensities.length; a += 1) {
    sum += propensities[a];
    if (at < sum) return a;
  }
  return propensities.length - 1;
}

/** Uploads the demo's log and submits a job on it. Returns the job. */
export async function loadDemo(onStep) {
  onStep('Drawing the log…');
  // Lets the browser paint the step first.
  await new Promise((resolve) => setTimeout(resolve, 30));
  const file = new Blob([demoLog()]);
  onStep('Uploading the log…');
  const path = href('/v1/datasets', { name: 'Demo: which teaser to show', outcome: 'reward', logging: 'fixed' });
  const dataset = await upload(path, file, { headers: { 'content-type': 'application/x-ndjson', 'idempotency-key': onceKey() } });
  onStep('Submitting a job…');
  return post('/v1/jobs', { dataset_id: dataset.id, delta: 0.05, metadata: { from: 'demo' } }, { once: onceKey() });
}
