// The one place that calls the public API. The API key is in a variable of this module: it lives as long as the tab,
// and is in no URL and no storage.

import { ASKED, arrived, early } from '../early.js';
import { store } from './store.js';

let key = null;

/** `open` until the server asks for a key, then `needed`, or `rejected` if it refused one; `signed_in` with a key. */
export const session = store('open');

/** Whether the server can be reached. While it cannot, the server is probed, and reads wait. */
export const connection = store('online');

/** Uses a key from now on, if the server accepts it. */
export async function signIn(candidate) {
  const given = candidate.trim();
  // A header can carry no other characters, and `fetch` would throw.
  if (!/^[\x21-\x7e]+$/.test(given)) throw new Problem({ code: 'unauthorized', detail: 'An API key has no spaces and no special characters.' });
  const response = await send('GET', '/v1/jobs?limit=1', { headers: { authorization: `Bearer ${given}` } });
  if (!response.ok) throw await problemOf(response);
  key = given;
  tags.clear();
  session.set('signed_in');
}

/** Forgets the key and everything that was read with it. */
export function signOut() {
  key = null;
  tags.clear();
  session.set('needed');
}

/** What went wrong with a request: the server's problem, or one of our own (`unreachable`, `aborted`). */
export class Problem extends Error {
  constructor(members) {
    const { status = 0, code, title, detail, errors, requestId, retryAfter } = members;
    super(detail || title || code);
    // `members` is everything that the server said, such as the numbers of a gate that is closed.
    Object.assign(this, { status, code, title, detail, errors: errors || [], requestId, retryAfter, members });
  }

  /** The message about one field of the request, if there is one. */
  field(name) {
    return this.errors.find((error) => error.field === name)?.message;
  }
}

const unreachable = () =>
  new Problem({ code: 'unreachable', title: 'No answer', detail: 'The server cannot be reached. Check that it runs, and try again.' });

async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A proxy may have answered in its own words.
  }
  return new Problem({
    title: `The server answered ${response.status}`,
    code: 'unknown',
    ...body,
    status: response.status,
    requestId: response.headers.get('x-request-id'),
    retryAfter: Number(response.headers.get('retry-after')) || null,
  });
}

const authorization = () => (key ? { authorization: `Bearer ${key}` } : {});

/** A server that has not answered a read for so long, in milliseconds, cannot be reached. */
const PATIENCE = 30_000;

async function send(method, path, { headers = {}, body, signal } = {}) {
  let response;
  try {
    response = await fetch(path, { ...ASKED, method, body, signal, headers: { ...authorization(), ...headers } });
  } catch (error) {
    if (signal?.aborted && signal.reason?.name !== 'TimeoutError') throw new Problem({ code: 'aborted' });
    lost();
    throw unreachable();
  }
  connection.set('online');
  return response;
}

