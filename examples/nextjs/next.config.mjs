// Holdfast stays outside of the bundles: it loads stores, client libraries and a worker thread by their paths.
const config = { serverExternalPackages: ["holdfast"] };

export default config;
