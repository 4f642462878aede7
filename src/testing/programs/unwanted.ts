/** Claims in the store that are not wanted: their makers neither wait for them nor hold them. */
import type { Claim } from "../../contract/backend.ts";
import type { Judge } from "./judge.ts";
import type { Client, Stage } from "./stage.ts";

/** For people, one line each. */
export function unwantedIn({ store, clients }: Stage, judge: Judge): readonly string[] {
  const unwanted: string[] = [];
  const isWanted = (client: Client, name: string, fence: bigint, run: number): boolean =>
    judge.pending.some((call) => call.client === client && call.names.includes(name)) ||
    judge.truth.tenancies.some((tenancy) => {
      const own = tenancy.client === client && !tenancy.ended ? tenancy.lease.fences.get(name) : undefined;
      return own !== undefined && own >= fence && own < fence + BigInt(run);
    });
  const look = ({ name, holder }: Claim, what: string, fence = -1n, run = 1): void => {
    const client = clients.find((one) => one.name === holder);
    if (client !== undefined && !isWanted(client, name, fence, run))
      unwanted.push(`"${name}" ${what} ${holder}, who does not want it`);
  };
  for (const { held, queued } of store.view()) {
    for (const lease of held) {
      const { claim, fence, run } = lease;
      if (!judge.truth.isDelayed(lease)) look(claim, `(fence ${fence}) held by`, fence, run);
    }
    for (const claim of queued) look(claim, "waited for by");
  }
  return unwanted;
}
