// check.mjs NGMI RECORDING: tests the page in headless Chromium, as a single file and served, with a
// small document, a real one and one of half a million faults. Prints one line per test, "pass: NAME"
// or "fail: NAME: why". Measurements are printed, but not asserted. Screenshots are written to
// $NGMI_SHOTS, if set.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { gunzipSync } from "node:zlib";
import { parseDocument } from "../../web/page/document.js";
import { factsOf, stackOf } from "../../web/page/detail.js";
import { Browser } from "./browser.mjs";
import { EVIL, generate } from "./generate.mjs";
import { loadedPath, paths } from "./pathpage.mjs";
import { serve } from "./serve.mjs";

const [ngmi, recorded] = process.argv.slice(2);
const root = fileURLToPath(new URL("../../", import.meta.url));
const work = mkdtempSync(join(tmpdir(), "ngmi-explorer-"));
const shots = process.env.NGMI_SHOTS;
// The policy that the server sends is defined in one place.
const policy = /pub const POLICY: &str = "([^"]*)"/.exec(readFileSync(join(root, "web/src/explorer.rs"), "utf8"))[1].replace(/\\\n\s*/g, "");
let failed = false;

async function check(name, run) {
  try {
    await run();
    console.log(`pass: ${name}`);
  } catch (error) {
    failed = true;
    console.log(String(error.stack).replace(/^/gm, "  "));
    console.log(`fail: ${name}: ${String(error.message).split("\n")[0]}`);
  }
}

/** The single-file page that ngmi writes, with another document in it. */
function pageWith(bytes, name) {
  const html = readFileSync(join(work, "real.html"), "utf8");
  const path = join(work, name);
  writeFileSync(path, html.replace(/(id="document">)[^<]*/, (_, start) => start + bytes.toString("base64")));
  return pathToFileURL(path).href;
}

function parsed(bytes) {
  const raw = gunzipSync(bytes);
  return parseDocument(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length));
}

/** Opens a page and waits until it is drawn or shows an error. */
async function opened(browser, url, options = {}) {
  const page = await browser.page(options);
  await page.open(url);
  await page.until("document.documentElement.dataset.state !== 'loading'", "the page is ready");
  if ((await page.value("document.documentElement.dataset.state")) === "ready") {
    await page.until("globalThis.explorer?.frames > 0 && explorer.queue.length === 0", "the page is drawn");
  }
  return page;
}

/** Asserts that nothing went wrong, and that no other server was contacted. */
function quiet(page) {
  assert.deepEqual(page.problems, []);
  const elsewhere = page.requests.filter((url) => !/^(file:|data:|about:|blob:|http:\/\/127\.0\.0\.1:)/.test(url));
  assert.deepEqual(elsewhere, []);
}

const figure = (page) => page.value(`document.querySelector("#summary b").textContent.replace(/\\D/g, "")`).then(Number);
const text = (page, selector) => page.value(`document.querySelector(${JSON.stringify(selector)}).textContent`);

/** Faults of file 0 within these times and pages, taken from the document. */
function within(recording, time, pages) {
  const { fault_file: files, fault_start: starts, fault_page: all } = recording.columns;
  return Array.from(files.keys()).filter(
    (i) => files[i] === 0 && (!time || (starts[i] >= time[0] && starts[i] <= time[1])) && (!pages || (all[i] >= pages[0] && all[i] <= pages[1])),
  );
}

