import { Browser } from "./browser.mjs"; import { serve } from "./serve.mjs"; import { writeFileSync, readFileSync } from "node:fs";
const [html, out] = process.argv.slice(2);
const b64 = readFileSync(html, "utf8").match(/id="document">([^<]*)</)[1];
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const server = await serve(new URL("../../web/page/", import.meta.url).pathname, policy, () => Buffer.from(b64, "base64"));
const browser = await Browser.start("chromium");
for (const [name, opt] of [["light1280", {}], ["dark1280", {dark:true}], ["light400", {width:400}], ["dark400", {width:400, dark:true}]]) {
  if (process.argv[4] && !name.includes(process.argv[4])) continue;
  const page = await browser.page(opt);
  await page.open(server.url);
  await page.until("document.documentElement.dataset.state !== 'loading'");
  await page.settled(); await page.settled();
  if (process.argv[5]) { await page.value(process.argv[5]); await page.settled(); await page.settled();}
  writeFileSync(`${out}-${name}.png`, await page.screenshot());
  console.log(name, page.problems, await page.value("document.getElementById('status').textContent"));
  await page.close();
}
await browser.stop(); server.close();
