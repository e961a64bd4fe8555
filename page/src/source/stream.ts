/** Server-sent events read with fetch(), as EventSource cannot send a token. */

/** The data of each event. A stream that is silent for this many milliseconds, without even a comment, counts as ended. */
export async function* events(body: ReadableStream<Uint8Array>, silence: number): AsyncGenerator<string> {
  const reader = body.getReader();
  const dead = () => void reader.cancel().catch(() => {});
  let timer = setTimeout(dead, silence);
  const decoder = new TextDecoder();
  // A snapshot of a large cluster arrives in hundreds of chunks: they are joined once, at the end of its line.
  let pieces: string[] = [];
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(dead, silence);
      let text = decoder.decode(value, { stream: true });
      for (;;) {
        const end = text.indexOf("\n");
        if (end < 0) break;
        const line = pieces.join("") + text.slice(0, end);
        pieces = [];
        text = text.slice(end + 1);
        if (line === "" || line === "\r") {
          if (data.length) yield data.join("\n");
          data = [];
        } else if (line.startsWith("data:")) {
          data.push(line.slice(line[5] === " " ? 6 : 5).replace(/\r$/, ""));
        }
      }
      if (text) pieces.push(text);
    }
  } finally {
    clearTimeout(timer);
    // Cancels the read in progress when the consumer stops.
    await reader.cancel().catch(() => {});
  }
}
