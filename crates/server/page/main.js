// The page: what happens when something is pressed, and what is drawn when something has changed.

import { filled } from './answer.js';
import * as attachments from './attachments.js';
import { Chats } from './chats.js';
import { path } from './conversation.js';
import { ask, byId, download, say } from './dom.js';
import { askKey } from './key.js';
import { Messages } from './messages.js';
import * as models from './models.js';
import * as picker from './picker.js';
import * as preferences from './preferences.js';
import * as server from './server.js';
import * as settings from './settings.js';
import * as sidebar from './sidebar.js';
import { suggestions } from './suggestions.js';
import { fileName, read, write } from './transfer.js';

const LOADING_POLL = 1000;
const NEAR_THE_END = 80;

const log = byId('log');
const promptField = byId('prompt');
let contextLength = 0;
/** Whether the server may be another one than before. */
let stale = false;
/** The model whose properties are shown; empty for the only one. */
let described = '';

const view = {
  changed: draw,
  streamed(conversation, message) {
    if (conversation === chats.current) drawSoon(conversation, message);
  },
  failed(error, retry) {
    stale = true;
    if (error.kind === 'key') askKey(error.message).then((given) => given && retry());
  },
  answered() {
    // A model that was loaded for this answer can tell its context now.
    if (stale || models.areSeveral()) connect();
  },
  storageFailed(error) {
    say(`The browser could not keep this chat: ${error.message}`);
  },
};

const chats = new Chats(view);
const messages = new Messages(log, {
  regenerate: (message) => chats.regenerate(message),
  retry: (message) => chats.retry(message),
  edit: (message, text) => chats.edit(message, text),
  choose: (message) => chats.choose(message),
  goOn(message) {
    promptField.focus();
    chats.goOn(message);
  },
  isFull: (message) => contextLength > 0 && filled(message) >= contextLength - 1,
});

const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_THE_END;

function toEnd() {
  log.scrollTop = log.scrollHeight;
}

function draw() {
  const { current } = chats;
  const shown = path(current);
  const running = chats.isRunning();
  const newer = log.dataset.chat !== current.id || log.dataset.head !== current.head;
  const stay = !newer && !isAtEnd();
  log.classList.toggle('busy', running);
  messages.show(current, shown);
  if (shown.length > 0) byId('hint')?.remove();
  else if (!byId('hint')) log.append(suggestions((text) => chats.send(text, attachments.takeAll())));
  drawSystem(current);
  log.dataset.chat = current.id;
  log.dataset.head = current.head;
  if (!stay) toEnd();
  byId('title').textContent = current.title || 'New chat';
  document.title = current.title ? `${current.title} · Kernloom` : 'Kernloom';
  byId('chat-actions').hidden = shown.length === 0;
  byId('export-all').disabled = chats.all.length === 0;
  const hadFocus = document.activeElement === byId('stop') || document.activeElement === byId('send');
  byId('send').hidden = running;
  byId('stop').hidden = !running;
  if (hadFocus) promptField.focus();
  drawGauge(shown);
  picker.draw(current);
  if (models.choice(current) !== described) connect();
  if (running) watch();
  sidebar.draw(chats.all, current, chats.running);
  const hash = chats.all.includes(current) ? `#${current.id}` : '';
  if (location.hash !== hash) history.pushState(null, '', hash || location.pathname + location.search);
}

function drawSystem({ system }) {
  if (document.activeElement !== byId('system')) byId('system').value = system;
  byId('system-start').textContent = system.trim() ? system.slice(0, 200) : 'none';
}

function drawGauge(shown) {
  const used = filled(shown.findLast((message) => message.spent));
  byId('context').hidden = !contextLength;
  const gauge = byId('gauge');
  Object.assign(gauge, { max: contextLength || 1, low: contextLength * 0.75, high: contextLength * 0.9, optimum: 0, value: used });
  byId('gauge-text').textContent = `${used.toLocaleString('en')} of ${contextLength.toLocaleString('en')} tokens`;
}

let waiting = null;

/** Draws a running answer at most once a frame. */
function drawSoon(conversation, message) {
  if (waiting) return;
  waiting = requestAnimationFrame(() => {
    waiting = null;
    if (conversation !== chats.current) return;
    const stay = !isAtEnd();
    messages.update(conversation, message);
    drawGauge(path(conversation));
    if (!stay) toEnd();
    byId('to-end').hidden = !stay;
  });
}

function banner(text) {
  byId('banner').hidden = !text;
  byId('banner-text').textContent = text;
}

/** Asks the server who it is, until it is ready. */
async function connect() {
  banner('');
  try {
    const usual = await server.properties();
    models.take(await server.models(), usual.model_alias);
    const name = models.choice(chats.current);
    described = name;
    const props = name && name !== usual.model_alias ? await server.properties(name) : usual;
    if (name !== described) return;
    stale = false;
    contextLength = props.default_generation_settings?.n_ctx ?? 0;
    byId('model').textContent = props.model_alias ?? '';
    settings.setDefaults(props.default_generation_settings?.params);
    draw();
    watch();
  } catch (error) {
    if (error.kind === 'loading') {
      byId('model').textContent = 'The model is loading…';
      setTimeout(connect, LOADING_POLL);
    } else if (error.kind === 'key' && (await askKey(error.message))) {
      await connect();
    } else {
      banner(error.message);
    }
  }
}

let watching = null;

