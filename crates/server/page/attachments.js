// The files that go with the next message: chosen with a button, dropped on the page or pasted.

import { button, byId, element, say } from './dom.js';
import { MOST, readFile, sizeOf } from './files.js';

let attached = [];

/** A file as it stands in a message: its name, and its text if somebody wants to see it. */
export function chip({ name, text }) {
  const title = element('summary', {}, element('span', { class: 'file-name' }, name), ` ${sizeOf(text)}`);
  const shown = element('details', { class: 'file' }, title);
  // Long texts are drawn only for whoever opens them.
  shown.addEventListener('toggle', () => shown.open && !shown.querySelector('pre') && shown.append(element('pre', { tabindex: '0' }, text)));
  return shown;
}

function draw() {
  const chips = attached.map((file, index) =>
    element('li', {}, element('span', { class: 'file-name' }, file.name), ` ${sizeOf(file.text)} `, button('✕', () => remove(index), { 'aria-label': `Leave ${file.name} out` })));
  byId('attached').replaceChildren(...chips);
  byId('attached').hidden = chips.length === 0;
}

function remove(index) {
  attached.splice(index, 1);
  draw();
  (byId('attached').querySelector('button') ?? byId('prompt')).focus();
}

async function add(files) {
  const problems = [];
  for (const file of files) {
    if (attached.length >= MOST) {
      problems.push(`At most ${MOST} files go with a message.`);
      break;
    }
    try {
      attached.push(await readFile(file));
    } catch (error) {
      // A file that went away meanwhile is not read either.
      problems.push(error.message);
    }
  }
  draw();
  say(problems.join(' '));
  byId('prompt').focus();
}

/** Whether there is any. */
export const areThere = () => attached.length > 0;

/** Those for the message that is sent now. */
export function takeAll() {
  const taken = attached;
  attached = [];
  draw();
  return taken;
}

const hasFiles = (event) => event.dataTransfer?.types.includes('Files');

export function start() {
  byId('attach').onclick = () => byId('attach-file').click();
  byId('attach-file').onchange = async (event) => {
    await add([...event.target.files]);
    event.target.value = '';
  };
  byId('prompt').onpaste = (event) => {
    if (event.clipboardData.files.length === 0 || event.clipboardData.types.includes('text/plain')) return;
    event.preventDefault();
    add([...event.clipboardData.files]);
  };
  const mark = (on) => document.body.classList.toggle('dropping', on);
  addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    mark(!document.querySelector('dialog[open]'));
  });
  addEventListener('dragleave', (event) => event.relatedTarget ?? mark(false));
  addEventListener('drop', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    mark(false);
    if (!document.querySelector('dialog[open]')) add([...event.dataTransfer.files]);
  });
}
