/** The slots of schedules, as each scheduler says them: in time zones, and when clocks are put forward and back. */
import { Cron } from "croner";
import { createRequire } from "node:module";
import { describe, expect, test } from "vitest";
import {
  cronerSchedule,
  cronTimeSchedule,
  type CronTimeLike,
  everyMs,
  type Schedule,
  slotAt,
  slotsBetween,
} from "../../src/adapters/cron/schedule.ts";

describe("schedules", () => {
  const { CronTime } = createRequire(createRequire(import.meta.url).resolve("@nestjs/schedule"))("cron") as {
    readonly CronTime: new (source: unknown, timeZone?: string) => CronTimeLike;
  };
  const at = (text: string): Date => new Date(text);
  const fixed = new Cron("0 3 * * *", { timezone: "Europe/Berlin", paused: true });
  const BOTH = [
    ["croner", cronerSchedule(fixed)],
    ["cron", cronTimeSchedule(new CronTime("0 3 * * *", "Europe/Berlin"))],
  ] as const;

  test.each(BOTH)(
    "%s: the slot that is due, in its time zone, is the last one that is not after now",
    (_name, schedule) => {
      const slot = at("2026-11-18T02:00:00.000Z");
      for (const now of ["2026-11-18T02:00:00.000Z", "2026-11-19T01:59:59.999Z"]) {
        expect(slotAt(schedule, at(now))).toEqual(slot);
      }
      expect(slotAt(schedule, at("2026-11-18T01:59:59.999Z"))).toEqual(at("2026-11-17T02:00:00.000Z"));
      expect(schedule.previous(slot)).toEqual(at("2026-11-17T02:00:00.000Z"));
      const from = at("2026-11-15T12:00:00Z").getTime();
      expect(slotsBetween(schedule, from, at("2026-11-18T12:00:00Z"), 2)).toEqual([at("2026-11-17T02:00:00Z"), slot]);
      expect(slotsBetween(schedule, from, at("2026-11-18T12:00:00Z"), 9)).toHaveLength(3);
      fixed.stop();
    },
  );

  test("both agree on slots that are far apart, and on every second", () => {
    for (const pattern of ["* * * * * *", "0 0 1 * *", "*/15 9-17 * * 1-5"]) {
      const job = new Cron(pattern, { timezone: "UTC", paused: true });
      const [one, other] = [cronerSchedule(job), cronTimeSchedule(new CronTime(pattern, "UTC"))];
      for (const now of ["2026-11-18T02:00:00.500Z", "2025-03-01T00:00:00.000Z"]) {
        expect(slotAt(one, at(now))).toEqual(slotAt(other, at(now)));
      }
      job.stop();
    }
  });

  test("a time that comes once, and intervals", () => {
    const date = at("2999-01-01T00:00:00.000Z");
    const once = cronTimeSchedule(new CronTime(date));
    expect(slotAt(once, date)).toEqual(date);
    expect(once.previous(date)).toBeUndefined();
    expect(slotAt(everyMs(300_000), at("2026-11-18T02:04:59.999Z"))).toEqual(at("2026-11-18T02:00:00Z"));
    expect(slotAt(everyMs(300_000), at("2026-11-18T02:05:00.000Z"))).toEqual(at("2026-11-18T02:05:00Z"));
  });

  /** Fails where more is asked than any schedule needs: what never ends would not fail. */
  function sparing(pattern: string, timeZone: string, most: number): Schedule {
    const time = new CronTime(pattern, timeZone);
    let asked = 0;
    const getNextDateFrom: CronTimeLike["getNextDateFrom"] = (start) => {
      if (++asked > most) throw new Error(`asked ${asked} times`);
      return time.getNextDateFrom(start);
    };
    return cronTimeSchedule({ realDate: false, source: pattern, sendAt: () => time.sendAt(), getNextDateFrom });
  }

  test("cron: slots that are dense in one month, and absent in all others, are found without asking for each", () => {
    expect(slotAt(sparing("* * * * 1 *", "UTC", 100), at("2026-11-18T08:00:00Z"))).toEqual(at("2026-01-31T23:59:59Z"));
    expect(slotAt(sparing("0 * 9-17 * * 1-5", "UTC", 100), at("2026-11-16T08:00:00Z"))).toEqual(
      at("2026-11-13T17:59:00Z"),
    );
  });

  // An hour comes twice there. In the last two, the package goes back to its first occurrence.
  const TWICE = [
    ["Europe/Berlin", "2026-10-25T00:00:00Z"],
    ["Australia/Lord_Howe", "2026-04-04T14:00:00Z"],
    ["America/Santiago", "2026-04-05T02:00:00Z"],
    ["Africa/Casablanca", "2026-02-15T01:00:00Z"],
  ] as const;

  test.each(TWICE)("cron: while the clock is put back in %s, the slots rise, and it has an end", (timeZone, text) => {
    let last = 0;
    const schedule = sparing("0 */15 * * * *", timeZone, 5000);
    const found = new Set<number>();
    for (let ms = at(text).getTime(); ms < at(text).getTime() + 4 * 3_600_000; ms += 900_000) {
      const slot = slotAt(schedule, new Date(ms))!.getTime();
      expect(slot).toBeLessThanOrEqual(ms);
      expect(slot).toBeGreaterThanOrEqual(last);
      found.add((last = slot));
    }
    // Of the 16 that there are, those that the package itself knows.
    expect(found.size).toBeGreaterThanOrEqual(10);
  });

  test("cron: a daily slot in the hour that comes twice is one slot, wherever a process begins to look", () => {
    const schedule = sparing("0 30 2 * * *", "Europe/Berlin", 10_000);
    for (const now of ["00:30:00", "00:59:00", "01:15:00", "01:30:00", "01:45:00", "05:00:00"]) {
      expect(slotAt(schedule, at(`2026-10-25T${now}Z`))).toEqual(at("2026-10-25T00:30:00Z"));
    }
  });

  const CHANGES = ["2026-03-29T00:00:00Z", "2026-10-24T23:00:00Z"];

  test.each(CHANGES)("when a scheduler is due, so is its slot: around the change of clocks of %s", (text) => {
    const until = at(text).getTime() + 5 * 3_600_000;
    for (const pattern of ["0 */15 * * * *", "0 30 2 * * *", "0 0 2,3 * * *"]) {
      const job = new Cron(pattern, { timezone: "Europe/Berlin", paused: true });
      const time = new CronTime(pattern, "Europe/Berlin");
      const zoned = time.sendAt();
      const next = (ms: number): number =>
        time.getNextDateFrom(zoned.minus({ milliseconds: zoned.toMillis() - ms })).toMillis();
      for (let due = job.nextRun(at(text))!; due.getTime() < until; due = job.nextRun(due)!) {
        expect(slotAt(cronerSchedule(job), new Date(due.getTime() + 5))).toEqual(due);
      }
      for (let due = next(at(text).getTime()); due < until; due = next(due)) {
        expect(slotAt(cronTimeSchedule(time), new Date(due + 5))).toEqual(new Date(due));
      }
      job.stop();
    }
  });
});
