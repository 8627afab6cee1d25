// The page in a browser: every feature, against a server with the model that comes with the program.
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { answering, around, changing, lastAnswer, open, piece, say, settled, until } from './support.mjs';

let browser;
let server;

around((both) => {
  [browser, server] = both;
});

/** A test with a page of its own that must not complain. */
function onPage(name, run, options = {}) {
  test(name, async () => {
    const page = await open(browser, options.url ?? server.url, options);
    try {
      await run(page);
      const unexpected = page.complaints.filter((text) => !options.complaints?.test(text));
      assert.deepEqual(unexpected, []);
    } finally {
      await page.context().close();
    }
  });
}

const props = async () => (await fetch(`${server.url}/props`)).json();
const messages = (page) => page.locator('.message .plain, .message > .markdown').allInnerTexts();
const field = (page, name) => page.locator(`#sampling-${name}`);

/** What the page asked last. */
function asked(page) {
  const bodies = [];
  page.on('request', (request) => request.url().endsWith('/v1/chat/completions') && bodies.push(request.postDataJSON()));
  return bodies;
}

async function openSettings(page) {
  await page.click('#open-settings');
  await page.locator('#settings').waitFor();
}

onPage('an answer streams, with its speed and the filling of the context', async (page) => {
  await page.evaluate(() => {
    globalThis.lengths = new Set();
    const look = () => lengths.add(document.querySelector('.running > .markdown')?.textContent.length ?? 0);
    new MutationObserver(look).observe(document.querySelector('#log'), { subtree: true, childList: true });
  });
  // The page asks for the properties when it opens.
  await page.locator('#model').filter({ hasText: /./ }).waitFor();
  assert.equal(await page.textContent('#model'), (await props()).model_alias);
  await changing(page, () => ({ ignore_eos: true, max_tokens: 600 }));
  await say(page, 'Tell me a story about a fox.');
  await settled(page);
  assert.ok((await page.evaluate(() => lengths.size)) > 3, 'it came piece by piece');
  const [question, answer] = await messages(page);
  assert.equal(question, 'Tell me a story about a fox.');
  assert.ok(answer.length > 40, answer);
  const spent = await page.locator('.spent').last().innerText();
  const [, generated, prompt] = /^(\d+) tokens · [\d.,]+ tok\/s · prompt (\d+)/.exec(spent);
  const gauge = page.locator('#gauge');
  assert.equal(Number(await gauge.getAttribute('value')), Number(generated) + Number(prompt));
  assert.equal(Number(await gauge.getAttribute('max')), (await props()).default_generation_settings.n_ctx);
  assert.equal(await page.textContent('#title'), 'Tell me a story about a fox.');
});

onPage('Stop ends the answer and frees its place on the server', async (page) => {
  await changing(page, () => ({ ignore_eos: true }));
  await say(page, 'Tell me a story.');
  await page.locator('.running .markdown p').first().waitFor();
  assert.equal(await server.taken(), 1);
  await page.click('#stop');
  await until('the place is free', async () => (await server.taken()) === 0);
  assert.match(await page.locator('.message.assistant .notice').innerText(), /^Stopped\.$/);
  const kept = await lastAnswer(page);
  assert.ok(kept.length > 0);
  assert.equal(await page.evaluate(() => document.activeElement.id), 'prompt');
  await page.reload();
  assert.equal(await lastAnswer(page), kept);
});

onPage('answers are regenerated, and versions stay', async (page) => {
  await say(page, 'Tell me a story about a cat.');
  await settled(page);
  const first = await lastAnswer(page);
  await changing(page, () => ({ messages: [{ role: 'user', content: 'What is 2 plus 3?' }] }));
  await page.click('text=Regenerate');
  await settled(page);
  const second = await lastAnswer(page);
  assert.notEqual(second, first);
  const versions = page.locator('.message.assistant .versions span');
  assert.equal(await versions.innerText(), '2/2');
  await page.click('[aria-label="Earlier version"]');
  assert.deepEqual([await versions.innerText(), await lastAnswer(page)], ['1/2', first]);
  await page.reload();
  await versions.waitFor();
  assert.deepEqual([await versions.innerText(), await lastAnswer(page)], ['1/2', first]);
  await page.click('[aria-label="Later version"]');
  assert.equal(await lastAnswer(page), second);
});

