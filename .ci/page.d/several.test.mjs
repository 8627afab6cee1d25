// The page of a server with several models.
import assert from 'node:assert/strict';
import axe from 'axe-core';
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { Server, browse, lastAnswer, open, say, settled, until } from './support.mjs';

const LONG = `owl-${'with-a-long-name-'.repeat(5)}Q8_0`;

let browser;
let server;
let folder;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'kernloom-page-models-'));
  for (const name of ['fox', LONG]) await copyFile(process.env.DEMO, join(folder, `${name}.gguf`));
  // No models of whoever runs this.
  process.env.HF_HOME = join(folder, 'none');
  [browser, server] = await Promise.all([browse(), Server.start(['--models', folder, '--max-models', '1'], 0, [])]);
});

after(async () => {
  await browser?.close();
  await server?.kill();
  await rm(folder, { recursive: true });
});

const names = (page) => page.locator('.message.assistant .name').allInnerTexts();

test('a model is chosen for a chat, and each answer says which one gave it', async () => {
  const page = await open(browser, server.url);
  const models = [];
  page.on('request', (request) => request.url().endsWith('/v1/chat/completions') && models.push(request.postDataJSON().model));
  try {
    const field = page.locator('#model-choice');
    await field.waitFor();
    assert.equal(await page.locator('#model').isVisible(), false);
    assert.deepEqual(await field.locator('option').allInnerTexts(), ['fox', LONG]);
    assert.equal(await field.inputValue(), 'fox');
    await say(page, 'Hello');
    await settled(page);
    assert.ok((await lastAnswer(page)).length > 0);
    await until('the context of the loaded model is shown', () => page.locator('#gauge').isVisible());
    await field.selectOption(LONG);
    await page.keyboard.press('Alt+R');
    await page.waitForFunction(() => document.querySelector('.versions span')?.textContent === '2/2');
    await settled(page);
    assert.deepEqual(await names(page), [LONG]);
    await page.click('[aria-label="Earlier version"]');
    assert.deepEqual(await names(page), ['fox']);
    assert.deepEqual(models, ['fox', LONG]);
    // It stays with the chat, and is that of new ones.
    await page.reload();
    await field.waitFor();
    assert.deepEqual([await field.inputValue(), await names(page)], [LONG, ['fox']]);
    await page.click('#new-chat');
    assert.equal(await field.inputValue(), LONG);
    await field.selectOption('fox');
    await page.click('#chats a');
    assert.equal(await field.inputValue(), LONG);
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('#export')]);
    const [chat] = JSON.parse(await readFile(await download.path(), 'utf8')).conversations;
    assert.deepEqual([chat.model, ...chat.messages.map(({ model }) => model)], [LONG, undefined, 'fox', LONG]);
    assert.deepEqual(page.complaints, []);
  } finally {
    await page.context().close();
  }
});

test('a model that loads is said to', async () => {
  const page = await open(browser, server.url);
  try {
    await page.locator('#model-choice').waitFor();
    let [loading, release] = [true, null];
    const held = new Promise((resolve) => (release = resolve));
    await page.route('**/v1/models', async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      if (loading) for (const model of body.data) if (model.id === 'fox') model.status = { value: 'loading' };
      await route.fulfill({ response, json: body });
    });
    await page.route('**/v1/chat/completions', (route) => held.then(() => route.continue()));
    await say(page, 'Hello');
    await page.locator('.wait', { hasText: 'Loading fox…' }).waitFor();
    assert.ok((await page.locator('#model-choice option').allInnerTexts()).includes('fox (loading…)'));
    loading = false;
    release();
    await settled(page);
    await until('it is loaded', async () => (await page.locator('#model-choice option').allInnerTexts()).includes('fox'));
    assert.deepEqual(page.complaints, []);
  } finally {
    // The page asks for the list again and again, and may have just asked.
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    await page.context().close();
  }
});

for (const colorScheme of ['light', 'dark']) {
  test(`axe finds nothing at the width of a small phone: ${colorScheme}`, async () => {
    const page = await open(browser, server.url, { colorScheme, viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true });
    try {
      await page.locator('#model-choice').selectOption(LONG);
      await page.fill('#prompt', 'Hello');
      await page.tap('#send');
      await settled(page);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360 && document.querySelector('#log').scrollWidth <= 360));
      await page.evaluate(axe.source);
      const { violations } = await page.evaluate(() => axe.run(document));
      assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join()}`), []);
    } finally {
      await page.context().close();
    }
  });
}