async function usage(browser, url, recording) {
  const page = await opened(browser, url);
  const layers = async (chart) => page.box(`${chart} canvas:last-child`);

  await check("a drag over the scatter selects the faults in it, and all views follow", async () => {
    const box = await layers("#scatter");
    await page.drag([box.x + box.width * 0.25, box.y + box.height * 0.2], [box.x + box.width * 0.5, box.y + box.height * 0.6]);
    await page.settled();
    const { time, pages } = await page.value("explorer.selection.filters");
    const expected = within(recording, time, pages).length;
    assert.ok(expected > 0 && expected < within(recording).length);
    assert.equal(await figure(page), expected);
    const rows = "explorer.table.table.tBodies[0].rows";
    assert.ok((await page.value(`[...${rows}].reduce((sum, row) => sum + Number(row.cells[1].textContent.replace(/\\D/g, "")), 0)`)) <= expected);
    const seconds = await page.value("explorer.flameGraph.sums[0]");
    const sum = within(recording, time, pages).reduce((total, i) => total + (recording.columns.fault_duration[i] || 0), 0);
    assert.equal(seconds, sum);
    assert.equal(await page.value("document.querySelectorAll('#chips .chip').length"), 2);
  });

  await check("Escape drops the selection", async () => {
    await page.key("Escape");
    await page.settled();
    assert.equal(await figure(page), within(recording).length);
    assert.equal(await page.value("document.querySelectorAll('#chips .chip').length"), 0);
  });

  await check("a drag over the time line selects times, one over the map of pages selects pages", async () => {
    let box = await layers("#timeline");
    await page.drag([box.x + 200, box.y + 30], [box.x + 420, box.y + 30]);
    await page.settled();
    const { time } = await page.value("explorer.selection.filters");
    assert.equal(await figure(page), within(recording, time).length);
    box = await page.box("#pages canvas");
    await page.drag([box.x + 30, box.y + 4], [box.x + 300, box.y + box.height * 0.5]);
    await page.settled();
    const { pages } = await page.value("explorer.selection.filters");
    assert.equal(await figure(page), within(recording, time, pages).length);
    await page.key("Escape");
    await page.settled();
  });

  const longest = within(recording).reduce((best, i) => (recording.columns.fault_duration[i] > recording.columns.fault_duration[best] ? i : best));
  const pointOf = async (fault) => {
    const box = await layers("#scatter");
    const { fault_start: starts, fault_page: pages } = recording.columns;
    const [x, y] = await page.value(`[explorer.scatter.xOf(${starts[fault]}), explorer.scatter.yOf(${pages[fault]} + 0.5)]`);
    return [box.x + x, box.y + y];
  };

  await check("hovering over a fault shows its function, latency and class", async () => {
    await page.mouse("mouseMoved", ...(await pointOf(longest)));
    await page.settled();
    const lines = await page.value("[...document.querySelectorAll('#tooltip div')].map((line) => line.textContent)");
    const place = await page.value("explorer.scatter.pick([explorer.scatter.xOf(explorer.recording.columns.fault_start[" + longest + "]), explorer.scatter.yOf(explorer.recording.columns.fault_page[" + longest + "] + 0.5)])");
    const fault = await page.value(`explorer.selection.list[${place}]`);
    const facts = Object.fromEntries(factsOf(recording, fault));
    assert.equal(lines[0], recording.strings[recording.columns.function_name[recording.columns.fault_function[fault]]]);
    assert.equal(lines[1], `${facts.latency}, ${facts.class.split(",")[0]}`);
  });

  await check("a click on a fault shows its whole stack", async () => {
    await page.click(...(await pointOf(longest)));
    await page.settled();
    const fault = await page.value("explorer.selection.list[explorer.pinned]");
    const shown = await page.value("[...document.querySelectorAll('#detail li .function')].map((frame) => frame.textContent)");
    assert.deepEqual(shown, stackOf(recording, fault).map(({ name }) => name));
    assert.ok(shown.length > 1);
    const facts = await page.value("[...document.querySelectorAll('#detail dd')].map((fact) => fact.textContent)");
    assert.deepEqual(facts, factsOf(recording, fault).map(([, what]) => what));
    await page.key("Escape");
    await page.settled();
    assert.equal(await page.value("document.getElementById('detail').hidden"), true);
  });

  await check("a row of the table and a box of the flame graph are filters", async () => {
    await page.value("document.querySelector('#groups tbody button').click()");
    await page.settled();
    const row = await page.value("Number(document.querySelector('#groups tbody tr.chosen').cells[1].textContent.replace(/\\D/g, ''))");
    assert.equal(await figure(page), row);
    await page.value("document.querySelector('#groups tbody tr.chosen button').click()");
    await page.settled();
    const box = await page.box("#flame canvas");
    await page.click(box.x + 20, box.y + 18 * 2 + 9);
    await page.settled();
    const share = await page.value("explorer.flameGraph.sums[explorer.focus]");
    assert.ok(share > 0 && (await page.value("explorer.focus")) > 0);
    assert.equal(await page.value("[...explorer.selection.list].reduce((sum, fault, i) => sum + (explorer.selection.fails[i] ? 0 : explorer.weights[fault]), 0)"), share);
    await page.key("Escape");
    await page.settled();
  });

  await check("a button pressed by keyboard keeps the focus", async () => {
    for (const selector of ["#groups tbody button.pick", "#legend button:not(:disabled)", "#chooser li button"]) {
      const state = "[document.activeElement.dataset.key, document.activeElement.getAttribute('aria-pressed')]";
      const [key, pressed] = await page.value(`(() => { document.querySelector(${JSON.stringify(selector)}).focus(); return ${state}; })()`);
      await page.key("Enter");
      await page.settled();
      // A chosen file stays chosen.
      const expected = selector.startsWith("#chooser") ? pressed : String(pressed === "false");
      assert.deepEqual(await page.value(state), [key, expected], selector);
    }
    await page.value("document.activeElement.blur(); explorer.clear()");
    await page.settled();
  });

  await check("keys: slowest, next, select the view, zoom, help", async () => {
    await page.key("l");
    await page.settled();
    assert.equal(await page.value("explorer.selection.list[explorer.pinned]"), longest);
    await page.key("j");
    await page.settled();
    assert.notEqual(await page.value("explorer.selection.list[explorer.pinned]"), longest);
    await page.key("Escape");
    for (const key of ["+", "+", "b"]) await page.key(key);
    await page.settled();
    const { time, pages } = await page.value("explorer.selection.filters");
    assert.equal(await figure(page), within(recording, time, pages).length);
    assert.ok(await page.value("explorer.isZoomed"));
    await page.key("?");
    assert.equal(await page.value("document.getElementById('help').open"), true);
    assert.ok((await page.value("document.querySelectorAll('#help dt').length")) > 15);
    for (const _ of [1, 2, 3]) await page.key("Escape");
    await page.settled();
    assert.deepEqual(await page.value("[document.getElementById('help').open, explorer.selection.isNarrowed, explorer.isZoomed]"), [false, false, false]);
  });

  await check("a name that would be markup is text", async () => {
    const file = recording.files.findIndex(({ path }) => recording.strings[path].includes("<script>"));
    await page.value(`explorer.choose(${file})`);
    await page.settled();
    assert.equal(await text(page, "#file-path"), `/tmp/${EVIL}`);
    const fault = recording.columns.fault_function.findIndex((id) => recording.strings[recording.columns.function_name[id]] === EVIL);
    assert.ok(fault >= 0);
    await page.value(`explorer.choose(-1); explorer.pin(${fault})`);
    await page.settled();
    assert.equal(await text(page, "#detail h2"), EVIL);
    assert.deepEqual(await page.value("[globalThis.hacked, document.querySelectorAll('img').length]").then(([hacked, images]) => [hacked ?? null, images]), [null, 0]);
  });

  await check("nothing went wrong, and no other server was contacted", () => quiet(page));
  await page.close();
}

