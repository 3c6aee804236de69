// What all charts share: the frame with a text that says what is to be seen, the measured width, scales and ticks, and the
// numbers as a table. Charts are SVG in pixels of the page, so that text keeps its size on every screen.

import { html, useEffect, useId, useLayoutEffect, useRef, useState } from '../html.js';
import { Details } from '../components.js';
import { number } from '../format.js';

const USUAL_WIDTH = 640;

/** The width of an element, and again whenever it changes. */
export function useWidth() {
  const element = useRef(null);
  const [width, setWidth] = useState(USUAL_WIDTH);
  useLayoutEffect(() => {
    const measure = () => element.current && setWidth(Math.max(220, Math.floor(element.current.clientWidth)));
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element.current);
    return () => observer.disconnect();
  }, []);
  return [element, width];
}

/** `dark` or `light`, and again whenever it changes: for canvases, which do not follow CSS. */
export function useColorScheme() {
  const read = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen || (window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  };
  const [scheme, setScheme] = useState(read);
  useEffect(() => {
    const update = () => setScheme(read());
    const media = window.matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', update);
    const observer = new MutationObserver(update);
    observer.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      media.removeEventListener('change', update);
      observer.disconnect();
    };
  }, []);
  return scheme;
}

/**
 * The frame of a chart. `summary` is what a reader who cannot see it is told, and `table` are the numbers:
 * `{ head: [...], rows: [[...]] }`. `draw` gets the width and returns the contents of the SVG; `height` may be a function of
 * the width.
 */
export function Chart({ title, summary, height, draw, table, legend, children }) {
  const [element, width] = useWidth();
  const id = useId();
  const tall = typeof height === 'function' ? height(width) : height;
  return html`<figure class="chart">
    ${title && html`<figcaption class="chart-title">${title}</figcaption>`}
    ${legend && html`<ul class="legend">${legend.map(({ tone, shape = 'box', label }) => html`<li><span class=${`swatch swatch-${shape} fill-${tone}`}></span>${label}</li>`)}</ul>`}
    <div ref=${element} class="chart-box">${children || html`<svg width=${width} height=${tall} viewBox=${`0 0 ${width} ${tall}`} role="img" aria-labelledby=${id}>
      <title id=${id}>${summary}</title>${draw(width, tall)}</svg>`}</div>
    ${table && html`<${Details} summary="Show the numbers"><${Numbers} caption=${title || summary} ...${table} /></${Details}>`}
  </figure>`;
}

/** Sentences are not aligned like numbers. */
const isSentence = (text) => typeof text === 'string' && text.split(' ').length > 3;

/** The numbers of a chart as a table. */
export const Numbers = ({ caption, head, rows }) => html`<div class="table-box"><table class="table table-numbers">
  <caption class="offscreen">${caption}</caption>
  <thead><tr>${head.map((text, i) => html`<th scope="col" class=${i > 0 && !rows.some((row) => isSentence(row[i])) ? 'right' : ''}>${text}</th>`)}</tr></thead>
  <tbody>${rows.map((row) => html`<tr>${row.map((text, i) => (i === 0 ? html`<th scope="row">${text}</th>` : html`<td class=${isSentence(text) ? '' : 'right'}>${text}</td>`))}</tr>`)}</tbody>
</table></div>`;

/** A function from [from, to] to pixels [start, end]. */
export function linear([from, to], [start, end]) {
  const span = to - from || 1;
  return (value) => start + ((value - from) / span) * (end - start);
}

/** About `most` round numbers within [from, to]. */
export function ticks([from, to], most = 5) {
  const span = to - from;
  if (!(span > 0)) return [from];
  const rough = span / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => each >= rough * 0.999);
  const found = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i += 1) found.push(Number((i * step).toPrecision(12)));
  return found;
}

/** A range that contains all finite values, widened by `share` on both sides. */
export function extent(values, share = 0.06) {
  const finite = values.filter(Number.isFinite);
  if (finite.length === 0) return [0, 1];
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const pad = (high - low) * share || Math.abs(high) * share || 0.5;
  return [low - pad, high + pad];
}

/** A horizontal axis at height `y` with grid lines up to `top`. Its label is below the plot, which begins at `left`. */
export const AxisX = ({ x, y, top, at, label = '', text = number, left, width }) => html`<g class="axis">
  ${at.map((value) => html`<g key=${value}><line class="grid" x1=${x(value)} x2=${x(value)} y1=${top} y2=${y} /><text x=${x(value)} y=${y + 16} text-anchor="middle">${text(value)}</text></g>`)}
  ${label && html`<text class="axis-label" x=${label.length * 6.5 > width - left ? width : (width + left) / 2} y=${y + 34} text-anchor=${label.length * 6.5 > width - left ? 'end' : 'middle'}>${label}</text>`}
</g>`;

/** The text as it fits `pixels`, cut with an ellipsis if necessary. */
export const fit = (text, pixels, size = 7) => (text.length * size <= pixels ? text : `${text.slice(0, Math.max(1, Math.floor(pixels / size) - 1))}…`);
