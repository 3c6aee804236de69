// Counts against what was expected, each with the interval in which it lies if the log is right.

import { html } from '../html.js';
import { count, percent } from '../format.js';
import { AxisX, Chart, extent, fit, linear, ticks } from './frame.js';

const ROW = 26;
const AXIS = 44;
const MOST_ROWS = 40;

/**
 * Rows `{ label, count, expected, low, high, ok }`. Each is drawn as its distance from the expectation in percent, so that rare and
 * frequent actions can be compared. A count outside of its interval has another shape, not only another color.
 */
export function ExpectedCounts({ title, summary, rows, label = 'difference from what was expected' }) {
  const share = (value, row) => (row.expected > 0 ? value / row.expected - 1 : 0);
  // The furthest from its interval come first if there are too many to draw.
  const away = (row) => Math.abs(row.count - row.expected) / Math.max(1e-9, row.high - row.expected);
  const shown = rows.length <= MOST_ROWS ? rows : [...rows].sort((a, b) => away(b) - away(a)).slice(0, MOST_ROWS);
  const range = extent(shown.flatMap((row) => [share(row.low, row), share(row.high, row), share(row.count, row), 0]), 0.08);
  const bottom = 10 + shown.length * ROW;
  const draw = (width) => {
    const left = Math.min(150, Math.max(80, width * 0.2));
    const x = linear(range, [left, width - 16]);
    return html`<${AxisX} x=${x} y=${bottom} top="6" at=${ticks(range, Math.max(3, (width - left) / 90))} text=${(value) => percent(value, 1)} label=${label} left=${left} width=${width} />
      <line class="zero" x1=${x(0)} x2=${x(0)} y1="6" y2=${bottom} />
      ${shown.map((row, i) => html`<${CountRow} key=${row.label} row=${row} x=${(value) => x(share(value, row))} y=${10 + i * ROW + ROW / 2} left=${left} />`)}`;
  };
  const inside = (row) => (row.ok === false ? 'outside' : 'inside');
  const table = {
    head: ['', 'in the log', 'expected', 'from', 'to', ''],
    rows: rows.map((row) => [row.label, count(row.count), count(row.expected), count(row.low), count(row.high), inside(row)]),
  };
  const legend = [{ tone: 3, label: 'interval of the expectation' }, { tone: 1, shape: 'dot', label: 'count inside' }, { tone: 2, shape: 'diamond', label: 'count outside' }];
  return html`<${Chart} title=${title} summary=${summary} height=${bottom + AXIS} draw=${draw} table=${table} legend=${legend} />`;
}

const CountRow = ({ row, x, y, left }) => {
  const at = x(row.count);
  return html`<g><title>${row.label}: ${count(row.count)} in the log, ${count(row.expected)} expected, ${count(row.low)} to ${count(row.high)} is usual</title>
    <text class="row-label" x="0" y=${y + 4}>${fit(row.label, left - 8)}</text>
    <rect class="band" x=${x(row.low)} width=${Math.max(1, x(row.high) - x(row.low))} y=${y - 7} height="14" rx="2" />
    ${row.ok === false ? html`<path class="outside" d=${`M${at} ${y - 7}l7 7-7 7-7-7z`} />` : html`<circle class="inside" cx=${at} cy=${y} r="4.5" />`}
  </g>`;
};
