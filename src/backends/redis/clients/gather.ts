/** ioredis: the commands of one turn of the event loop go in few system calls. */

/** How many commands go in one system call at most. Of 4, 8, 16, 32 and all, 16 gave the most locks per second, and cost the least. */
const GATHERED_MAX = 16;

/** What is used of a connection to one server. */
export interface Gathered {
  readonly status: string;
  /** Commands without an answer yet. Internal to ioredis: used if it is there. */
  readonly commandQueue?: { readonly length: number };
  readonly stream?: Stream;
}

export interface Stream {
  readonly writableCorked?: number;
  cork?(): void;
  uncork(): void;
}

/**
 * Sends the commands of this turn of the event loop in few system calls, which are most of what a command costs. Only if another
 * command is under way: a single command would gain nothing, and wait for the end of the turn. Not all in one call: the server
 * would have nothing to do while this turn goes on, and this process nothing while the server does it all.
 */
export function gatherer(client: Gathered): () => void {
  let gathered = 0;
  let corked: Stream | undefined;
  const end = (): void => {
    const stream = corked;
    corked = undefined;
    stream?.uncork();
  };
  return () => {
    const { stream, commandQueue } = client;
    if (corked !== undefined && corked === stream) {
      if (++gathered % GATHERED_MAX !== 0) return;
      corked.uncork();
      corked.cork!();
    } else if (stream?.cork !== undefined && commandQueue?.length && !stream.writableCorked && corked === undefined) {
      corked = stream;
      gathered = 0;
      stream.cork();
      process.nextTick(end);
    }
  };
}

/**
 * In a cluster each node has a connection, and what goes to one node waits for nothing that goes to another. A command that is sent
 * elsewhere after all, as when a slot has moved, is not gathered, and no other is held back for it.
 */
export function clusterGatherer(
  addressOf: (key: string) => string,
  nodeAt: (address: string) => Gathered | undefined,
): (key: string) => void {
  const known = new Map<string, { readonly node: Gathered; readonly gather: () => void }>();
  return (key) => {
    const address = addressOf(key);
    let entry = known.get(address);
    // A node that left has ended. One that comes back at its address is another client.
    if (entry === undefined || entry.node.status === "end") {
      const node = nodeAt(address);
      if (node === undefined) return;
      entry = { node, gather: gatherer(node) };
      known.set(address, entry);
    }
    entry.gather();
  };
}
