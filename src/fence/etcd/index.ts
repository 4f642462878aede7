/** Guards in etcd: writes that run only under the latest fence, or only while the lock's key is there. */
export type { EtcdKey, EtcdLike, EtcdWrite } from "./client.ts";
export { type MarkOptions, writeFenced, writeWhileHeld } from "./write.ts";
