// Colours for code: comments, strings, numbers and keywords, by a few rules for each class of languages. One pass from left
// to right whose work grows with the length of the code; what no rule knows is plain.

/** Longer code has no colours: nobody reads it here. */
const LONGEST = 400_000;

const words = (text) => new Set(text.trim().split(/\s+/));

const C_WORDS = `
  alignas alignof auto bool break case catch char class const constexpr const_cast continue co_await co_return co_yield decltype
  default delete do double dynamic_cast else enum explicit extern false final float for friend goto if inline int interface long
  mutable namespace new noexcept nullptr operator override private protected public register reinterpret_cast return short
  signed sizeof static static_assert static_cast struct switch template this throw true try typedef typename union unsigned
  using virtual void volatile while
`;
const MORE_WORDS = {
  java: 'abstract assert boolean byte extends finally implements import instanceof native null package record sealed super synchronized throws transient var yield permits',
  csharp: 'abstract as async await base byte checked decimal delegate event finally fixed foreach get in init internal is lock null object out params partial readonly record ref sealed set string uint ulong unsafe ushort var when where yield',
  go: 'chan defer fallthrough func go import interface map package range select type var nil iota string error any int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 byte rune',
  kotlin: 'fun val var when is in object companion data sealed suspend override open internal null init import package by lateinit typealias',
  swift: 'func let var guard in is as nil self Self init deinit extension protocol import where defer inout throws rethrows some any async await actor lazy weak',
  php: 'function echo array as extends implements foreach elseif endif endforeach fn global include include_once require require_once instanceof insteadof null print trait use var yield abstract',
  zig: 'fn pub var comptime test usingnamespace defer errdefer orelse try catch unreachable null undefined error and or usize u8 u16 u32 u64 i8 i16 i32 i64 f32 f64',
};

const JS_WORDS = words(`
  abstract any as asserts async await boolean break case catch class const continue debugger declare default delete do else enum
  export extends false finally for from function get if implements import in infer instanceof interface is keyof let namespace
  never new null number object of override private protected public readonly return satisfies set static string super switch
  symbol this throw true try type typeof undefined unknown var void while with yield
`);
const RUST_WORDS = words(`
  as async await bool box break char const continue crate dyn else enum extern f32 f64 false fn for i128 i16 i32 i64 i8 if impl in
  isize let loop match mod move mut pub ref return Self self static str struct super trait true type u128 u16 u32 u64 u8 union
  unsafe use usize where while yield
`);
const PYTHON_WORDS = words(`
  and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda
  match None nonlocal not or pass raise return self True try while with yield
`);
const RUBY_WORDS = words(`
  alias and begin break case class def defined do else elsif end ensure false for if in module next nil not or redo require rescue
  retry return self super then true undef unless until when while yield
`);
const SHELL_WORDS = words(`
  alias break case cd continue declare do done echo elif else esac eval exec exit export fi for function if in local printf read
  readonly return select set shift source sudo then trap unset until while
`);
const SQL_WORDS = words(`
  add all alter and any as asc begin between bigint boolean by cascade case cast char check column commit constraint create cross
  current_date current_timestamp database date decimal default delete desc distinct drop else end except exists false fetch first
  float foreign from full grant group having if in index inner insert int integer intersect interval into is join key last left
  like limit not null numeric offset on or order outer over partition primary real references returning revoke right rollback row
  rows select set smallint table temporary text then timestamp transaction trigger true truncate union unique update using values
  varchar view when where window with
`);
const LITERALS = words('true false null yes no on off');

