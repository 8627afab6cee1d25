// What people do with the ollama package of npm, against a server whose address is the first argument and which lets models
// of a hub on this machine come and go.
import assert from 'node:assert';
import { Ollama } from 'ollama';

const [host, model] = process.argv.slice(2);
const client = new Ollama({ host });
const messages = [{ role: 'user', content: 'Hello' }];
const options = { num_predict: 8, temperature: 0 };

assert.deepEqual((await client.list()).models.map((one) => one.name), [`${model}:latest`]);
assert.equal((await client.ps()).models[0].size_vram, 0);
assert.ok((await client.show({ model })).template.length > 0);
assert.match((await client.version()).version, /^\d+\.\d+\.\d+/);

const whole = await client.chat({ model, messages, options });
assert.equal(whole.eval_count, 8);
let text = '';
let last;
for await (const part of await client.chat({ model, messages, options, stream: true })) {
  text += part.message.content;
  last = part;
}
assert.equal(text, whole.message.content);
assert.ok(last.done && last.done_reason === 'length' && last.total_duration > 0);

// Leaving in the middle. A tiny model may fill its context before a busy machine has read the first part.
let left = false;
for (let attempt = 0; attempt < 5 && !left; attempt++) {
  const endless = await client.chat({ model, messages, options: { num_predict: -1 }, stream: true });
  try {
    for await (const _ of endless) endless.abort();
  } catch (error) {
    assert.equal(error.name, 'AbortError');
    left = true;
  }
}
assert.ok(left, 'every text was over before it could be left');

const format = { type: 'object', properties: { wet: { type: 'boolean' } }, required: ['wet'] };
const paint = await client.chat({ model, messages, format, options: { num_predict: 100 } });
assert.equal(typeof JSON.parse(paint.message.content).wet, 'boolean');
const tool = { type: 'function', function: { name: 'now', description: 'The time', parameters: { type: 'object', properties: {} } } };
assert.equal((await client.chat({ model, messages, tools: [tool], think: false, options })).message.role, 'assistant');

const made = await client.generate({ model, prompt: 'Hello', options });
let response = '';
for await (const part of await client.generate({ model, prompt: 'Hello', options, stream: true })) response += part.response;
assert.equal(response, made.response);
assert.equal((await client.embed({ model, input: ['a', 'b'] })).embeddings.length, 2);
assert.ok((await client.embeddings({ model, prompt: 'a' })).embedding.length > 0);
await assert.rejects(client.generate({ model, prompt: 'a', suffix: 'b' }), /suffix/);

const statuses = [];
for await (const part of await client.pull({ model: 'user/tiny-GGUF:Q4_0', stream: true })) statuses.push(part.status);
assert.equal(statuses.at(-1), 'success');
assert.equal((await client.list()).models.length, 2);
await client.delete({ model: 'user/tiny-GGUF:Q4_0' });
assert.equal((await client.list()).models.length, 1);
await assert.rejects(client.pull({ model: 'user/none' }), /no repository/);
console.log('ollama (npm): ok');
