export function exponent(points: readonly (readonly [size: number, cost: number])[]): number;
export function linearity(alone: number, each: readonly number[]): number;
