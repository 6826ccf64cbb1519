// Loads the document, from an element of the single file or from a file next to the page, and critical paths from the server.

/** The document's uncompressed bytes as an ArrayBuffer. */
export async function loadDocument() {
  const element = document.getElementById("document");
  const bytes = element ? decodeBase64(element) : await fetchBytes();
  return inflate(bytes);
}

function decodeBase64(element) {
  const text = element.textContent;
  // Large, and no longer needed.
  element.textContent = "";
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function fetchBytes() {
  const response = await fetchWhole("data.bin");
  return new Uint8Array(await response.arrayBuffer());
}

/** The critical path of a thread, by its number, in a time span in ns; null for the main thread, and for all of its time. */
export async function fetchPath(thread, span) {
  const query = new URLSearchParams();
  if (thread !== null) query.set("thread", String(thread));
  if (span) {
    query.set("from", String(Math.max(0, Math.floor(span[0]))));
    query.set("to", String(Math.max(0, Math.ceil(span[1]))));
  }
  const response = await fetchWhole(`path.json?${query}`);
  return response.json();
}

async function fetchWhole(address) {
  const response = await fetch(address, { cache: "no-store" });
  if (!response.ok) {
    // The server's message is shown as text.
    const why = response.status === 500 ? (await response.text()).trim().slice(0, 500) : `the server responded with status ${response.status}`;
    throw new Error(`${why}; run \`ngmi load\` again and open the link that it prints`);
  }
  return response;
}

async function inflate(bytes) {
  const compressed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  if (!compressed) return bytes.slice().buffer;
  if (typeof DecompressionStream !== "function") throw new Error("this browser is too old to decompress the data; use Firefox 113, Chrome 103, Safari 16.4 or newer");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
