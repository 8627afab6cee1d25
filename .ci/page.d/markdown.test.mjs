// The page's Markdown, without a browser: what is read from a text, and that no text takes long.
import assert from 'node:assert/strict';
import test from 'node:test';
import { parseInline, safeLink } from './page/inline.js';
import { parse } from './page/markdown.js';

/** Blocks without their sources. */
const blocks = (text) => parse(text).map(({ source, ...block }) => block);
const paragraph = (text) => ({ type: 'paragraph', text });

test('blocks', () => {
  assert.deepEqual(blocks('One\ntwo\n\nthree'), [paragraph('One\ntwo'), paragraph('three')]);
  assert.deepEqual(blocks('# A #\n## B#\n###C\n#\tD'), [
    { type: 'heading', level: 1, text: 'A' },
    { type: 'heading', level: 2, text: 'B#' },
    paragraph('###C'),
    { type: 'heading', level: 1, text: 'D' },
  ]);
  assert.deepEqual(blocks('Title\n---\ntext\n\n---\n***'), [
    { type: 'heading', level: 2, text: 'Title' },
    paragraph('text'),
    { type: 'rule' },
    { type: 'rule' },
  ]);
  assert.deepEqual(blocks('> a\n> > b\nlazy\n\nc'), [
    { type: 'quote', blocks: [paragraph('a'), { type: 'quote', blocks: [paragraph('b\nlazy')] }] },
    paragraph('c'),
  ]);
});

test('code', () => {
  assert.deepEqual(blocks('```rust\nfn main() {}\n\n  x\n```\nafter'), [
    { type: 'code', language: 'rust', text: 'fn main() {}\n\n  x' },
    paragraph('after'),
  ]);
  // A text that is still being written has no end of its code yet.
  assert.deepEqual(blocks('a\n```\nb'), [paragraph('a'), { type: 'code', language: '', text: 'b' }]);
  assert.deepEqual(blocks('````\n```\n````'), [{ type: 'code', language: '', text: '```' }]);
  assert.deepEqual(blocks('~~~ a`b\n<b>\n~~~'), [{ type: 'code', language: 'a`b', text: '<b>' }]);
});

test('lists', () => {
  const [list, end] = blocks('1. one\n   - nested\n2. two\n\nend');
  assert.deepEqual([list.ordered, list.start, list.loose, list.items.length], [true, 1, false, 2]);
  assert.equal(list.items[0].blocks[1].type, 'list');
  assert.deepEqual(end, paragraph('end'));
  // Two spaces are too few for CommonMark here, and what models write.
  assert.equal(blocks('1. one\n  - nested')[0].items[0].blocks[1].items.length, 1);
  assert.deepEqual(blocks('- [x] a\n- [ ] b')[0].items.map(({ checked }) => checked), [true, false]);
  assert.equal(blocks('- a\n\n- b')[0].loose, true);
  assert.equal(blocks('- a\n* b').length, 2);
  assert.equal(blocks('3. a\n4. b')[0].start, 3);
  assert.equal(blocks('- ```\n  code\n  ```')[0].items[0].blocks[0].text, 'code');
  assert.deepEqual(blocks('It was\n1984. Really.'), [paragraph('It was\n1984. Really.')]);
});

test('tables', () => {
  const [table] = blocks('| a | b |\n|---|:-:|\n| `x|y` | 1 |\n| \\| |');
  assert.deepEqual(table, { type: 'table', align: ['', 'center'], head: ['a', 'b'], rows: [['`x|y`', '1'], ['|', '']] });
  assert.equal(blocks('a | b\nc').length, 1);
});

test('inline', () => {
  assert.deepEqual(parseInline('a **b *c* d** e'), ['a ', { type: 'strong', parts: ['b ', { type: 'emphasis', parts: ['c'], depth: 1 }, ' d'], depth: 2 }, ' e']);
  assert.deepEqual(parseInline('2 * 3 * 4 and snake_case_name'), ['2 * 3 * 4 and snake_case_name']);
  assert.deepEqual(parseInline('***x***')[0].parts[0].parts, ['x']);
  assert.deepEqual(parseInline('`a *b*` ``c`d``'), [{ type: 'code', text: 'a *b*' }, ' ', { type: 'code', text: 'c`d' }]);
  assert.deepEqual(parseInline('~~x~~ ~y~'), [{ type: 'strike', parts: ['x'], depth: 1 }, ' ~y~']);
  assert.deepEqual(parseInline('a\nb<br>c'), ['a', { type: 'break' }, 'b', { type: 'break' }, 'c']);
  assert.deepEqual(parseInline('\\*a\\* &lt;b&gt; &#65; &nothing;'), ['*a* <b> A &nothing;']);
  assert.deepEqual(parseInline('<script>alert(1)</script>'), ['<script>alert(1)</script>']);
});

