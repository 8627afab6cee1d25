// A picture of the page in use, for the README. Usage: node screenshot.mjs FILE
import { Server, browse, open, say, settled } from './support.mjs';

const [browser, server] = await Promise.all([browse(), Server.ready(['--seed', '5'])]);
try {
  const page = await open(browser, server.url, { viewport: { width: 1000, height: 700 }, colorScheme: 'light' });
  await page.click('#open-settings');
  await page.selectOption('#thinking', 'on');
  await page.click('#close-settings');
  for (const text of ['How many legs do a spider and a dog have?', 'What is the capital of France?']) {
    await page.click('#new-chat');
    await say(page, text);
    await settled(page);
  }
  await page.click('#new-chat');
  await say(page, 'What is 12 plus 30?');
  await settled(page);
  await page.click('#open-settings');
  await page.selectOption('#thinking', 'off');
  await page.click('#close-settings');
  await say(page, 'Tell me a story about a fox.');
  await settled(page);
  await page.locator('details.thoughts summary').first().click();
  await page.evaluate(() => (document.querySelector('#log').scrollTop = 0));
  await page.locator('#to-end').evaluate((node) => (node.hidden = true));
  await page.focus('#prompt');
  await page.screenshot({ path: process.argv[2], animations: 'disabled', caret: 'hide' });
} finally {
  await browser.close();
  await server.kill();
}
