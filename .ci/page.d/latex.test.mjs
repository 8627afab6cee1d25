// The page's formulas, without a browser: which parts of a text are formulas, and what is read from them.
import assert from 'node:assert/strict';
import test from 'node:test';
import { parseInline } from './page/inline.js';
import { parseLatex } from './page/latex.js';
import { parse } from './page/markdown.js';

/** The formulas of a line; those with lines of their own with a `!`. */
const formulas = (text) => parseInline(text).filter(({ type }) => type === 'formula').map(({ latex, display }) => `${display ? '!' : ''}${latex.trim()}`);
const draw = (node) => (node === null ? null : node.text === undefined ? `${node.tag}(${node.children.map(draw).join(' ')})` : node.text || `<${node.tag}>`);
const read = (latex) => draw(parseLatex(latex));

test('where a formula begins and ends', () => {
  for (const [text, expected] of [
    ['so \\(x^2\\) and \\[y_1\\]', ['x^2', '!y_1']],
    ['so $x^2$, $$y$$', ['x^2', '!y']],
    ['**$a*b$** and [$c$](https://a.example)', []],
    ['$5$ and $-3$', ['5', '-3']],
    ['$3 + 4$ ($n$-th)', ['3 + 4', 'n']],
    ['\\(a_1 * b_1 * c_1\\)', ['a_1 * b_1 * c_1']],
    ['$\\text{cost: \\$5}$', ['\\text{cost: \\$5}']],
    // Money, variables, code and what is not finished are text.
    ['$5 and $10', []],
    ['It costs $5, $10 or 15$ here', []],
    ['from $5 to 10$, or US$5 and A$6', []],
    ['$5-$10, $5/$6', []],
    ['$HOME/$USER and $PATH', []],
    ['`$x$` ``\\(x\\)``', []],
    ['\\$x$ and $ x $', []],
    ['$x `$y` z', []],
    ['\\(x and \\[y and $$z and $w', []],
    ['$$$$ \\(\\) \\[ \\]', []],
  ]) {
    assert.deepEqual(formulas(text), expected, text);
  }
  assert.deepEqual(parseInline('\\(x and \\[y'), ['\\(x and \\[y']);
  assert.deepEqual(parseInline('\\(a\\) \\\\(b\\)')[1], ' \\(b)');
  const [strong] = parseInline('**$a$**');
  assert.equal(strong.parts[0].latex, 'a');
});

test('a formula over lines is one, whatever its lines look like', () => {
  const texts = (text) => parse(text).map(({ type, text }) => [type, text]);
  const formula = '\\[\n# a\n- b\n> c\n= d\n---\n\\]';
  assert.deepEqual(texts(`So:\n${formula}\nand\n\n- x`).slice(0, 1), [['paragraph', `So:\n${formula}\nand`]]);
  assert.deepEqual(formulas(formula), [`!${formula.slice(3, -3)}`]);
  assert.deepEqual(texts('$$\n- a\n$$'), [['paragraph', '$$\n- a\n$$']]);
  // No breaks beside what has lines of its own anyway.
  assert.deepEqual(parseInline('a\n$$b$$\nc').map((part) => part.type ?? part), ['a', 'formula', 'c']);
  // One that is not finished takes nothing away.
  assert.deepEqual(parse('\\[ x\n- a\n- b').map(({ type }) => type), ['paragraph', 'list']);
  assert.deepEqual(parse('A \\[ here\n```\n\\]\n```').map(({ type }) => type), ['paragraph', 'code']);
  assert.deepEqual(parse('a | b\n--|--\n\\(|x\\|\\) | \\(y |')[0].rows, [['\\(|x\\|\\)', '\\(y']]);
  const item = parse('1. a:\n   \\[\n   - b\n   \\]\n2. c')[0].items[0];
  assert.equal(formulas(item.blocks[0].text)[0], '!- b');
});

