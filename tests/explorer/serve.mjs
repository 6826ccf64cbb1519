// Serves the page's files like ngmi's server: below a folder, under the same policy, together with a document.
import { createServer } from "node:http";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const KINDS = { html: "text/html; charset=utf-8", css: "text/css; charset=utf-8", js: "text/javascript; charset=utf-8", bin: "application/octet-stream", json: "application/json" };

/** Serves on a free port of loopback: { url, close }. `path` answers queries for critical paths. */
export async function serve(folder, policy, document, path = () => JSON.stringify({ why_empty: "none" })) {
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://127.0.0.1");
    const name = pathname.replace(/^\/token\/faults\//, "") || "index.html";
    try {
      const made = { "data.bin": document, "path.json": () => path(searchParams) }[name];
      const body = made ? made() : readFileSync(join(folder, name.replace(/[^a-z.-]/g, "")));
      response.writeHead(200, { "content-type": KINDS[name.split(".").pop()], "content-security-policy": policy, "cache-control": "no-store" });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}/token/faults/`, close: () => server.close() };
}
