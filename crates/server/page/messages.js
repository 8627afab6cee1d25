// The messages of a conversation, as elements that stay while their messages do.

import { summary, tokens, written } from './answer.js';
import { chip } from './attachments.js';
import { button, copy, element } from './dom.js';
import { versions } from './conversation.js';
import { withFiles } from './files.js';
import { isLoading } from './models.js';
import { render } from './render.js';

const NAMES = { user: 'You', assistant: 'Model' };

/** One message. `actions` has `regenerate`, `edit(message, text)`, `choose(message)`, `retry`, `goOn`
 * and `isFull(message)`. */
class MessageView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.name = element('h2', { class: 'name' });
    this.wait = element('div', { class: 'wait quiet' });
    this.thoughts = element('div', { class: 'markdown' });
    this.thoughtsTitle = element('summary', {}, 'Thoughts');
    this.folded = element('details', { class: 'thoughts', hidden: true }, this.thoughtsTitle, this.thoughts);
    this.body = element('div', { class: message.role === 'user' ? 'plain' : 'markdown' });
    this.problem = element('div', { class: 'notice', hidden: true });
    this.spent = element('span', { class: 'spent' });
    this.versions = element('span', { class: 'versions', hidden: true });
    this.tools = element('div', { class: 'tools quiet' }, this.versions, this.buttons(), this.spent);
    this.node = element('article', { class: `message ${message.role}`, 'data-id': message.id });
    const answers = message.role === 'assistant' ? [this.folded, this.wait] : [];
    const files = message.files ? [element('div', { class: 'files' }, message.files.map(chip))] : [];
    this.node.append(this.name, ...answers, ...files, this.body, this.problem, this.tools);
  }

  buttons() {
    const { message, actions } = this;
    const out = [button('Copy', () => copy(withFiles(message)), { 'aria-label': 'Copy this message' })];
    if (message.role === 'assistant') out.push(button('Regenerate', () => actions.regenerate(message), { class: 'idle' }));
    out.push(button('Edit', () => this.edit(), { class: 'idle', 'aria-label': 'Edit this message' }));
    return out;
  }

  /** Draws what has changed. */
  update(conversation) {
    const { message } = this;
    const running = message.state === 'running';
    this.node.setAttribute('aria-busy', running);
    this.node.classList.toggle('running', running);
    this.name.textContent = message.model ?? NAMES[message.role];
    if (message.role === 'user') {
      this.body.textContent = message.content;
      if (!this.editor) this.body.hidden = !message.content;
    } else render(this.body, message.content, running);
    this.updateThoughts(running);
    this.updateWait(running);
    this.updateProblem(conversation);
    this.updateVersions(conversation);
    this.spent.textContent = message.role === 'assistant' ? summary(message.spent) : '';
  }

  updateThoughts(running) {
    const { reasoning, content, spent, thoughtFor } = this.message;
    this.folded.hidden = !reasoning;
    if (!reasoning) return;
    const ms = thoughtFor ?? spent?.thoughtMs;
    const time = ms === undefined ? '' : ` for ${(ms / 1000).toFixed(1)} s`;
    this.thoughtsTitle.textContent = running && !content ? 'Thinking…' : `Thought${time}`;
    render(this.thoughts, reasoning, running);
  }

  updateWait(running) {
    const { content, reasoning, progress, model } = this.message;
    this.wait.hidden = !running || Boolean(content || reasoning);
    if (this.wait.hidden) return;
    if (!progress) {
      const text = isLoading(model) ? `Loading ${model}…` : 'Waiting for the server…';
      if (this.wait.textContent !== text) this.wait.replaceChildren(text);
      return;
    }
    const { processed, total, cache } = progress;
    const label = `Reading the prompt: ${processed} of ${total} tokens${cache ? `, ${cache} of them cached` : ''}`;
    this.wait.replaceChildren(element('progress', { max: total, value: processed, 'aria-label': 'Reading the prompt' }), ` ${label}`);
  }

  updateProblem(conversation) {
    const { state, error } = this.message;
    const isFull = state === 'length' && this.actions.isFull(this.message);
    const count = written(this.message);
    const length = `Stopped at ${count ? tokens(count) : 'a limit of tokens'}${isFull ? ': the context is full.' : '.'}`;
    const text = { failed: error, length, stopped: 'Stopped.' }[state];
    const goesOn = state === 'length' && !isFull && conversation.head === this.message.id;
    const key = `${text} ${goesOn}`;
    if (this.problem.dataset.key === key) return;
    this.problem.dataset.key = key;
    this.problem.hidden = !text || this.message.role === 'user';
    this.problem.classList.toggle('soft', state !== 'failed');
    if (state === 'failed') this.problem.setAttribute('role', 'alert');
    else this.problem.removeAttribute('role');
    this.problem.replaceChildren(element('span', {}, text ?? ''));
    if (goesOn) this.problem.append(button('Continue', () => this.actions.goOn(this.message), { class: 'idle' }));
    if (state === 'failed') this.problem.append(button('Try again', () => this.actions.retry(this.message)));
  }

  updateVersions(conversation) {
    const all = versions(conversation, this.message);
    const at = all.indexOf(this.message);
    this.versions.hidden = all.length < 2;
    if (all.length < 2 || this.versions.dataset.key === `${at}/${all.length}`) return;
    this.versions.dataset.key = `${at}/${all.length}`;
    const to = (other, text, label) =>
      button(text, () => this.actions.choose(other), { 'aria-label': label, disabled: !other });
    this.versions.replaceChildren(
      to(all[at - 1], '‹', 'Earlier version'),
      element('span', {}, `${at + 1}/${all.length}`),
      to(all[at + 1], '›', 'Later version'),
    );
  }

  /** Puts a field in place of the message. */
  edit() {
    if (this.editor || this.message.state === 'running') return;
    const { message } = this;
    const field = element('textarea', { 'aria-label': 'Edit the message' });
    field.value = message.content;
    const close = () => {
      this.editor.remove();
      this.editor = null;
      this.tools.hidden = false;
      this.body.hidden = message.role === 'user' && !message.content;
      this.node.querySelector('.tools button:not([hidden])')?.focus();
    };
    const save = () => {
      const text = field.value;
      close();
      if ((text.trim() || message.files) && text !== message.content) this.actions.edit(message, text);
    };
    const ok = message.role === 'user' ? 'Send' : 'Save';
    const row = element('div', { class: 'row end' }, button('Cancel', close), button(ok, save, { class: 'primary' }));
    this.editor = element('div', { class: 'editor' }, field, row);
    this.editor.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') close();
      else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) save();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.body.hidden = this.tools.hidden = true;
    this.body.after(this.editor);
    field.focus();
  }
}

/** The list of messages in `log`. */
export class Messages {
  #views = new Map();

  constructor(log, actions) {
    this.log = log;
    this.actions = actions;
  }

  /** Shows these messages, and no others. */
  show(conversation, messages) {
    const kept = new Set(messages);
    for (const [message, view] of this.#views) {
      if (kept.has(message)) continue;
      view.node.remove();
      this.#views.delete(message);
    }
    let last = null;
    for (const message of messages) {
      let view = this.#views.get(message);
      if (!view) {
        view = new MessageView(message, this.actions);
        this.#views.set(message, view);
      }
      const place = last ? last.nextSibling : this.log.firstChild;
      if (place !== view.node) this.log.insertBefore(view.node, place);
      view.update(conversation);
      last = view.node;
    }
  }

  /** Draws a message anew, if it is shown. */
  update(conversation, message) {
    this.#views.get(message)?.update(conversation);
  }

  /** Lets the user edit a message. */
  edit(message) {
    this.#views.get(message)?.edit();
  }
}
