// Inline Markdown: emphasis by CommonMark's stack of delimiters, code, links, formulas. The work grows with the length of the
// text, whatever is in it.

const PUNCTUATION = /[\p{P}\p{S}]/u;
const ENTITIES = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', hellip: '…', mdash: '—', ndash: '–', times: '×', rarr: '→', copy: '©' };
const LONGEST_LINK = 4000;
const LONGEST_FORMULA = 10_000;
const LONGEST_IN_DOLLARS = 500;
const DEEPEST = 30;

/** The parts of a text: strings, and nodes with a `type` and `parts` (or `text`). */
export function parseInline(text) {
  return new Reader(text).read();
}

/** The address of a link, if it is one that a click may follow. */
export function safeLink(address) {
  let url;
  try {
    url = new URL(address.trim());
  } catch {
    return null;
  }
  return ['http:', 'https:', 'mailto:'].includes(url.protocol) ? url.href : null;
}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    /** What was read: strings, nodes, and delimiters that may still become something. */
    this.out = [];
    /** Indices in `out` of open brackets. */
    this.brackets = [];
    /** Lengths of runs of backticks that do not come again. */
    this.lonely = new Set();
    /** Where the ends of formulas come next. */
    this.ends = new Map();
  }

  read() {
    const special = /[\\`*_~[\]!<&\n$]|https?:\/\//g;
    while (this.at < this.text.length) {
      special.lastIndex = this.at;
      const found = special.exec(this.text);
      if (!found) {
        this.out.push(this.text.slice(this.at));
        break;
      }
      if (found.index > this.at) this.out.push(this.text.slice(this.at, found.index));
      this.at = found.index;
      this.one(found[0]);
    }
    return emphasise(this.out);
  }

  one(mark) {
    switch (mark[0]) {
      case '\\': return this.escape();
      case '$': return this.dollar();
      case '`': return this.code();
      case '*': case '_': case '~': return this.delimiter(mark);
      case '[': return this.open(false);
      case '!': return this.text[this.at + 1] === '[' ? this.open(true) : this.literal(1);
      case ']': return this.close();
      case '<': return this.angle();
      case '&': return this.entity();
      case '\n': return this.push({ type: 'break' }, 1);
      default: return this.address();
    }
  }

  push(part, length) {
    this.out.push(part);
    this.at += length;
  }

  literal(length) {
    this.push(this.text.slice(this.at, this.at + length), length);
  }

  escape() {
    const next = this.text[this.at + 1];
    if (next === '\n') return this.push({ type: 'break' }, 2);
    // A formula, or the beginning of one that is still being written.
    if (next === '(') return this.formula('\\)', false) || this.literal(2);
    if (next === '[') return this.formula('\\]', true) || this.literal(2);
    if (next !== undefined && /[!-/:-@[-`{-~]/.test(next)) return this.push(next, 2);
    this.literal(1);
  }

  /** A formula from two signs here to two others, if it has its end. */
  formula(close, display) {
    const start = this.at + 2;
    let end = this.ends.get(close) ?? -1;
    if (end < start) end = this.text.indexOf(close, start);
    if (end < 0) end = Infinity;
    this.ends.set(close, end);
    if (end - start > LONGEST_FORMULA) return false;
    const latex = this.text.slice(start, end);
    if (!latex.trim()) return false;
    this.push({ type: 'formula', latex, display, source: this.text.slice(this.at, end + 2) }, end + 2 - this.at);
    return true;
  }

  /** `$$ $$`, or `$ $` where it is no price: nothing but a formula has its first sign right behind the one and its last right before the other. */
  dollar() {
    if (this.text[this.at + 1] === '$') return this.formula('$$', true) || this.literal(2);
    const before = this.text[this.at - 1] ?? ' ';
    const found = /^\$((?:[^\s$\\`]|\\[^\n`])(?:[^$\\`\n]|\\[^\n`])*)\$(?![\p{L}\p{N}$])/u.exec(this.text.slice(this.at, this.at + LONGEST_IN_DOLLARS));
    if (!found || /[\p{L}\p{N}$]/u.test(before) || /\s$/.test(found[1]) || isAmount(found[1])) return this.literal(1);
    this.push({ type: 'formula', latex: found[1], display: false, source: found[0] }, found[0].length);
  }

  code() {
    const run = /`+/y;
    run.lastIndex = this.at;
    const { length } = run.exec(this.text)[0];
    if (this.lonely.has(length)) return this.literal(length);
    const runs = /`+/g;
    runs.lastIndex = this.at + length;
    for (let found = runs.exec(this.text); found; found = runs.exec(this.text)) {
      if (found[0].length !== length) continue;
      let inner = this.text.slice(this.at + length, found.index).replaceAll('\n', ' ');
      if (inner.startsWith(' ') && inner.endsWith(' ') && inner.trim()) inner = inner.slice(1, -1);
      return this.push({ type: 'code', text: inner }, found.index + length - this.at);
    }
    this.lonely.add(length);
    this.literal(length);
  }

  delimiter(mark) {
    let end = this.at;
    while (this.text[end] === mark) end += 1;
    const before = this.at === 0 ? ' ' : String.fromCodePoint(this.text.codePointAt(this.at - 1));
    const after = end === this.text.length ? ' ' : String.fromCodePoint(this.text.codePointAt(end));
    const [spaceBefore, spaceAfter] = [/\s/.test(before), /\s/.test(after)];
    const [dotBefore, dotAfter] = [PUNCTUATION.test(before), PUNCTUATION.test(after)];
    const left = !spaceAfter && (!dotAfter || spaceBefore || dotBefore);
    const right = !spaceBefore && (!dotBefore || spaceAfter || dotAfter);
    const count = end - this.at;
    if (mark === '~' && count !== 2) return this.literal(count);
    const opens = mark === '_' ? left && (!right || dotBefore) : left;
    const closes = mark === '_' ? right && (!left || dotAfter) : right;
    this.push({ mark, count, length: count, opens, closes }, count);
  }

  open(image) {
    this.brackets.push(this.out.length);
    this.push(image ? '![' : '[', image ? 2 : 1);
  }

  close() {
    const start = this.brackets.pop();
    const found = start === undefined ? null : this.destination();
    if (!found) return this.literal(1);
    const image = this.out[start] === '![';
    const parts = emphasise(this.out.splice(start).slice(1));
    // There are no links in links.
    if (!image) this.brackets = [];
    const link = nested({ type: 'link', address: found.address, image, parts });
    if (link) return this.push(link, found.length + 1);
    for (const part of [image ? '![' : '[', ...parts]) this.out.push(part);
    this.literal(1);
  }

  /** `(address "title")` behind the bracket. */
  destination() {
    const rest = this.text.slice(this.at + 1, this.at + LONGEST_LINK);
    const found = /^\(\s{0,4}(?:<([^<>\n]*)>|((?:[^\s()\\]|\\.|\([^\s()]*\))*))(?:\s{1,4}(?:"[^"]*"|'[^']*'))?\s{0,4}\)/.exec(rest);
    return found && { address: (found[1] ?? found[2]).replace(/\\([!-/:-@[-`{-~])/g, '$1'), length: found[0].length };
  }

  angle() {
    const rest = this.text.slice(this.at, this.at + LONGEST_LINK);
    const line = /^<br ?\/?>/i.exec(rest);
    if (line) return this.push({ type: 'break' }, line[0].length);
    const link = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/i.exec(rest);
    if (link) return this.push({ type: 'link', address: link[1], parts: [link[1]] }, link[0].length);
    this.literal(1);
  }

  address() {
    const [found] = /^https?:\/\/[^\s<>"`|\\^{}]*/.exec(this.text.slice(this.at, this.at + LONGEST_LINK));
    let address = found.replace(/[.,:;!?'*_~\])]+$/, '');
    // A bracket that the address itself opened belongs to it.
    if (found[address.length] === ')' && address.split('(').length > address.split(')').length) address += ')';
    if (address.length < 9) return this.literal(found.length);
    this.push({ type: 'link', address, parts: [address] }, address.length);
  }

  entity() {
    const found = /^&(?:#(\d{1,7})|#[xX]([\da-fA-F]{1,6})|([a-zA-Z]{2,8}));/.exec(this.text.slice(this.at, this.at + 12));
    if (!found) return this.literal(1);
    const [all, decimal, hex, name] = found;
    const code = Number.parseInt(decimal ?? hex, decimal ? 10 : 16);
    const text = name ? ENTITIES[name] : code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code < 0xe000) ? String.fromCodePoint(code) : undefined;
    this.push(text ?? all, all.length);
  }
}

/** Whether a text begins with an amount of money and goes on with words. */
const isAmount = (text) => /^\d[\d.,]*\p{L}{0,2}[\s,/-]/u.test(text) && !/[\\^_{}=+<>*]/.test(text);

/** Whether a closer takes an opener: CommonMark's rule of three. */
const fits = (opener, closer) =>
  opener.mark === closer.mark &&
  !((opener.closes || closer.opens) && (opener.length + closer.length) % 3 === 0 && !(opener.length % 3 === 0 && closer.length % 3 === 0));

/** Turns pairs of delimiters into nodes, and lonely ones into text. */
function emphasise(parts) {
  const out = [];
  /** Open delimiters and where in `out` they lie. */
  const openers = [];
  /** Below this height of `openers` nothing fits such a closer. */
  const bottom = new Map();
  let tooDeep = false;
  for (const part of parts) {
    if (typeof part === 'string' || !part.mark) {
      out.push(part);
      continue;
    }
    const kind = `${part.mark}${part.opens}${part.length % 3}`;
    while (part.closes && part.count > 0 && !tooDeep) {
      let height = openers.length - 1;
      const low = bottom.get(kind) ?? 0;
      while (height >= low && !fits(openers[height].part, part)) height -= 1;
      if (height < low) {
        bottom.set(kind, openers.length);
        break;
      }
      const { part: opener, at } = openers[height];
      openers.length = height + 1;
      for (const [key, low] of bottom) bottom.set(key, Math.min(low, openers.length));
      const used = opener.count >= 2 && part.count >= 2 ? 2 : 1;
      const inner = out.splice(at + 1).map(text);
      const type = part.mark === '~' ? 'strike' : used === 2 ? 'strong' : 'emphasis';
      const node = nested({ type, parts: inner });
      if (!node) {
        // The rest of such a text is taken as it is, or each closer would go over all of it again.
        for (const one of inner) out.push(one);
        tooDeep = true;
        break;
      }
      out.push(node);
      part.count -= used;
      opener.count -= used;
      if (opener.count === 0) {
        openers.pop();
        out.splice(at, 1);
      }
    }
    if (part.count === 0) continue;
    if (part.opens) openers.push({ part, at: out.length });
    out.push(part);
  }
  return merge(out.map(text));
}

/** The node with its depth, if that is not too much for whoever draws it. */
function nested(node) {
  const depth = 1 + node.parts.reduce((deepest, part) => Math.max(deepest, part.depth ?? 0), 0);
  return depth > DEEPEST ? null : { ...node, depth };
}

const text = (part) => (part.mark ? part.mark.repeat(part.count) : part);

function merge(parts) {
  const out = [];
  for (const part of parts) {
    // A formula with lines of its own needs no break before or behind it.
    if (part.type === 'break' && out.at(-1)?.display) continue;
    if (part.display && out.at(-1)?.type === 'break') out.pop();
    if (typeof part === 'string' && typeof out.at(-1) === 'string') out[out.length - 1] += part;
    else if (part !== '') out.push(part);
  }
  return out;
}
