// A useful part of LaTeX's mathematics, read into a tree of MathML's names: what is drawn of it is formula.js's. A command that
// is not known stays as its source in its place; a formula that makes no sense (a bracket without its other) is none, and
// whoever asked shows its source. The work grows with the length of the formula.

import * as commands from './latex-commands.js';

/** Groups within groups; whoever draws them goes as deep. */
const DEEPEST = 60;

/** Why a text is no formula. It never leaves this file. */
class NoFormula extends Error {}

/** The tree of a formula: `{ tag, children or text, attributes }`, or null if it cannot be read. */
export function parseLatex(source) {
  try {
    return new Formula(source).whole();
  } catch (error) {
    if (error instanceof NoFormula) return null;
    throw error;
  }
}

const node = (tag, children, attributes) => ({ tag, children, ...(attributes && { attributes }) });
const leaf = (tag, text, attributes) => ({ tag, text, ...(attributes && { attributes }) });
const row = (children) => (children.length === 1 ? children[0] : node('mrow', children));
const space = (width) => leaf('mspace', '', { width: `${width}em` });

/** A command, a number, or one sign. */
const TOKEN = /\\(?:[a-zA-Z]+\*?|[^])|\d+(?:\.\d+)?|\.\d+|[^]/uy;

const NAMED = /^\\[a-zA-Z]/;
const SCRIPTS = /^[\^_']$/;
const CLOSES_CELL = new Set(['&', '\\\\', '\\cr', '\\end']);
const PRIMES = ['', '′', '″', '‴', '⁗'];
const BIG = new Map([['big', 1.2], ['Big', 1.8], ['bigg', 2.4], ['Bigg', 3]]);
const TEXTS = new Map([['text', ''], ['textrm', ''], ['textnormal', ''], ['mbox', ''], ['hbox', ''], ['textbf', 'strong'], ['textit', 'slanted'], ['emph', 'slanted'], ['texttt', 'typed'], ['textsf', 'sans']]);

/** How environments are drawn: brackets around, and how columns are aligned (`rl`: to the right and to the left in turn). */
const ENVIRONMENTS = new Map(
  Object.entries({
    matrix: {}, pmatrix: { around: '()' }, bmatrix: { around: '[]' }, Bmatrix: { around: '{}' }, vmatrix: { around: '||' }, Vmatrix: { around: '‖‖' },
    smallmatrix: { small: true }, array: { columns: true }, cases: { around: '{ ', align: 'l' }, dcases: { around: '{ ', align: 'l', display: true }, rcases: { around: ' }', align: 'l' },
    aligned: { align: 'rl', display: true }, align: { align: 'rl', display: true }, split: { align: 'rl', display: true }, eqnarray: { align: 'rcl', display: true },
    alignedat: { align: 'rl', display: true, counted: true }, alignat: { align: 'rl', display: true, counted: true },
    gathered: { display: true }, gather: { display: true }, multline: { display: true }, equation: { display: true },
  }),
);

class Formula {
  constructor(source) {
    this.source = source;
    this.at = 0;
    this.depth = 0;
    /** The alphabet of letters here. */
    this.alphabet = '';
    this.advance();
  }

  /** Goes to the next token; spaces mean nothing. */
  advance() {
    while (/\s/.test(this.source[this.at] ?? '')) this.at += 1;
    this.begin = this.at;
    TOKEN.lastIndex = this.at;
    this.token = TOKEN.exec(this.source)?.[0] ?? '';
    this.at += this.token.length;
  }

  next() {
    const { token } = this;
    this.advance();
    return token;
  }

  expect(token) {
    if (this.token !== token) throw new NoFormula();
    this.advance();
  }

  whole() {
    return this.row(() => this.token === '');
  }

  /** Runs something one level deeper, with an alphabet that ends with it. */
  deeper(inner, alphabet = this.alphabet) {
    const before = this.alphabet;
    this.depth += 1;
    if (this.depth > DEEPEST) throw new NoFormula();
    this.alphabet = alphabet;
    const out = inner();
    this.alphabet = before;
    this.depth -= 1;
    return out;
  }

  /** All up to where `ends` holds, which is not taken. */
  row(ends) {
    return this.deeper(() => {
      const out = [];
      while (!ends()) {
        if (this.token === '') throw new NoFormula();
        const name = NAMED.test(this.token) ? this.token.slice(1) : '';
        if (['over', 'choose', 'atop'].includes(name)) {
          this.advance();
          const parts = [row(out), this.row(ends)];
          return name === 'over' ? node('mfrac', parts) : stacked(parts, name === 'choose' ? '()' : '');
        }
        if (name === 'displaystyle' || name === 'textstyle') {
          this.advance();
          out.push(node('mstyle', [this.row(ends)], { displaystyle: String(name === 'displaystyle') }));
        } else if (commands.SWITCHES.has(name)) {
          this.advance();
          this.alphabet = commands.SWITCHES.get(name);
        } else {
          this.scripted(out);
        }
      }
      return row(out);
    });
  }

  /** Adds an expression and what stands above and below it. */
  scripted(out) {
    const before = out.at(-1);
    let base = SCRIPTS.test(this.token) ? node('mrow', []) : this.atom();
    if (base === null) return;
    const isFunction = base.isFunction;
    delete base.isFunction;
    // Names of functions keep a distance to letters and numbers.
    if (isFunction && before && before.tag !== 'mo' && before.tag !== 'mspace') out.push(space(0.167));
    let stacks = base.stacks;
    delete base.stacks;
    let [above, below, primes] = [null, null, 0];
    for (;;) {
      if (this.token === '\\limits' || this.token === '\\nolimits') {
        stacks = this.next() === '\\limits';
      } else if (this.token === "'") {
        primes += 1;
        this.advance();
      } else if (this.token === '^' || this.token === '_') {
        const isAbove = this.next() === '^';
        if (isAbove ? above : below) throw new NoFormula();
        const script = this.argument();
        if (isAbove) above = script;
        else below = script;
      } else break;
    }
    if (primes) {
      const sign = leaf('mo', PRIMES[primes] ?? '′'.repeat(primes), { lspace: '0', rspace: '0' });
      above = above ? node('mrow', [sign, above]) : sign;
    }
    if (above && below) base = node(stacks ? 'munderover' : 'msubsup', [base, below, above]);
    else if (above || below) base = node(stacks ? (above ? 'mover' : 'munder') : above ? 'msup' : 'msub', [base, above ?? below]);
    out.push(base);
    if (isFunction && !/^([()[\]|^_,.;:}&]|\\left|\\right|\\big.*|\\[{}\\,;:!]|)$/.test(this.token)) out.push(space(0.167));
  }

  /** What a command takes: a group, or one expression. */
  argument(alphabet) {
    if (this.token === '{') return this.group(alphabet);
    if (this.token === '' || this.token === '}' || this.token === '&') throw new NoFormula();
    // Of a number only its first digit, as in TeX.
    if (/^[\d.]/.test(this.token) && this.token.length > 1) {
      this.at = this.begin + 1;
      const digit = this.token[0];
      this.advance();
      return this.letter(digit, alphabet);
    }
    return this.deeper(() => this.atom(), alphabet) ?? node('mrow', []);
  }

  group(alphabet) {
    this.expect('{');
    const out = this.deeper(() => this.row(() => this.token === '}'), alphabet);
    this.expect('}');
    return out;
  }

  /** The text of a group, which is no formula. */
  raw() {
    if (this.token !== '{') throw new NoFormula();
    const start = this.at;
    let open = 1;
    for (let at = start; at < this.source.length; at += 1) {
      const letter = this.source[at];
      if (letter === '\\') at += 1;
      else if (letter === '{') open += 1;
      else if (letter === '}') open -= 1;
      if (open > 0) continue;
      this.at = at + 1;
      this.advance();
      return this.source.slice(start, at);
    }
    throw new NoFormula();
  }

  /** What stands in `[ ]`, if it does. */
  option() {
    if (this.token !== '[') return null;
    this.advance();
    const out = this.row(() => this.token === ']');
    this.expect(']');
    return out;
  }

  /** One expression; null if there is nothing to see of it. */
  atom() {
    const { token } = this;
    if (token === '{') return this.group();
    if (token === '}' || token === '&' || token === '$') throw new NoFormula();
    if (NAMED.test(token)) return this.command(this.next().slice(1));
    this.advance();
    if (token[0] !== '\\') return this.letter(token);
    const sign = token.slice(1);
    if (sign === '') throw new NoFormula();
    if (sign === '|') return leaf('mo', '‖', { stretchy: 'false' });
    if (sign === '{' || sign === '}') return leaf('mo', sign, { stretchy: 'false' });
    if (sign === '\\') return leaf('mspace', '', { linebreak: 'newline' });
    if (/\s/.test(sign)) return space(0.25);
    return this.sign(sign) ?? unknown(token);
  }

  letter(token, alphabet = this.alphabet) {
    if (/^[\d.]*\d$/.test(token)) return leaf('mn', Array.from(token, (digit) => commands.inAlphabet(alphabet, digit)).join(''));
    if (token === '~') return space(0.25);
    if (token === '-') return leaf('mo', '−');
    if (token === '*') return leaf('mo', '∗');
    if (token === ':') return leaf('mo', ':');
    if (token === '|') return leaf('mo', token, { stretchy: 'false', lspace: '0', rspace: '0' });
    if ('()[]/'.includes(token)) return leaf('mo', token, { stretchy: 'false' });
    if (/\p{L}/u.test(token)) return identifier(token, alphabet);
    if (/[.\p{So}]/u.test(token)) return leaf('mi', token, { mathvariant: 'normal' });
    return leaf('mo', token);
  }

  /** A command that is one sign, or null. */
  sign(name) {
    if (commands.LETTERS.has(name)) return identifier(commands.LETTERS.get(name), this.alphabet);
    if (commands.UPRIGHT.has(name)) return identifier(commands.UPRIGHT.get(name), this.alphabet || 'upright');
    if (commands.OPERATORS.has(name)) return leaf('mo', commands.OPERATORS.get(name), { stretchy: 'false' });
    if (commands.LARGE.has(name)) return { ...leaf('mo', commands.LARGE.get(name), { movablelimits: 'true' }), stacks: true };
    if (commands.INTEGRALS.has(name)) return leaf('mo', commands.INTEGRALS.get(name), { largeop: 'true' });
    if (commands.FUNCTIONS.has(name)) return { ...leaf('mi', name), isFunction: true };
    if (commands.LIMITS.has(name)) return limit(name.replace(/^lim(?=.)|^arg/, '$& '));
    if (commands.DELIMITERS.has(name)) return leaf('mo', commands.DELIMITERS.get(name), { stretchy: 'false' });
    if (commands.SPACES.has(name)) return space(commands.SPACES.get(name));
    return null;
  }

  command(name) {
    const sign = this.sign(name);
    if (sign) return sign;
    const big = /^(big|Big|bigg|Bigg)([lrm]?)$/.exec(name);
    if (big) {
      const size = `${BIG.get(big[1])}em`;
      return leaf('mo', this.delimiter(), { stretchy: 'true', minsize: size, maxsize: size, ...(big[2] !== 'm' && { lspace: '0', rspace: '0' }) });
    }
    if (commands.ALPHABETS.has(name)) return this.argument(commands.ALPHABETS.get(name));
    if (TEXTS.has(name)) return this.text(TEXTS.get(name));
    if (commands.ACCENTS.has(name)) return over(this.argument(), accent(commands.ACCENTS.get(name), false));
    if (commands.OVER.has(name)) return { ...over(this.argument(), accent(commands.OVER.get(name), true)), stacks: name === 'overbrace' };
    if (commands.UNDER.has(name)) return { ...node('munder', [this.argument(), accent(commands.UNDER.get(name), true)]), stacks: name === 'underbrace' };
    switch (name) {
      case 'frac': return node('mfrac', [this.argument(), this.argument()]);
      case 'dfrac': case 'cfrac': return styled(true, node('mfrac', [this.argument(), this.argument()]));
      case 'tfrac': return styled(false, node('mfrac', [this.argument(), this.argument()]));
      case 'binom': case 'dbinom': case 'tbinom': return stacked([this.argument(), this.argument()], '()');
      case 'sqrt': return this.root();
      case 'overline': case 'underline': case 'boxed': case 'fbox': return node('mrow', [this.argument()], { class: name === 'fbox' ? 'boxed' : name });
      case 'phantom': case 'hphantom': case 'vphantom': return node('mphantom', [this.argument()]);
      case 'overset': case 'stackrel': return this.pair((above, base) => node('mover', [base, above]));
      case 'underset': return this.pair((below, base) => node('munder', [base, below]));
      case 'xrightarrow': case 'xleftarrow': return this.labelledArrow(name === 'xrightarrow' ? '→' : '←');
      case 'operatorname': return { ...leaf('mi', plain(this.raw())), isFunction: true };
      case 'operatorname*': return limit(plain(this.raw()));
      case 'mathop': return { ...this.argument(), stacks: true };
      case 'mathbin': case 'mathrel': case 'mathord': case 'mathopen': case 'mathclose': case 'mathpunct': return this.argument();
      case 'substack': return this.substack();
      case 'bmod': return leaf('mo', 'mod', { lspace: '0.222em', rspace: '0.222em' });
      case 'mod': return node('mrow', [space(0.667), leaf('mi', 'mod'), space(0.333), this.argument()]);
      case 'pmod': return node('mrow', [space(0.444), leaf('mo', '(', { stretchy: 'false' }), leaf('mi', 'mod'), space(0.333), this.argument(), leaf('mo', ')', { stretchy: 'false' })]);
      case 'not': return this.not();
      case 'left': return this.fenced();
      case 'begin': return this.environment();
      case 'tag': return node('mrow', [space(2), leaf('mtext', `(${this.raw()})`)]);
      case 'label': this.raw(); return null;
      case 'nonumber': case 'notag': case 'scriptstyle': case 'scriptscriptstyle': case 'limits': case 'nolimits': return null;
      case 'right': case 'end': case 'middle': throw new NoFormula();
      default: return unknown(`\\${name}`);
    }
  }

  pair(make) {
    const first = this.argument();
    return make(first, this.argument());
  }

  root() {
    const index = this.option();
    const inner = this.argument();
    return index ? node('mroot', [inner, index]) : node('msqrt', [inner]);
  }

  labelledArrow(arrow) {
    const below = this.option();
    const above = this.argument();
    const sign = leaf('mo', arrow, { stretchy: 'true' });
    const wide = node('mrow', [space(0.5), above, space(0.5)]);
    return below ? node('munderover', [sign, below, wide]) : node('mover', [sign, wide]);
  }

  not() {
    const inner = this.atom();
    if (inner?.text) return { ...inner, text: `${inner.text}\u0338` };
    return inner ?? unknown('\\not');
  }

  /** Words, and formulas in dollars between them. */
  text(style) {
    const attributes = style ? { class: style } : undefined;
    const parts = this.raw().split(/(?<!\\)\$/);
    if (parts.length % 2 === 0) throw new NoFormula();
    return row(
      parts.map((part, index) => {
        if (index % 2 === 0) return leaf('mtext', plain(part), attributes);
        const inner = new Formula(part);
        inner.depth = this.depth + 1;
        return inner.whole();
      }).filter(({ text }) => text !== ''),
    );
  }

  /** A sign that may grow; the empty one is a dot. */
  delimiter() {
    const token = this.next();
    const name = token === '\\|' ? '‖' : token.replace(/^\\/, '');
    // A brace is a group where it has no backslash.
    if (!commands.DELIMITERS.has(name) || token === '{' || token === '}') throw new NoFormula();
    return commands.DELIMITERS.get(name);
  }

  fenced() {
    const out = [];
    const fence = (form) => {
      const sign = this.delimiter();
      if (sign) out.push(leaf('mo', sign, { form, stretchy: 'true', fence: 'true' }));
    };
    fence('prefix');
    for (;;) {
      out.push(this.row(() => this.token === '\\right' || this.token === '\\middle'));
      if (this.next() === '\\right') break;
      fence('infix');
    }
    fence('postfix');
    return node('mrow', out);
  }

  substack() {
    this.expect('{');
    const rows = this.rows(() => this.token === '}');
    this.expect('}');
    return grid(rows, {});
  }

  environment() {
    const name = this.raw();
    const kind = ENVIRONMENTS.get(name.replace(/\*$/, ''));
    if (!kind) throw new NoFormula();
    if (kind.counted) this.raw();
    const columns = kind.columns ? this.raw().replace(/[^lcr]/g, '') : kind.align;
    const rows = this.rows(() => this.token === '\\end');
    this.advance();
    if (this.raw() !== name) throw new NoFormula();
    const inner = grid(rows, { ...kind, align: columns });
    return kind.around ? fencedBy(kind.around, inner) : inner;
  }

  /** Rows of cells, up to where `ends` holds. */
  rows(ends) {
    const out = [];
    let [cells, ruled] = [[], false];
    const endRow = () => {
      out.push({ cells, ruled });
      [cells, ruled] = [[], false];
    };
    for (;;) {
      while (this.token === '\\hline') {
        ruled = true;
        this.advance();
      }
      if (ends() && cells.length === 0) break;
      cells.push(this.row(() => CLOSES_CELL.has(this.token) || ends()));
      if (ends()) {
        endRow();
        break;
      }
      const between = this.next();
      if (between === '&') continue;
      if (between === '\\end') throw new NoFormula();
      endRow();
      this.distance();
    }
    return out;
  }

  /** The distance to the next row, as `[2pt]`, which is as it is here. */
  distance() {
    const found = /^\[\s*-?[\d.]+\s*[a-z]{2}\s*\]/.exec(this.source.slice(this.begin, this.begin + 20));
    if (!found) return;
    this.at = this.begin + found[0].length;
    this.advance();
  }
}

