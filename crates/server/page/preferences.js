// What the user chose, kept by the browser; the key only for as long as the user wants.

/** A storage that forgets, where the browser has none for this page. */
class Forgetful {
  #kept = new Map();
  getItem = (name) => this.#kept.get(name) ?? null;
  setItem = (name, value) => this.#kept.set(name, value);
  removeItem = (name) => this.#kept.delete(name);
}

function storage(name) {
  try {
    globalThis[name].getItem('kernloom');
    return globalThis[name];
  } catch {
    return new Forgetful();
  }
}

const [local, session] = [storage('localStorage'), storage('sessionStorage')];

/** A text that was kept, or nothing. */
export const get = (name) => local.getItem(`kernloom.${name}`) ?? '';

/** Keeps a text; an empty one is forgotten. */
export function set(name, value) {
  try {
    if (value) local.setItem(`kernloom.${name}`, value);
    else local.removeItem(`kernloom.${name}`);
  } catch {
    // The storage is full: the page goes on without.
  }
}

/** The sampling settings that differ from the server's. */
export function sampling() {
  try {
    const kept = JSON.parse(get('sampling') || '{}');
    return Object.fromEntries(Object.entries(kept).filter(([, value]) => Number.isFinite(value)));
  } catch {
    return {};
  }
}

/** Keeps them. */
export const setSampling = (chosen) => set('sampling', Object.keys(chosen).length ? JSON.stringify(chosen) : '');

/** The key, if there is one. */
export const key = () => session.getItem('kernloom.key') ?? local.getItem('kernloom.key') ?? '';

/** Whether the key outlives the tab. */
export const keepsKey = () => local.getItem('kernloom.key') !== null;

/** Keeps a key for this tab or for good; an empty one is forgotten. */
export function setKey(value, forGood) {
  session.removeItem('kernloom.key');
  local.removeItem('kernloom.key');
  if (value) (forGood ? local : session).setItem('kernloom.key', value);
}

/** Keeps answers and conversations that the page leaves in the middle, for its next life in this tab. */
export function setUnfinished(left) {
  try {
    session.setItem('kernloom.unfinished', JSON.stringify(left));
  } catch {
    // Too long: what the database has must do.
  }
}

/** What was kept by `setUnfinished`, once. */
export function takeUnfinished() {
  const kept = session.getItem('kernloom.unfinished') ?? '[]';
  session.removeItem('kernloom.unfinished');
  return JSON.parse(kept);
}

/** Dark, light, or as the system (empty). */
export function setTheme(theme) {
  set('theme', theme);
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}
