/** Observers: connections of the lab's own, which ask a store who holds what. */
import { connect } from "../connect.ts";
import type { Observer } from "./stage.ts";

/** Opens an observer by URL. It must not go through a faulty network. */
export async function openObserver(lane: string, url: string): Promise<Observer> {
  const locks = await connect(url, { holder: "observer" });
  return {
    lane,
    look: (prefix) => locks.query(prefix),
    close: () => locks.close(),
  };
}