async function looks(browser, url, name) {
  for (const [look, options] of Object.entries({ "light-1280": {}, "dark-1280": { dark: true }, "light-400": { width: 400 }, "dark-400": { width: 400, dark: true } })) {
    await check(`${name}: ${look}: nothing is wider than the window, nothing goes wrong`, async () => {
      const page = await opened(browser, url, options);
      await page.value("explorer.look({})");
      await page.settled();
      assert.ok((await page.value("document.documentElement.scrollWidth")) <= (options.width ?? 1280));
      const ground = await page.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]");
      assert.equal(ground < 128, Boolean(options.dark));
      if (shots) writeFileSync(join(shots, `${name}-${look}.png`), await page.screenshot());
      await page.value("explorer.brush({ time: explorer.view.time.map((t, i) => t + (i ? -0.6 : 0.1) * (explorer.view.time[1] - explorer.view.time[0])) }); explorer.pinLongest()");
      await page.settled();
      if (shots) writeFileSync(join(shots, `${name}-${look}-one.png`), await page.screenshot(false));
      quiet(page);
      await page.close();
    });
  }
}

/** The page from ngmi's own server, with its headers. */
async function loaded(browser) {
  await check("ngmi load serves the page of a profile", async () => {
    const profile = join(work, "profile.json.gz");
    execFileSync(ngmi, ["convert", recorded, "-o", profile], { stdio: "ignore" });
    const server = spawn(ngmi, ["load", profile, "--no-open"], { stdio: ["ignore", "pipe", "pipe"] });
    try {
      const url = await new Promise((resolve, reject) => {
        let said = "";
        const hear = (data) => {
          said += data;
          const [, found] = /page-fault explorer: (http:\S+)/.exec(said) ?? [];
          if (found) resolve(found);
        };
        server.stdout.on("data", hear);
        server.stderr.on("data", hear);
        server.on("exit", () => reject(new Error(said)));
      });
      const page = await opened(browser, url);
      const { totals } = JSON.parse(execFileSync(ngmi, ["faults", profile, "--json"], { maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "ignore"] }));
      const all = await page.value("explorer.files.find(({ file }) => file === -1)");
      assert.deepEqual([all.faults, all.time], [totals.faults, totals.time_ns]);
      await loadedPath(page, ngmi, profile);
      quiet(page);
      await page.close();
    } finally {
      server.kill("SIGINT");
    }
  });
}

