// What the page does with conversations, files and streams, without a browser.
import assert from 'node:assert/strict';
import test from 'node:test';
import { goOn, settle, summary, take, written } from './page/answer.js';
import { add, newConversation, path, prompt, search, show, titleOf, versions } from './page/conversation.js';
import { events } from './page/events.js';
import { read, write } from './page/transfer.js';

const texts = (conversation) => path(conversation).map(({ content }) => content);

test('versions of messages', () => {
  const chat = newConversation('Be brief');
  const question = add(chat, null, 'user', 'Why?');
  const first = add(chat, question.id, 'assistant', 'Because.');
  const again = add(chat, question.id, 'assistant', 'No idea.');
  const more = add(chat, again.id, 'user', 'Think!');
  assert.deepEqual(texts(chat), ['Why?', 'No idea.', 'Think!']);
  assert.deepEqual(versions(chat, first), [first, again]);
  show(chat, first);
  assert.deepEqual(texts(chat), ['Why?', 'Because.']);
  show(chat, again);
  assert.equal(chat.head, more.id);
  again.reasoning = 'hm';
  const empty = add(chat, more.id, 'assistant', '');
  const last = add(chat, empty.id, 'user', '?');
  assert.deepEqual(prompt(chat, last), [
    { role: 'system', content: 'Be brief' },
    { role: 'user', content: 'Why?' },
    { role: 'assistant', content: 'No idea.', reasoning_content: 'hm' },
    { role: 'user', content: 'Think!' },
  ]);
  assert.equal(chat.title, 'Why?');
  assert.equal(Array.from(titleOf('é'.repeat(100))).length, 60);
});

test('search', () => {
  const chat = newConversation();
  add(chat, null, 'user', 'Tell me of the Red Fox, please');
  assert.deepEqual(search(chat, 'fox tell'), { before: 'Tell me of the Red ', match: 'Fox', after: ', please' });
  assert.equal(search(chat, 'fox wolf'), null);
  assert.ok(search(chat, ''));
});

test('files', () => {
  const chat = newConversation('s');
  const question = add(chat, null, 'user', 'a');
  Object.assign(add(chat, question.id, 'assistant', 'b'), { spent: { rate: 2.5 }, reasoning: 'r', state: 'length', model: 'fox' });
  chat.model = 'owl';
  assert.deepEqual(read(write([chat])), [chat]);
  const file = (conversations, more = {}) => JSON.stringify({ format: 'kernloom-chats', version: 1, conversations, ...more });
  const one = (messages, more = {}) => file([{ id: 'x', messages, ...more }]);
  const message = { id: 'm', parent: null, role: 'user', content: 'hi' };
  for (const [text, problem] of [
    ['{', /not JSON/],
    ['null', /format/],
    ['[]', /format/],
    [file([], { version: 2 }), /version is 2/],
    [file({}), /no list of conversations/],
    [file([null]), /chat 1: no list/],
    [one([{ ...message, content: 5 }]), /chat 1: content is not text/],
    [one([{ ...message, role: 'system' }]), /role "system"/],
    [one([{ ...message, id: '<b>' }]), /no id/],
    [one([message, message]), /two messages/],
    [one([{ ...message, parent: 'm' }]), /follows one that is not there/],
    [one([], { id: '../x' }), /no id/],
    [one([], { title: {} }), /title is not text/],
    [one([], { model: 1 }), /model is not text/],
    [one([{ ...message, model: {} }]), /model is not text/],
  ]) {
    assert.throws(() => read(text), problem, text);
  }
  const [taken] = read(one([{ ...message, state: 'running', error: 'x', spent: { rate: 'fast', generated: 3 }, evil: 1 }], { head: 'none', __proto__: { y: 1 } }));
  assert.deepEqual({ ...taken.messages[0], created: 0 }, { ...message, reasoning: '', created: 0, state: 'stopped', spent: { generated: 3 } });
  assert.equal(taken.head, 'm');
});

test('events, however they are cut', async () => {
  const bytes = new TextEncoder().encode(': ping\n\ndata: {"a":"é"}\r\n\r\ndata:x\ndata: y\n\nid: 1\n\ndata: [DONE]\n\n');
  for (const size of [1, 2, 7, 1000]) {
    const pieces = Array.from({ length: Math.ceil(bytes.length / size) }, (_, i) => bytes.slice(i * size, (i + 1) * size));
    const got = [];
    for await (const data of events(ReadableStream.from(pieces))) got.push(data);
    assert.deepEqual(got, ['{"a":"é"}', 'x\ny', '[DONE]']);
  }
});

test('an answer from its chunks', () => {
  const message = { content: '', reasoning: '', state: 'running' };
  const delta = (delta, more) => take(message, { choices: [{ index: 0, delta, finish_reason: null }], ...more });
  delta({ role: 'assistant', content: null });
  delta({}, { prompt_progress: { total: 9, cache: 2, processed: 4, time_ms: 1 } });
  assert.equal(message.progress.processed, 4);
  delta({ reasoning_content: 'hm' });
  assert.equal(message.progress, undefined);
  delta({ content: 'Yes' }, { timings: { cache_n: 2, prompt_n: 7, predicted_n: 3, prompt_per_second: 100, predicted_per_second: 12.345 } });
  take(message, { choices: [{ index: 0, delta: {}, finish_reason: 'length' }] });
  take(message, { choices: [], usage: { prompt_tokens: 9, completion_tokens: 4 } });
  assert.equal(message.finish, 'length');
  settle(message, 'length');
  assert.deepEqual([message.content, message.reasoning, message.state, message.finish], ['Yes', 'hm', 'length', undefined]);
  assert.equal(summary(message.spent), '4 tokens · 12.3 tok/s · prompt 9 (2 cached, 100 tok/s)');
  assert.equal(summary(undefined), '');
  // Going on adds to it.
  Object.assign(message.spent, { thoughtMs: 1000 });
  goOn(message);
  delta({ content: ', so.' }, { timings: { cache_n: 9, prompt_n: 4, predicted_n: 2, prompt_per_second: 100, predicted_per_second: 12 } });
  settle(message, 'done');
  assert.deepEqual([message.content, written(message), message.spent.thoughtMs], ['Yes, so.', 6, 1000]);
  assert.equal(summary(message.spent), '6 tokens · 12.0 tok/s · prompt 13 (9 cached, 100 tok/s)');
});
