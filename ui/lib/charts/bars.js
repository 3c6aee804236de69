// Probabilities as bars, each with its number.

import { html } from '../html.js';
import { percent } from '../format.js';
import { Chart, fit, linear } from './frame.js';

const ROW = 26;
const MOST_ROWS = 50;

/** Rows `{ label, value }` with values from 0 to 1. If there are many, the largest are drawn; the table has all. */
export function ProbabilityBars({ title, summary, rows, name = 'action' }) {
  const shown = rows.length <= MOST_ROWS ? rows : [...rows].sort((a, b) => b.value - a.value).slice(0, MOST_ROWS);
  const draw = (width) => {
    const left = Math.min(160, Math.max(70, width * 0.25));
    const x = linear([0, Math.max(...shown.map((row) => row.value), 1e-9)], [0, Math.max(20, width - left - 64)]);
    return shown.map((row, i) => html`<g key=${row.label} class="tone-1">
      <text class="row-label" x="0" y=${i * ROW + 17}>${fit(row.label, left - 8)}</text>
      <rect class="column" x=${left} y=${i * ROW + 4} width=${Math.max(1, x(row.value))} height=${ROW - 8} rx="2" />
      <text x=${left + x(row.value) + 6} y=${i * ROW + 17}>${percent(row.value, 1)}</text></g>`);
  };
  const table = { head: [name, 'probability'], rows: rows.map((row) => [row.label, percent(row.value, 3)]) };
  return html`<${Chart} title=${title} summary=${summary} height=${shown.length * ROW + 4} draw=${draw} table=${table} />`;
}
