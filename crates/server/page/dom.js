// Elements, made of text nodes and attributes only: nothing here reads markup.

/** The element of the page with this id. */
export const byId = (id) => document.getElementById(id);

/** An element. Functions are listeners (`onclick`), `true` is an attribute without value, `false` and nothing none; children may be lists. */
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === 'function') node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) node.append(child);
  return node;
}

/** An element of a formula. */
export function mathElement(tag, attributes = {}, ...children) {
  const node = document.createElementNS('http://www.w3.org/1998/Math/MathML', tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** A button that says what it does. */
export function button(text, onclick, properties = {}) {
  return element('button', { type: 'button', onclick, ...properties }, text);
}

let hiding;

/** One line about what was done; it goes by itself. */
export function say(text) {
  byId('status').textContent = text;
  clearTimeout(hiding);
  hiding = setTimeout(() => (byId('status').textContent = ''), 8000);
}

/** Puts text on the clipboard, also where pages have no access to it (addresses without TLS). */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const active = document.activeElement;
    const field = element('textarea', { class: 'offscreen', readonly: true });
    field.value = text;
    (document.querySelector('dialog[open]') ?? document.body).append(field);
    field.select();
    const done = document.execCommand('copy');
    field.remove();
    active?.focus();
    if (!done) return say('The browser does not let this page copy.');
  }
  say('Copied.');
}

/** Gives a text to the user as a file. */
export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  element('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Asks for a word (if `value` is given) or a yes. Gives the word or true, and null if it was cancelled. */
export function ask(title, ok, value) {
  const [dialog, form, field] = [byId('ask'), byId('ask-form'), byId('ask-field')];
  byId('ask-title').textContent = title;
  byId('ask-ok').textContent = ok;
  byId('ask-label').hidden = value === undefined;
  field.value = value ?? '';
  return new Promise((resolve) => {
    let answer = null;
    form.onsubmit = (event) => {
      event.preventDefault();
      answer = value === undefined ? true : field.value.trim();
      dialog.close();
    };
    byId('ask-cancel').onclick = () => dialog.close();
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
    if (value === undefined) byId('ask-cancel').focus();
    else field.select();
  });
}
