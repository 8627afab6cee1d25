// What people do with the openai package of npm, against a server whose address is the first argument.
import assert from 'node:assert';
import OpenAI from 'openai';
import { VERSION } from 'openai/version';

const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: 'key', maxRetries: 0 });
const messages = [{ role: 'user', content: 'Hello' }];
const model = (await client.models.list()).data[0].id;

const whole = await client.chat.completions.create({ model, messages, max_tokens: 8, temperature: 0 });
const text = whole.choices[0].message.content;
assert.equal(whole.usage.completion_tokens, 8);

const pieces = [];
const asked = { model, messages, max_tokens: 8, temperature: 0, stream: true };
for await (const chunk of await client.chat.completions.create(asked)) {
  pieces.push(chunk.choices[0]?.delta.content ?? '');
}
assert.equal(pieces.join(''), text);

// Leaving in the middle.
const controller = new AbortController();
const endless = { model, messages, stream: true, ignore_eos: true };
const stream = await client.chat.completions.create(endless, { signal: controller.signal });
for await (const _ of stream) {
  controller.abort();
}

const helper = client.chat.completions.stream({ model, messages, max_tokens: 8, temperature: 0 });
assert.equal((await helper.finalMessage()).content, text);

const response = await client.responses.create({ model, input: 'Hello', max_output_tokens: 8, temperature: 0 });
assert.ok(response.output_text.length > 0);
let delta = '';
for await (const event of await client.responses.create({ model, input: 'Hello', max_output_tokens: 8, temperature: 0, stream: true })) {
  if (event.type === 'response.output_text.delta') delta += event.delta;
}
assert.equal(delta, response.output_text);

await assert.rejects(client.chat.completions.create({ model, messages: [] }), OpenAI.BadRequestError);
console.log(`openai ${VERSION} (npm): ok`);
