// Markdown as models write it, read into blocks: CommonMark's common part with tables, task lists and strike-through.
// Markup of HTML is text. A line break is a line break. Inline markup is read when a block is drawn (inline.js).

const DEEPEST = 12;

// No expression here goes over a line more than a few times, whatever the line is.
const FENCE = /^ {0,3}(?:(`{3,})([^`]*)|(~{3,})(.*))$/;
const HEADING = /^ {0,3}(#{1,6})(?= |$)/;
const RULE = /^ {0,3}(?:(?:\* *){3,}|(?:- *){3,}|(?:_ *){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( {0,3})([-+*]|\d{1,9}[.)])( +|$)/;
const TABLE_RULE = /^\|? *:?-+:? *(?:\| *:?-+:? *)*\|?$/;
const LONGEST_TABLE_RULE = 1000;
const MOST_LINES_OF_A_FORMULA = 100;

const isBlank = (line) => line.trim() === '';

/** The blocks of a text. Each outermost one has its `source`, so that a reader of a growing text sees which changed. */
export function parse(text) {
  return blocks(text.replace(/\r\n?/g, '\n').replaceAll('\t', '    ').split('\n'), 0);
}

function blocks(lines, depth) {
  const out = [];
  let at = 0;
  while (at < lines.length) {
    if (isBlank(lines[at])) {
      at += 1;
      continue;
    }
    const start = at;
    const read = depth < DEEPEST ? [fence, heading, rule, quote, list, table] : [fence, heading, rule];
    let found = null;
    for (const reader of read) {
      found = reader(lines, at, depth);
      if (found) break;
    }
    found ??= paragraph(lines, at, depth);
    at = found.next;
    out.push({ ...found.block, ...(depth === 0 && { source: lines.slice(start, at).join('\n') }) });
  }
  return out;
}

function fence(lines, at) {
  const open = FENCE.exec(lines[at]);
  if (!open) return null;
  const [mark, info] = open[1] ? [open[1], open[2]] : [open[3], open[4]];
  const indent = lines[at].search(/\S/);
  const close = new RegExp(`^ {0,3}${mark[0] === '`' ? '`' : '~'}{${mark.length},} *$`);
  let next = at + 1;
  while (next < lines.length && !close.test(lines[next])) next += 1;
  const body = lines.slice(at + 1, next).map((line) => line.slice(Math.min(indent, line.search(/\S|$/))));
  const block = { type: 'code', language: info.trim().split(/\s/, 1)[0], text: body.join('\n') };
  return { block, next: Math.min(next + 1, lines.length) };
}

function heading(lines, at) {
  const found = HEADING.exec(lines[at]);
  if (!found) return null;
  const text = lines[at].slice(found[0].length).trim();
  let end = text.length;
  while (text[end - 1] === '#') end -= 1;
  const closed = end === 0 || text[end - 1] === ' ';
  return { block: { type: 'heading', level: found[1].length, text: closed ? text.slice(0, end).trimEnd() : text }, next: at + 1 };
}

function rule(lines, at) {
  return RULE.test(lines[at]) ? { block: { type: 'rule' }, next: at + 1 } : null;
}

function quote(lines, at, depth) {
  if (!QUOTE.test(lines[at])) return null;
  const inner = [];
  let next = at;
  while (next < lines.length) {
    if (QUOTE.test(lines[next])) inner.push(lines[next].replace(QUOTE, ''));
    else if (isBlank(lines[next]) || isBlank(inner.at(-1)) || begins(lines, next)) break;
    else inner.push(lines[next]);
    next += 1;
  }
  return { block: { type: 'quote', blocks: blocks(inner, depth + 1) }, next };
}

/** What a list item begins with, if the line begins one. */
function marker(line) {
  const found = RULE.test(line) ? null : ITEM.exec(line);
  if (!found) return null;
  const [, indent, mark, space] = found;
  const ordered = mark.length > 1;
  const width = space.length >= 1 && space.length <= 4 ? space.length : 1;
  return { ordered, kind: mark.at(-1), start: ordered ? Number.parseInt(mark, 10) : 1, indent: indent.length, width: indent.length + mark.length + width };
}

function list(lines, at, depth) {
  const first = marker(lines[at]);
  if (!first) return null;
  const items = [];
  let next = at;
  let loose = false;
  while (next < lines.length) {
    const mark = marker(lines[next]);
    if (!mark || mark.kind !== first.kind || mark.ordered !== first.ordered) break;
    const inner = [lines[next].slice(mark.width)];
    next += 1;
    while (next < lines.length) {
      const line = lines[next];
      const indent = line.search(/\S|$/);
      if (isBlank(line)) inner.push('');
      // Models indent what is nested by two spaces whatever the marker's width.
      else if (indent >= mark.width || indent >= mark.indent + 2) inner.push(line.slice(Math.min(indent, mark.width)));
      else if (!isBlank(inner.at(-1)) && !marker(line) && !begins(lines, next)) inner.push(line);
      else break;
      next += 1;
    }
    let blank = 0;
    while (inner.length > 1 && isBlank(inner.at(-1))) blank += inner.pop() === '' ? 1 : 0;
    const another = next < lines.length && marker(lines[next])?.kind === first.kind;
    loose ||= (blank > 0 && another) || inner.some((line, index) => index > 0 && isBlank(line));
    const task = /^\[([ xX])\] /.exec(inner[0]);
    if (task) inner[0] = inner[0].slice(4);
    items.push({ checked: task ? task[1] !== ' ' : null, blocks: blocks(inner, depth + 1) });
  }
  return { block: { type: 'list', ordered: first.ordered, start: first.start, loose, items }, next };
}

/** The cells of a line of a table; a bar in code, between `\( \)` or after a backslash is none. */
function cells(line) {
  const out = [''];
  let code = false;
  /** Where a formula ends that has begun; -1 if none ends any more. */
  let end = 0;
  const inner = line.trim().replace(/^\|/, '').replace(/([^\\]|^)\|$/, '$1');
  for (let at = 0; at < inner.length; at += 1) {
    const letter = inner[at];
    if (letter === '\\' && inner[at + 1] === '(' && !code && end >= 0 && at >= end) end = inner.indexOf('\\)', at);
    if (at < end) {
      out[out.length - 1] += letter;
    } else if (letter === '\\' && inner[at + 1] === '|') {
      out[out.length - 1] += '|';
      at += 1;
    } else if (letter === '|' && !code) {
      out.push('');
    } else {
      if (letter === '`') code = !code;
      out[out.length - 1] += letter;
    }
  }
  return out.map((cell) => cell.trim());
}

function table(lines, at) {
  if (at + 1 >= lines.length || !lines[at].includes('|') || lines[at + 1].length > LONGEST_TABLE_RULE) return null;
  if (!TABLE_RULE.test(lines[at + 1].trim())) return null;
  const head = cells(lines[at]);
  const rules = cells(lines[at + 1]);
  if (head.length !== rules.length) return null;
  const align = rules.map((cell) => [cell.startsWith(':'), cell.endsWith(':')]).map(([l, r]) => (l && r ? 'center' : r ? 'right' : l ? 'left' : ''));
  const rows = [];
  let next = at + 2;
  while (next < lines.length && lines[next].includes('|') && !isBlank(lines[next])) {
    const row = cells(lines[next]);
    rows.push(head.map((_, column) => row[column] ?? ''));
    next += 1;
  }
  return { block: { type: 'table', align, head, rows }, next };
}

/** Whether a line ends a paragraph because something else begins there. */
function begins(lines, at) {
  const line = lines[at];
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line)) return true;
  const mark = marker(line);
  // A year at the beginning of a line is no list.
  return mark !== null && (!mark.ordered || mark.start === 1) && line.length > mark.width - 1;
}

