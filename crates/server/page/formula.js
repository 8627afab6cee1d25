// Formulas as elements of MathML, which the browser draws by itself.

import { element, mathElement } from './dom.js';
import { parseLatex } from './latex.js';

/** A formula, or its source where it cannot be read. */
export function formula({ latex, display, source }) {
  const tree = parseLatex(latex);
  if (!tree) return element('code', { class: 'formula-source' }, source);
  const math = mathElement('math', { alttext: latex.trim(), ...(display && { display: 'block' }) }, draw(tree));
  const box = element('span', { class: display ? 'formula display' : 'formula' }, math);
  widths.observe(box);
  return box;
}

const draw = ({ tag, text, attributes, children = [] }) => mathElement(tag, attributes, ...(text === undefined ? children.map(draw) : [text]));

/** A formula that is wider than its place is moved by keys, too. */
const widths = new ResizeObserver((changes) => {
  for (const { target } of changes) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute('tabindex');
  }
});
