// Numbers, units and times as people read them. Numbers that are not there are shown as a dash.

const NONE = '–';
const is = (value) => typeof value === 'number' && Number.isFinite(value);
const formats = new Map();

/** Formats are made once: that takes longer than using them a hundred times. */
const formatter = (Kind) => (options) => {
  const name = Kind.name + JSON.stringify(options);
  if (!formats.has(name)) formats.set(name, new Kind('en-US', options));
  return formats.get(name);
};

const numberFormat = formatter(Intl.NumberFormat);
const timeFormat = formatter(Intl.DateTimeFormat);

const minus = (text) => text.replace(/^-/, '−');

/** A whole number with separators: 12,345. */
export const count = (value) => (is(value) ? minus(numberFormat({ maximumFractionDigits: 0 }).format(value)) : NONE);

/** A number with `digits` significant digits, without needless zeros; very large and small ones in powers of ten. */
export function number(value, digits = 4) {
  if (!is(value)) return NONE;
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e9 || size < 1e-4)) {
    const [mantissa, power] = value.toExponential(digits - 1).split('e');
    const short = mantissa.includes('.') ? mantissa.replace(/\.?0+$/, '') : mantissa;
    return minus(`${short}×10${superscript(Number(power))}`);
  }
  return minus(numberFormat({ maximumSignificantDigits: Math.max(digits, size >= 1 ? String(Math.trunc(size)).length : 1) }).format(value));
}

const superscript = (value) =>
  String(value).replace(/./g, (c) => ({ '-': '⁻', 0: '⁰', 1: '¹', 2: '²', 3: '³', 4: '⁴', 5: '⁵', 6: '⁶', 7: '⁷', 8: '⁸', 9: '⁹' })[c]);

/** A number with exactly `decimals` decimals, for columns. What rounds to zero has no sign. */
export const fixed = (value, decimals = 3) =>
  is(value) ? minus(numberFormat({ minimumFractionDigits: decimals, maximumFractionDigits: decimals, signDisplay: 'negative' }).format(value)) : NONE;

/** The same with a sign: +0.012. Nothing at all is 0. */
export const signed = (value, decimals = 3) => {
  if (value === 0) return '0';
  return is(value) ? minus(numberFormat({ minimumFractionDigits: decimals, maximumFractionDigits: decimals, signDisplay: 'exceptZero' }).format(value)) : NONE;
};

/** A share of 1 as percent: 0.051 is 5.1%. */
export const percent = (value, decimals = 1) => (is(value) ? `${fixed(value * 100, decimals)}%` : NONE);

/** A confidence of 1 − δ, never rounded up to 100%. */
export function confidence(value) {
  if (!is(value)) return NONE;
  const hundredths = Math.floor(value * 1e4 + 1e-9) / 100;
  return `${number(hundredths, 6)}%`;
}

/** A size in bytes: 1.4 MB. */
export function bytes(value) {
  if (!is(value)) return NONE;
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let [size, unit] = [value, 0];
  while (size >= 999.5 && unit < units.length - 1) [size, unit] = [size / 1000, unit + 1];
  return `${unit === 0 ? count(size) : number(size, 3)} ${units[unit]}`;
}

/** `count(n)` and the noun in the right number: 1 row, 2 rows. */
export const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** A time in the reader's zone: Nov 17, 2026, 22:41. */
export function time(text) {
  if (!text) return NONE;
  return timeFormat({ dateStyle: 'medium', timeStyle: 'short', hour12: false }).format(new Date(text));
}

/** The same with seconds and the zone, for tooltips and certificates. */
export function timeFull(text) {
  if (!text) return NONE;
  const options = { year: 'numeric', month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false, timeZoneName: 'short' };
  return timeFormat(options).format(new Date(text));
}

/** How long ago: just now, 5 min ago, 3 h ago, 2 days ago. */
export function ago(text, now = Date.now()) {
  if (!text) return NONE;
  const seconds = Math.max(0, (now - new Date(text).getTime()) / 1000);
  if (seconds < 45) return 'just now';
  if (seconds < 3600) return `${Math.max(1, Math.round(seconds / 60))} min ago`;
  if (seconds < 86_400) return `${Math.round(seconds / 3600)} h ago`;
  return `${plural(Math.round(seconds / 86_400), 'day')} ago`;
}

/** A number of seconds: 0.4 s, 12 s, 3 min 20 s, 2 h 5 min. */
export function duration(seconds) {
  if (!is(seconds)) return NONE;
  if (seconds < 10) return `${number(seconds, 2)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60 ? `${whole % 60} s` : ''}`.trim();
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** Seconds between two times. */
export const between = (from, to) => (from && to ? (new Date(to) - new Date(from)) / 1000 : null);

/** The first digits of an id or a digest, for tables. UUIDs of one server begin alike, so their end is shown. */
export const short = (id) => (id ? (id.length === 36 ? id.slice(-8) : id.slice(0, 10)) : NONE);

/** Whether outcomes of this dataset are rewards. */
export const isReward = (outcome) => outcome?.kind === 'reward';

/** A cost in [−1, 0], or a mean of costs, as an outcome of the dataset: the reward or cost that the log has. */
export function toOutcome(cost, outcome) {
  if (!outcome || !is(cost)) return null;
  const range = outcome.max - outcome.min;
  return isReward(outcome) ? outcome.min - cost * range : outcome.min + (cost + 1) * range;
}

/** An improvement in the paper's units, which are shares of the outcome's range, in units of the outcome. */
export const improvementInOutcome = (improvement, outcome) => (outcome && is(improvement) ? improvement * (outcome.max - outcome.min) : null);

/** Both units of an improvement: "+0.0312 (+3.12 of reward)"; only one if they are the same. */
export function bothUnits(improvement, outcome) {
  const text = signed(improvement, 4);
  if (!outcome || outcome.max - outcome.min === 1) return text;
  return `${text} (${signed(improvementInOutcome(improvement, outcome), 3)} of ${outcome.kind})`;
}

/** Parts of sentences, as messages of the API are, as sentences. */
export const sentence = (text) => (text ? `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? '' : '.'}` : '');

/** A name such as `too_few_rows` in words: Too few rows. */
export const words = (name) => (name ? name.charAt(0).toUpperCase() + name.slice(1).replace(/_/g, ' ') : NONE);
