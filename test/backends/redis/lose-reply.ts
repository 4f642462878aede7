/** Loses a reply on its way, for the layouts that share the connection of Redis. */
import type { Proxy } from "../../../src/lab/proxy.ts";

/** The server carries the next call of the script out; its reply is lost with the connection. Resolves when that has happened. */
export function loseReply(proxy: Proxy, sha: string): Promise<void> {
  return new Promise((lost) => {
    let lose = false;
    proxy.onRequest = (chunk) => {
      lose ||= chunk.includes(sha);
      return undefined;
    };
    proxy.onReply = () => {
      if (!lose) return undefined;
      proxy.onRequest = undefined;
      proxy.onReply = undefined;
      lost();
      return "reset";
    };
  });
}
