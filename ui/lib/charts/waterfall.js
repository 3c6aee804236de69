// A waterfall: from the estimate to the guarantee, one step for each thing that the guarantee costs.

import { html } from '../html.js';
import { number, signed } from '../format.js';
import { AxisX, Chart, extent, fit, linear, ticks } from './frame.js';

const ROW = 34;
const AXIS = 44;

/**
 * `start` and `end` are `{ label, value }`, `steps` are `{ label, change, what }`, in between. `required` is drawn as a line. The steps
 * go downward on the page, so that their names have room.
 */
export function Waterfall({ title, summary, start, steps, end, required, label, text = (value) => signed(value, 4) }) {
  let value = start.value;
  const bars = [{ label: start.label, from: 0, to: start.value, kind: 'total', text: text(start.value) }];
  for (const step of steps) {
    bars.push({ label: step.label, from: value, to: value + step.change, kind: step.change < 0 ? 'loss' : 'gain', text: text(step.change), what: step.what });
    value += step.change;
  }
  bars.push({ label: end.label, from: 0, to: end.value, kind: 'total', text: text(end.value) });
  const range = extent([...bars.flatMap((bar) => [bar.from, bar.to]), required], 0.12);
  const top = 22;
  const bottom = top + bars.length * ROW;
  const draw = (width) => {
    const left = Math.min(230, Math.max(104, width * 0.32));
    const x = linear(range, [left, width - 70]);
    return html`<${AxisX} x=${x} y=${bottom} top=${top} at=${ticks(range, Math.max(3, (width - left) / 100))} text=${(at) => number(at, 3)} label=${label} left=${left} width=${width} />
      <line class="zero" x1=${x(0)} x2=${x(0)} y1=${top} y2=${bottom} />
      ${Number.isFinite(required) && html`<g class="mark mark-neutral"><line x1=${x(required)} x2=${x(required)} y1="12" y2=${bottom} /><text x=${x(required) + (x(required) > width * 0.6 ? -6 : 6)} y="14" text-anchor=${x(required) > width * 0.6 ? 'end' : 'start'}>required ${text(required)}</text></g>`}
      ${bars.map((bar, i) => html`<${Bar} key=${bar.label} bar=${bar} next=${bars[i + 1]} x=${x} y=${top + i * ROW} left=${left} />`)}`;
  };
  const table = { head: ['', 'change', 'then', 'what it is'], rows: bars.map((bar) => [bar.label, bar.kind === 'total' ? '' : bar.text, text(bar.to), bar.what || '']) };
  return html`<${Chart} title=${title} summary=${summary} height=${bottom + AXIS} draw=${draw} table=${table} />`;
}

const Bar = ({ bar, next, x, y, left }) => {
  const [from, to] = [x(bar.from), x(bar.to)];
  return html`<g class=${`step step-${bar.kind}`}><title>${bar.what ? `${bar.label}: ${bar.what}` : bar.label}</title>
    <text class="row-label" x="0" y=${y + 21}>${fit(bar.label, left - 8)}</text>
    <rect x=${Math.min(from, to)} y=${y + 7} width=${Math.max(1.5, Math.abs(to - from))} height="20" rx="2" />
    ${next && html`<line class="joint" x1=${to} x2=${to} y1=${y + 27} y2=${y + 41} />`}
    <text class="value" x=${Math.max(from, to) + 6} y=${y + 21}>${bar.text}</text>
  </g>`;
};
