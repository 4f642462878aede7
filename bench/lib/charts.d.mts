export function charts(results: {
  readonly suites: Readonly<Record<string, unknown>>;
}): { file: string; svg: string }[];
