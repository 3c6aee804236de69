// Live data: a hook that reads and polls a resource, and one that follows the events of a job. Both rest while the tab is
// hidden: browsers allow few connections per server, and nobody looks.

import { useCallback, useEffect, useRef, useState } from './html.js';
import { connection, get, openStream, readAlready, session } from './api.js';

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 8000;

const visible = () => document.visibilityState !== 'hidden';

/** Returns when the tab is visible, or the signal is aborted. */
function shown(signal) {
  if (visible()) return Promise.resolve();
  return new Promise((resolve) => {
    const check = () => visible() && resolve();
    document.addEventListener('visibilitychange', check, { signal });
    signal.addEventListener('abort', resolve, { once: true });
  });
}

const sleep = (milliseconds, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve(); }, { once: true });
  });

/**
 * Reads `path` and, with `every`, reads it again after so many milliseconds; `every` may be a function of the data, which
 * returns 0 to stop. Returns `{ data, problem, loading, refresh }`. Data stays while newer data is read or cannot be.
 * A null path reads nothing.
 */
export function useResource(path, { every = 0 } = {}) {
  const [state, setState] = useState(() => ({ path, data: readAlready(path), problem: null }));
  const [turn, setTurn] = useState(0);
  const pace = useRef(every);
  pace.current = every;
  useEffect(() => {
    if (path === null) return undefined;
    const control = new AbortController();
    const { signal } = control;
    // What the first rendering has shown already is not read again.
    let begun = turn === 0 && state.path === path ? state.data : undefined;
    let last;
    const run = async () => {
      for (;;) {
        try {
          const data = begun ?? await get(path, { signal });
          begun = undefined;
          last = data;
          if (signal.aborted) return;
          setState((old) => (old.path === path && old.data === data && !old.problem ? old : { path, data, problem: null }));
        } catch (problem) {
          if (signal.aborted || problem.code === 'aborted') return;
          setState((old) => ({ path, data: old.path === path ? old.data : undefined, problem }));
        }
        const pause = typeof pace.current === 'function' ? pace.current(last) : pace.current;
        if (!pause) return;
        await sleep(pause, signal);
        await shown(signal);
        if (signal.aborted) return;
      }
    };
    run();
    // After a restart of the server or a sign-in everything is read again.
    const again = (wanted) => (now) => now === wanted && setTurn((count) => count + 1);
    const stops = [connection.subscribe(again('online')), session.subscribe(again('signed_in'))];
    return () => {
      control.abort();
      stops.forEach((stop) => stop());
    };
  }, [path, turn]);
  const own = state.path === path;
  const refresh = useCallback(() => setTurn((count) => count + 1), []);
  return {
    data: own ? state.data : undefined,
    problem: own ? state.problem : null,
    loading: path !== null && (!own || (state.data === undefined && !state.problem)),
    refresh,
  };
}

const ENDED = new Set(['succeeded', 'failed', 'cancelled']);

/** The events in a stream's text: the complete ones, and the rest of the text. */
export function parseEvents(text) {
  const blocks = text.replace(/\r\n/g, '\n').split('\n\n');
  const rest = blocks.pop();
  const events = [];
  for (const block of blocks) {
    const data = block.split('\n').filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart());
    if (data.length > 0) events.push(JSON.parse(data.join('\n')));
  }
  return { events, rest };
}

async function readStream(response, onEvents, signal) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  signal.addEventListener('abort', () => reader.cancel().catch(() => {}), { once: true });
  for (let text = ''; ; ) {
    const { done, value } = await reader.read();
    if (done) return;
    const { events, rest } = parseEvents(text + value);
    text = rest;
    if (events.length > 0) onEvents(events);
  }
}

/**
 * Follows the events of a job until its last one, from event `after` on: `onEvents` gets each batch. It reconnects if the
 * stream breaks, closes it while the tab is hidden, and never shows an event twice.
 */
export async function followJob(id, { after = 0, onEvents, signal }) {
  let last = after;
  let ended = false;
  let pause = FIRST_PAUSE;
  const take = (events) => {
    const fresh = events.filter((event) => event.id > last);
    if (fresh.length === 0) return;
    last = fresh[fresh.length - 1].id;
    ended = fresh.some((event) => ENDED.has(event.event));
    pause = FIRST_PAUSE;
    onEvents(fresh);
  };
  while (!ended && !signal.aborted) {
    await shown(signal);
    if (signal.aborted) return;
    const turn = new AbortController();
    const stop = () => turn.abort();
    const hide = () => !visible() && turn.abort();
    signal.addEventListener('abort', stop, { once: true });
    document.addEventListener('visibilitychange', hide);
    try {
      const response = await openStream(`/v1/jobs/${id}/events`, last, turn.signal);
      await readStream(response, take, turn.signal);
      // The stream ends without a last event if the server shuts down or the job had ended before.
      if (!ended) ended = ENDED.has((await get(`/v1/jobs/${id}`, { signal })).status) && last > 0 && !(await missed(id, last, take, signal));
    } catch (problem) {
      if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) throw problem;
    } finally {
      signal.removeEventListener('abort', stop);
      document.removeEventListener('visibilitychange', hide);
      turn.abort();
    }
    if (ended || signal.aborted) return;
    await sleep(pause, signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE);
  }
}

/** Takes the events after `last` of a job that has ended; whether there were any. */
async function missed(id, last, take, signal) {
  const page = await get(`/v1/jobs/${id}/events?after=${last}&limit=100`, { signal });
  take(page.data);
  return page.data.length > 0;
}

/** The events of a job so far, kept up to date until the job ends. `enabled` false follows nothing. */
export function useJobEvents(id, { enabled = true } = {}) {
  const [events, setEvents] = useState([]);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    setEvents([]);
    setProblem(null);
    if (!enabled) return undefined;
    const control = new AbortController();
    const onEvents = (fresh) => setEvents((old) => [...old, ...fresh]);
    followJob(id, { onEvents, signal: control.signal }).catch((failed) => !control.signal.aborted && setProblem(failed));
    return () => control.abort();
  }, [id, enabled]);
  return { events, problem };
}
