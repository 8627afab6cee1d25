// A conversation is a tree of messages. Messages with the same parent are versions of one another: another answer to
// the same question, or another wording of the question. What is shown is the way from the root to `head`.

import { withFiles } from './files.js';

/** An id that no other has. */
export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, '0')).join('');

/** A conversation without messages. `model` is the one that was chosen for it. */
export function newConversation(system = '', model = '') {
  const now = Date.now();
  return { id: newId(), title: '', created: now, updated: now, system, model, head: null, messages: [] };
}

/** Adds a message below `parent` and shows it. */
export function add(conversation, parent, role, content, files = []) {
  const message = { id: newId(), parent, role, content, reasoning: '', created: Date.now(), state: 'done', ...(files.length && { files }) };
  conversation.messages.push(message);
  conversation.head = message.id;
  conversation.updated = Date.now();
  if (!conversation.title && role === 'user') conversation.title = titleOf(content || files[0]?.name || '');
  return message;
}

/** The message with this id. */
export const find = (conversation, id) => conversation.messages.find((message) => message.id === id);

/** The messages that are shown. */
export function path(conversation) {
  const known = new Map(conversation.messages.map((message) => [message.id, message]));
  const out = [];
  for (let at = known.get(conversation.head); at && out.length <= known.size; at = known.get(at.parent)) out.push(at);
  return out.reverse();
}

/** A message and its other versions, oldest first. */
export const versions = (conversation, message) => conversation.messages.filter((other) => other.parent === message.parent);

/** Shows a version of a message, and below it what came last. */
export function show(conversation, message) {
  let leaf = message;
  for (let next = leaf; next; next = conversation.messages.findLast((other) => other.parent === leaf.id)) leaf = next;
  conversation.head = leaf.id;
}

/** What a server is asked to answer: all that leads to `message`, which is part of it only if it is to go on. */
export function prompt(conversation, message, goesOn = false) {
  const before = path({ ...conversation, head: goesOn ? message.id : message.parent });
  const system = conversation.system.trim() ? [{ role: 'system', content: conversation.system }] : [];
  const said = before.map(({ role, reasoning, ...message }) => ({ role, content: withFiles(message), ...(reasoning && { reasoning_content: reasoning }) }));
  return [...system, ...said.filter((message) => message.content || message.reasoning_content)];
}

/** A title from what was asked. */
export function titleOf(text) {
  const line = text.trim().split('\n', 1)[0].replace(/\s+/g, ' ');
  const letters = Array.from(line);
  return letters.length > 60 ? `${letters.slice(0, 59).join('')}…` : line;
}

/** Where all words of a query are found: `null` if not, else a piece of text around the first of them. */
export function search(conversation, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const texts = [conversation.title, ...conversation.messages.map((message) => message.content)];
  const lower = texts.map((text) => text.toLowerCase());
  if (!words.every((word) => lower.some((text) => text.includes(word)))) return null;
  const at = lower.findIndex((text, index) => index > 0 && words.some((word) => text.includes(word)));
  if (at < 0 || words.length === 0) return { before: '', match: '', after: '' };
  const word = words.find((word) => lower[at].includes(word));
  const start = lower[at].indexOf(word);
  const end = start + word.length;
  const clean = (text) => text.replace(/\s+/g, ' ');
  const before = clean(texts[at].slice(Math.max(0, start - 24), start));
  return { before, match: clean(texts[at].slice(start, end)), after: clean(texts[at].slice(end, end + 60)) };
}