onPage('questions and answers are edited', async (page) => {
  const bodies = asked(page);
  await say(page, 'What is 1 plus 1?');
  await settled(page);
  await page.locator('.message.user >> text=Edit').click();
  await page.fill('[aria-label="Edit the message"]', 'What is 2 plus 2?');
  await page.locator('.editor >> text=Send').click();
  await settled(page);
  assert.equal((await messages(page))[0], 'What is 2 plus 2?');
  assert.deepEqual(bodies[1].messages, [{ role: 'user', content: 'What is 2 plus 2?' }]);
  await page.locator('.message.assistant >> text=Edit').click();
  await page.fill('[aria-label="Edit the message"]', 'It is **five**.');
  await page.locator('.editor >> text=Save').click();
  assert.equal(await page.locator('.message.assistant strong').innerText(), 'five');
  await say(page, 'Thanks!');
  await settled(page);
  assert.deepEqual(bodies[2].messages.map(({ content }) => content), ['What is 2 plus 2?', 'It is **five**.', 'Thanks!']);
  await page.locator('.message.user [aria-label="Earlier version"]').first().click();
  assert.equal((await messages(page))[0], 'What is 1 plus 1?');
  assert.equal((await messages(page)).length, 2);
});

onPage('chats are found, renamed, exported, imported and deleted', async (page) => {
  for (const text of ['What is the opposite of hot?', 'How many legs has a spider?']) {
    await page.click('#new-chat');
    await say(page, text);
    await settled(page);
  }
  const titles = () => page.locator('.chat-title').allInnerTexts();
  assert.deepEqual(await titles(), ['How many legs has a spider?', 'What is the opposite of hot?']);
  await page.fill('#search', 'opposite HOT');
  assert.deepEqual(await titles(), ['What is the opposite of hot?']);
  assert.equal(await page.textContent('#found'), '1 of 2 chats');
  assert.match(await page.textContent('#chats mark'), /opposite/i);
  await page.click('#chats a');
  assert.equal((await messages(page))[0], 'What is the opposite of hot?');
  await page.fill('#search', '');

  await page.click('#rename');
  await page.fill('#ask-field', 'Hot & <b>cold</b>');
  await page.click('#ask-ok');
  await until('it has its name', async () => (await page.textContent('#title')) === 'Hot & <b>cold</b>');

  const [download] = await Promise.all([page.waitForEvent('download'), page.click('#export-all')]);
  assert.match(download.suggestedFilename(), /^kernloom-chats-\d{4}-\d\d-\d\d\.json$/);
  const path = await download.path();
  const file = JSON.parse(await readFile(path, 'utf8'));
  assert.equal(file.conversations.length, 2);
  const [one] = await Promise.all([page.waitForEvent('download'), page.click('#export')]);
  assert.equal(JSON.parse(await readFile(await one.path(), 'utf8')).conversations[0].title, 'Hot & <b>cold</b>');

  await page.click('#delete');
  await page.click('#ask-ok');
  await until('it is gone', async () => (await titles()).length === 1);
  assert.equal(await page.textContent('#title'), 'New chat');
  await page.setInputFiles('#import-file', path);
  await until('it is back', async () => (await titles()).length === 2);
  assert.equal(await page.textContent('#status'), '1 chat was imported.');
  const bad = join(tmpdir(), `kernloom-page-${process.pid}.json`);
  await writeFile(bad, '{"format": "other"}');
  await page.setInputFiles('#import-file', bad);
  await until('it is refused', async () => /cannot be imported: it has no "format"/.test(await page.textContent('#status')));
  await page.reload();
  await until('all are kept', async () => (await titles()).length === 2);
  await openSettings(page);
  await page.click('#delete-all');
  await page.click('#ask-ok');
  await until('all are gone', async () => (await titles()).length === 0);
});

