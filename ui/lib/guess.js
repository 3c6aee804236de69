// Guesses how a file is to be uploaded, from its name and its first bytes. The reader sees the guess and can change it.

const PEEK = 256 * 1024;
const MOST_LINES = 200;

/** The formats of the API with the content type of each. */
export const FORMATS = [
  { id: 'ndjson', title: 'NDJSON: one JSON object per line', type: 'application/x-ndjson', extensions: ['ndjson', 'jsonl', 'json'] },
  { id: 'csv', title: 'CSV with a header', type: 'text/csv', extensions: ['csv'] },
  { id: 'parquet', title: 'Parquet', type: 'application/vnd.apache.parquet', extensions: ['parquet'] },
  { id: 'arrow_stream', title: 'Arrow stream', type: 'application/vnd.apache.arrow.stream', extensions: ['arrow', 'arrows'] },
  { id: 'dsjson', title: 'DSJSON of Vowpal Wabbit', type: 'application/x-ndjson', extensions: ['dsjson'], named: true },
  { id: 'obd', title: 'CSV of the Open Bandit Dataset', type: 'text/csv', extensions: [], named: true },
];

export const ENCODINGS = [
  { id: '', title: 'Not compressed', extensions: [] },
  { id: 'gzip', title: 'gzip', extensions: ['gz'] },
  { id: 'zstd', title: 'Zstandard', extensions: ['zst', 'zstd'] },
];

const starts = (bytes, ...want) => want.every((byte, i) => bytes[i] === byte);

/** The decompressed start of gzip data. */
async function unzip(bytes) {
  const parts = [];
  try {
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip')).getReader();
    for (let size = 0; size < PEEK; ) {
      const { done, value } = await reader.read();
      if (done) break;
      parts.push(value);
      size += value.length;
    }
    reader.cancel().catch(() => {});
  } catch {
    // The data was cut in the middle, or is no gzip data: what was read so far is enough, or the server will say.
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

function formatOf(name, bytes, text) {
  if (starts(bytes, 0x50, 0x41, 0x52, 0x31)) return ['parquet', 'The file begins like a Parquet file.'];
  if (starts(bytes, 0xff, 0xff, 0xff, 0xff)) return ['arrow_stream', 'The file begins like an Arrow stream.'];
  const first = text.replace(/^\ufeff/, '').trimStart();
  if (first.startsWith('{')) {
    const dsjson = /"_label_(cost|probability|Action)"|"_labelIndex"|"EventId"/i.test(first.slice(0, 4000));
    return dsjson ? ['dsjson', 'The first line has labels of Vowpal Wabbit.'] : ['ndjson', 'The first line is a JSON object.'];
  }
  const header = first.split(/\r?\n/, 1)[0];
  if (/propensity_score/.test(header) && /item_id/.test(header)) return ['obd', 'The header is that of the Open Bandit Dataset.'];
  const extension = name.split('.').pop().toLowerCase();
  const named = FORMATS.find((format) => format.extensions.includes(extension));
  if (named) return [named.id, `The name ends with .${extension}.`];
  return header.includes(',') ? ['csv', 'The first line looks like a CSV header.'] : ['ndjson', 'Nothing gives the format away.'];
}

/** The names of columns stand in plain text at the end of a Parquet file, and at the beginning of an Arrow stream. */
async function columnNames(file, format) {
  if (format !== 'parquet' && format !== 'arrow_stream') return [];
  const part = format === 'parquet' ? file.slice(Math.max(0, file.size - PEEK)) : file.slice(0, PEEK);
  const text = new TextDecoder('latin1').decode(await part.arrayBuffer());
  return ['reward', 'cost'].filter((name) => new RegExp(`(^|[^a-z_])${name}([^a-z_]|$)`).test(text));
}

const kindOf = (names) => (names.has('reward') ? 'reward' : names.has('cost') ? 'cost' : null);

/** The first rows of NDJSON as objects; the last line may be cut and is left out. */
function jsonRows(text) {
  const rows = [];
  for (const line of text.split('\n').slice(0, MOST_LINES)) {
    try {
      const row = JSON.parse(line);
      if (row && typeof row === 'object') rows.push(row);
    } catch {
      // A cut or wrong line; the server checks every one of them.
    }
  }
  return rows;
}

/** The first rows of CSV without quotes as objects. */
function csvRows(text) {
  const [header, ...lines] = text.replace(/^\ufeff/, '').split(/\r?\n/).slice(0, MOST_LINES);
  const names = header.split(',').map((name) => name.trim().replace(/^"|"$/g, ''));
  return lines.slice(0, -1).map((line) => {
    const cells = line.split(',');
    return Object.fromEntries(names.map((name, i) => [name, cells[i] === undefined || cells[i] === '' ? undefined : Number.isNaN(Number(cells[i])) ? cells[i] : Number(cells[i])]));
  });
}

/** The names of named outcomes in the rows, in the order of their first appearance. */
function namedOutcomes(rows) {
  const names = new Set();
  for (const row of rows) {
    Object.keys(row).filter((name) => name.startsWith('outcome.')).forEach((name) => names.add(name.slice(8)));
    if (row.outcomes && typeof row.outcomes === 'object') Object.keys(row.outcomes).forEach((name) => names.add(name));
  }
  return [...names];
}

const valuesOf = (rows, name) => rows.map((row) => row.outcomes?.[name] ?? row[`outcome.${name}`] ?? row[name]).filter((value) => typeof value === 'number');
const span = (values) => (values.length ? { least: Math.min(...values), most: Math.max(...values) } : null);

/**
 * What the file seems to be: `{ name, format, encoding, why, outcome, seen, outcomes, fields, rows, problem }`. `seen` is the range of the
 * outcomes in the first rows, `outcomes` the named ones, `problem` what the server would refuse.
 */
export async function guess(file) {
  const lower = file.name.toLowerCase();
  let bytes = new Uint8Array(await file.slice(0, PEEK).arrayBuffer());
  let encoding = '';
  let name = file.name;
  if (starts(bytes, 0x1f, 0x8b)) encoding = 'gzip';
  else if (starts(bytes, 0x28, 0xb5, 0x2f, 0xfd)) encoding = 'zstd';
  const packed = ENCODINGS.find((each) => each.extensions.some((extension) => lower.endsWith(`.${extension}`)));
  if (packed) name = name.slice(0, name.lastIndexOf('.'));
  if (encoding === 'gzip') bytes = await unzip(bytes);
  const readable = encoding !== 'zstd';
  const text = readable ? new TextDecoder().decode(bytes) : '';
  const [format, why] = formatOf(name, readable ? bytes : [], text);
  const rows = format === 'csv' ? csvRows(text) : format === 'ndjson' ? jsonRows(text) : [];
  const fields = new Set(rows.flatMap((row) => Object.keys(row)));
  const columns = await columnNames(file, format);
  const outcome = kindOf(new Set([...fields, ...columns])) || (format === 'obd' ? 'reward' : 'cost');
  const problem = file.size === 0 ? 'The file is empty.' : starts(bytes, 0x41, 0x52, 0x52, 0x4f, 0x57, 0x31) ? 'This is an Arrow file. Write it as an Arrow stream, or as Parquet.' : null;
  const outcomes = namedOutcomes(rows).map((each) => ({ name: each, seen: span(valuesOf(rows, each)) }));
  return { name: name.replace(/\.[^.]+$/, ''), format, encoding, why, outcome, seen: span(valuesOf(rows, outcome)), outcomes, fields: [...fields], rows: rows.length, problem };
}
