export function rotate<C, F>(
  contestants: readonly C[],
  rounds: number,
  slice: (contestant: C, round: number) => Promise<F>,
  options?: { readonly warm?: boolean; readonly random?: () => number },
): Promise<Map<C, { readonly slices: readonly F[]; readonly reason: string | undefined }>>;