onPage('settings come from the server and go with the requests', async (page) => {
  const bodies = asked(page);
  const { params } = (await props()).default_generation_settings;
  await openSettings(page);
  await until('the page has the settings of the server', async () => (await field(page, 'temperature').inputValue()) !== '');
  for (const name of ['temperature', 'top_k', 'top_p', 'min_p', 'repeat_penalty', 'max_tokens']) {
    assert.ok(Math.abs((await field(page, name).inputValue()) - params[name]) < 1e-5, name);
  }
  assert.equal(await field(page, 'seed').inputValue(), '-1');
  await field(page, 'temperature').fill('0.25');
  await field(page, 'max_tokens').fill('7');
  await field(page, 'top_p').fill('9');
  await page.click('#close-settings');
  await page.click('#instructions summary');
  await page.fill('#system', 'Answer in one word.');
  await say(page, 'Tell me a story.');
  await settled(page);
  assert.deepEqual([bodies[0].temperature, bodies[0].max_tokens, bodies[0].top_p, bodies[0].top_k], [0.25, 7, undefined, undefined]);
  assert.deepEqual(bodies[0].messages[0], { role: 'system', content: 'Answer in one word.' });
  assert.match(await page.locator('.message.assistant .notice').innerText(), /^Stopped at 7 tokens\./);
  await page.reload();
  await openSettings(page);
  assert.equal(await field(page, 'temperature').inputValue(), '0.25');
  assert.equal(await page.inputValue('#system'), 'Answer in one word.');
  assert.equal(await page.textContent('#system-start'), 'Answer in one word.');
  await page.click('#reset-sampling');
  assert.ok(Math.abs((await field(page, 'temperature').inputValue()) - params.temperature) < 1e-5);
  await page.click('#close-settings');
  await page.click('#new-chat');
  await page.click('#instructions summary');
  await page.fill('#system', '');
  await say(page, 'Hello');
  await settled(page);
  await page.click('#chats li:last-child a');
  assert.equal(await page.inputValue('#system'), 'Answer in one word.');
  assert.equal(bodies[1].temperature, undefined);
  assert.equal(bodies[1].messages.length, 1);
});

onPage('an answer that a limit ended goes on', async (page) => {
  const bodies = asked(page);
  await openSettings(page);
  await field(page, 'max_tokens').fill('5');
  await field(page, 'temperature').fill('0');
  await page.click('#close-settings');
  await say(page, 'Tell me a story about a fox.');
  await settled(page);
  const notice = page.locator('.message.assistant .notice');
  assert.equal(await notice.locator('span').innerText(), 'Stopped at 5 tokens.');
  const first = await lastAnswer(page);
  await page.click('text=Continue');
  await until('it goes on', async () => (await notice.locator('span').innerText()) === 'Stopped at 10 tokens.');
  await settled(page);
  const more = await lastAnswer(page);
  assert.ok(more.startsWith(first) && more.length > first.length, more);
  assert.deepEqual(bodies[1].messages, [{ role: 'user', content: 'Tell me a story about a fox.' }, { role: 'assistant', content: first }]);
  assert.match(await page.locator('.spent').last().innerText(), /^10 tokens/);
  assert.equal(await page.locator('.message').count(), 2);
  // A rest that does not come can be asked for again, and takes nothing away.
  await page.route('**/v1/chat/completions', (route) => route.abort());
  await page.click('text=Continue');
  await page.locator('[role="alert"]:visible').waitFor();
  assert.equal(await lastAnswer(page), more);
  await page.unroute('**/v1/chat/completions');
  await page.click('.message >> text=Try again');
  await until('it goes on', async () => (await notice.locator('span').innerText()) === 'Stopped at 15 tokens.');
  assert.ok((await lastAnswer(page)).startsWith(more));
  // Where the context is full, nothing goes on.
  await answering(page, [piece({ content: 'x' }, { timings: { cache_n: 0, prompt_n: 2000, predicted_n: 48 } }), { choices: [{ index: 0, delta: {}, finish_reason: 'length' }] }]);
  await page.click('#new-chat');
  await say(page, 'Fill it');
  await settled(page);
  assert.equal(await notice.innerText(), 'Stopped at 48 tokens: the context is full.');
}, { complaints: /net::ERR_FAILED/ });

