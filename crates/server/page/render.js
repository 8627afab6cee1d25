// Markdown to elements. All that a model wrote becomes text nodes; of addresses only safe ones become links, and nothing
// is loaded from anywhere.

import { button, copy, element } from './dom.js';
import { formula } from './formula.js';
import { highlight } from './highlight.js';
import { parseInline, safeLink } from './inline.js';
import { parse } from './markdown.js';

/** A longer code gets its colours when it is complete: it is drawn anew with each of its words. */
const LONGEST_GROWING = 10_000;

/** Draws a text. When it grows, the blocks that stay as they are keep their elements, and what is selected in them. */
export function render(container, text, grows = false) {
  const before = container.sources ?? [];
  const blocks = parse(text);
  const last = blocks.at(-1);
  if (grows && last?.type === 'code' && last.text.length > LONGEST_GROWING) Object.assign(last, { language: '', source: `growing ${last.source}` });
  blocks.forEach((block, index) => {
    if (before[index] === block.source) return;
    const node = draw(block);
    if (container.children[index]) container.children[index].replaceWith(node);
    else container.append(node);
  });
  while (container.children.length > blocks.length) container.lastElementChild.remove();
  container.sources = blocks.map((block) => block.source);
}

function draw(block) {
  switch (block.type) {
    case 'code': return code(block);
    // Headings of answers lie below those of the page.
    case 'heading': return element(`h${Math.min(6, block.level + 2)}`, {}, inline(block.text));
    case 'rule': return element('hr');
    case 'quote': return element('blockquote', {}, block.blocks.map(draw));
    case 'list': return list(block);
    case 'table': return table(block);
    default: return element('p', {}, inline(block.text));
  }
}

function code({ language, text }) {
  const coloured = highlight(text, language).map((part) => (typeof part === 'string' ? part : element('span', { class: part.kind }, part.text)));
  const head = element('div', { class: 'code-head' }, element('span', {}, language || 'text'));
  head.append(button('Copy', () => copy(text), { 'aria-label': 'Copy this code' }));
  return element('div', { class: 'code' }, head, element('pre', { tabindex: '0' }, element('code', {}, coloured)));
}

function list({ ordered, start, loose, items }) {
  const entries = items.map(({ checked, blocks }) => {
    const task = checked === null ? null : element('span', { class: 'task' }, checked ? '☑ ' : '☐ ');
    // A tight list has no paragraphs.
    const inner = blocks.flatMap((block) => (block.type === 'paragraph' && !loose ? inline(block.text) : [draw(block)]));
    return element('li', { class: checked === null ? null : 'task-item' }, task, inner);
  });
  return element(ordered ? 'ol' : 'ul', { start: ordered && start !== 1 ? start : null }, entries);
}

function table({ align, head, rows }) {
  const row = (cells, tag) =>
    element('tr', {}, cells.map((cell, at) => element(tag, { class: align[at] ? `to-${align[at]}` : null }, inline(cell))));
  const body = element('tbody', {}, rows.map((cells) => row(cells, 'td')));
  return element('div', { class: 'table', tabindex: '0' }, element('table', {}, element('thead', {}, row(head, 'th')), body));
}

const inline = (text) => drawParts(parseInline(text));

/** Parts of a line. What ends a sentence stays with the formula before it. */
function drawParts(parts) {
  const out = [];
  parts.forEach((part, index) => {
    const before = parts[index - 1];
    const [end] = typeof part === 'string' && before?.type === 'formula' && !before.display ? /^[.,;:!?)\]’”-]*/.exec(part) : [''];
    if (end) out.push(element('span', { class: 'together' }, out.pop(), end));
    out.push(drawPart(end ? part.slice(end.length) : part));
  });
  return out;
}

const TAGS = { strong: 'strong', emphasis: 'em', strike: 'del' };

function drawPart(part) {
  if (typeof part === 'string') return document.createTextNode(part);
  if (part.type === 'break') return element('br');
  if (part.type === 'code') return element('code', {}, part.text);
  if (part.type === 'link') return link(part);
  if (part.type === 'formula') return formula(part);
  return element(TAGS[part.type], {}, drawParts(part.parts));
}

/** A link; an image becomes one too, as fetching it would tell somebody that this was read. */
function link({ address, image, parts }) {
  const inner = parts.length ? drawParts(parts) : [document.createTextNode(address)];
  const href = safeLink(address);
  if (!href) return element('span', { class: 'no-link', title: 'This address is not followed.' }, inner, ` (${address})`);
  const text = image ? ['🖼 ', ...inner] : inner;
  return element('a', { href, title: href, target: '_blank', rel: 'noopener noreferrer nofollow' }, text);
}