/** While models come and go, the page says which are there. */
function watch() {
  const waits = chats.isRunning() && !chats.lastAnswer()?.content;
  if (watching || !models.areSeveral() || !(waits || models.list().some(({ status }) => status === 'loading'))) return;
  watching = setTimeout(async () => {
    try {
      models.take(await server.models());
      picker.draw(chats.current);
      const answer = chats.lastAnswer();
      if (answer) messages.update(chats.current, answer);
    } catch {
      // Whoever waits for an answer is told what is wrong.
    }
    watching = null;
    watch();
  }, LOADING_POLL);
}

function chooseModel() {
  const { current } = chats;
  current.model = byId('model-choice').value;
  preferences.set('model', current.model);
  chats.keep(current);
  connect();
}

function send() {
  const text = promptField.value;
  if (!(text.trim() || attachments.areThere()) || chats.isRunning()) return;
  promptField.value = '';
  preferences.set('draft', '');
  chats.send(text, attachments.takeAll());
}

function newChat() {
  sidebar.open(false);
  chats.open(null);
  promptField.focus();
}

async function importFile(file) {
  try {
    const taken = chats.take(read(await file.text()));
    say(`${taken} ${taken === 1 ? 'chat was' : 'chats were'} imported.`);
  } catch (error) {
    say(`${file.name} cannot be imported: ${error.message}.`);
  }
}

function startList() {
  byId('new-chat').onclick = newChat;
  byId('open-side').onclick = () => sidebar.open(!sidebar.isOpen());
  byId('close-side').onclick = () => {
    sidebar.open(false);
    byId('open-side').focus();
  };
  byId('search').oninput = () => sidebar.draw(chats.all, chats.current, chats.running);
  byId('chats').onclick = () => sidebar.open(false);
  byId('export-all').onclick = () => download(fileName(), write(chats.all));
  byId('import').onclick = () => byId('import-file').click();
  byId('import-file').onchange = async (event) => {
    const [file] = event.target.files;
    if (file) await importFile(file);
    event.target.value = '';
  };
  addEventListener('hashchange', openHash);
  addEventListener('popstate', openHash);
}

function openHash() {
  const id = location.hash.slice(1);
  if (id !== (chats.all.includes(chats.current) ? chats.current.id : '')) chats.open(id);
}

function startChat() {
  byId('rename').onclick = async () => {
    const { current } = chats;
    const title = await ask('Rename this chat', 'Rename', current.title);
    if (!title) return;
    current.title = title;
    chats.keep(current);
    draw();
  };
  byId('export').onclick = () => download(fileName(), write([chats.current]));
  byId('delete').onclick = async () => {
    const { current } = chats;
    if (await ask('Delete this chat?', 'Delete')) chats.remove([current]);
  };
  byId('banner-retry').onclick = connect;
  byId('model-choice').onchange = chooseModel;
  byId('system').oninput = () => {
    chats.current.system = byId('system').value;
    preferences.set('system', chats.current.system);
    chats.keep(chats.current);
    drawSystem(chats.current);
  };
  byId('to-end').onclick = () => {
    toEnd();
    promptField.focus();
  };
  log.onscroll = () => (byId('to-end').hidden = isAtEnd());
}

function startComposer() {
  promptField.value = preferences.get('draft');
  promptField.oninput = () => preferences.set('draft', promptField.value);
  byId('composer').onsubmit = (event) => {
    event.preventDefault();
    send();
  };
  byId('stop').onclick = () => chats.stop();
  byId('skip').onclick = (event) => {
    event.preventDefault();
    promptField.focus();
  };
  promptField.onkeydown = (event) => {
    const writesLines = event.shiftKey || event.isComposing || matchMedia('(pointer: coarse)').matches;
    if (event.key === 'Enter' && !writesLines) {
      event.preventDefault();
      send();
    } else if (event.key === 'ArrowUp' && promptField.value === '' && chats.lastQuestion()) {
      event.preventDefault();
      messages.edit(chats.lastQuestion());
    }
  };
}

const settingsActions = {
  async changeKey() {
    byId('settings').close();
    if (await askKey('An empty field forgets the key.')) connect();
  },
  async deleteAll() {
    byId('settings').close();
    if (await ask(`Delete all ${chats.all.length} chats?`, 'Delete all')) chats.remove(chats.all);
  },
};

const SHORTCUTS = {
  KeyN: newChat,
  KeyK() {
    sidebar.open(true);
    byId('search').focus();
  },
  KeyR() {
    const answer = chats.lastAnswer();
    if (answer) chats.regenerate(answer);
  },
  KeyS: settings.show,
};

function startKeys() {
  addEventListener('keydown', (event) => {
    if (document.querySelector('dialog[open]')) return;
    if (event.key === 'Escape') {
      if (sidebar.isOpen()) byId('close-side').click();
      else chats.stop();
    } else if (event.altKey && !event.ctrlKey && !event.metaKey && SHORTCUTS[event.code]) {
      event.preventDefault();
      SHORTCUTS[event.code]();
    }
  });
}

async function start() {
  startList();
  startChat();
  startComposer();
  attachments.start();
  startKeys();
  settings.start(settingsActions);
  try {
    await chats.load();
  } catch (error) {
    say(`This browser keeps no chats: ${error.message}`);
  }
  chats.open(location.hash.slice(1));
  promptField.focus();
  await connect();
}

start();