/** The answer of the API, or its problem. A 401 brings up the sign-in. */
async function answered(response) {
  if (response.status === 401) session.set(key ? 'rejected' : 'needed');
  if (!response.ok) throw await problemOf(response);
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

const MAX_TAGS = 200;
const tags = new Map();

function remember(path, tag, body) {
  tags.delete(path);
  tags.set(path, { tag, body });
  if (tags.size > MAX_TAGS) tags.delete(tags.keys().next().value);
}

const patient = (signal) => AbortSignal.any([AbortSignal.timeout(PATIENCE), ...(signal ? [signal] : [])]);

/**
 * Reads a resource. The same object is returned for as long as the resource has the same `ETag`. If the server cannot
 * be reached or asks for patience, it waits and tries again, unless `wait` is false.
 */
export async function get(path, { signal, wait = true } = {}) {
  for (;;) {
    const known = tags.get(path);
    try {
      const begun = await early(path)?.catch(() => null);
      if (begun && !key) return await taken(path, begun);
      const response = await send('GET', path, { signal: patient(signal), headers: known ? { 'if-none-match': known.tag } : {} });
      if (response.status === 304 && known) return known.body;
      const body = await answered(response);
      const tag = response.headers.get('etag');
      if (tag) remember(path, tag, body);
      return body;
    } catch (problem) {
      // With many readers the server may ask some of them to come back a moment later.
      const again = problem.code === 'unreachable' || problem.code === 'unavailable' || problem.status === 429;
      if (!wait || !again) throw problem;
      await back(signal, problem);
    }
  }
}

/** What was asked at the start. */
async function taken(path, { response, body }) {
  if (body === undefined) return answered(response);
  const tag = response.headers.get('etag');
  if (tag) remember(path, tag, body);
  return body;
}

/** What was asked at the start, if it has come: then it can be shown at once. */
export function readAlready(path) {
  const found = key || path === null ? undefined : arrived(path);
  if (!found) return undefined;
  early(path);
  taken(path, found);
  return found.body;
}

/** Creates or changes something. With `once`, a repetition of the same call has no further effect. */
async function write(method, path, body, { signal, once, headers = {} } = {}) {
  const sent = body === undefined ? {} : { 'content-type': 'application/json' };
  const repeat = once ? { 'idempotency-key': once } : {};
  return answered(await send(method, path, {
    signal, body: body === undefined ? undefined : JSON.stringify(body), headers: { ...sent, ...repeat, ...headers },
  }));
}

export const post = (path, body, options) => write('POST', path, body, options);
export const put = (path, body, options) => write('PUT', path, body, options);
export const del = (path, options) => write('DELETE', path, undefined, options);

/** A new value for `once`. */
export function onceKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return `ui-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/**
 * Sends a file. `onProgress` gets the bytes sent and their total; after the last byte the server still checks the rows.
 */
export function upload(path, file, { headers = {}, onProgress, signal } = {}) {
  return new Promise((resolve, reject) => {
    // Only XMLHttpRequest reports how much was sent.
    const request = new XMLHttpRequest();
    request.open('POST', path);
    for (const [name, value] of Object.entries({ ...authorization(), ...headers })) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => onProgress?.(event.loaded, event.total);
    request.onerror = () => {
      lost();
      reject(unreachable());
    };
    request.onabort = () => reject(new Problem({ code: 'aborted', detail: 'The upload was canceled. Nothing was stored.' }));
    request.onload = () => {
      const named = ['x-request-id', 'retry-after'].map((name) => [name, request.getResponseHeader(name)]);
      const response = new Response(request.status === 204 ? null : request.responseText, {
        status: request.status, headers: named.filter(([, value]) => value),
      });
      answered(response).then(resolve, reject);
    };
    signal?.addEventListener('abort', () => request.abort(), { once: true });
    if (signal?.aborted) request.abort();
    else request.send(file);
  });
}

/** Opens an event stream after event `after`. The response's body is left to the caller. */
export async function openStream(path, after, signal) {
  const headers = { accept: 'text/event-stream', ...(after ? { 'last-event-id': String(after) } : {}) };
  const response = await send('GET', path, { headers, signal });
  if (!response.ok) await answered(response);
  return response;
}

/** Downloads what an API path answers as a file; a plain link could not send the key. */
export async function download(path, name) {
  const response = await send('GET', path);
  if (!response.ok) return answered(response);
  const link = document.createElement('a');
  link.href = URL.createObjectURL(await response.blob());
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  return null;
}

const PROBE_FIRST = 500;
const PROBE_MOST = 5000;
let probing = null;

/** Notes that the server does not answer, and probes it until it does. */
function lost() {
  connection.set('offline');
  probing ||= probe();
}

async function probe() {
  for (let pause = PROBE_FIRST; ; pause = Math.min(pause * 1.6, PROBE_MOST)) {
    await new Promise((resolve) => setTimeout(resolve, pause));
    try {
      const response = await fetch('/readyz', { cache: 'no-store', credentials: 'omit' });
      if (response.ok) break;
    } catch {
      // Still away.
    }
  }
  probing = null;
  connection.set('online');
}

/** Returns when the server can be reached again, or after the pause that a 503 asks for. */
function back(signal, problem) {
  return new Promise((resolve, reject) => {
    const aborted = () => reject(new Problem({ code: 'aborted' }));
    if (signal?.aborted) return aborted();
    signal?.addEventListener('abort', aborted, { once: true });
    if (problem.code !== 'unreachable') return void setTimeout(resolve, (problem.retryAfter || 1) * 1000);
    if (connection.get() === 'online') return void resolve();
    const stop = connection.subscribe((state) => {
      if (state !== 'online') return;
      stop();
      resolve();
    });
    return undefined;
  });
}