onPage('an empty chat offers something to ask', async (page) => {
  const offers = page.locator('#hint button');
  await offers.first().waitFor();
  assert.equal(await offers.count(), 4);
  const text = await offers.first().innerText();
  await page.fill('#prompt', 'a draft');
  await offers.first().focus();
  await page.keyboard.press('Enter');
  await settled(page);
  assert.equal((await messages(page))[0], text);
  assert.equal(await page.inputValue('#prompt'), 'a draft');
  assert.equal(await offers.count(), 0);
});

onPage('reasoning is folded', async (page) => {
  await openSettings(page);
  await page.selectOption('#thinking', 'on');
  await page.click('#close-settings');
  await say(page, 'What is 12 plus 30?');
  await settled(page);
  const thoughts = page.locator('details.thoughts');
  assert.equal(await thoughts.getAttribute('open'), null);
  assert.match(await thoughts.locator('summary').innerText(), /^Thought for [\d.]+ s$/);
  assert.equal(await thoughts.locator('.markdown').isVisible(), false);
  await thoughts.locator('summary').click();
  assert.ok((await thoughts.locator('.markdown').innerText()).length > 3);
  assert.match(await lastAnswer(page), /42/);
  await openSettings(page);
  await page.selectOption('#thinking', 'off');
  await page.click('#close-settings');
  await page.click('#new-chat');
  await say(page, 'What is 12 plus 30?');
  await settled(page);
  assert.equal(await page.locator('details.thoughts:visible').count(), 0);
});

const MARKDOWN = `# Title

Some **bold**, *italic*, ~~gone~~ and \`code\`, a [link](https://example.org/a?b=1) and https://example.org/.

1. one
   - nested
2. two

- [x] done

| a | b |
|---|--:|
| 1 | 2 |

> quoted

\`\`\`rust
fn main() { println!("<hi>"); }
\`\`\`
`;

onPage('Markdown is drawn, and code is copied', async (page) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await answering(page, [piece({ content: MARKDOWN.slice(0, 100) }), piece({ content: MARKDOWN.slice(100) })]);
  await say(page, 'Draw');
  await settled(page);
  const body = page.locator('.message.assistant > .markdown');
  const tags = await body.evaluate((node) => [...node.querySelectorAll('*')].map(({ tagName }) => tagName.toLowerCase()));
  for (const tag of ['h3', 'strong', 'em', 'del', 'code', 'a', 'ol', 'ul', 'table', 'th', 'td', 'blockquote', 'pre']) {
    assert.ok(tags.includes(tag), tag);
  }
  const links = await body.locator('a').evaluateAll((all) => all.map(({ href, target, rel }) => [href, target, rel]));
  assert.deepEqual(links.map(([href]) => href), ['https://example.org/a?b=1', 'https://example.org/']);
  assert.ok(links.every(([, target, rel]) => target === '_blank' && rel.includes('noopener')));
  await page.click('[aria-label="Copy this code"]');
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), 'fn main() { println!("<hi>"); }');
  await page.locator('.message.assistant [aria-label="Copy this message"]').click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), MARKDOWN);
});

const FORMULAS = String.raw`Euler: \(e^{i\pi} + 1 = 0\), not $5 and $10.

\[
\sum_{n=1}^{\infty} \frac{1}{n^2}
- \begin{pmatrix} a & b \\ c & d \end{pmatrix} ${'+ a_{100}'.repeat(40)}
\]

Broken: $\frac{1}$ and \(\foo\). Not finished: \( x^2`;

