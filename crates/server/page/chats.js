// The chats of this browser and the answers under way. It knows nothing of elements: `view` is told what changed.

import { body, goOn, settle, take } from './answer.js';
import { add, find, newConversation, path, prompt, show } from './conversation.js';
import * as history from './history.js';
import { choice } from './models.js';
import * as preferences from './preferences.js';
import { chat } from './server.js';

/** How often a running answer is written down, in milliseconds. */
const KEEP_EVERY = 400;

/** Whatever ran when it was written down does not run now. */
function asRead(conversation) {
  for (const message of conversation.messages) if (message.state === 'running') settle(message, 'stopped');
  return conversation;
}

/** A conversation that begins as the last one did. */
const fresh = () => newConversation(preferences.get('system'), preferences.get('model'));

export class Chats {
  /** All that were written down. */
  all = [];
  /** What is shown; it is written down with its first message. */
  current = fresh();
  /** For the ids of conversations, what stops their answers. */
  running = new Map();
  #timers = new Map();
  /** For the ids of conversations, how many of their writes are under way. */
  #writing = new Map();

  /** `view` has `changed()`, `streamed(conversation, message)`, `failed(error, retry)`, `answered()` and `storageFailed(error)`. */
  constructor(view) {
    this.view = view;
    history.onChange((id) => this.#reload(id));
    addEventListener('pagehide', () => this.#leave());
  }

  /** Reads what was written down. Throws if the browser keeps nothing. */
  async load() {
    this.all = (await history.open()).map(asRead);
    for (const { id, message, unwritten } of preferences.takeUnfinished()) {
      if (unwritten) {
        this.#replace(asRead(unwritten));
        this.keep(unwritten);
        continue;
      }
      const conversation = this.all.find((one) => one.id === id);
      const known = conversation && find(conversation, message.id);
      if (!known || known.state !== 'stopped') continue;
      Object.assign(known, message);
      settle(known, 'stopped');
      this.keep(conversation);
    }
  }

  /** Writes down what runs, and what is still being written. The database would take longer than a page has that goes. */
  #leave() {
    const running = this.all.filter(({ id }) => this.running.has(id));
    const messages = running.flatMap(({ id, messages }) => messages.filter(({ state }) => state === 'running').map((message) => ({ id, message })));
    const unwritten = this.all.filter(({ id }) => this.#writing.has(id) && !this.running.has(id));
    const left = [...messages, ...unwritten.map((conversation) => ({ unwritten: conversation }))];
    if (left.length) preferences.setUnfinished(left);
  }

  /** Shows a conversation, or a new one if there is none of this id. */
  open(id) {
    this.current = this.all.find((one) => one.id === id) ?? fresh();
    this.view.changed();
  }

  /** Whether the shown conversation is being answered. */
  isRunning = () => this.running.has(this.current.id);

  /** Says something and lets the model answer. */
  send(text, files) {
    if (this.isRunning()) return;
    const { current } = this;
    if (!this.all.includes(current)) this.all.push(current);
    const said = add(current, current.head, 'user', text, files);
    this.#answer(current, add(current, said.id, 'assistant', ''));
  }

  /** Another answer to the same question. */
  regenerate(message) {
    if (this.isRunning()) return;
    this.#answer(this.current, add(this.current, message.parent, 'assistant', ''));
  }

  /** The same answer again, after a failure. */
  retry(message, conversation = this.current) {
    if (this.running.has(conversation.id) || !find(conversation, message.id)) return;
    if (message.spent?.earlier) return this.goOn(message, conversation);
    Object.assign(message, { content: '', reasoning: '' });
    delete message.spent;
    show(conversation, message);
    this.#answer(conversation, message);
  }

  /** The rest of an answer that a limit ended. */
  goOn(message, conversation = this.current) {
    if (this.running.has(conversation.id)) return;
    goOn(message);
    show(conversation, message);
    this.#answer(conversation, message, true);
  }

  /** Another wording of a message: a question is answered anew. */
  edit(message, text) {
    if (this.isRunning()) return;
    const { current } = this;
    const edited = add(current, message.parent, message.role, text, message.files);
    if (message.role === 'user') return this.#answer(current, add(current, edited.id, 'assistant', ''));
    if (message.model) edited.model = message.model;
    this.keep(current);
    this.view.changed();
  }

  /** Shows a version of a message. */
  choose(message) {
    show(this.current, message);
    this.keep(this.current);
    this.view.changed();
  }

  /** Stops the answer in the shown conversation, on the server too. */
  stop() {
    this.running.get(this.current.id)?.abort();
  }

  async #answer(conversation, message, goesOn = false) {
    const controller = new AbortController();
    this.running.set(conversation.id, controller);
    message.state = 'running';
    delete message.error;
    const model = (goesOn && message.model) || choice(conversation);
    if (model) message.model = model;
    else delete message.model;
    this.keep(conversation);
    this.view.changed();
    let failure = null;
    try {
      const asked = body(prompt(conversation, message, goesOn), preferences.sampling(), preferences.get('thinking'), message.model);
      for await (const chunk of chat(asked, controller.signal)) {
        take(message, chunk);
        this.view.streamed(conversation, message);
        this.#keepSoon(conversation);
      }
      settle(message, message.finish === 'length' ? 'length' : 'done');
    } catch (error) {
      if (error.name !== 'AbortError') {
        failure = error;
        message.error = error.message;
      }
      settle(message, failure ? 'failed' : 'stopped');
    }
    this.running.delete(conversation.id);
    conversation.updated = Date.now();
    if (this.all.includes(conversation)) this.keep(conversation);
    this.view.changed();
    if (failure) this.view.failed(failure, () => this.retry(message, conversation));
    else this.view.answered();
  }

  /** Writes a conversation down as it is now, if it has begun. */
  keep(conversation) {
    clearTimeout(this.#timers.get(conversation.id));
    this.#timers.delete(conversation.id);
    if (this.all.includes(conversation)) this.#put(conversation);
  }

  #put(conversation) {
    const { id } = conversation;
    this.#writing.set(id, (this.#writing.get(id) ?? 0) + 1);
    const over = () => {
      const left = this.#writing.get(id) - 1;
      if (left > 0) this.#writing.set(id, left);
      else this.#writing.delete(id);
    };
    history.put(conversation).catch((error) => this.view.storageFailed(error)).finally(over);
  }

  #keepSoon(conversation) {
    if (this.#timers.has(conversation.id)) return;
    this.#timers.set(conversation.id, setTimeout(() => this.keep(conversation), KEEP_EVERY));
  }

  /** Forgets conversations, and stops their answers. */
  async remove(conversations) {
    const gone = new Set(conversations);
    this.all = this.all.filter((one) => !gone.has(one));
    for (const { id } of gone) {
      clearTimeout(this.#timers.get(id));
      this.running.get(id)?.abort();
      await history.remove(id).catch((error) => this.view.storageFailed(error));
    }
    if (gone.has(this.current)) this.current = fresh();
    this.view.changed();
  }

  /** Takes conversations of a file; of two with one id the newer stays. Gives how many were taken. */
  take(conversations) {
    let taken = 0;
    for (const conversation of conversations) {
      const at = this.all.findIndex((one) => one.id === conversation.id);
      if (at >= 0 && (this.all[at].updated >= conversation.updated || this.running.has(conversation.id))) continue;
      taken += 1;
      this.#replace(conversation);
      this.#put(conversation);
    }
    this.view.changed();
    return taken;
  }

  #replace(conversation) {
    const at = this.all.findIndex((one) => one.id === conversation.id);
    if (at >= 0) this.all[at] = conversation;
    else this.all.push(conversation);
    if (this.current.id === conversation.id) this.current = conversation;
  }

  /** Another tab changed a conversation. */
  async #reload(id) {
    if (this.running.has(id)) return;
    const conversation = await history.get(id);
    if (conversation) this.#replace(asRead(conversation));
    else this.all = this.all.filter((one) => one.id !== id);
    this.view.changed();
  }

  /** The last thing that the user said. */
  lastQuestion = () => path(this.current).findLast((message) => message.role === 'user');

  /** The last answer. */
  lastAnswer = () => path(this.current).findLast((message) => message.role === 'assistant');
}
