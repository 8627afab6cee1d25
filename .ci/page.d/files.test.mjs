// Text files that go with a message, without a browser.
import assert from 'node:assert/strict';
import test from 'node:test';
import { add, newConversation, prompt } from './page/conversation.js';
import { LARGEST, nameOf, readFile, withFiles } from './page/files.js';
import { parse } from './page/markdown.js';
import { read, write } from './page/transfer.js';

const file = (content, name = 'a.txt', type = '') => new File([content], name, { type });

test('text is taken by what is in it, all else is refused in one line', async () => {
  assert.deepEqual(await readFile(file('\ufeffé\n', 'b.rs', 'application/octet-stream')), { name: 'b.rs', text: 'é\n' });
  assert.deepEqual(await readFile(file('<svg/>', 'c.svg', 'image/svg+xml')), { name: 'c.svg', text: '<svg/>' });
  assert.equal((await readFile(file('x'.repeat(LARGEST)))).text.length, LARGEST);
  for (const [refused, problem] of [
    [file('x', 'p.png', 'image/png'), /^p\.png is an image; only text is read here\.$/],
    [file('x'.repeat(LARGEST + 1)), /^a\.txt is too large: 257 KB, and at most 256 KB are taken\.$/],
    [file('a\0b'), /^a\.txt is not a text file/],
    [file(new Uint8Array([0xff, 0xfe, 0x41])), /^a\.txt is not a text file/],
    [file('a\0', 'x\n`y`\u202e.txt'), /^x y \.txt is not/],
  ]) {
    await assert.rejects(readFile(refused), { message: problem });
  }
  assert.equal(nameOf('\n`'), 'file');
});

test('a model reads them in fences that nothing in them ends', () => {
  assert.equal(withFiles({ content: 'hi' }), 'hi');
  assert.equal(withFiles({ content: '', files: [{ name: 'a.rs', text: 'x\n' }] }), 'File `a.rs`:\n```rs\nx\n```');
  const text = '```\n`````\nx';
  const said = withFiles({ content: 'What is it?', files: [{ name: 'a', text }, { name: 'b.md', text: '' }] });
  const blocks = parse(said);
  assert.deepEqual(blocks.map(({ type }) => type), ['paragraph', 'code', 'paragraph', 'code', 'paragraph']);
  assert.equal(blocks[1].text, text);
});

test('they stay with their message', () => {
  const chat = newConversation();
  const question = add(chat, null, 'user', '', [{ name: 'a.txt', text: 'x' }]);
  const answer = add(chat, question.id, 'assistant', 'y');
  assert.equal(chat.title, 'a.txt');
  assert.deepEqual(prompt(chat, answer), [{ role: 'user', content: 'File `a.txt`:\n```txt\nx\n```' }]);
  assert.deepEqual(read(write([chat])), [chat]);
  const evil = (files) => JSON.stringify({ format: 'kernloom-chats', version: 1, conversations: [{ id: 'x', messages: [{ id: 'm', role: 'user', content: '', files }] }] });
  assert.throws(() => read(evil([null])), /a file is not an object/);
  assert.throws(() => read(evil([{ name: 'a', text: 5 }])), /text of a file is not text/);
  assert.deepEqual(read(evil([{ name: 'a\n`', text: '', more: 1 }]))[0].messages[0].files, [{ name: 'a', text: '' }]);
});
