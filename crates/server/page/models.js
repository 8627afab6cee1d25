// The models of the server, and which of them answers in a chat. A server with one model is not asked for it by name.

import * as preferences from './preferences.js';

let all = [];
let usual = '';

/** Takes the list of `/v1/models`, and the name of that which the server takes for a request without one. */
export function take(list, name = usual) {
  usual = name;
  all = list.filter(({ id }) => typeof id === 'string').map(({ id, status }) => ({ name: id, status: status?.value ?? 'loaded' }));
}

export const areSeveral = () => all.length > 1;

/** All of them, with their `name` and `status`. */
export const list = () => all;

/** Whether a model is being loaded. */
export const isLoading = (name) => all.some((model) => model.name === name && model.status === 'loading');

/** The name of the model that answers in a chat: that which was chosen there, or last, if the server has it. Empty if there is nothing to choose. */
export function choice(conversation) {
  if (!areSeveral()) return '';
  const wanted = [conversation.model, preferences.get('model'), usual];
  return wanted.find((name) => name && all.some((model) => model.name === name)) ?? all[0].name;
}
