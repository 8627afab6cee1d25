// Servers and browsers for the tests of the page.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { after, before } from 'node:test';
import { chromium } from 'playwright-core';

/** How long anything may take: a guard, not a measurement. */
export const PATIENCE = 120_000;

/** Waits until something holds. */
export async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`${what}: not within ${PATIENCE / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A server on a free port, or on `port`. */
export class Server {
  static async start(flags = [], port = 0, models = ['kernloom-demo']) {
    const server = new Server();
    const args = ['serve', ...models, '--port', String(port), '-np', '2', '--kv-unified', '--metrics', '--log-disable', ...flags];
    server.process = spawn(process.env.KERNLOOM, args, { stdio: ['ignore', 'ignore', 'pipe'] });
    const lines = [];
    const address = new Promise((resolve, reject) => {
      createInterface(server.process.stderr).on('line', (line) => {
        lines.push(line);
        const found = /listening on (http:\S+)/.exec(line);
        if (found) resolve(found[1]);
      });
      server.process.once('exit', () => reject(new Error(`the server ended: ${lines.join('\n')}`)));
    });
    server.url = await address;
    return server;
  }

  /** A server that takes requests. */
  static async ready(flags, port) {
    const server = await Server.start(flags, port);
    await until('the model loads', async () => (await fetch(`${server.url}/health`)).ok);
    return server;
  }

  get port() {
    return Number(new URL(this.url).port);
  }

  /** Places that are taken. */
  async taken() {
    const slots = await (await fetch(`${this.url}/slots`)).json();
    return slots.filter((slot) => slot.is_processing).length;
  }

  /** Ends at once, as when the machine goes. */
  async kill() {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    this.process.kill('SIGKILL');
    await once(this.process, 'exit');
  }
}

/** A browser. */
export const browse = () =>
  chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage'] });

/** A browser and a server around all tests of a file, which takes them. */
export function around(take) {
  const both = [];
  before(async () => {
    both.push(...(await Promise.all([browse(), Server.ready()])));
    take(both);
  });
  after(async () => {
    const [browser, server] = both;
    await browser?.close();
    await server?.kill();
  });
}

/** A page of a browser of its own, and what it complained about. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ acceptDownloads: true, ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(`error: ${error.message}`));
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) page.complaints.push(`${message.type()}: ${message.text()}`);
  });
  await page.goto(url);
  return page;
}

/** Changes what the page asks of the server: `change` gets the body. */
export async function changing(page, change) {
  await page.route('**/v1/chat/completions', async (route) => {
    const body = route.request().postDataJSON();
    await route.continue({ postData: JSON.stringify({ ...body, ...change(body) }) });
  });
}

/** Answers instead of the server, with these chunks. */
export async function answering(page, chunks) {
  await page.route('**/v1/chat/completions', (route) => {
    const body = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`).join('');
    route.fulfill({ status: 200, contentType: 'text/event-stream', body });
  });
}

/** A chunk with a piece of text. */
export const piece = (delta, more = {}) => ({ choices: [{ index: 0, delta, finish_reason: null }], ...more });

/** Writes and sends a message. */
export async function say(page, text) {
  await page.fill('#prompt', text);
  await page.press('#prompt', 'Enter');
}

/** Waits until nothing is being answered. */
export const settled = (page) => page.waitForFunction(() => document.querySelector('#stop').hidden && document.querySelector('.message.assistant') && !document.querySelector('.running'));

/** The text of the last answer. */
export const lastAnswer = (page) => page.locator('.message.assistant .markdown').last().innerText();
