export function medians<T extends object>(slices: readonly (T & { readonly othersPart: number })[]): T;
