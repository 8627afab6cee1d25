// Text files that go with a message: what is taken, and how a model reads them.

export const LARGEST = 256 * 1024;
export const MOST = 8;
const LONGEST_NAME = 120;

const size = (bytes) => (bytes < 1024 ? `${bytes} bytes` : `${Math.ceil(bytes / 1024).toLocaleString('en')} KB`);

/** How long a text is as a file. */
export const sizeOf = (text) => size(new TextEncoder().encode(text).length);

/** A file's `name` and `text`. Throws an `Error` that says in a line why it is not taken. */
export async function readFile(file) {
  const name = nameOf(file.name);
  if (file.type.startsWith('image/') && file.type !== 'image/svg+xml') throw new Error(`${name} is an image; only text is read here.`);
  if (file.size > LARGEST) throw new Error(`${name} is too large: ${size(file.size)}, and at most ${size(LARGEST)} are taken.`);
  const text = textOf(new Uint8Array(await file.arrayBuffer()));
  if (text === null) throw new Error(`${name} is not a text file (UTF-8).`);
  return { name, text };
}

/** A name in one line that ends nothing. */
export const nameOf = (name) => name.replace(/[\p{C}\s`]+/gu, ' ').trim().slice(0, LONGEST_NAME) || 'file';

function textOf(bytes) {
  if (bytes.includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}

/** What a message says with its files: each as a block with its name, in a fence that nothing in it ends. */
export function withFiles({ content, files = [] }) {
  const blocks = files.map(({ name, text }) => {
    const longest = (text.match(/`+/g) ?? []).reduce((most, run) => Math.max(most, run.length), 2);
    const fence = '`'.repeat(longest + 1);
    const language = /\.(\w{1,10})$/.exec(name)?.[1] ?? '';
    return `File \`${name}\`:\n${fence}${language}\n${text.replace(/\n$/, '')}\n${fence}`;
  });
  return [...blocks, ...(content ? [content] : [])].join('\n\n');
}
