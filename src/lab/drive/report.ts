/** What a round reports: events for the oracles, findings, and counts. */
import type { HistoryEvent } from "../../testing/history/events.ts";

export interface Finding {
  /** The step that it comes from; 0: the round as a whole. */
  readonly step: number;
  readonly rule: string;
  readonly message: string;
  /** Not counted if a lease of one of these locks was ended by force. */
  readonly locks?: readonly string[] | undefined;
}

/** Gets what a client sees. For a client in another process, it is the other end of a channel. */
export interface Reporter {
  event(event: HistoryEvent): void;
  find(finding: Finding): void;
  count(what: string): void;
}

export class Report implements Reporter {
  readonly events: HistoryEvent[] = [];
  readonly findings: Finding[] = [];
  readonly counts: Map<string, number> = new Map();

  event(event: HistoryEvent): void {
    this.events.push(event);
  }

  find(finding: Finding): void {
    this.findings.push(finding);
  }

  count(what: string): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + 1);
  }
}