/** Where the formula ends that a line leaves open: its lines begin nothing else, whatever they look like. */
function formulaEnd(lines, at) {
  const line = lines[at];
  const last = line.lastIndexOf('\\[');
  const close = last >= 0 && !line.includes('\\]', last) ? '\\]' : line.split('$$').length % 2 === 0 ? '$$' : null;
  if (!close) return at;
  for (let next = at + 1; next < Math.min(lines.length, at + MOST_LINES_OF_A_FORMULA); next += 1) {
    if (isBlank(lines[next]) || FENCE.test(lines[next])) return at;
    if (lines[next].includes(close)) return next;
  }
  return at;
}

function paragraph(lines, at, depth) {
  let next = formulaEnd(lines, at) + 1;
  while (next < lines.length && !isBlank(lines[next])) {
    if (/^ {0,3}(=+|-+) *$/.test(lines[next]) && next === at + 1 && depth === 0) {
      return { block: { type: 'heading', level: lines[next].includes('=') ? 1 : 2, text: lines[at].trim() }, next: next + 1 };
    }
    if (begins(lines, next) || table(lines, next)) break;
    next = formulaEnd(lines, next) + 1;
  }
  const text = lines.slice(at, next).map((line) => line.replace(/^ +/, '')).join('\n').trimEnd();
  return { block: { type: 'paragraph', text }, next };
}
