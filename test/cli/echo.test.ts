/** S179: what was typed, or stands in the environment, is shown without anything that drives a terminal or forges a line. */
import { afterAll, expect, test } from "vitest";

import { Bench } from "./harness.ts";

const bench = new Bench();
afterAll(() => bench.close());
bench.leaves(/^a lease of .* on a/su, "a step leaves its lease to its caller, and here no step goes on");

const HOSTILE = "a\u202eb\u009b31mc\u2028d\u001b[8me\u001b]0;f\u0007g\u200fh\ni\rj";
// oxlint-disable-next-line no-control-regex
const DRIVES = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\p{Cf}\p{Zl}\p{Zp}]/u;

type Case = readonly [args: readonly string[], env?: Readonly<Record<string, string>>];

const typed: readonly Case[] = [
  [[HOSTILE]],
  [[`--${HOSTILE}`]],
  [["help", HOSTILE]],
  [["lab", HOSTILE]],
  [["lab", "run", HOSTILE]],
  [["lab", "run", "crash", "--backend", HOSTILE]],
  [["lab", "run", "--seed", HOSTILE]],
  [["lab", `--${HOSTILE}`]],
  [["completion", HOSTILE]],
  [["ls", HOSTILE]],
  [["ls", "x", HOSTILE]],
  [["ls", `--${HOSTILE}`]],
  [["show", HOSTILE]],
  [["top", HOSTILE]],
  [["wait", HOSTILE, "-w", HOSTILE]],
  [["wait", HOSTILE, "-n"]],
  [["run", HOSTILE, "--", HOSTILE]],
  [["run", HOSTILE, "--", "true"]],
  [["run", "x", "--meta", HOSTILE, "--", "true"]],
  [["run", "x", "--limit", HOSTILE, "--", "true"]],
  [["elect", HOSTILE, "--", HOSTILE]],
  [["acquire", `${HOSTILE}2`, "-n", "-v"]],
  [["acquire", "x", "--claim", HOSTILE]],
  [["acquire", "x", "--pid", HOSTILE]],
  [["acquire", "x"], { HOLDFAST_STATE_DIR: `/proc/${HOSTILE}` }],
  [["renew", "x", "--fence", HOSTILE]],
  [["renew", HOSTILE, "--fence", "1"]],
  [["renew", "x", "--claim", HOSTILE, "--ttl", "1s"]],
  [["release", HOSTILE, "--fence", "1", "--reason", HOSTILE]],
  [["release", "x", "--claim", HOSTILE]],
  [["doctor", HOSTILE]],
  [["doctor", "--url", `file:///proc/${encodeURIComponent(HOSTILE)}`]],
  [["ls", "--url", HOSTILE]],
  [["ls", "--url", `redis://${HOSTILE}`]],
  [["ls", "--url", `redis://127.0.0.1:1/?${HOSTILE}=1`]],
  [["ls", "--url", `@env:${HOSTILE}`]],
  [["ls", "--url-file", HOSTILE]],
  [["ls"], { HOLDFAST_URL: HOSTILE }],
  [["ls"], { HOLDFAST_URL: `zk://${HOSTILE}` }],
  [["run", "x", "--", "true"], { HOLDFAST_LOCK: "x", HOLDFAST_FENCE: HOSTILE }],
  [["run", "x", "--", HOSTILE], { PATH: HOSTILE }],
];

test.concurrent.each(typed.map((one) => ({ one, shown: JSON.stringify(one) })))(
  "$shown",
  async ({ one: [args, env = {}] }) => {
    const { stdout, stderr } = await bench.run(args, { env });
    expect(stdout).not.toMatch(DRIVES);
    expect(stderr).not.toMatch(DRIVES);
    // No line of its own: none of ours begins so.
    expect(stderr).not.toMatch(/^i/m);
  },
);
