/** The one event stream, read with fetch(): unlike an EventSource it says why it was refused. */
import type { Messages, Refusal } from "../wire.ts";

export type Heard = {
  [Name in keyof Messages]: { readonly name: Name; readonly message: Messages[Name] };
}[keyof Messages];

export class RefusedError extends Error {
  readonly status: number;
  readonly code: Refusal["code"] | undefined;

  constructor(status: number, refusal: Partial<Refusal>) {
    super(refusal.message ?? `The server answered ${status}.`);
    this.status = status;
    this.code = refusal.code;
  }
}

/** Without an event for so long, the connection is lost. */
const SILENCE_MS = 6000;

export async function ask<T>(path: string, options: RequestInit = {}): Promise<T> {
  const response = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  const answer: unknown = await response.json().catch(() => undefined);
  // The app's own page to log in, most likely: the console answers with JSON.
  if (response.ok && answer === undefined)
    throw new RefusedError(response.status, { code: "forbidden", message: "The app answered with another page." });
  if (!response.ok) throw new RefusedError(response.status, (answer ?? {}) as Partial<Refusal>);
  return answer as T;
}

export function post<T>(path: string, body: object, csrf = ""): Promise<T> {
  const headers = { "content-type": "application/json", "x-holdfast-csrf": csrf };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body) });
}

/** Calls `hear` for each event. Resolves when the stream ends; rejects when it is refused, falls silent, or has to stop. */
export async function listen(hear: (heard: Heard) => void, signal: AbortSignal): Promise<void> {
  const stop = new AbortController();
  signal.addEventListener("abort", () => stop.abort());
  if (signal.aborted) stop.abort();
  let timer = setTimeout(() => stop.abort(), SILENCE_MS);
  const alive = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), SILENCE_MS);
  };
  try {
    const response = await fetch("events", { credentials: "same-origin", cache: "no-store", signal: stop.signal });
    if (!response.ok || response.body === null) {
      throw new RefusedError(response.status, (await response.json().catch(() => ({}))) as Partial<Refusal>);
    }
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    const parts: string[] = [];
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      const text = decoder.decode(value, { stream: true });
      parts.push(text);
      // Joined only when an event may be whole: one of many rows comes in many parts.
      if (!text.includes("\n\n") && !text.startsWith("\n")) continue;
      const events = parts.join("").split("\n\n");
      parts.splice(0, parts.length, events.pop() ?? "");
      for (const event of events) {
        const match = /^event: (\w+)\ndata: ([^]*)$/.exec(event);
        performance.mark("hear");
        if (match !== null) hear({ name: match[1], message: JSON.parse(match[2]!) } as Heard);
      }
    }
  } finally {
    clearTimeout(timer);
    stop.abort();
  }
}
