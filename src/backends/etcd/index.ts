/** etcd: locks in the layout of etcdctl and of Go's clientv3/concurrency, and the client below them. */
export type { EtcdBackend } from "./backend.ts";
export { EtcdClient, type EtcdClientOptions } from "./client/client.ts";
export { EtcdError, type EtcdErrorCode } from "./client/errors.ts";
export { etcd, type EtcdOptions } from "./options.ts";
