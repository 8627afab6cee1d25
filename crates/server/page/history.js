// Conversations, kept by the browser. Other tabs hear of changes.

const channel = typeof BroadcastChannel === 'function' ? new BroadcastChannel('kernloom') : null;
let database = null;

const done = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

function store(mode) {
  return database.transaction('conversations', mode).objectStore('conversations');
}

/** All conversations. Throws if the browser keeps nothing for this page; what follows is then kept in memory only. */
export async function open() {
  const request = indexedDB.open('kernloom', 1);
  request.onupgradeneeded = () => request.result.createObjectStore('conversations', { keyPath: 'id' });
  database = await done(request);
  return done(store('readonly').getAll());
}

/** The conversation as it is kept now. */
export const get = (id) => (database ? done(store('readonly').get(id)) : Promise.resolve(undefined));

/** Keeps a conversation as it is now. */
export async function put(conversation) {
  if (!database) return;
  await done(store('readwrite').put(conversation));
  channel?.postMessage(conversation.id);
}

/** Forgets a conversation. */
export async function remove(id) {
  if (!database) return;
  await done(store('readwrite').delete(id));
  channel?.postMessage(id);
}

/** Calls `listener` with the id of a conversation that another tab changed. */
export function onChange(listener) {
  if (channel) channel.onmessage = (event) => listener(event.data);
}
