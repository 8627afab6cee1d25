// Conversations as a file, and back. A file comes from anywhere: nothing of it is taken but what is known.

import { MOST as MOST_FILES, nameOf } from './files.js';

const FORMAT = 'kernloom-chats';
const MOST = 20_000;
const LONGEST_NAME = 256;

/** The text of a file with these conversations. */
export const write = (conversations) => JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1);

/** A name for such a file. */
export const fileName = (date = new Date()) => `${FORMAT}-${date.toISOString().slice(0, 10)}.json`;

/** The conversations of a file. Throws an `Error` that says what is wrong with it. */
export function read(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error('it is not JSON');
  }
  if (file?.format !== FORMAT) throw new Error(`it has no "format": "${FORMAT}"`);
  if (file.version !== 1) throw new Error(`its version is ${JSON.stringify(file.version)}, and this page reads version 1`);
  if (!Array.isArray(file.conversations)) throw new Error('it has no list of conversations');
  return file.conversations.map((value, index) => {
    try {
      return conversation(value);
    } catch (error) {
      throw new Error(`chat ${index + 1}: ${error.message}`);
    }
  });
}

function conversation(value) {
  if (!isObject(value) || !Array.isArray(value.messages)) throw new Error('no list of messages');
  if (value.messages.length > MOST) throw new Error(`more than ${MOST} messages`);
  const messages = value.messages.map(message);
  const known = new Set();
  for (const { id, parent } of messages) {
    // A parent comes before its children, so there are no circles.
    if (known.has(id)) throw new Error(`two messages have the id ${id}`);
    if (parent !== null && !known.has(parent)) throw new Error(`message ${id} follows one that is not there`);
    known.add(id);
  }
  return {
    id: id(value.id),
    title: string(value.title ?? '', 'title').slice(0, 200),
    created: time(value.created),
    updated: time(value.updated),
    system: string(value.system ?? '', 'system'),
    model: string(value.model ?? '', 'model').slice(0, LONGEST_NAME),
    head: known.has(value.head) ? value.head : (messages.at(-1)?.id ?? null),
    messages,
  };
}

function message(value) {
  if (!isObject(value)) throw new Error('a message is not an object');
  if (value.role !== 'user' && value.role !== 'assistant') throw new Error(`a message has the role ${JSON.stringify(value.role)}`);
  const out = {
    id: id(value.id),
    parent: value.parent === null || value.parent === undefined ? null : id(value.parent),
    role: value.role,
    content: string(value.content, 'content'),
    reasoning: string(value.reasoning ?? '', 'reasoning'),
    created: time(value.created),
    // Whatever ran when the file was written does not run now.
    state: ['done', 'stopped', 'length'].includes(value.state) ? value.state : 'stopped',
  };
  if (Array.isArray(value.files) && value.files.length) out.files = value.files.slice(0, MOST_FILES).map(file);
  if (value.model) out.model = string(value.model, 'model').slice(0, LONGEST_NAME);
  if (isObject(value.spent)) {
    const numbers = Object.entries(value.spent).filter(([, number]) => Number.isFinite(number));
    out.spent = Object.fromEntries(numbers.slice(0, 20));
  }
  return out;
}

function file(value) {
  if (!isObject(value)) throw new Error('a file is not an object');
  return { name: nameOf(string(value.name, 'name of a file')), text: string(value.text, 'text of a file') };
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);

const time = (value) => (Number.isFinite(value) && Math.abs(value) < 8.64e15 ? value : Date.now());

function string(value, name) {
  if (typeof value !== 'string') throw new Error(`${name} is not text`);
  return value;
}

function id(value) {
  if (typeof value !== 'string' || !/^[\w-]{1,64}$/.test(value)) throw new Error(`${JSON.stringify(value)} is no id`);
  return value;
}
