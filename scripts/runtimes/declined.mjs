// What a runtime cannot do, each with its reason: checks of checks.mjs by their names, promises of the conformance suite as they are written.
// docs/runtimes.md says the same to users.
export const DECLINED = {
  node: {
    using: "Node 20 cannot parse `await using`: the try/finally form is for it",
  },
  bun: {},
  deno: {},
};
