// A histogram whose classes may be powers of a number.

import { html } from '../html.js';
import { count, number } from '../format.js';
import { Chart, linear, ticks } from './frame.js';

const [LEFT, TOP, BOTTOM] = [56, 16, 46];

/**
 * Classes `{ from, to, count }`, drawn equally wide: for weights, each class is twice the one before. Tall and short bars are shown on
 * a logarithmic scale, so that a few extreme rows are still seen.
 */
export function Histogram({ title, summary, classes, label, marks = [], height = 240, unit = 'rows', log = true }) {
  const most = Math.max(1, ...classes.map((each) => each.count));
  const size = (value) => (log ? Math.log10(value + 1) : value);
  const draw = (width, tall) => {
    const bottom = tall - BOTTOM;
    const step = (width - LEFT - 8) / Math.max(1, classes.length);
    const y = linear([0, size(most)], [bottom, TOP + 10]);
    const powers = Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, i) => 10 ** i);
    const levels = log ? powers : ticks([0, most], 4);
    // Only whole numbers are written below the bars, and not more than there is room for.
    const whole = classes.map((each, i) => i).filter((i) => Math.abs(classes[i].from - Math.round(classes[i].from)) < 1e-9);
    const every = Math.max(1, Math.ceil(whole.length / ((width - LEFT) / 56)));
    const named = new Set(whole.filter((_, i) => i % every === 0));
    return html`<g class="axis">${levels.map((value) => html`<g key=${value}><line class="grid" x1=${LEFT} x2=${width} y1=${y(size(value))} y2=${y(size(value))} /><text x=${LEFT - 8} y=${y(size(value)) + 4} text-anchor="end">${count(value)}</text></g>`)}</g>
      <g class="tone-1">${classes.map((each, i) => html`<rect key=${each.from} class="column" x=${LEFT + i * step + 1} width=${Math.max(1, step - 2)} y=${y(size(each.count))} height=${Math.max(0, bottom - y(size(each.count)))}><title>${range(each)}: ${count(each.count)} ${unit}</title></rect>`)}</g>
      <g class="axis"><line class="base" x1=${LEFT} x2=${width} y1=${bottom} y2=${bottom} />
      ${classes.map((each, i) => named.has(i) && html`<text key=${each.from} x=${LEFT + i * step} y=${bottom + 16} text-anchor=${i === 0 ? 'start' : 'middle'}>${number(each.from, 3)}</text>`)}
      <text class="axis-label" x=${(LEFT + width) / 2} y=${bottom + 36} text-anchor="middle">${label}</text></g>
      ${marks.map((mark) => place(mark, classes, LEFT, step, TOP, bottom, width))}`;
  };
  const table = { head: [label, unit], rows: classes.map((each) => [range(each), count(each.count)]) };
  return html`<${Chart} title=${title} summary=${summary} height=${height} draw=${draw} table=${table} />`;
}

const range = (each) => (each.to === null || each.to === undefined ? `${number(each.from, 3)} and more` : `${number(each.from, 3)} to ${number(each.to, 3)}`);

/** A vertical line at a value within the classes, in proportion of logarithms. */
function place(mark, classes, left, step, top, bottom, width) {
  const i = classes.findIndex((each) => mark.value >= each.from && (each.to == null || mark.value < each.to));
  if (i < 0) return null;
  const { from, to } = classes[i];
  const inside = to == null || from <= 0 ? 0.5 : Math.log(mark.value / from) / Math.log(to / from);
  const x = left + (i + inside) * step;
  const end = x > width * 0.6;
  return html`<g class="mark mark-neutral"><line x1=${x} x2=${x} y1=${top - 4} y2=${bottom} /><text x=${x + (end ? -6 : 6)} y=${top + 4} text-anchor=${end ? 'end' : 'start'}>${mark.label}</text></g>`;
}
