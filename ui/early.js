// Asks for what the page shows first while the rest of the dashboard is still on its way. `lib/api.js` takes the answers.

import { firstReads } from './lib/paths.js';

/** How everything is asked for. Answers may be private, so the browser stores none, and they are of this server only. */
export const ASKED = { cache: 'no-store', credentials: 'omit', redirect: 'error' };

const answers = new Map();

async function ask(path) {
  const response = await fetch(path, { ...ASKED, signal: AbortSignal.timeout(30_000) });
  // Problems are for the reader to understand.
  return response.ok ? { response, body: await response.json() } : { response };
}

for (const path of firstReads(window.location.pathname.replace(/(.)\/+$/, '$1'), Object.fromEntries(new URLSearchParams(window.location.search)))) {
  const answer = { coming: ask(path) };
  answer.coming.then((found) => Object.assign(answer, { found }), () => {});
  answers.set(path, answer);
}

/** The answer to a path that was asked at the start, as it comes: `{ response, body }`, the body only of a success. Once; then undefined. */
export function early(path) {
  const answer = answers.get(path);
  answers.delete(path);
  return answer?.coming;
}

/** The same if it has come and is a success; otherwise it is left for `early`. */
export const arrived = (path) => (answers.get(path)?.found?.body === undefined ? undefined : answers.get(path).found);

/** Ends when all answers have come or failed, but after `patience` milliseconds at the latest. */
export const settled = (patience) =>
  Promise.race([Promise.allSettled([...answers.values()].map((answer) => answer.coming)), new Promise((resolve) => setTimeout(resolve, patience))]);