onPage('code has colours, a long one when it is complete', async (page) => {
  const line = 'let x = "<b>"; // why\n';
  const long = `\`\`\`rust\n${line.repeat(1000)}`;
  await page.evaluate(() => {
    globalThis.most = 0;
    const look = () => document.querySelector('.running pre') && (most = Math.max(most, document.querySelectorAll('.running pre span').length));
    new MutationObserver(look).observe(document.querySelector('#log'), { subtree: true, childList: true });
  });
  await answering(page, [piece({ content: `\`\`\`rust\n${line}\`\`\`\n\n` }), piece({ content: long })]);
  await say(page, 'Draw');
  await settled(page);
  const kinds = await page.locator('.message pre').first().locator('span').evaluateAll((all) => all.map(({ className, textContent }) => `${className}:${textContent}`));
  assert.deepEqual(kinds, ['keyword:let', 'string:"<b>"', 'comment:// why']);
  assert.equal(await page.locator('.message pre').last().locator('span').count(), 3000);
  assert.ok((await page.locator('.message pre').last().textContent()).trimEnd() === line.repeat(1000).trimEnd(), 'nothing is lost');
  assert.ok((await page.evaluate(() => most)) < 1000);
});

onPage('text files go with a message, and others are refused', async (page) => {
  const bodies = asked(page);
  const drop = async (files) => {
    const data = await page.evaluateHandle((files) => {
      const data = new DataTransfer();
      for (const [name, text, type] of files) data.items.add(new File([text], name, { type }));
      return data;
    }, files);
    await page.dispatchEvent('#log', 'dragover', { dataTransfer: data });
    assert.ok(await page.evaluate(() => document.body.classList.contains('dropping')));
    await page.dispatchEvent('#log', 'drop', { dataTransfer: data });
    assert.equal(await page.evaluate(() => document.body.classList.contains('dropping')), false);
  };
  const attached = () => page.locator('#attached .file-name').allInnerTexts();
  const [chooser] = await Promise.all([page.waitForEvent('filechooser'), page.click('#attach')]);
  await chooser.setFiles([{ name: 'one.rs', mimeType: '', buffer: Buffer.from('fn one() {}\n') }, { name: 'bad.bin', mimeType: '', buffer: Buffer.from([1, 0]) }]);
  await until('one is taken', async () => (await attached()).join() === 'one.rs');
  assert.equal(await page.textContent('#status'), 'bad.bin is not a text file (UTF-8).');
  await drop([['two.md', '<b>two</b>', 'text/markdown'], ['p.png', 'x', 'image/png']]);
  await until('another is taken', async () => (await attached()).join() === 'one.rs,two.md');
  assert.equal(await page.textContent('#status'), 'p.png is an image; only text is read here.');
  await drop([['large.txt', 'x'.repeat(300_000), 'text/plain']]);
  await until('it is said', async () => /^large.txt is too large: 293 KB/.test(await page.textContent('#status')));
  await page.click('[aria-label="Leave one.rs out"]');
  assert.deepEqual(await attached(), ['two.md']);
  await say(page, 'What is it?');
  await settled(page);
  assert.deepEqual(bodies[0].messages, [{ role: 'user', content: 'File `two.md`:\n```md\n<b>two</b>\n```\n\nWhat is it?' }]);
  assert.equal(await page.locator('#attached').isVisible(), false);
  await page.reload();
  const chip = page.locator('.message.user .file');
  assert.equal(await chip.innerText(), 'two.md 10 bytes');
  await chip.locator('summary').click();
  assert.equal(await chip.locator('pre').innerText(), '<b>two</b>');
  // They stay when the words change, and need none.
  await page.locator('.message.user >> text=Edit').click();
  await page.fill('[aria-label="Edit the message"]', '');
  await page.locator('.editor >> text=Send').click();
  await settled(page);
  assert.deepEqual(bodies[1].messages[0].content, 'File `two.md`:\n```md\n<b>two</b>\n```');
  assert.equal(await page.locator('.message.user .plain').isVisible(), false);
});

