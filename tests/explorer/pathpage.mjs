// Tests of the explorer's critical path in a browser; check.mjs runs them.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { parsePath } from "../../web/page/path.js";
import { pieceFacts, pieceTitle } from "../../web/page/piece.js";
import { EVIL, generate } from "./generate.mjs";
import { generatePath } from "./paths.mjs";
import { serve } from "./serve.mjs";

const drawn = "shell.path.frames > 0 && document.getElementById('path').getAttribute('aria-busy') === 'false'";
const text = (page, selector) => page.value(`document.querySelector(${JSON.stringify(selector)}).textContent`);

async function openedAt(browser, url, options = {}) {
  const page = await browser.page(options);
  await page.open(`${url}#path`);
  await page.until(`globalThis.shell && ${drawn}`, "the path is drawn");
  await page.settled();
  return page;
}

/** Another thread or time span was requested: waits until its path is drawn. */
async function followed(page) {
  await page.until(drawn, "the path is drawn");
  await page.settled();
}

/** Serves the page with a generated document and generated paths; `requests` are the queries. */
async function served({ root, policy }, answer, document = generate(400).bytes) {
  const requests = [];
  const path = (query) => {
    requests.push(query);
    return JSON.stringify(answer(query));
  };
  return { ...(await serve(join(root, "web/page"), policy, () => document, path)), requests };
}

const spanOf = (query) => (query.has("from") ? [Number(query.get("from")), Number(query.get("to"))] : undefined);
const answerTo = (query) => generatePath(600, { thread: Number(query.get("thread") ?? 0), ...(query.has("from") && { span: spanOf(query) }) });

async function uses(browser, tools) {
  const { check, quiet } = tools;
  const server = await served(tools, answerTo);
  const page = await openedAt(browser, server.url);
  const path = parsePath(generatePath(600));
  const box = () => page.box("#lanes canvas:last-child");
  const xOf = (time) => page.value(`shell.path.chart.xOf(${time})`);

  await check("path: the time line, its lanes and its tables are shown", async () => {
    assert.equal(await page.value("shell.path.chart.lanes.rows.length"), 7);
    assert.match(await text(page, "#path-figures"), /7 threads/);
    const first = path.tables[0].rows[0];
    assert.equal(await text(page, "#path-table tbody button"), path.strings[first.name]);
    assert.equal(await page.value("document.querySelectorAll('#thread-chooser li').length"), 7);
    assert.equal(await page.value("document.querySelector('#views [aria-current]').textContent"), "Critical path");
  });

  await check("path: hover describes the piece under the pointer, a click opens its details", async () => {
    const { x, y, height } = await box();
    const longest = path.columns.piece_duration.indexOf(Math.max(...path.columns.piece_duration));
    const at = x + (await xOf((path.starts[longest] + path.starts[longest + 1]) / 2));
    await page.mouse("mouseMoved", at, y + height / 2);
    assert.equal(await text(page, "#tooltip .first"), pieceTitle(path, longest));
    await page.click(at, y + height / 2);
    await page.settled();
    assert.equal(await text(page, "#detail h2"), pieceTitle(path, longest));
    const facts = await page.value("[...document.querySelectorAll('#detail dd')].map((fact) => fact.textContent)");
    assert.deepEqual(facts, pieceFacts(path, longest).map(([, what]) => what));
    assert.ok((await page.value("document.querySelectorAll('#detail ol li').length")) > 0);
    await page.key("j");
    await page.settled();
    assert.equal(await page.value("shell.path.pinned"), longest + 1);
    await page.key("Escape");
    await page.settled();
    assert.equal(await page.value("document.getElementById('detail').hidden"), true);
  });

  await check("path: a row of the table emphasizes its pieces", async () => {
    await page.value("document.querySelector('#path-table tbody button').click()");
    await page.settled();
    const matches = await page.value("shell.path.matches.reduce((sum, match) => sum + match, 0)");
    assert.equal(matches, path.tables[0].rows[0].pieces);
    await page.key("l");
    await page.settled();
    assert.equal(await page.value("shell.path.matches[shell.path.pinned]"), 1);
    for (const _ of [1, 2]) await page.key("Escape");
    await page.settled();
    assert.equal(await page.value("shell.path.matches"), null);
  });

  await check("path: a drag follows the path of a time span, which page faults share", async () => {
    const { x, y } = await box();
    await page.drag([x + 300, y + 40], [x + 500, y + 60]);
    await followed(page);
    const span = await page.value("shell.span");
    assert.deepEqual(spanOf(server.requests.at(-1)), span);
    assert.deepEqual(await page.value("[shell.path.path.start_ns, shell.path.path.end_ns]"), span);
    await page.key("v");
    await page.until("document.documentElement.dataset.view === 'faults'");
    await page.settled();
    assert.deepEqual(await page.value("explorer.selection.filters.time"), span);
    await page.value("explorer.brush({ time: [2e8, 3e8] })");
    await page.key("v");
    await page.until("shell.name === 'path'");
    await followed(page);
    assert.deepEqual(await page.value("[shell.path.path.start_ns, shell.path.path.end_ns]"), [2e8, 3e8]);
    await page.key("Escape");
    await followed(page);
    assert.equal(server.requests.at(-1).has("from"), false);
  });

  await check("path: another thread is chosen by click, key and search", async () => {
    await page.value("document.querySelectorAll('#thread-chooser li button')[2].click()");
    await followed(page);
    assert.equal(server.requests.at(-1).get("thread"), "2");
    assert.equal(await text(page, "#path-name"), "thread 2 (102)");
    await page.key("[");
    await followed(page);
    assert.equal(server.requests.at(-1).get("thread"), "1");
    assert.equal(await text(page, "#path-name"), `${EVIL} (101)`);
    assert.deepEqual(await page.value("[globalThis.hacked ?? null, document.querySelectorAll('img').length]"), [null, 0]);
    await page.value("(() => { const { search } = shell.path.chooser; search.value = '103'; search.dispatchEvent(new Event('input')); })()");
    assert.equal(await page.value("document.querySelectorAll('#thread-chooser li').length"), 1);
  });

  await check("path: keys zoom, move, select the view, switch the table and show the help", async () => {
    for (const key of ["+", "+", "ArrowRight", "b"]) await page.key(key);
    await followed(page);
    const view = await page.value("shell.path.view.time");
    assert.deepEqual(spanOf(server.requests.at(-1)), [Math.floor(view[0]), Math.ceil(view[1])]);
    assert.ok(await page.value("shell.path.isZoomed"));
    await page.key("g");
    await page.settled();
    assert.equal(await text(page, "#path-table th"), "reason");
    await page.key("?");
    assert.match(await text(page, "#help"), /next piece of the path/);
    await page.key("Escape");
    await page.key("0");
    await page.settled();
    assert.equal(await page.value("shell.path.isZoomed || document.getElementById('help').open"), false);
  });

  await check("path: nothing went wrong, and no other server was contacted", () => quiet(page));
  await page.close();
  server.close();
}