// Rules: a kind and what it looks like at a place, or where it begins and ends. What a rule looks at in vain, another takes at
// once, so that no text is looked at often.
const NUMBER = ['number', /(?<![\w.])(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.\d[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z]{0,5}\d{0,3}(?!\w)/y];
const WORD = ['word', /[\p{L}_$][\p{L}\p{N}_$]*/uy];
const SLASHES = ['comment', /\/\/[^\n]*/y];
const HASH = ['comment', /#[^\n]*/y];
const STARRED = { kind: 'comment', open: '/*', close: '*/' };
const DOUBLE = ['string', /"(?:[^"\\\n]|\\[^])*(?:"|(?=\n)|\\?$)/y];
const SINGLE = ['string', /'(?:[^'\\\n]|\\[^])*(?:'|(?=\n)|\\?$)/y];
const BACKTICKS = ['string', /`(?:[^`\\]|\\[^])*(?:`|\\?$)/y];

const c = (more = '') => ({ rules: [SLASHES, STARRED, ['keyword', /#[ \t]*(?:include|define|undef|ifdef|ifndef|if|elif|else|endif|pragma|error)\b/y], DOUBLE, SINGLE, NUMBER, WORD], words: words(`${C_WORDS} ${more}`) });
const script = { rules: [SLASHES, STARRED, DOUBLE, SINGLE, BACKTICKS, NUMBER, WORD], words: JS_WORDS };
const markup = { rules: [{ kind: 'comment', open: '<!--', close: '-->' }, ['keyword', /<[!?]?\/?[a-zA-Z][\w:.-]*|[/?]?>/y], ['string', /(?<==\s{0,9})"[^"<]*"|(?<==\s{0,9})'[^'<]*'/y], ['number', /&(?:#?\w{1,10});/y], ['plain', /[\w:.-]+/y]], words: new Set() };

const CLASSES = {
  c: c(),
  ...Object.fromEntries(Object.entries(MORE_WORDS).map(([name, more]) => [name, c(more)])),
  script,
  rust: {
    rules: [SLASHES, { ...STARRED, nests: true }, ['string', /b?"(?:[^"\\]|\\[^])*(?:"|\\?$)/y], ['string', /b?'(?:[^'\\\n]|\\[^\n]{1,9})'/y], ['plain', /'[a-z_]\w*/y], { kind: 'string', open: 'r#"', close: '"#' }, ['keyword', /#!?\[[^\]\n]{0,200}\]/y], NUMBER, WORD],
    words: RUST_WORDS,
  },
  python: {
    rules: [HASH, { kind: 'string', open: '"""', close: '"""' }, { kind: 'string', open: "'''", close: "'''" }, DOUBLE, SINGLE, ['keyword', /@[\w.]+/y], NUMBER, WORD],
    words: PYTHON_WORDS,
  },
  ruby: { rules: [HASH, DOUBLE, SINGLE, NUMBER, WORD], words: RUBY_WORDS },
  shell: {
    rules: [['comment', /(?<![^\s;(])#[^\n]*/y], ['string', /"(?:[^"\\]|\\[^])*(?:"|\\?$)/y], ['string', /'[^']*(?:'|$)/y], ['number', /\$(?:\w+|\{[^}\n]{0,200}\}|[@#?*!-])/y], ['plain', /-{1,2}[\w-]+/y], NUMBER, ['word', /[\w./-]+/y]],
    words: SHELL_WORDS,
  },
  sql: { rules: [['comment', /--[^\n]*/y], STARRED, ['string', /'(?:[^']|'')*(?:'|$)/y], DOUBLE, NUMBER, WORD], words: SQL_WORDS, anyCase: true },
  json: { rules: [SLASHES, STARRED, ['key', /"(?:[^"\\\n]|\\[^\n])*"(?=\s{0,20}:)/y], DOUBLE, ['number', /-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y], WORD], words: LITERALS },
  settings: { rules: [['comment', /(?<![^\s])[#;][^\n]*/y], ['key', /(?<=(?:^|\n)[ \t-]{0,40})[\w.-]+(?=[ \t]{0,9}[:=])/y], ['keyword', /(?<=(?:^|\n))\[[^\]\n]{0,200}\]/y], DOUBLE, SINGLE, NUMBER, ['word', /[\w./-]+/y]], words: LITERALS },
  markup,
  css: { rules: [STARRED, DOUBLE, SINGLE, ['keyword', /@[\w-]+|[\w-]+(?=[ \t]{0,9}:[ \t])/y], ['number', /#[\da-fA-F]{3,8}\b|(?<![\w-])-?\d+(?:\.\d+)?(?:[a-z]{1,4}|%)?/y], ['plain', /[\w-]+/y]], words: new Set() },
  diff: { rules: [['comment', /(?<=(?:^|\n))(?:diff|index|---|\+\+\+|@@)[^\n]*/y], ['added', /(?<=(?:^|\n))\+[^\n]*/y], ['removed', /(?<=(?:^|\n))-[^\n]*/y], ['plain', /[^\n]+/y]], words: new Set() },
};

const NAMES = {
  c: 'c h cc cpp c++ cxx hpp cu cuda objc glsl hlsl wgsl metal opencl arduino dart scala proto protobuf groovy', java: 'java', csharp: 'csharp cs c#', go: 'go golang', kotlin: 'kotlin kt', swift: 'swift', php: 'php', zig: 'zig',
  script: 'js javascript jsx mjs cjs ts typescript tsx', rust: 'rust rs', python: 'python py python3 pycon', ruby: 'ruby rb', shell: 'sh shell bash zsh fish console shell-session dockerfile makefile make',
  sql: 'sql mysql postgresql postgres sqlite plsql', json: 'json jsonc json5 jsonl', settings: 'toml yaml yml ini cfg conf properties', markup: 'html xml svg xhtml vue svelte', css: 'css scss less', diff: 'diff patch',
};

const BY_NAME = new Map(Object.entries(NAMES).flatMap(([kind, names]) => names.split(' ').map((name) => [name, CLASSES[kind]])));

/** The parts of a code: strings, and `{ kind, text }` where something has a colour. Kinds are `comment`, `string`, `number`, `keyword`, `key`, `added` and `removed`. */
export function highlight(code, language) {
  const kind = BY_NAME.get(language.toLowerCase());
  if (!kind || code.length > LONGEST) return [code];
  const out = [];
  let plainFrom = 0;
  let at = 0;
  while (at < code.length) {
    const found = match(kind, code, at);
    if (found?.kind) {
      if (plainFrom < at) out.push(code.slice(plainFrom, at));
      out.push({ kind: found.kind, text: code.slice(at, found.end) });
      plainFrom = found.end;
    }
    at = found?.end ?? at + 1;
  }
  if (plainFrom < code.length) out.push(code.slice(plainFrom));
  return out;
}

/** What a rule finds here: where it ends, and its kind if it has a colour. */
function match({ rules, words, anyCase }, code, at) {
  for (const rule of rules) {
    if (rule.open) {
      if (!code.startsWith(rule.open, at)) continue;
      return { kind: rule.kind, end: endOf(rule, code, at + rule.open.length) };
    }
    const [kind, pattern] = rule;
    pattern.lastIndex = at;
    const found = pattern.exec(code)?.[0];
    if (!found) continue;
    const end = at + found.length;
    if (kind === 'word') return { kind: words.has(anyCase ? found.toLowerCase() : found) ? 'keyword' : '', end };
    return { kind: kind === 'plain' ? '' : kind, end };
  }
  return null;
}

/** Where a part ends that has begun before `from`; the end of the code if nothing ends it. */
function endOf({ open, close, nests }, code, from) {
  let [at, depth] = [from, 1];
  while (depth > 0) {
    const end = code.indexOf(close, at);
    if (end < 0) return code.length;
    const inner = nests ? code.slice(at, end).split(open).length - 1 : 0;
    depth += inner - 1;
    at = end + close.length;
  }
  return at;
}
