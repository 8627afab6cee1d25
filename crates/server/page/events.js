// Server-sent events of a response, as far as a chat needs them: the data of each event.

/** The data of each event of a stream of bytes. */
export async function* events(bytes) {
  const decoder = new TextDecoder();
  const reader = bytes.getReader();
  let rest = '';
  let data = [];
  try {
    while (true) {
      const { done, value } = await reader.read();
      rest += done ? decoder.decode() : decoder.decode(value, { stream: true });
      const lines = rest.split('\n');
      rest = lines.pop();
      for (const line of lines.map((line) => line.replace(/\r$/, ''))) {
        if (line === '' && data.length) {
          yield data.join('\n');
          data = [];
        } else if (line.startsWith('data:')) {
          data.push(line.slice(line[5] === ' ' ? 6 : 5));
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