onPage('formulas are drawn, and copied as they were written', async (page) => {
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await answering(page, FORMULAS.match(/[^]{1,5}/g).map((content) => piece({ content })));
  await say(page, 'Draw');
  await settled(page);
  const body = page.locator('.message.assistant > .markdown');
  const all = await body.locator('math').evaluateAll((all) => all.map((math) => [math.namespaceURI, math.getAttribute('display'), math.clientHeight > 0]));
  const namespace = 'http://www.w3.org/1998/Math/MathML';
  assert.deepEqual(all, [[namespace, null, true], [namespace, 'block', true], [namespace, null, true]]);
  assert.equal(await body.locator('math').first().getAttribute('alttext'), 'e^{i\\pi} + 1 = 0');
  assert.deepEqual(await body.locator('.formula-source').allInnerTexts(), ['$\\frac{1}$']);
  assert.deepEqual(await body.locator('.unknown').allTextContents(), ['\\foo']);
  const text = await body.innerText();
  assert.ok(text.includes('not $5 and $10') && text.includes('Not finished: \\( x^2'), text);
  // The wide one is moved by keys, and it alone.
  await page.locator('.formula[tabindex="0"]').waitFor();
  assert.equal(await page.locator('.formula[tabindex="0"]').count(), 1);
  assert.ok(await page.evaluate(() => document.querySelector('#log').scrollWidth <= document.querySelector('#log').clientWidth));
  await page.locator('.message.assistant [aria-label="Copy this message"]').click();
  assert.equal(await page.evaluate(() => navigator.clipboard.readText()), FORMULAS);
});

const HOSTILE = `<script>globalThis.hit = 1</script><img src=x onerror="globalThis.hit = 2"><svg onload=globalThis.hit=3>
[a](javascript:globalThis.hit=4) [b](JaVaScRiPt:globalThis.hit=5 "t\\" onclick=globalThis.hit=6") ![c](javascript:globalThis.hit=7)
![d](https://evil.example/?leak) <https://a.example/"onmouseover="globalThis.hit=8> <a href="javascript:globalThis.hit=9">e</a>
$<script>globalThis.hit=16</script>$ \\(\\text{<img src=x onerror=globalThis.hit=17>}\\) \\[\\class{" onload="globalThis.hit=18}{\\href{javascript:globalThis.hit=19}{x}}\\]
[f](data:text/html,<script>globalThis.hit=10</script>) [" onfocus="globalThis.hit=11" autofocus="](https://x.example)

\`\`\`"><img src=x onerror=globalThis.hit=12>
</code></pre><script>globalThis.hit = 13</script>
\`\`\`

| <img src=x onerror=globalThis.hit=14> |
|---|
| <iframe srcdoc="<script>parent.hit=15</script>"> |
`;

