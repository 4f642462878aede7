import { defineConfig } from "vitest/config";
import { BudgetReporter } from "./test/budget/reporter.ts";

const config: ReturnType<typeof defineConfig> = defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/global-setup.ts"],
    setupFiles: ["test/budget/note.ts"],
    reporters: ["default", new BudgetReporter()],
    // A flaky test is a bug, in the code or in the test: retry stays 0.
    retry: 0,
    // These limits only end what has failed anyway: a busy machine is no failure.
    testTimeout: 180_000,
    hookTimeout: 300_000,
    pool: "forks",
    // On two cores: much of a test's time is waiting, for leases to end and for servers to elect each other.
    maxWorkers: 4,
    maxConcurrency: 12,
    passWithNoTests: false,
  },
});

export default config;
