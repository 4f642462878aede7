export function sorted(numbers: Iterable<number> | ArrayLike<number>): Float64Array;
export function percentile(ascending: ArrayLike<number>, q: number): number;
export function median(numbers: readonly number[]): number;
export function jain(shares: readonly number[]): number;
export function spread(numbers: readonly number[]): { p50: number; p99: number; max: number };
export function quietest<T extends { readonly othersPart: number }>(slices: readonly T[]): T[];
