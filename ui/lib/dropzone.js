// A place to drop one file on, or to choose it with.

import { html, classes, useRef, useState } from './html.js';
import { Icon } from './icons.js';

/** Calls `onFile` with the file that is dropped or chosen. */
export function Dropzone({ onFile, title, children }) {
  const [over, setOver] = useState(false);
  const [many, setMany] = useState(false);
  const input = useRef(null);
  const take = (files) => {
    setMany(files.length > 1);
    if (files.length === 1) onFile(files[0]);
  };
  const hold = (event) => {
    event.preventDefault();
    setOver(true);
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    take(event.dataTransfer.files);
  };
  return html`<div class=${classes('drop', over && 'drop-over')} onDragOver=${hold} onDragEnter=${hold} onDragLeave=${() => setOver(false)} onDrop=${drop}>
    <${Icon} name="upload" size=${36} />
    <h2>${title}</h2>
    <div class="empty-text">${children}</div>
    ${many && html`<p class="field-error">Drop one file at a time. Further files are appended to the dataset later.</p>`}
    <div class="actions">
      <button type="button" class="button button-primary" onClick=${() => input.current.click()}>Choose a file</button>
      <input ref=${input} type="file" class="offscreen" tabindex="-1" aria-label="Log file" onChange=${(event) => take(event.target.files)} />
    </div>
  </div>`;
}
