// What an empty chat offers to begin with.

import { button, element } from './dom.js';

const PROMPTS = [
  'Tell me a story about a fox.',
  'Explain in simple words why the sky is blue.',
  'Write a function that reverses the words of a sentence.',
  'Give me three ideas for a rainy afternoon.',
];

/** The words of an empty chat; `choose` gets the prompt that is pressed. */
export function suggestions(choose) {
  return element(
    'div',
    { id: 'hint' },
    element('p', { class: 'quiet' }, 'Ask something. What is said here stays between this browser and this server.'),
    element('ul', { 'aria-label': 'Suggestions' }, PROMPTS.map((text) => element('li', {}, button(text, () => choose(text))))),
  );
}