test('links', () => {
  const link = (text) => parseInline(text).find((part) => part.type === 'link');
  assert.equal(link('see [a *b*](http://x.example/(y) "t")').address, 'http://x.example/(y)');
  assert.equal(link('<https://a.example>').address, 'https://a.example');
  assert.equal(link('at https://a.example/b_c_d, and').address, 'https://a.example/b_c_d');
  assert.equal(link('(https://a.example/x_(y))').address, 'https://a.example/x_(y)');
  assert.equal(link('![p](data:image/png;base64,x)').image, true);
  assert.equal(link('[a] (b)'), undefined);
  for (const bad of ['javascript:alert(1)', ' JavaScript:alert(1)', 'java\nscript:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc/passwd', '/v1/models', '//evil.example', 'blob:http://x/y']) {
    assert.equal(safeLink(bad), null, bad);
  }
  assert.equal(safeLink('https://a.example'), 'https://a.example/');
  assert.equal(safeLink('mailto:a@b.example'), 'mailto:a@b.example');
});

/** Every inline text of a text. */
function inlines(all, out = []) {
  for (const block of all) {
    if (block.text !== undefined && block.type !== 'code') out.push(parseInline(block.text));
    for (const cell of [block.head, ...(block.rows ?? [])].flat()) if (cell) out.push(parseInline(cell));
    inlines(block.blocks ?? [], out);
    for (const item of block.items ?? []) inlines(item.blocks, out);
  }
  return out;
}

const depth = (parts) => 1 + Math.max(0, ...parts.slice(0, 1000).map((part) => (part.parts ? depth(part.parts) : 0)));

test('no text takes long or nests without end', () => {
  const n = 5000;
  const hostile = [
    '*', '_', '**a ', '*a_ ', '*a **b ', 'a**b', '[', ']', '![', '[a](', '](', '`', '`` ` ', '~~', '~~a', '<', '&', '&#', '\\', '(', '> ', '- ', '1. ', '| ', '|-', '#', '# ', ' ', '\t', 'http://', 'https://a.b.', '.', '-', '=', '~~~ `', '```\n', '> - ', '*a*', '![x](y', '\n\n- ', '$', '$$', '$a', '\\(', '\\[', '\\[\n', '$$ \n', '\\(a', '$a\n',
  ].flatMap((text) => [text.repeat(n), `# ${text.repeat(n)}x`, `a | b\n${text.repeat(n)}x`, `${text.repeat(n)}${[...text].reverse().join('').repeat(n)}`]);
  hostile.push(`${'*'.repeat(n)}a${'*'.repeat(n)}`, `${'![a'.repeat(n)}${'](b)'.repeat(n)}`, Array.from({ length: 300 }, (_, i) => '`'.repeat(i + 1)).join(' '), `(${' '.repeat(n)}[a](${' '.repeat(n)}`);
  for (const text of hostile) {
    const began = performance.now();
    const read = inlines(parse(text));
    const ms = performance.now() - began;
    // Thousands of times what it takes; an expression that is quadratic takes longer.
    assert.ok(ms < 5000, `${JSON.stringify(text.slice(0, 40))} took ${ms} ms`);
    for (const parts of read) assert.ok(depth(parts) < 50, text.slice(0, 40));
    if (process.env.SHOW && ms > 50) console.log(JSON.stringify(text.slice(0, 30)), ms.toFixed(0));
  }
});

test('only what changed has another source', () => {
  const [before, after] = ['# T\n\npara\n\n- a', '# T\n\npara\n\n- a\n- b'].map((text) => parse(text).map(({ source }) => source));
  assert.deepEqual(before.slice(0, 2), after.slice(0, 2));
  assert.notEqual(before[2], after[2]);
});