function identifier(letter, alphabet) {
  const there = commands.inAlphabet(alphabet, letter);
  // One letter is slanted by whoever draws it, unless it is said not to be.
  return leaf('mi', there, alphabet === 'upright' ? { mathvariant: 'normal' } : undefined);
}

const unknown = (source) => leaf('mtext', source, { class: 'unknown' });
const limit = (name) => ({ ...leaf('mo', name, { movablelimits: 'true', form: 'prefix', lspace: '0', rspace: '0' }), stacks: true, isFunction: true });
const styled = (display, inner) => node('mstyle', [inner], { displaystyle: String(display) });
const accent = (sign, stretchy) => leaf('mo', sign, { stretchy: String(stretchy) });
const over = (base, sign) => node('mover', [base, sign], { accent: 'true' });
const bracket = (sign, form) => leaf('mo', sign, { form, stretchy: 'true', fence: 'true' });

/** Spaces of a text count, and a sign after a backslash is itself. */
const plain = (text) => text.replace(/\\([#$%&_{}\s])/g, '$1').replace(/\\[,:;!]/g, '\u2009').replace(/[ \n]|~/g, '\u00a0');

function fencedBy([open, close], inner) {
  return node('mrow', [...(open.trim() ? [bracket(open, 'prefix')] : []), inner, ...(close.trim() ? [bracket(close, 'postfix')] : [])]);
}

function stacked(parts, around) {
  const inner = node('mfrac', parts, { linethickness: '0' });
  return around ? fencedBy(around, inner) : inner;
}

const SIDES = { l: 'to-left', r: 'to-right', c: 'to-center' };

function grid(rows, { align = '', display = false, small = false }) {
  const last = align.length - 1;
  const side = (column) => (align === 'rl' ? align[column % 2] : align[Math.min(column, last)]);
  const drawn = rows.map(({ cells, ruled }) =>
    node('mtr', cells.map((cell, column) => node('mtd', [cell], side(column) && { class: SIDES[side(column)] })), ruled ? { class: 'ruled' } : undefined));
  const table = node('mtable', drawn, { class: align === 'rl' || align === 'rcl' ? 'pairs' : 'grid', ...(display && { displaystyle: 'true' }) });
  return small ? node('mstyle', [table], { scriptlevel: '1' }) : table;
}
