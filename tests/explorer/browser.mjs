// A headless Chromium over two pipes (no WebSocket, nothing to install): sends commands of the DevTools protocol, collects problems of the page.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class Browser {
  static async start(binary) {
    const browser = new Browser();
    browser.home = mkdtempSync(join(tmpdir(), "ngmi-chromium-"));
    const options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-extensions",
      "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
      "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1", `--user-data-dir=${browser.home}`, "--remote-debugging-pipe", "about:blank"];
    browser.process = spawn(binary, options, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"], env: { ...process.env, HOME: browser.home } });
    browser.next = 1;
    browser.waiting = new Map();
    browser.listeners = new Set();
    let rest = Buffer.alloc(0);
    browser.process.stdio[4].on("data", (data) => {
      rest = Buffer.concat([rest, data]);
      for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
        browser.take(JSON.parse(rest.subarray(0, end).toString()));
        rest = rest.subarray(end + 1);
      }
    });
    browser.process.on("exit", () => {
      for (const { reject } of browser.waiting.values()) reject(new Error("the browser ended"));
      browser.waiting.clear();
    });
    return browser;
  }

  take(message) {
    if (message.id) {
      const { resolve, reject } = this.waiting.get(message.id) ?? {};
      this.waiting.delete(message.id);
      if (message.error) reject?.(new Error(`${message.error.message} ${message.error.data ?? ""}`));
      else resolve?.(message.result);
      return;
    }
    for (const listener of this.listeners) listener(message);
  }

  send(method, params = {}, sessionId = undefined) {
    const id = this.next++;
    this.process.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  /** Opens a tab with the given size and color scheme. */
  async page({ width = 1280, height = 900, dark = false } = {}) {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await page.send(`${domain}.enable`);
    await page.size(width, height);
    await page.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    return page;
  }

  async stop() {
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.send("Browser.close").catch(() => {});
    const timer = setTimeout(() => this.process.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(timer);
    rmSync(this.home, { recursive: true, force: true, maxRetries: 3 });
  }
}

class Page {
  constructor(browser, session, target) {
    Object.assign(this, { browser, session, target });
    /** Problems: errors on the console, exceptions, refused scripts. */
    this.problems = [];
    /** Addresses that the page requested. */
    this.requests = [];
    browser.listeners.add((message) => message.sessionId === session && this.heard(message));
  }

  heard({ method, params }) {
    if (method === "Runtime.exceptionThrown") {
      const { text, exception } = params.exceptionDetails;
      this.problems.push(`${text} ${exception?.description ?? ""}`);
    }
    if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type)) {
      this.problems.push(params.args.map((arg) => arg.value ?? arg.description).join(" "));
    }
    if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level)) this.problems.push(`${params.entry.text} ${params.entry.url ?? ""}`);
    if (method === "Network.requestWillBeSent") this.requests.push(params.request.url);
  }

  send(method, params) {
    return this.browser.send(method, params, this.session);
  }

  size(width, height) {
    return this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile: false });
  }

  async open(url) {
    const loaded = new Promise((resolve) => {
      const listener = (message) => {
        if (message.sessionId !== this.session || message.method !== "Page.loadEventFired") return;
        this.browser.listeners.delete(listener);
        resolve();
      };
      this.browser.listeners.add(listener);
    });
    const { errorText } = await this.send("Page.navigate", { url });
    if (errorText) throw new Error(`${url}: ${errorText}`);
    await loaded;
  }

  /** The value of an expression in the page; promises are awaited. */
  async value(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  /** Waits until an expression is true. */
  async until(expression, what = expression) {
    const end = Date.now() + 60_000;
    while (Date.now() < end) {
      if (await this.value(expression)) return;
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    throw new Error(`timed out waiting until ${what}`);
  }

  /** Waits until the page has finished drawing. */
  async settled() {
    await this.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 250))))");
  }

  async mouse(type, x, y, extra = {}) {
    await this.send("Input.dispatchMouseEvent", { type, x, y, button: type === "mouseMoved" && !extra.buttons ? "none" : "left", clickCount: 1, ...extra });
  }

  async click(x, y) {
    await this.mouse("mouseMoved", x, y);
    await this.mouse("mousePressed", x, y, { buttons: 1 });
    await this.mouse("mouseReleased", x, y);
  }

  async drag([x0, y0], [x1, y1], steps = 6) {
    await this.mouse("mouseMoved", x0, y0);
    await this.mouse("mousePressed", x0, y0, { buttons: 1 });
    for (let i = 1; i <= steps; i++) {
      await this.mouse("mouseMoved", x0 + ((x1 - x0) * i) / steps, y0 + ((y1 - y0) * i) / steps, { buttons: 1 });
    }
    await this.mouse("mouseReleased", x1, y1);
  }

  /** Presses a key that types a character, or a named one. */
  async key(key) {
    const named = { Enter: { text: "\r", code: "Enter", windowsVirtualKeyCode: 13 } };
    const text = key.length === 1 ? { text: key } : (named[key] ?? {});
    await this.send("Input.dispatchKeyEvent", { type: "keyDown", key, ...text });
    await this.send("Input.dispatchKeyEvent", { type: "keyUp", key });
  }

  /** The bounding box of an element in the window. */
  box(selector) {
    return this.value(`(() => { const e = document.querySelector(${JSON.stringify(selector)}); e.scrollIntoView({ block: "center" }); const { x, y, width, height } = e.getBoundingClientRect(); return { x, y, width, height }; })()`);
  }

  /** A screenshot as PNG, of the whole page if `whole`. */
  async screenshot(whole = true) {
    const { data } = await this.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: whole });
    return Buffer.from(data, "base64");
  }

  close() {
    return this.browser.send("Target.closeTarget", { targetId: this.target });
  }
}
