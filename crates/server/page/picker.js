// The field that chooses a model, where there are several.

import { byId, element } from './dom.js';
import * as models from './models.js';

/** Draws it for a chat. Its options stay while they say the same, so that it may be open meanwhile. */
export function draw(conversation) {
  byId('model').hidden = models.areSeveral();
  byId('models').hidden = !models.areSeveral();
  if (!models.areSeveral()) return;
  const field = byId('model-choice');
  const entries = models.list().map(({ name, status }) => ({ name, text: status === 'loading' ? `${name} (loading…)` : name }));
  const key = JSON.stringify(entries);
  if (field.dataset.key !== key) field.replaceChildren(...entries.map(({ name, text }) => element('option', { value: name }, text)));
  field.dataset.key = key;
  field.value = models.choice(conversation);
}
