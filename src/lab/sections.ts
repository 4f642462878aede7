/** The soak's loop in a client process: section after section, each judged by what the ledger and the oracles see. */
import type { ClientSetup, SectionPlan } from "./client-orders.ts";
import type { Contender } from "./contenders/contender.ts";
import type { Happening } from "./history.ts";

export async function runSections(
  _contender: Contender,
  _setup: ClientSetup,
  _plan: SectionPlan,
  _tell: (happening: Happening, atMs?: number) => void,
): Promise<number> {
  return 0;
}