async function states(browser) {
  const cases = {
    "a recording without faults shows what to do": [generate(0).bytes, "empty", /ngmi record --faults all/],
    "a damaged document shows what to do": [Buffer.from("NGMIPAGEx"), "failed", /not a document|create the page again/],
  };
  for (const [name, [bytes, state, words]] of Object.entries(cases)) {
    await check(name, async () => {
      const page = await opened(browser, pageWith(bytes, "state.html"));
      assert.equal(await page.value("document.documentElement.dataset.state"), state);
      assert.match(await text(page, "#status"), words);
      quiet(page);
      await page.close();
    });
  }

  await check("the policy blocks other scripts, in the file and served", async () => {
    const served = await serve(join(root, "web/page"), policy, () => generate(20).bytes);
    for (const url of [pageWith(generate(20).bytes, "policy.html"), served.url]) {
      const page = await opened(browser, url);
      quiet(page);
      await page.value("document.body.append(Object.assign(document.createElement('script'), { textContent: 'globalThis.hacked = true' }))");
      await page.value("fetch('http://192.0.2.1/').catch(() => {})");
      await page.settled();
      assert.equal(await page.value("globalThis.hacked ?? null"), null);
      assert.ok(page.problems.some((problem) => problem.includes("Content Security Policy")), String(page.problems));
      await page.close();
    }
    served.close();
  });

  await check("it prints in light colors, whatever the theme", async () => {
    const page = await opened(browser, pageWith(generate(2_000).bytes, "print.html"), { dark: true });
    await page.value("globalThis.printed = []; addEventListener('beforeprint', () => printed.push(document.documentElement.dataset.theme))");
    const { data } = await page.send("Page.printToPDF", { printBackground: true });
    const pdf = Buffer.from(data, "base64");
    assert.equal(pdf.subarray(0, 5).toString(), "%PDF-");
    if (shots) writeFileSync(join(shots, "print.pdf"), pdf);
    await page.settled();
    assert.equal(await page.value("document.documentElement.dataset.theme"), "dark");
    assert.deepEqual(await page.value("printed"), ["light"]);
    quiet(page);
    await page.close();
  });
}

