/** All rules of the standard that can be seen from one client. */
import { argumentRules } from "./arguments.ts";
import { callbackRules } from "./callbacks.ts";
import { ifAvailableRules } from "./if-available.ts";
import { modeRules } from "./modes.ts";
import { nameRules } from "./names.ts";
import { queryRules } from "./query.ts";
import type { Rule } from "./rule.ts";
import { signalRules } from "./signals.ts";
import { stealRules } from "./steals.ts";

export const RULES: readonly Rule[] = [
  ...argumentRules,
  ...nameRules,
  ...callbackRules,
  ...ifAvailableRules,
  ...modeRules,
  ...queryRules,
  ...signalRules,
  ...stealRules,
];
