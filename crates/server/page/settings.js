// The dialog of settings. What is chosen counts at once; what is as the server has it is not kept.

import { byId, element } from './dom.js';
import * as preferences from './preferences.js';

const FIELDS = [
  { name: 'temperature', label: 'Temperature', min: 0, max: 10, step: 'any' },
  { name: 'top_k', label: 'Top k (0: all)', min: 0, max: 1_000_000, step: 1 },
  { name: 'top_p', label: 'Top p', min: 0, max: 1, step: 'any' },
  { name: 'min_p', label: 'Min p', min: 0, max: 1, step: 'any' },
  { name: 'repeat_penalty', label: 'Repeat penalty', min: 0.01, max: 10, step: 'any' },
  { name: 'presence_penalty', label: 'Presence penalty', min: -10, max: 10, step: 'any' },
  { name: 'frequency_penalty', label: 'Frequency penalty', min: -10, max: 10, step: 'any' },
  { name: 'max_tokens', label: 'Most tokens (-1: no limit)', min: -1, max: 1_000_000_000, step: 1 },
  { name: 'seed', label: 'Seed (-1: another each time)', min: -1, max: 4_294_967_295, step: 1 },
];

/** What llama-server and we say for a seed that is drawn anew each time. */
const ANY_SEED = 4_294_967_295;

let defaults = {};

/** A number as people write it: 0.8 and not 0.800000011920929. */
const short = (number) => Number(number.toPrecision(6));

/** Takes the server's settings as they are in `/props`. */
export function setDefaults(params = {}) {
  const entries = FIELDS.map(({ name }) => [name, params[name]]).filter(([, value]) => Number.isFinite(value));
  defaults = Object.fromEntries(entries.map(([name, value]) => [name, name === 'seed' && value === ANY_SEED ? -1 : short(value)]));
  fill();
}

function fill() {
  const chosen = preferences.sampling();
  for (const { name } of FIELDS) {
    const field = byId(`sampling-${name}`);
    field.value = chosen[name] ?? defaults[name] ?? '';
    field.closest('label').classList.toggle('changed', name in chosen);
  }
}

function change(name) {
  const field = byId(`sampling-${name}`);
  if (!field.reportValidity()) return;
  const chosen = preferences.sampling();
  const value = field.valueAsNumber;
  if (Number.isNaN(value) || value === defaults[name]) delete chosen[name];
  else chosen[name] = value;
  preferences.setSampling(chosen);
  fill();
}

/** Makes the dialog. `actions` has `changeKey` and `deleteAll`. */
export function start(actions) {
  for (const { name, label, min, max, step } of FIELDS) {
    const input = element('input', { type: 'number', id: `sampling-${name}`, min, max, step });
    input.addEventListener('change', () => change(name));
    byId('sampling').append(element('label', {}, label, input));
  }
  byId('reset-sampling').onclick = () => {
    preferences.setSampling({});
    fill();
  };
  byId('thinking').value = preferences.get('thinking');
  byId('thinking').onchange = () => preferences.set('thinking', byId('thinking').value);
  byId('appearance').onchange = () => preferences.setTheme(byId('appearance').value);
  byId('theme').onclick = () => {
    const chosen = preferences.get('theme');
    const isDark = chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    preferences.setTheme(isDark ? 'light' : 'dark');
  };
  byId('change-key').onclick = actions.changeKey;
  byId('delete-all').onclick = actions.deleteAll;
  byId('open-settings').onclick = show;
  fill();
}

/** Opens the dialog. */
export function show() {
  if (document.querySelector('dialog[open]')) return;
  byId('appearance').value = preferences.get('theme');
  fill();
  byId('settings').showModal();
}