/** Half a million faults: measures the time to open, and the frames per second while something moves. */
async function large(browser) {
  await check("500,000 faults", async () => {
    const { bytes, known } = generate(500_000);
    const url = pageWith(bytes, "large.html");
    const page = await browser.page();
    const begin = performance.now();
    await page.open(url);
    await page.until("globalThis.explorer?.frames > 0", "the page is drawn");
    console.log(`500,000 faults: drawn ${Math.round(await page.value("performance.now()"))} ms after the page was requested (${Math.round(performance.now() - begin)} ms with the driver)`);
    assert.equal(await page.value("explorer.recording.columns.fault_start.length"), 500_000);
    assert.equal(await page.value("explorer.files.find(({ file }) => file === -1).time"), known.time);
    await page.settled();
    const rate = (move) => page.value(`(async () => {
      const app = explorer;
      const begin = performance.now();
      for (let i = 0; i < 120; i++) { ${move}; await new Promise(requestAnimationFrame); }
      return Math.round(120_000 / (performance.now() - begin));
    })()`);
    console.log(`500,000 faults: ${await rate("app.brush({ time: [2e8 + i * 1e6, 1e9 + i * 1.2e7], pages: [100, 3000 + i * 150] })")} frames per second while a selection grows`);
    console.log(`500,000 faults: ${await rate("app.zoom(i % 40 < 20 ? 0.97 : 1 / 0.97)")} frames per second while it zooms`);
    await page.value("explorer.choose(-1)");
    await page.settled();
    console.log(`500,000 faults: ${await rate("app.brush({ time: [2e8 + i * 1e6, 1e9 + i * 1.2e7] })")} frames per second on the time line of all files`);
    quiet(page);
    await page.close();
  });
}

if (shots) mkdirSync(shots, { recursive: true });
let browser;
try {
  execFileSync(ngmi, ["faults", recorded, "--html", join(work, "real.html")], { stdio: ["ignore", "inherit", "pipe"] });
  browser = await Browser.start("chromium");
  const small = generate(4_000).bytes;
  await check("a real recording opens from a file", async () => {
    const page = await opened(browser, pathToFileURL(join(work, "real.html")).href);
    const totals = JSON.parse(execFileSync(ngmi, ["faults", recorded, "--json"], { maxBuffer: 1 << 30 })).totals;
    const all = await page.value("explorer.files.find(({ file }) => file === -1)");
    assert.deepEqual([all.faults, all.major, all.waited, all.time], [totals.faults, totals.major, totals.waited, totals.time_ns]);
    quiet(page);
    await page.close();
  });
  await usage(browser, pageWith(small, "small.html"), parsed(small));
  const served = await serve(join(root, "web/page"), policy, () => small);
  await check("served as separate files without inline scripts, the page is the same", async () => {
    const page = await opened(browser, served.url);
    assert.equal(await figure(page), within(parsed(small)).length);
    quiet(page);
    await page.close();
  });
  served.close();
  await looks(browser, pageWith(generate(60_000, { evil: false }).bytes, "looks.html"), "synthetic");
  if (process.env.NGMI_SHOTS) await looks(browser, pathToFileURL(join(work, "real.html")).href, "real");
  await loaded(browser);
  await paths(browser, { check, quiet, shots, root, policy });
  await states(browser);
  await large(browser);
} catch (error) {
  failed = true;
  console.log(String(error.stderr ?? ""));
  console.log(`fail: the page in a browser: ${error.message}`);
} finally {
  await browser?.stop();
  rmSync(work, { recursive: true, force: true });
}
process.exitCode = failed ? 1 : 0;