async function states(browser, tools) {
  const { check, quiet } = tools;
  const none = generate(0).bytes;
  const cases = {
    "without waits it shows what to do": [() => ({ why_empty: "This recording contains no waits; record them with `ngmi record --off-cpu all`." }), /off-cpu all/],
    "a damaged answer is an error": [() => ({ ...generatePath(5), columns: {} }), /Cannot show the path: the path has no column/],
    "a name of the reason is text": [() => ({ why_empty: EVIL }), /<img src="x"/],
  };
  for (const [name, [answer, words]] of Object.entries(cases)) {
    await check(`path: ${name}`, async () => {
      const server = await served(tools, answer, none);
      const page = await openedAt(browser, server.url);
      assert.match(await text(page, "#path-status"), words);
      assert.equal(await page.value("document.querySelector('#lanes').hidden"), true);
      assert.equal(await page.value("globalThis.hacked ?? null"), null);
      quiet(page);
      await page.close();
      server.close();
    });
  }

  await check("path: a recording without page faults has a path", async () => {
    const server = await served(tools, answerTo, none);
    const page = await openedAt(browser, server.url);
    assert.equal(await text(page, "#path-name"), "thread 0 (100)");
    const { x, y } = await page.box("#lanes canvas:last-child");
    await page.drag([x + 300, y + 40], [x + 500, y + 60]);
    await followed(page);
    assert.deepEqual(spanOf(server.requests.at(-1)), await page.value("shell.span"));
    quiet(page);
    await page.close();
    server.close();
  });
}

async function looks(browser, tools) {
  const { check, quiet, shots } = tools;
  const server = await served(tools, answerTo, generate(400, { evil: false }).bytes);
  const cases = { "light-1280": {}, "dark-1280": { dark: true }, "light-800": { width: 800 }, "dark-800": { width: 800, dark: true }, "light-400": { width: 400 }, "dark-400": { width: 400, dark: true } };
  for (const [look, options] of Object.entries(cases)) {
    await check(`path: ${look}: nothing is wider than the window, nothing goes wrong`, async () => {
      const page = await openedAt(browser, server.url, options);
      assert.ok((await page.value("document.documentElement.scrollWidth")) <= (options.width ?? 1280));
      if (shots) writeFileSync(join(shots, `path-${look}.png`), await page.screenshot());
      await page.value("shell.path.chooseRow(0); shell.path.pinLongest()");
      await page.settled();
      if (shots) writeFileSync(join(shots, `path-${look}-one.png`), await page.screenshot(false));
      quiet(page);
      await page.close();
    });
  }
  server.close();
}

/** 200,000 pieces: measures the time until they are drawn, and frames per second while it zooms. */
async function large(browser, tools) {
  await tools.check("path: 200,000 pieces", async () => {
    const whole = generatePath(200_000, { threads: 60 });
    const server = await served(tools, () => whole);
    const begin = performance.now();
    const page = await openedAt(browser, server.url);
    console.log(`200,000 pieces: drawn ${Math.round(performance.now() - begin)} ms after the page was requested, with the driver`);
    assert.equal(await page.value("shell.path.chart.lanes.rows.length"), 24);
    const rate = await page.value(`(async () => {
      const begin = performance.now();
      for (let i = 0; i < 60; i++) { shell.path.zoom(i % 40 < 20 ? 0.95 : 1 / 0.95); await new Promise(requestAnimationFrame); }
      return Math.round(60_000 / (performance.now() - begin));
    })()`);
    console.log(`200,000 pieces: ${rate} frames per second while it zooms`);
    if (tools.shots) writeFileSync(join(tools.shots, "path-large.png"), await page.screenshot());
    tools.quiet(page);
    await page.close();
    server.close();
  });
}

/** The path that ngmi's own server returns is that of `ngmi path`. */
export async function loadedPath(page, ngmi, profile) {
  await page.value("location.hash = 'path'");
  await page.until(drawn, "the path is drawn");
  const { totals, by_part: parts } = JSON.parse(execFileSync(ngmi, ["path", profile, "--json"], { maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "ignore"] }));
  const shown = await page.value("shell.path.path.tables[0].rows.map((row) => [row.time_ns, row.saves_ns])");
  assert.deepEqual(shown, parts.map((row) => [row.time_ns, row.saves_ns]));
  assert.equal(await page.value("shell.path.path.pieces"), totals.pieces);
}

export async function paths(browser, tools) {
  await uses(browser, tools);
  await states(browser, tools);
  await looks(browser, tools);
  await large(browser, tools);
}