test('what is read of a formula', () => {
  for (const [latex, expected] of [
    ['\\frac{a}{b}', 'mfrac(a b)'],
    ['\\frac12', 'mfrac(1 2)'],
    ['{a \\over b}', 'mfrac(a b)'],
    ['\\sqrt[3]{x}', 'mroot(x 3)'],
    ['x_1^2', 'msubsup(x 1 2)'],
    ["f''", 'msup(f ″)'],
    ['^2', 'msup(mrow() 2)'],
    ['\\alpha\\Omega\\leq-1', 'mrow(α Ω ≤ − 1)'],
    ['\\sum_{i=0}^n i', 'mrow(munderover(∑ mrow(i = 0) n) i)'],
    ['\\int_0^1 f\\,dx', 'mrow(msubsup(∫ 0 1) f <mspace> d x)'],
    ['\\int\\limits_0^1', 'munderover(∫ 0 1)'],
    ['2\\sin x', 'mrow(2 <mspace> sin <mspace> x)'],
    ['\\sin(x)', 'mrow(sin ( x ))'],
    ['\\lim_{x\\to0}', 'munder(lim mrow(x → 0))'],
    ['\\operatorname{lcm}(a)', 'mrow(lcm ( a ))'],
    ['\\operatorname*{arg\\,max}_x', 'munder(arg\u2009max x)'],
    ['\\left(\\frac ab\\right]', 'mrow(( mfrac(a b) ])'],
    ['\\left.x\\middle|y\\right\\}', 'mrow(x | y })'],
    ['\\mathbb{R}\\mathcal{LA}\\mathbf{x1}\\mathrm d', 'mrow(ℝ mrow(ℒ 𝒜) mrow(𝐱 𝟏) d)'],
    ['\\hat x\\overline{ab}', 'mrow(mover(x ^) mrow(mrow(a b)))'],
    ['\\overbrace{a}^n', 'mover(mover(a ⏞) n)'],
    ['\\text{if $x$ is}', 'mrow(if\u00a0 x \u00a0is)'],
    ['\\begin{pmatrix}a&b\\\\c&d\\end{pmatrix}', 'mrow(( mtable(mtr(mtd(a) mtd(b)) mtr(mtd(c) mtd(d))) ))'],
    ['\\begin{cases}a&b\\\\c&\\end{cases}', 'mrow({ mtable(mtr(mtd(a) mtd(b)) mtr(mtd(c) mtd(mrow()))))'],
    ['\\begin{aligned}a&=b\\\\[2pt]&=c\\\\\\end{aligned}', 'mtable(mtr(mtd(a) mtd(mrow(= b))) mtr(mtd(mrow()) mtd(mrow(= c))))'],
    ['\\begin{array}{c|c}a&b\\\\\\hline c&d\\end{array}', 'mtable(mtr(mtd(a) mtd(b)) mtr(mtd(c) mtd(d)))'],
    ['\\not=\\|x\\|', 'mrow(=\u0338 ‖ x ‖)'],
    // What is not known stays, in its place.
    ['\\foo{x}+1', 'mrow(\\foo x + 1)'],
  ]) {
    assert.equal(read(latex), expected, latex);
  }
  for (const none of ['{', '}', '\\left(', '\\right)', '\\frac{a}', 'x^', 'x^1^2', '\\begin{foo}x\\end{foo}', '\\begin{matrix}a', '\\begin{matrix}a\\end{pmatrix}', '\\', 'a&b', '\\text{a', '\\text{$}', '\\left a x\\right)', '\\sqrt[2', '{'.repeat(999) + '}'.repeat(999)]) {
    assert.equal(parseLatex(none), null, none);
  }
});

const depth = (node) => 1 + Math.max(0, ...(node?.children ?? []).slice(0, 100).map(depth));

test('no formula takes long, nests without end, or fails', () => {
  const pieces = ['{', '}', '^', '_', "'", 'x^', 'x_{', '\\frac', '\\frac{', '\\sqrt[', '\\left(', '\\left(x\\right)', '\\begin{matrix}', '\\begin{cases}x&', '\\hat', '\\text{', '\\text{$', '\\not', '\\mathbf', '&', '\\\\', '\\', '[', '\\over ', 'a\\over ', '\\displaystyle ', '\\bf ', '\\big(', '\\substack{', '1', '.', '$', '\ud800', '\u0000', ' ', '\\middle|', '\\hline', '\\end', '\\limits'];
  for (const text of pieces.flatMap((piece) => [piece.repeat(10_000 / piece.length), `${piece.repeat(50)}x${'}'.repeat(50)}`, `\\left(${piece.repeat(300)}\\right)`, `\\begin{matrix}${piece.repeat(300)}\\end{matrix}`])) {
    const began = performance.now();
    const tree = parseLatex(text);
    const ms = performance.now() - began;
    assert.ok(ms < 1000, `${JSON.stringify(text.slice(0, 40))} took ${ms} ms`);
    assert.ok(depth(tree) < 300, text.slice(0, 40));
  }
});