onPage('hostile text stays text, whoever wrote it', async (page) => {
  const outside = [];
  page.on('request', (request) => request.url().startsWith(server.url) || outside.push(request.url()));
  const harmless = async () => {
    assert.equal(await page.evaluate(() => globalThis.hit), undefined);
    assert.equal(await page.locator('#log :is(script, img, svg, iframe, object, [onerror], [onload], [onfocus], [onclick], [style])').count(), 0);
    const links = await page.locator('#log a').evaluateAll((all) => all.map(({ protocol }) => protocol));
    assert.ok(links.every((protocol) => protocol === 'https:'), links.join());
    assert.deepEqual(outside, []);
  };
  // As the model's text and thoughts, cut into pieces as small as they come.
  const pieces = HOSTILE.match(/[^]{1,7}/g);
  await answering(page, [...pieces.map((text) => piece({ reasoning_content: text })), ...pieces.map((text) => piece({ content: text }))]);
  await say(page, HOSTILE);
  await settled(page);
  await page.locator('details.thoughts summary').click();
  for (const link of await page.locator('#log a').all()) await link.hover();
  for (const link of await page.locator('#log .no-link').all()) await link.click();
  await harmless();
  assert.ok((await page.locator('.message.user .plain').innerText()).includes('<script>globalThis.hit = 1</script>'));
  assert.ok((await lastAnswer(page)).includes('<img src=x onerror="globalThis.hit = 2">'));

  // As a file, in every field that takes text.
  const message = (id, parent, role) => ({ id, parent, role, content: HOSTILE, reasoning: HOSTILE, created: 1, state: 'done' });
  const chat = { id: 'evil', title: HOSTILE.slice(0, 190), system: HOSTILE, created: 1, updated: Date.now(), head: 'm2', messages: [message('m1', null, 'user'), message('m2', 'm1', 'assistant')] };
  const path = join(tmpdir(), `kernloom-page-evil-${process.pid}.json`);
  await writeFile(path, JSON.stringify({ format: 'kernloom-chats', version: 1, conversations: [chat] }));
  await page.setInputFiles('#import-file', path);
  await page.locator('[data-chat="evil"]').click();
  await page.fill('#search', 'onerror');
  await openSettings(page);
  await page.click('#close-settings');
  await harmless();
  await page.reload();
  await page.locator('.message.assistant').waitFor();
  await harmless();
  // Even a mistake of ours could not make elements of text, nor load anything from elsewhere.
  const refused = await page.evaluate(() => {
    try {
      document.body.insertAdjacentHTML('beforeend', '<b>x</b>');
      return false;
    } catch {
      return true;
    }
  });
  assert.ok(refused);
  assert.equal(await page.evaluate(() => fetch('https://evil.example/').then(() => 'sent', () => 'refused')), 'refused');
}, { complaints: /Content Security Policy|TrustedHTML|Trusted Type|trusted/i });

onPage('the prompt shows how far it is, and one that is too long is refused in words', async (page) => {
  await page.evaluate(() => {
    globalThis.seen = [];
    const look = () => {
      const bar = document.querySelector('.running progress');
      if (bar) seen.push([bar.value, bar.max, bar.parentNode.textContent]);
    };
    new MutationObserver(look).observe(document.querySelector('#log'), { subtree: true, childList: true });
  });
  await say(page, 'The fox ran. '.repeat(450));
  await settled(page);
  const seen = await page.evaluate(() => seen);
  assert.ok(seen.length > 0, 'a bar was drawn');
  for (const [value, max, text] of seen) {
    assert.ok(value <= max && max > 1000, text);
    assert.ok(text.includes(`Reading the prompt: ${value} of ${max} tokens`), text);
  }
  await page.click('#new-chat');
  await say(page, 'The fox ran. '.repeat(2000));
  await settled(page);
  assert.match(await page.locator('.message.assistant .notice').innerText(), /This chat has \d+ tokens, and the context holds 2048/);
}, { complaints: /status of 400/ });

onPage('two tabs agree', async (page) => {
  const other = await page.context().newPage();
  await other.goto(server.url);
  await say(page, 'What is 3 plus 4?');
  await settled(page);
  const answer = await lastAnswer(page);
  await other.locator('#chats a').click();
  await until('the other tab has the answer', async () => (await lastAnswer(other)) === answer);
  await other.click('#delete');
  await other.click('#ask-ok');
  await until('the first tab knows', async () => (await page.locator('#chats a').count()) === 0);
});

onPage('everything stays over a reload, in the middle of an answer too', async (page) => {
  await changing(page, () => ({ ignore_eos: true }));
  await page.click('#theme');
  const theme = await page.evaluate(() => document.documentElement.dataset.theme);
  await say(page, 'Tell me a story.');
  await page.locator('.running .markdown p').first().waitFor();
  await page.fill('#prompt', 'a draft');
  const before = await lastAnswer(page);
  await page.reload();
  await until('the place is free', async () => (await server.taken()) === 0);
  const after = await lastAnswer(page);
  assert.ok(before.length > 0 && after.startsWith(before), `what had come is kept: ${before} / ${after}`);
  assert.equal((await messages(page))[0], 'Tell me a story.');
  assert.equal(await page.inputValue('#prompt'), 'a draft');
  assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
  assert.match(await page.locator('.message.assistant .notice').innerText(), /Stopped/);
});

