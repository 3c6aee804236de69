// Intervals on one axis: what is guaranteed, what is estimated, what is required.

import { html, useLayoutEffect, useRef } from '../html.js';
import { fixed, number } from '../format.js';
import { AxisX, Chart, extent, fit, linear, ticks } from './frame.js';

const ROW = 34;
const AXIS = 44;

/**
 * Rows `{ label, low, high, point, tone, text }` on one axis: a bar from `low` to `high` (either may be missing: the bar then
 * reaches the edge) and a dot at `point`. `marks` are vertical lines `{ value, label, tone }`, such as the required improvement.
 */
export function IntervalPlot({ title, summary, rows, marks = [], label, text = (value) => fixed(value, 3) }) {
  const values = [...rows.flatMap((row) => [row.low, row.high, row.point]), ...marks.map((mark) => mark.value)];
  const range = extent(values, 0.1);
  const top = 8 + marks.length * 18;
  const draw = (width) => {
    const left = Math.min(190, Math.max(90, width * 0.28));
    const x = linear(range, [left, width - 16]);
    const bottom = top + rows.length * ROW;
    return html`
      <${AxisX} x=${x} y=${bottom} top=${top} at=${ticks(range, Math.max(3, (width - left) / 90))} label=${label} text=${(at) => number(at, 3)} left=${left} width=${width} />
      ${rows.map((row, i) => html`<${IntervalRow} key=${row.label} row=${row} x=${x} y=${top + i * ROW + ROW / 2} left=${left} right=${width - 16} />`)}
      ${marks.map((mark, i) => html`<g class=${`mark mark-${mark.tone || 'neutral'}`}><line x1=${x(mark.value)} x2=${x(mark.value)} y1=${12 + i * 18} y2=${bottom} />
        <text x=${x(mark.value) + (x(mark.value) > width * 0.6 ? -6 : 6)} y=${14 + i * 18} text-anchor=${x(mark.value) > width * 0.6 ? 'end' : 'start'}>${mark.label} ${text(mark.value)}</text></g>`)}`;
  };
  const table = {
    head: ['', 'from', 'value', 'to'],
    rows: [...rows.map((row) => [row.label, text(row.low), text(row.point), text(row.high)]), ...marks.map((mark) => [mark.label, '', text(mark.value), ''])],
  };
  return html`<${Chart} title=${title} summary=${summary} height=${top + rows.length * ROW + AXIS} draw=${draw} table=${table} />`;
}

const IntervalRow = ({ row, x, y, left, right }) => {
  const has = Number.isFinite;
  const [from, to] = [has(row.low) ? x(row.low) : left, has(row.high) ? x(row.high) : right];
  const drawn = has(row.low) || has(row.high);
  return html`<g class=${`tone-${row.tone || 1}`}>
    <text class="row-label" x="0" y=${y + 4}>${fit(row.label, left - 8)}</text>
    ${drawn && html`<rect class="bar" x=${Math.min(from, to)} y=${y - 6} width=${Math.abs(to - from)} height="12" rx="2" />`}
    ${has(row.low) && html`<line class="cap" x1=${x(row.low)} x2=${x(row.low)} y1=${y - 10} y2=${y + 10} />`}
    ${has(row.high) && html`<line class="cap" x1=${x(row.high)} x2=${x(row.high)} y1=${y - 10} y2=${y + 10} />`}
    ${has(row.point) && html`<circle class="point" cx=${x(row.point)} cy=${y} r="5" />`}
  </g>`;
};

/**
 * A small bar for tables: the guaranteed improvement up to the estimate, against what is required. Without an estimate it is open to
 * the right: the improvement is at least what is guaranteed. `enough` is the decision, where there is one. The range is that of all rows, so that rows can be compared. The numbers
 * stand beside it.
 */
export function IntervalBar({ guaranteed, estimate, required = 0, enough = guaranteed > required, range, width = 96 }) {
  const x = linear(range || extent([guaranteed, estimate, required, 0], 0.1), [2, width - 2]);
  const clamp = (value) => (value === Infinity ? width - 2 : Math.min(width - 2, Math.max(2, x(value))));
  const open = !Number.isFinite(estimate);
  const end = open ? Infinity : estimate;
  return html`<svg class=${`interval-bar ${enough ? 'tone-good' : 'tone-warn'}`} width=${width} height="20" viewBox=${`0 0 ${width} 20`} aria-hidden="true" focusable="false">
    <line class="base" x1="0" x2=${width} y1="10" y2="10" />
    <rect class="bar" x=${Math.min(clamp(guaranteed), clamp(end))} y="6" width=${Math.max(2, Math.abs(clamp(end) - clamp(guaranteed)))} height="8" rx="2" />
    <line class="cap" x1=${clamp(guaranteed)} x2=${clamp(guaranteed)} y1="3" y2="17" />
    <line class="required" x1=${clamp(required)} x2=${clamp(required)} y1="0" y2="20" />
  </svg>`;
}

/** A budget from 0 to `total` with its parts `{ value, label, tone }` in order. The numbers stand beside it. */
export function BudgetBar({ parts, total, label }) {
  const sum = parts.reduce((all, part) => all + part.value, 0);
  const whole = Math.max(total, sum) || 1;
  return html`<div class="budget" role="img" aria-label=${label}>${parts.map((part, i) => html`<${BudgetPart} key=${i} share=${part.value / whole} title=${part.label} odd=${i % 2} />`)}</div>`;
}

function BudgetPart({ share, title, odd }) {
  const element = useRef(null);
  useLayoutEffect(() => {
    element.current.style.width = `${share * 100}%`;
  }, [share]);
  return html`<span ref=${element} class=${odd ? 'odd' : 'even'} title=${title}></span>`;
}
