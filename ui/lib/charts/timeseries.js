// Curves over time or over steps, on uPlot: the bound while a job learns, outcomes and shares over the log.

import { html, useEffect, useRef } from '../html.js';
import { number } from '../format.js';
import { Chart, useColorScheme, useWidth } from './frame.js';

/** The library is loaded with the first curve: most pages have none. */
const library = () => import('../../vendor/uplot/uplot.js');

/** Dashes, so that curves can be told apart without color. */
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [14, 4], [5, 2]];

const color = (name) => {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
};

/** A little more than the values need, also if they are all the same. */
const padded = (_, low, high) => {
  const pad = Math.max((high - low) * 0.08, Math.abs(high) * 0.005, 1e-6);
  return [low - pad, high + pad];
};

function options(uPlot, { series, xLabel, xTime, xText, yText, yRange, width, height, steps }) {
  const [ink, grid] = [color('--text-soft'), color('--line')];
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 }, font: '12px system-ui, sans-serif', labelFont: '12px system-ui, sans-serif' };
  return {
    width, height,
    legend: { show: true, live: true },
    cursor: { drag: { x: false, y: false } },
    scales: { x: { time: Boolean(xTime) }, y: { range: yRange || padded } },
    axes: [
      { ...axis, label: xLabel, labelSize: 20, size: 36, ...(xText ? { values: (_, at) => at.map((value) => xText(value)) } : {}) },
      { ...axis, size: 62, values: (_, at) => at.map((value) => yText(value)) },
    ],
    series: [
      { label: xLabel || 'at', value: (_, at) => (at == null ? '–' : (xText || number)(at)) },
      ...series.map((each, i) => ({
        label: each.label, stroke: color(`--tone-${each.tone || (i % 6) + 1}`), width: 2, dash: DASHES[i % DASHES.length], spanGaps: true,
        points: { show: (plot) => plot.data[0].length < 40, size: 6 }, value: (_, at) => (at == null ? '–' : yText(at)),
        ...(steps ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      })),
    ],
  };
}

/**
 * Curves `series` of `{ label, values, tone }` over `x`. With `xTime`, `x` are seconds since 1970. New points are added without drawing
 * the chart anew.
 */
export function TimeSeries(props) {
  const { title, summary, x, series, height = 260, yText = number, xText, xLabel } = props;
  const [box, width] = useWidth();
  const plot = useRef(null);
  const scheme = useColorScheme();
  const shape = JSON.stringify([series.map((each) => [each.label, each.tone]), scheme, height, props.yRange, props.xTime]);
  const data = () => [x, ...series.map((each) => each.values)];
  const latest = useRef(null);
  latest.current = { ...props, width, height, yText, data: data() };
  useEffect(() => {
    let gone = false;
    library().then(({ default: uPlot }) => {
      if (!gone) plot.current = new uPlot(options(uPlot, latest.current), latest.current.data, box.current);
    }, () => {});
    return () => {
      gone = true;
      plot.current?.destroy();
      plot.current = null;
    };
  }, [shape]);
  useEffect(() => plot.current?.setSize({ width, height }), [width, height]);
  useEffect(() => plot.current?.setData(data()), [x, series]);
  const at = xText || number;
  const rows = x.map((value, i) => [at(value), ...series.map((each) => yText(each.values[i]))]);
  const table = { head: [xLabel || 'at', ...series.map((each) => each.label)], rows: thin(rows) };
  return html`<${Chart} title=${title} table=${table}><div ref=${box} class="series" role="img" aria-label=${summary}></div></${Chart}>`;
}

/** At most 100 rows, evenly chosen: a curve of thousands of points is no table to read. */
function thin(rows) {
  const every = Math.ceil(rows.length / 100);
  return rows.filter((_, i) => i % every === 0 || i === rows.length - 1);
}
