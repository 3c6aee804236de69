// A forest plot: several policies, each with its estimate and its guarantee, against nothing gained and against what is required.

import { html } from '../html.js';
import { number, signed } from '../format.js';
import { AxisX, Chart, extent, fit, linear, ticks } from './frame.js';

const ROW = 34;
const AXIS = 44;

/** Rows `{ label, estimate, guaranteed, ok }`; the bar reaches from what is guaranteed to the estimate. */
export function ForestPlot({ title, summary, rows, required, label = 'improvement over the deployed policy', text = (value) => signed(value, 3) }) {
  const range = extent([...rows.flatMap((row) => [row.guaranteed, row.estimate]), required, 0]);
  const top = 22;
  const bottom = top + rows.length * ROW;
  const draw = (width) => {
    const left = Math.min(220, Math.max(90, width * 0.28));
    const x = linear(range, [left, width - 16]);
    const need = Number.isFinite(required) ? x(required) : null;
    return html`<${AxisX} x=${x} y=${bottom} top=${top} at=${ticks(range, Math.max(3, (width - left) / 90))} label=${label} text=${(at) => number(at, 3)} left=${left} width=${width} />
      <line class="zero" x1=${x(0)} x2=${x(0)} y1=${top} y2=${bottom} />
      ${need !== null && html`<g class="mark mark-neutral"><line x1=${need} x2=${need} y1="12" y2=${bottom} /><text x=${need + (need > width * 0.6 ? -6 : 6)} y="14" text-anchor=${need > width * 0.6 ? 'end' : 'start'}>required ${text(required)}</text></g>`}
      ${rows.map((row, i) => html`<${Row} key=${row.label} row=${row} x=${x} y=${top + i * ROW + ROW / 2} left=${left} />`)}`;
  };
  const table = { head: ['policy', 'guaranteed', 'estimate', 'enough'], rows: rows.map((row) => [row.label, text(row.guaranteed), text(row.estimate), row.ok ? 'yes' : 'no']) };
  const legend = [{ tone: 'good', label: 'guaranteed to estimate, enough' }, { tone: 'warn', label: 'guaranteed to estimate, not enough' }];
  return html`<${Chart} title=${title} summary=${summary} height=${bottom + AXIS} draw=${draw} table=${table} legend=${legend} />`;
}

const Row = ({ row, x, y, left }) => {
  const [from, to] = [x(row.guaranteed), x(Number.isFinite(row.estimate) ? row.estimate : row.guaranteed)];
  return html`<g class=${row.ok ? 'tone-good' : 'tone-warn'}>
    <text class="row-label" x="0" y=${y + 4}>${row.ok ? '✓ ' : '– '}${fit(row.label, left - 24)}</text>
    <rect class="bar" x=${Math.min(from, to)} y=${y - 5} width=${Math.max(1, Math.abs(to - from))} height="10" rx="2" />
    <line class="cap" x1=${from} x2=${from} y1=${y - 10} y2=${y + 10} />
    <circle class="point" cx=${to} cy=${y} r="5" />
  </g>`;
};
