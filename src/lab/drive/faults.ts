/** Disturbs a client's network as the schedule says, and heals it again. */
import type { Proxy, Road } from "../proxy.ts";
import { MAIN_ROAD } from "../roads.ts";
import type { NetworkAct, Which } from "./schedule.ts";
import { MESSAGES } from "./store.ts";

/** `later` heals after a while, unless the round ends first: then everything is healed. */
export function spoil(proxies: readonly Proxy[], act: NetworkAct, later: (ms: number, mend: () => void) => void): void {
  switch (act.do) {
    case "stall": {
      const roads = roadsOf(proxies, act.which);
      roads.forEach((road) => road.hang(act.direction));
      return later(act.forMs, () => roads.forEach((road) => road.heal()));
    }
    case "overtake": {
      const [commands, messages] = [roadsOf(proxies, "commands"), roadsOf(proxies, "messages")];
      for (const road of [...commands, ...messages]) road.hang();
      later(act.commandsMs, () => commands.forEach((road) => road.heal()));
      return later(act.messagesMs, () => messages.forEach((road) => road.heal()));
    }
    case "reset":
      return roadsOf(proxies, act.which).forEach((road) => road.cut());
    case "lose": {
      const roads = roadsOf(proxies, act.which);
      roads.forEach((road) => road.drop(act.direction));
      return later(act.forMs, () =>
        roads.forEach((road) => {
          road.heal();
          road.cut();
        }),
      );
    }
    case "slow": {
      const roads = roadsOf(proxies, act.which);
      roads.forEach((road) => road.delay(act.byMs));
      return later(act.forMs, () => roads.forEach((road) => road.heal()));
    }
    case "refuse":
      for (const proxy of proxies) {
        void proxy.refuse();
        proxy.cut();
      }
      return later(act.forMs, () => proxies.forEach((proxy) => void proxy.heal().catch(() => undefined)));
  }
}

function roadsOf(proxies: readonly Proxy[], which: Which): readonly Road[] {
  const names = which === "all" ? [MAIN_ROAD, MESSAGES] : [which === "commands" ? MAIN_ROAD : MESSAGES];
  return proxies.flatMap((proxy) => names.map((name) => proxy.road(name)));
}
