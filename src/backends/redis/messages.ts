/** Where news comes in, wired: messages go to the claims that they are about, and to nobody else. */
import type { Claim } from "../../contract/backend.ts";
import { portions } from "./batches.ts";
import { sendBeat } from "./heartbeats.ts";
import type { Connection } from "./connection.ts";
import { Inbox } from "./inbox.ts";
import type { Names } from "./keys.ts";
import { quarantineText, type Settings } from "./options.ts";
import { Queue } from "./waiting.ts";
import type { Renewals } from "./renewals.ts";
import { Roster } from "./local-claims.ts";

export interface PostHome {
  /** The claim was released without an answer, and now it was granted: should releasing it fail again, it ends by itself. */
  abandon(claim: Claim): void;
  /** Somebody says that force ended the claim's lease. */
  broken(claim: Claim): void;
  /** Messages may have been missed until now. */
  listening(): void;
}

export interface Post {
  readonly queue: Queue;
  readonly roster: Roster;
  readonly inbox: Inbox;
}

export function openPost(
  connection: Connection,
  names: Names,
  settings: Settings,
  channel: string,
  renewals: Renewals,
  home: PostHome,
): Post {
  const { clock } = settings;
  const quarantine = quarantineText(settings);
  const roster = new Roster(clock, () => renewals.renewed());
  const queue = new Queue({
    clock,
    confirms: settings.durability !== undefined,
    portions: (waiters) => portions(waiters, connection.topology, names),
    beat: (portion) => sendBeat(connection, names, quarantine, portion),
  });
  const inbox = new Inbox(connection, channel, clock, roster, {
    granted: ({ claim, state }, news) => {
      if (state === "wanted") queue.granted(claim, news);
      else if (state === "unwanted") home.abandon(claim);
    },
    // By a timer, because the grant itself may have been heard of in this very turn.
    forced: (claim) => void clock.setTimer(() => home.broken(claim), 0),
    listening: () => home.listening(),
  });
  return { queue, roster, inbox };
}
