// The dialog that asks for the server's key.

import { byId } from './dom.js';
import * as preferences from './preferences.js';

/** Asks for a key. Gives whether there is a new one. */
export function askKey(why) {
  const [dialog, field] = [byId('key'), byId('key-field')];
  byId('key-why').textContent = why;
  byId('key-keep').checked = preferences.keepsKey();
  field.value = preferences.key();
  return new Promise((resolve) => {
    let given = false;
    byId('key-form').onsubmit = (event) => {
      event.preventDefault();
      preferences.setKey(field.value.trim(), byId('key-keep').checked);
      given = true;
      dialog.close();
    };
    byId('key-cancel').onclick = () => dialog.close();
    dialog.onclose = () => resolve(given);
    if (!dialog.open) dialog.showModal();
    field.select();
  });
}
