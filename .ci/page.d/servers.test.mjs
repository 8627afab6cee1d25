// The page and servers that are killed, want a key, or have no page.
import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { after, before, test } from 'node:test';
import { Server, browse, changing, lastAnswer, open, say, settled, until } from './support.mjs';

let browser;

before(async () => {
  browser = await browse();
});

after(() => browser?.close());

const alerts = (page) => page.locator('[role="alert"]:visible').allInnerTexts();

test('a killed server gives one clear message, and a retry when it is back', async () => {
  let server = await Server.ready();
  const { port, url } = server;
  const page = await open(browser, url);
  try {
    await changing(page, () => ({ ignore_eos: true }));
    await say(page, 'Tell me a story.');
    await page.locator('.running .markdown p').first().waitFor();
    await server.kill();
    await settled(page);
    assert.deepEqual((await alerts(page)).map((text) => text.split('\n')[0]), ['The connection to the server was lost in the middle of the answer.']);
    assert.ok((await lastAnswer(page)).length > 0, 'what had come is kept');
    // Not with the pointer, under which the end of the answer may still scroll away.
    const tryAgain = () => page.locator('.message >> text=Try again').dispatchEvent('click');
    await tryAgain();
    await settled(page);
    assert.deepEqual((await alerts(page)).map((text) => text.split('\n')[0]), ['The server cannot be reached. Is it running?']);
    await page.unroute('**/v1/chat/completions');
    server = await Server.ready([], port);
    await tryAgain();
    await settled(page);
    assert.deepEqual(await alerts(page), []);
    assert.ok((await lastAnswer(page)).length > 0);
    assert.equal(await page.locator('.message').count(), 2);
    assert.deepEqual(page.complaints.filter((text) => !/Failed to load resource|net::ERR/.test(text)), []);
  } finally {
    await page.context().close();
    await server.kill();
  }
});

test('a server that wants a key gets it, for the tab or for good', async () => {
  const server = await Server.start(['--api-key', 'open sesame,other']);
  await until('the model loads', async () => (await fetch(`${server.url}/health`)).ok);
  const page = await open(browser, server.url);
  const give = async (on, key, keep) => {
    await on.locator('#key').waitFor();
    await on.fill('#key-field', key);
    await on.setChecked('#key-keep', keep);
    await on.click('#key-use');
  };
  const isReady = (on) => until('it knows the model', async () => (await on.textContent('#model')) === 'kernloom-demo');
  try {
    assert.equal((await fetch(`${server.url}/props`)).status, 401);
    await give(page, 'wrong', false);
    await page.locator('#key').waitFor();
    await give(page, 'open sesame', false);
    await isReady(page);
    await say(page, 'Hello');
    await settled(page);
    assert.ok((await lastAnswer(page)).length > 0);
    await page.reload();
    await isReady(page);
    // Another tab does not know a key that was given to this one only.
    const other = await page.context().newPage();
    await other.goto(server.url);
    await give(other, 'other', true);
    await isReady(other);
    const third = await page.context().newPage();
    await third.goto(server.url);
    await isReady(third);
    // A key that is no longer good is asked for again, and the message that needed it is answered.
    await third.evaluate(() => localStorage.setItem('kernloom.key', 'old'));
    await say(third, 'Hello again');
    await give(third, 'other', true);
    await third.waitForFunction(() => document.querySelectorAll('.message').length === 2);
    await until('the answer comes', async () => (await lastAnswer(third)).length > 0);
    await settled(third);
    // Cancelling leaves a word and a way on; an empty key forgets.
    await third.click('#open-settings');
    await third.click('#change-key');
    await give(third, '', false);
    await third.locator('#key').waitFor();
    await third.click('#key-cancel');
    await until('it says so', async () => /wants an API key/.test((await alerts(third)).join()));
    await third.click('#banner-retry');
    await give(third, 'other', false);
    await isReady(third);
    assert.deepEqual(await alerts(third), []);
  } finally {
    await page.context().close();
    await server.kill();
  }
});

test('below a path of a proxy', async () => {
  const server = await Server.ready();
  const proxy = createServer((asked, answer) => {
    if (!asked.url.startsWith('/chat/')) return answer.writeHead(404).end();
    const { method, headers } = asked;
    const passed = request(server.url + asked.url.slice(5), { method, headers }, (got) => {
      answer.writeHead(got.statusCode, got.headers);
      got.pipe(answer);
    });
    // Who has left waits for no answer, and a server that ends leaves who waits for one.
    answer.on('close', () => passed.destroy());
    passed.on('error', () => answer.destroy());
    asked.pipe(passed);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  const page = await open(browser, `http://127.0.0.1:${proxy.address().port}/chat/`);
  try {
    await say(page, 'Hello');
    await settled(page);
    assert.ok((await lastAnswer(page)).length > 0);
    await page.reload();
    assert.match(new URL(page.url()).pathname, /^\/chat\/$/);
    assert.ok((await lastAnswer(page)).length > 0);
    assert.deepEqual(page.complaints, []);
  } finally {
    await page.context().close();
    proxy.closeAllConnections();
    proxy.close();
    await server.kill();
  }
});

test('a server without a page has none', async () => {
  const server = await Server.start(['--no-webui']);
  try {
    // What clients of Ollama look for there.
    const root = await fetch(server.url);
    assert.deepEqual([root.status, await root.text()], [200, 'Ollama is running']);
    assert.equal((await fetch(`${server.url}/page/main.js`)).status, 404);
  } finally {
    await server.kill();
  }
});
