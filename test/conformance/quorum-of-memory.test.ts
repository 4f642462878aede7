import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { quorum } from "../../src/backends/quorum/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { conformanceTests } from "./conformance-tests.ts";
import { quorumCannot, quorumDeclined } from "./quorum-declined.ts";

conformanceTests({
  name: "quorum of five memories",
  concurrent: false,
  declined: quorumDeclined,
  cannot: quorumCannot,
  start: () => {
    const clock = new FakeClock();
    const stores = [1, 2, 3, 4, 5].map(() => memoryStore({ clock }));
    return {
      open: () =>
        quorum(
          stores.map((store) => memory({ store })),
          { clock, maxTtl: "24h" },
        ),
      clock,
      sleep: (ms) => clock.sleep(ms),
    };
  },
});
