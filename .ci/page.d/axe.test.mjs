// Nothing that axe knows stands between the page and anybody: both themes, wide and as a phone, with everything open.
import assert from 'node:assert/strict';
import axe from 'axe-core';
import { test } from 'node:test';
import { answering, around, open, piece, say, settled } from './support.mjs';

let browser;
let server;

around((both) => {
  [browser, server] = both;
});

async function check(page, where) {
  const { violations, passes } = await page.evaluate(() => axe.run(document));
  const found = violations.map(({ id, help, nodes }) => `${where}: ${id}: ${help}: ${nodes.map(({ html, failureSummary }) => `${html} ${failureSummary}`).join(' | ')}`);
  assert.deepEqual(found, []);
  assert.ok(passes.length > 10, 'axe looked');
}

const ANSWER = '# Title\n\nA [link](https://example.org), `code`, ~~gone~~ [no](javascript:x).\n\n- [ ] a\n- b\n\n> quote\n\n| a | b |\n|--|--|\n| 1 | 2 |\n\n```js\nlet x = "s" + 1; // c\n```\n\n```json\n{"a": 1}\n```\n\n```diff\n-a\n+b\n```\n\n\\[ \\foo + \\frac{1}{2} \\] \\(x\\) $\\frac$\n';
const SPENT = { timings: { cache_n: 1, prompt_n: 9, predicted_n: 5, prompt_per_second: 9, predicted_per_second: 5 } };

for (const colorScheme of ['light', 'dark']) {
  for (const viewport of [{ width: 1280, height: 800 }, { width: 360, height: 740 }]) {
    test(`axe finds nothing: ${colorScheme}, ${viewport.width} wide`, async () => {
      const phone = viewport.width < 500;
      const page = await open(browser, server.url, { colorScheme, viewport, isMobile: phone, hasTouch: phone });
      try {
        await page.evaluate(axe.source);
        await check(page, 'empty');
        await page.click('#instructions summary');
        await check(page, 'a system prompt');
        await page.setInputFiles('#attach-file', { name: 'a.txt', mimeType: 'text/plain', buffer: Buffer.from('text') });
        await page.locator('#attached li').waitFor();
        await check(page, 'a file attached');
        await answering(page, [piece({ reasoning_content: 'hm **so**' }), piece({ content: ANSWER }, SPENT)]);
        await say(page, 'Draw');
        if (phone) await page.click('#send');
        await settled(page);
        await page.click('text=Regenerate');
        await settled(page);
        await page.locator('details.thoughts summary').click();
        await page.locator('.file summary').click();
        await page.hover('#model');
        await check(page, 'a chat');
        await page.unroute('**/v1/chat/completions');
        await answering(page, [piece({ content: 'cut' }, SPENT), { choices: [{ index: 0, delta: {}, finish_reason: 'length' }] }]);
        await page.click('text=Regenerate');
        await page.locator('text=Continue').waitFor();
        await check(page, 'an answer cut');
        await page.locator('.message.user >> text=Edit').click();
        await check(page, 'editing');
        await page.locator('.editor >> text=Cancel').click();
        if (phone) await page.click('#open-side');
        await page.fill('#search', 'quote');
        await page.locator('#chats mark').waitFor();
        await page.waitForTimeout(300);
        await check(page, 'searching');
        if (phone) await page.click('#close-side');
        await page.waitForTimeout(300);
        await page.click('#open-settings');
        await page.click('#settings summary');
        await check(page, 'settings');
        await page.click('#change-key');
        await check(page, 'key');
        await page.click('#key-cancel');
        await page.click('#delete');
        await check(page, 'asking');
        await page.click('#ask-cancel');
        await page.unroute('**/v1/chat/completions');
        await page.route('**/v1/chat/completions', (route) => route.abort());
        await page.click('text=Regenerate');
        await page.locator('[role="alert"]:visible').waitFor();
        await check(page, 'a failure');
      } finally {
        await page.context().close();
      }
    });
  }
}
