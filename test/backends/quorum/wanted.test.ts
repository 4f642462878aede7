/** That a holder of a quorum which may linger learns that another claim waits. */
import { expect, test } from "vitest";
import { ClaimState } from "../../../src/backends/quorum/claim-state.ts";
import { passOn, withWanted } from "../../../src/backends/quorum/wanted.ts";
import { newClaim } from "./servers.ts";

test("what a member said before the round was won is in the grant, and in the renewals after it", () => {
  const reports: string[] = [];
  const state = new ClaimState(newClaim({ lingerMs: 50 }));
  passOn(state, { lost: () => {}, doubt: () => {}, wanted: (id) => reports.push(id) });
  expect(reports).toEqual([state.claim.id]);
  expect(state.granted(1n, 0)).toMatchObject({ granted: true, wanted: true });
  expect(withWanted({ held: true }, state)).toEqual({ held: true, wanted: true });
  state.ended = true;
  passOn(state, { lost: () => {}, doubt: () => {}, wanted: (id) => reports.push(id) });
  expect(reports).toHaveLength(1);
});
