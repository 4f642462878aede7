/** Every scenario, in the order of the report. */
import { clientScenarios } from "./clients.ts";
import { networkScenarios } from "./networks.ts";
import type { Scenario } from "./scenario.ts";
import { serverScenarios } from "./servers.ts";

export const scenarios: readonly Scenario[] = [...clientScenarios, ...networkScenarios, ...serverScenarios];
