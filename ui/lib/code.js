// Text to copy: commands, digests, JSON.

import { html, useEffect, useState } from './html.js';
import { Icon } from './icons.js';

async function copy(text) {
  // The clipboard interface exists only for https and localhost.
  if (navigator.clipboard) {
    try {
      return await navigator.clipboard.writeText(text);
    } catch {
      // Not allowed; the old way may be.
    }
  }
  const area = document.createElement('textarea');
  area.value = text;
  area.setAttribute('readonly', '');
  area.className = 'offscreen';
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (!done) throw new Error('not copied');
  return undefined;
}

/** A button that copies `text`; `label` says what it copies. */
export function CopyButton({ text, label = 'Copy', compact = false }) {
  const [state, setState] = useState('');
  useEffect(() => {
    if (!state) return undefined;
    const timer = setTimeout(() => setState(''), 2000);
    return () => clearTimeout(timer);
  }, [state]);
  const onClick = () => copy(text).then(() => setState('Copied'), () => setState('Not copied; select the text'));
  return html`<button type="button" class="copy no-print" onClick=${onClick} aria-label=${compact ? label : undefined} title=${label}>
    <${Icon} name=${state === 'Copied' ? 'check' : 'copy'} size=${15} />${!compact && html`<span>${state || label}</span>`}</button><span class="offscreen" role="status">${state}</span>`;
}

/** A block of code with a copy button. `label` names it, such as `curl`. */
export const CodeBlock = ({ text, label, wrap = false }) =>
  html`<figure class="code"><figcaption><span>${label}</span><${CopyButton} text=${text} label="Copy" /></figcaption>
    <pre class=${wrap ? 'wrap' : ''} tabindex="0" aria-label=${label}><code>${text}</code></pre></figure>`;
