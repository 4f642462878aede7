import { memory, memoryStore } from "../../src/backends/memory/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { conformanceTests } from "./conformance-tests.ts";

conformanceTests({
  name: "memory",
  member: true,
  concurrent: false,
  start: () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    return { open: () => memory({ store }), clock, sleep: (ms) => clock.sleep(ms) };
  },
});

conformanceTests({
  name: "memory, in real time",
  member: true,
  start: () => {
    const store = memoryStore();
    return { open: () => memory({ store }) };
  },
});
