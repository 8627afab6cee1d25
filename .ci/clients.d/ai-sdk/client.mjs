// What people do with the AI SDK, against a server whose address is the first argument.
import assert from 'node:assert';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateObject, generateText, streamText, tool } from 'ai';
import { z } from 'zod';

const provider = createOpenAICompatible({
  name: 'local', baseURL: `${process.argv[2]}/v1`, apiKey: 'key', includeUsage: true, supportsStructuredOutputs: true,
});
const asked = { model: provider('any'), prompt: 'Hello', temperature: 0, maxOutputTokens: 8, maxRetries: 0 };

const whole = await generateText(asked);
assert.equal(whole.usage.outputTokens, 8);
assert.equal(whole.finishReason, 'length');
assert.ok(whole.text.length > 0);

const stream = streamText(asked);
let text = '';
for await (const piece of stream.textStream) text += piece;
assert.equal(text, whole.text);
const usage = await stream.usage;
assert.equal(usage.outputTokens, 8);
assert.equal(usage.inputTokens, whole.usage.inputTokens);

// Leaving in the middle.
const controller = new AbortController();
const endless = streamText({ ...asked, maxOutputTokens: undefined, abortSignal: controller.signal, onError: () => {} });
try {
  for await (const _ of endless.textStream) controller.abort();
} catch (error) {
  assert.equal(error.name, 'AbortError');
}

const { object } = await generateObject({ ...asked, maxOutputTokens: 200, schema: z.object({ wet: z.boolean() }) });
assert.equal(typeof object.wet, 'boolean');

const now = tool({ description: 'The time', inputSchema: z.object({ hour: z.boolean() }) });
const called = await generateText({ ...asked, maxOutputTokens: 200, tools: { now }, toolChoice: 'required' });
assert.equal(called.toolCalls[0].toolName, 'now');
assert.equal(typeof called.toolCalls[0].input.hour, 'boolean');
console.log(`the AI SDK: ok; ${JSON.stringify(text)}`);
