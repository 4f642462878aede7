/** News of outcomes for those who wait for them: one watch for all claims of this process that wait for the same lock. */
import type { EtcdClient } from "./client/client.ts";

interface News {
  /** It tells of what was written after this revision. */
  readonly revision: bigint;
  readonly listeners: Set<() => void>;
  readonly unwatch: () => void;
}

export class OutcomeNews {
  readonly #client: EtcdClient;
  readonly #news = new Map<string, News>();

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  /** Calls `heard` once, when the outcome at `key` was written after `revision`, or when that would not be heard. Returns what stops it. */
  listen(key: Buffer, revision: bigint, heard: () => void): () => void {
    const known = this.#news.get(key.toString("latin1"));
    const news = known !== undefined && known.revision <= revision ? known : this.#watch(key, revision);
    news.listeners.add(heard);
    return () => {
      if (news.listeners.delete(heard) && news.listeners.size === 0) this.#end(key, news);
    };
  }

  #watch(key: Buffer, revision: bigint): News {
    const tell = (): void => {
      const { listeners } = news;
      this.#end(key, news);
      for (const heard of listeners) heard();
      listeners.clear();
    };
    const unwatch = this.#client.watchPuts({ key }, revision + 1n, { changed: tell, ended: tell });
    const news: News = { revision, listeners: new Set(), unwatch };
    this.#news.set(key.toString("latin1"), news);
    return news;
  }

  #end(key: Buffer, news: News): void {
    const text = key.toString("latin1");
    if (this.#news.get(text) === news) this.#news.delete(text);
    news.unwatch();
  }
}
