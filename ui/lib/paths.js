// Addresses: of pages, and of what a page reads first. No imports, so that the first reads need to wait for nothing else.

/** `path` with a query. Parameters that are undefined, null or empty are left out. */
export function href(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `${path}?${text}` : path;
}

/** How many rows a page of a list has. */
export const ROWS = 25;

/** A page of a list of the API. The cursor `after` comes from the query of the dashboard's page. */
export const listPath = (path, { filters = {}, limit = ROWS, after } = {}) => href(path, { ...filters, limit, after });

/** The list of jobs that the query of the page of jobs asks for. */
export const jobsPath = ({ status, decision, dataset_id, order, after }) => listPath('/v1/jobs', { filters: { status, decision, dataset_id, order }, after });

/** What the first page reads. */
export const HOME = { datasets: listPath('/v1/datasets', { limit: 5 }), jobs: listPath('/v1/jobs', { limit: 8 }) };

/** What is read first by the page at `path`; nothing where that depends on more. */
export function firstReads(path, query) {
  const [section, id, ...more] = path.slice(1).split('/');
  if (section === '') return [HOME.jobs, HOME.datasets];
  if (!['jobs', 'datasets', 'policies', 'gates', 'webhooks'].includes(section) || more.length > 0 || id === 'new') return [];
  if (id) return section === 'gates' ? [] : [`/v1/${section}/${encodeURIComponent(decoded(id))}`];
  return [section === 'jobs' ? jobsPath(query) : listPath(`/v1/${section}`, { after: query.after })];
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
