/** News of outcomes for those who wait for them: one watch for all claims of this process that wait for the same lock. */
import type { EtcdClient } from "./client/client.ts";

/** `false`: nothing more would be heard. */
type Heard = (isNews: boolean) => void;

interface News {
  /** It tells of what was written after this revision. */
  readonly revision: bigint;
  readonly listeners: Set<Heard>;
  readonly unwatch: () => void;
}

export class OutcomeNews {
  readonly #client: EtcdClient;
  readonly #news = new Map<string, News>();

  constructor(client: EtcdClient) {
    this.#client = client;
  }

  /** Calls `heard` once: the outcome at `key` was written after `revision`, or that would not be heard. Returns what stops it. */
  listen(key: Buffer, revision: bigint, heard: Heard): () => void {
    const known = this.#news.get(key.toString("latin1"));
    const news = known !== undefined && known.revision <= revision ? known : this.#watch(key, revision);
    news.listeners.add(heard);
    return () => {
      if (news.listeners.delete(heard) && news.listeners.size === 0) this.#end(key, news);
    };
  }

  #watch(key: Buffer, revision: bigint): News {
    const tell = (isNews: boolean): void => {
      const { listeners } = news;
      this.#end(key, news);
      for (const heard of listeners) heard(isNews);
      listeners.clear();
    };
    const unwatch = this.#client.watchPuts({ key }, revision + 1n, {
      changed: () => tell(true),
      ended: () => tell(false),
    });
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