onPage('all of it works from the keyboard', async (page) => {
  const focus = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  await until('the field has the focus', async () => (await focus()) === 'prompt');
  await page.keyboard.type('What is 5 plus 5?');
  await page.keyboard.press('Shift+Enter');
  await page.keyboard.type('Quick!');
  await page.keyboard.press('Enter');
  await settled(page);
  assert.equal((await messages(page))[0], 'What is 5 plus 5?\nQuick!');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ControlOrMeta+A');
  await page.keyboard.type('What is 6 plus 6?');
  await page.keyboard.press('Control+Enter');
  await settled(page);
  assert.equal((await messages(page))[0], 'What is 6 plus 6?');
  await changing(page, () => ({ ignore_eos: true }));
  await page.keyboard.press('Alt+R');
  await page.locator('.running .markdown p').first().waitFor();
  await page.keyboard.press('Escape');
  await until('the place is free', async () => (await server.taken()) === 0);
  assert.match(await page.locator('.message.assistant .notice').innerText(), /Stopped/);
  await page.keyboard.press('Alt+N');
  assert.equal(await page.textContent('#title'), 'New chat');
  await page.keyboard.press('Alt+K');
  assert.equal(await focus(), 'search');
  await page.keyboard.type('plus');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  assert.equal((await messages(page)).length, 2);
  await page.keyboard.press('Alt+S');
  await page.locator('#settings').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('#settings').isVisible(), false);
  // Every control can be reached, in the order of the page.
  await page.evaluate(() => document.activeElement.blur());
  const reached = new Set();
  for (let i = 0; i < 60; i += 1) {
    await page.keyboard.press('Tab');
    reached.add(await focus());
  }
  for (const name of ['skip', 'new-chat', 'search', 'import', 'export-all', 'rename', 'export', 'delete', 'theme', 'open-settings', 'attach', 'prompt', 'send', 'Copy', 'Edit', 'Regenerate']) {
    assert.ok(reached.has(name), name);
  }
});

onPage('on a phone the list lies over the messages, and nothing is wider than the screen', async (page) => {
  const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth && document.querySelector('#log').scrollWidth <= innerWidth);
  assert.ok(await fits());
  await page.tap('#instructions summary');
  await page.fill('#system', 'long words '.repeat(40));
  assert.ok(await fits());
  await answering(page, [piece({ content: `${MARKDOWN}\n\n${FORMULAS}\n\n${'long'.repeat(300)}\n\n\`\`\`\n${'wide '.repeat(100)}\n\`\`\`\n\n|${' a |'.repeat(40)}\n|${'---|'.repeat(40)}` })]);
  await page.fill('#prompt', 'one');
  await page.press('#prompt', 'Enter');
  assert.equal(await page.inputValue('#prompt'), 'one\n');
  await page.tap('#send');
  await settled(page);
  assert.ok(await fits());
  assert.equal(await page.locator('#chats').isVisible(), false);
  await page.tap('#open-side');
  await page.locator('#chats a').waitFor();
  assert.ok(await fits());
  await page.tap('#new-chat');
  await until('the list is closed', async () => !(await page.locator('#chats').isVisible()));
  const box = await page.locator('#send').boundingBox();
  assert.ok(box.y + box.height <= 740 && box.x + box.width <= 360);
}, { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });

onPage('a model that loads is waited for', async (page) => {
  let asks = 0;
  await page.route('**/props', (route) => {
    asks += 1;
    if (asks > 2) return route.continue();
    return route.fulfill({ status: 503, json: { error: { message: 'Loading model', type: 'unavailable_error', code: 503 } } });
  });
  await page.reload();
  await until('it says so', async () => (await page.textContent('#model')) === 'The model is loading…');
  await until('it is there', async () => (await page.textContent('#model')) === 'kernloom-demo');
  assert.equal(await page.locator('#banner').isVisible(), false);
}, { complaints: /status of 503/ });
