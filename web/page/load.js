// Where the document comes from: the element that the single file carries it in, or a file beside the page.

/** The document's bytes, inflated: an ArrayBuffer. */
export async function loadDocument() {
  const element = document.getElementById("document");
  const bytes = element ? decodeBase64(element) : await fetchBytes();
  return inflate(bytes);
}

function decodeBase64(element) {
  const text = element.textContent;
  // Of no use any more, and large.
  element.textContent = "";
  if (typeof Uint8Array.fromBase64 === "function") return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function fetchBytes() {
  const response = await fetch("data.bin", { cache: "no-store" });
  if (!response.ok) {
    // The server's word for it is text, and shown as such.
    const why = response.status === 500 ? (await response.text()).trim().slice(0, 500) : `the server answered ${response.status}`;
    throw new Error(`${why}; start \`ngmi load\` again, and use the link that it prints`);
  }
  return new Uint8Array(await response.arrayBuffer());
}

async function inflate(bytes) {
  const compressed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  if (!compressed) return bytes.slice().buffer;
  if (typeof DecompressionStream !== "function") throw new Error("this browser is too old to unpack its data; use Firefox 113, Chrome 103, Safari 16.4, or newer");
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}
