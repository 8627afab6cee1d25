// From the chunks of a stream to a message: text, thoughts, progress, speed.

/** What is asked of the server for a message. */
export function body(messages, sampling, thinking, model) {
  const asked = {
    ...(model && { model }),
    messages,
    stream: true,
    stream_options: { include_usage: true },
    timings_per_token: true,
    return_progress: true,
    ...sampling,
  };
  if (thinking) asked.chat_template_kwargs = { enable_thinking: thinking === 'on' };
  return asked;
}

/** Adds a chunk to a message. */
export function take(message, chunk) {
  if (chunk.prompt_progress) message.progress = chunk.prompt_progress;
  if (chunk.timings) message.spent = { ...before(message), ...spent(chunk.timings) };
  if (chunk.usage) message.spent = { ...message.spent, prompt: chunk.usage.prompt_tokens, generated: chunk.usage.completion_tokens };
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const { content, reasoning_content: reasoning } = choice.delta ?? {};
  const now = Date.now();
  if (reasoning) {
    message.reasoning += reasoning;
    message.thinkingSince ??= now;
    message.thoughtFor = (message.spent?.thoughtMs ?? 0) + now - message.thinkingSince;
  }
  if (content) message.content += content;
  if (reasoning || content) delete message.progress;
  if (choice.finish_reason) message.finish = choice.finish_reason;
}

/** Ends a message: what only matters while it runs goes. */
export function settle(message, state) {
  message.state = state;
  if (message.thoughtFor !== undefined) message.spent = { ...message.spent, thoughtMs: message.thoughtFor };
  for (const name of ['progress', 'thinkingSince', 'thoughtFor', 'finish']) delete message[name];
}

/** Prepares a message that is to go on where it ended: what it took so far counts. */
export function goOn(message) {
  message.spent = { ...message.spent, earlier: written(message), generated: 0 };
}

/** Tokens of a message, in however many parts it was written. */
export const written = ({ spent = {} }) => (spent.earlier ?? 0) + (spent.generated ?? 0);

/** What stays of what a message took when it goes on. */
function before({ spent: { earlier, thoughtMs } = {} }) {
  return { ...(earlier !== undefined && { earlier }), ...(thoughtMs !== undefined && { thoughtMs }) };
}

function spent(timings) {
  return {
    prompt: timings.cache_n + timings.prompt_n,
    cached: timings.cache_n,
    generated: timings.predicted_n,
    promptRate: timings.prompt_per_second,
    rate: timings.predicted_per_second,
  };
}

const count = (number) => Math.round(number).toLocaleString('en');

/** A number of tokens in words. */
export const tokens = (number) => `${count(number)} ${number === 1 ? 'token' : 'tokens'}`;

/** Tokens a second, as people read them. */
const speed = (rate) => (rate >= 100 ? count(rate) : rate.toFixed(1));

/** One line about what a message took. */
export function summary({ prompt = 0, cached = 0, generated = 0, earlier = 0, promptRate = 0, rate = 0 } = {}) {
  const parts = [];
  if (generated + earlier) parts.push(tokens(generated + earlier));
  if (rate > 0) parts.push(`${speed(rate)} tok/s`);
  if (prompt) {
    const how = [cached > 0 ? `${count(cached)} cached` : '', promptRate > 0 ? `${speed(promptRate)} tok/s` : ''].filter(Boolean);
    parts.push(`prompt ${count(prompt)}${how.length ? ` (${how.join(', ')})` : ''}`);
  }
  return parts.join(' · ');
}

/** How full the context is after a message. */
export const filled = (message) => (message?.spent ? (message.spent.prompt ?? 0) + (message.spent.generated ?? 0) : 0);
