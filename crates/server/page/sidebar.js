// The list of chats, newest first, and the search in it.

import { byId, element } from './dom.js';
import { search } from './conversation.js';

/** Draws the list. */
export function draw(conversations, current, running) {
  const query = byId('search').value.trim();
  const hits = conversations
    .map((conversation) => ({ conversation, hit: search(conversation, query) }))
    .filter(({ hit }) => hit)
    .sort((a, b) => b.conversation.updated - a.conversation.updated);
  const entries = hits.map(({ conversation, hit }) => entry(conversation, hit, conversation === current, running.has(conversation.id)));
  const focused = document.activeElement?.dataset?.chat;
  byId('chats').replaceChildren(...entries);
  if (focused) byId('chats').querySelector(`[data-chat="${focused}"]`)?.focus();
  byId('found').textContent = query ? `${hits.length} of ${conversations.length} chats` : '';
}

function entry(conversation, hit, isCurrent, isRunning) {
  const title = element('span', { class: 'chat-title' }, conversation.title || 'New chat', isRunning ? ' …' : null);
  const found = hit.match ? element('span', { class: 'quiet found' }, hit.before, element('mark', {}, hit.match), hit.after) : null;
  const link = { href: `#${conversation.id}`, 'data-chat': conversation.id, 'aria-current': isCurrent ? 'page' : null };
  return element('li', {}, element('a', link, title, found));
}

/** Whether the list lies over the messages, as on a phone. */
const overlays = () => getComputedStyle(byId('close-side')).display !== 'none';

/** Opens or closes the list on a phone. */
export function open(wanted) {
  document.body.classList.toggle('side-open', wanted);
  byId('open-side').setAttribute('aria-expanded', wanted);
  // The header stays: without its title a reader of screens would have a page without one.
  for (const part of document.querySelectorAll('main > :not(header)')) part.inert = wanted && overlays();
  if (wanted) byId('new-chat').focus();
}

export const isOpen = () => document.body.classList.contains('side-open');
