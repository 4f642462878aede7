// What `using` and `await using` become where Node does not know them yet: disposal in reverse order, and the first error counts.
export default function usingCtx() {
  const none = {};
  const resources = [];
  const add = (resource, dispose) => {
    if (resource !== null && resource !== undefined) resources.push(() => dispose.call(resource));
    return resource;
  };
  return {
    e: none,
    u: (resource) => add(resource, resource?.[Symbol.dispose]),
    a: (resource) => add(resource, resource?.[Symbol.asyncDispose] ?? resource?.[Symbol.dispose]),
    async d() {
      let error = this.e;
      for (const dispose of resources.toReversed()) {
        try {
          await dispose();
        } catch (thrown) {
          if (error === none) error = thrown;
        }
      }
      if (error !== none) throw error;
    },
  };
}
