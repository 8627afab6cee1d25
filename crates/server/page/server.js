// The server, as this page asks it.

import { events } from './events.js';
import { key } from './preferences.js';

/** Why the server gave no answer. `kind` is `unreachable`, `lost`, `key`, `loading`, `busy`, `context` or `refused`. */
export class ServerError extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const UNREACHABLE = 'The server cannot be reached. Is it running?';
const LOST = 'The connection to the server was lost in the middle of the answer.';

async function request(path, options = {}) {
  const headers = { ...options.headers };
  if (key()) headers.Authorization = `Bearer ${key()}`;
  let response;
  try {
    // Relative to the page, so that it also works below a path of a proxy.
    response = await fetch(new URL(path, document.baseURI), { ...options, headers, cache: 'no-store' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new ServerError('unreachable', UNREACHABLE);
  }
  if (!response.ok) throw await refusal(response);
  return response;
}

async function refusal(response) {
  const { error } = await response.json().catch(() => ({}));
  const message = typeof error?.message === 'string' ? error.message : `status ${response.status}`;
  if (response.status === 401) return new ServerError('key', 'The server wants an API key.');
  if (response.status === 503 && message === 'Loading model') return new ServerError('loading', 'The model is loading.');
  if (response.status === 429) return new ServerError('busy', 'The server has too much to do right now.');
  if (error?.type === 'exceed_context_size_error') {
    return new ServerError('context', `This chat has ${error.n_prompt_tokens} tokens, and the context holds ${error.n_ctx}. Start a new chat, or edit an earlier message.`);
  }
  if ([502, 503, 504].includes(response.status)) return new ServerError('unreachable', `The server takes no requests: ${message}`);
  return new ServerError('refused', `The server refused: ${message}`);
}

async function json(path) {
  const response = await request(path);
  try {
    return await response.json();
  } catch {
    throw new ServerError('unreachable', UNREACHABLE);
  }
}

/** What the server says about itself and its settings; with a name about that model. */
export const properties = (model) => json(model ? `props?model=${encodeURIComponent(model)}` : 'props');

/** The models that the server has. */
export const models = async () => (await json('v1/models')).data ?? [];

/** The chunks of an answer. Leaving the loop, or the signal, ends it on the server too. */
export async function* chat(body, signal) {
  const response = await request('v1/chat/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  try {
    for await (const data of events(response.body)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new ServerError('refused', `The server gave up: ${chunk.error.message}`);
      yield chunk;
    }
  } catch (error) {
    if (error.name === 'AbortError' || error instanceof ServerError) throw error;
    throw new ServerError('lost', LOST);
  }
  throw new ServerError('lost', LOST);
}
